//! Multi-round requests (MRTR): a modern server answers a request with questions, and the request is sent again with the answers.

use crate::{
    Connection, InputRequest, InputResponse, RequestError,
    connect::{
        era::Era,
        request::{Request, origin::Origin},
        response::{OnNotification, result_type::INPUT_REQUIRED},
    },
    error::excerpt,
    options::{
        input::{NOT_OFFERED, answer_by},
        params_text::object_of,
    },
    question::asking::HeldQuestion,
};
use futures_util::future::try_join_all;
use longhaul_core::{Json, JsonMembers, canonical_digest};
use serde::Deserialize;
use std::{collections::HashMap, sync::Arc};

/// How often a server may ask within one request.
const MAX_ROUNDS: usize = 32;
/// How much it may ask at once.
const MAX_QUESTIONS: usize = 1_000;

/// What is added to a request that is sent again.
#[derive(Default)]
struct Answers {
    /// Exactly as the server sent it.
    state: Option<String>,
    responses: Option<JsonMembers>,
    /// Kept until the server has answered.
    _held: Vec<HeldQuestion>,
}

/// The answers to the questions of earlier rounds, by their names without the round.
#[derive(Default)]
struct GivenAnswers(HashMap<String, GivenAnswer>);

struct GivenAnswer {
    response: InputResponse,
    /// It was given again already.
    is_repeated: bool,
}

impl GivenAnswers {
    /// The answer that was given to the same question under the same key. The user is not asked again: the server, which may keep nothing between two rounds,
    /// gets the same answer, once.
    fn again(&mut self, question: &str, key: &str) -> Result<Option<InputResponse>, RequestError> {
        let Some(given) = self.0.get_mut(question) else {
            return Ok(None);
        };
        if std::mem::replace(&mut given.is_repeated, true) {
            let reason = format!("it asks {:?} again, which was answered twice", excerpt(key));
            return Err(RequestError::Invalid(reason));
        }
        Ok(Some(given.response.clone()))
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Round {
    result_type: Option<String>,
    request_state: Option<String>,
    input_requests: Option<JsonMembers>,
}

impl Connection {
    /// As [`exchange`](Self::exchange); answers what a modern server asks, until there is a result. The answers are kept in the record of the call, so that one
    /// that is made again asks nothing twice.
    pub(crate) async fn exchange_rounds(
        &self,
        build: impl Fn(&Era) -> Request,
        on_notification: OnNotification<'_>,
        origin: Origin<'_>,
    ) -> Result<(Json, Arc<Era>), RequestError> {
        let (mut answers, mut given) = (Answers::default(), GivenAnswers::default());
        for number in 0..MAX_ROUNDS {
            let build = |era: &Era| answers.add_to(build(era));
            let (result, era) = self.exchange(build, on_notification, origin.record).await?;
            match questions(&result, &era) {
                None => return Ok((result, era)),
                Some(round) => {
                    let _asking = origin.asks();
                    answers = self.answer_round(number, round, &mut given, origin).await?;
                }
            }
        }
        Err(RequestError::Invalid(format!(
            "it asked for the same request {MAX_ROUNDS} times"
        )))
    }

    /// Asks all questions at once, so that the user can be shown them together.
    async fn answer_round(
        &self,
        number: usize,
        round: Round,
        given: &mut GivenAnswers,
        origin: Origin<'_>,
    ) -> Result<Answers, RequestError> {
        let requests = round.input_requests.unwrap_or_default();
        if requests.is_empty() && round.request_state.is_none() {
            return Err(RequestError::Invalid(
                "it asks for input and does not say which".to_owned(),
            ));
        }
        if requests.len() > MAX_QUESTIONS {
            let asked = requests.len();
            return Err(RequestError::Invalid(format!(
                "it asks {asked} questions at once, and at most {MAX_QUESTIONS} are answered"
            )));
        }
        let (mut responses, mut held, mut new) = (JsonMembers::new(), Vec::new(), Vec::new());
        for (key, request) in requests {
            let question = question_name(&key, &request);
            match given.again(&question, &key)? {
                Some(response) => drop(responses.insert(key, response.into_json())),
                None => new.push((key, question, request)),
            }
        }
        let answers = new.into_iter().map(|(key, question, request)| async move {
            let recorded_as = format!("round {number} {question}");
            let mut request = InputRequest::new(Some(key.clone()), None, &request);
            request.source = origin.source;
            let answered = self.ask_once(request, origin.record, &recorded_as).await?;
            // Answers to a call are never recorded as accepted: it may be made again from its beginning.
            let answered = answered.ok_or_else(|| {
                RequestError::Invalid(format!("it asks {:?} again, which was answered", excerpt(&key)))
            })?;
            Ok::<_, RequestError>((key, question, answered))
        });
        for (key, question, answered) in try_join_all(answers).await? {
            let response = answered.response;
            let answer = GivenAnswer {
                response: response.clone(),
                is_repeated: false,
            };
            given.0.insert(question, answer);
            responses.insert(key, response.into_json());
            held.extend(answered.held);
        }
        Ok(Answers {
            state: round.request_state,
            responses: Some(responses).filter(|responses| !responses.is_empty()),
            _held: held,
        })
    }

    /// Asks the handler. An elicitation that it has put to the user and cannot answer is answered with `cancel`; nothing else has such an answer. What a
    /// call asks and the handler offers nobody is not answered: the call is given up.
    pub(crate) async fn ask(&self, request: InputRequest) -> Result<InputResponse, RequestError> {
        let Some(inputs) = &self.options().inputs else {
            let asked = match request.message() {
                "" => excerpt(&request.method),
                message => excerpt(message),
            };
            return Err(RequestError::Invalid(format!(
                "it asks {asked:?}, but this client has no handler for questions (Options::inputs), and has declared that it cannot be asked"
            )));
        };
        let (method, is_elicitation, is_of_task) =
            (request.method.clone(), request.is_elicitation(), request.task.is_some());
        match answer_by(&**inputs, request).await {
            Ok(response) => Ok(response),
            Err(failure) if is_elicitation && (is_of_task || failure.code != NOT_OFFERED) => {
                tracing::debug!(why = %failure.message, "an elicitation was not answered");
                Ok(InputResponse::cancel())
            }
            Err(failure) => Err(RequestError::Unanswered {
                method,
                reason: failure.message.to_string(),
            }),
        }
    }
}

impl Answers {
    fn add_to(&self, mut request: Request) -> Request {
        if let Some(state) = &self.state {
            request.params.insert("requestState".to_owned(), state.as_str().into());
        }
        if let Some(responses) = &self.responses {
            request
                .written
                .insert("inputResponses".to_owned(), object_of(responses));
        }
        request
    }
}

/// The name of a question, in the journal behind that of its round. If the call is made again and the server then asks something else, that is another question.
fn question_name(key: &str, request: &Json) -> String {
    let digest = canonical_digest(request);
    let digest: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("{digest} {key}")
}

/// The questions in a result, if it is not the final one.
fn questions(result: &Json, era: &Era) -> Option<Round> {
    if era.legacy().is_some() || !result.as_str().contains("input_required") {
        return None;
    }
    let round: Round = serde_json::from_str(result.as_str()).ok()?;
    (round.result_type.as_deref() == Some(INPUT_REQUIRED)).then_some(round)
}
