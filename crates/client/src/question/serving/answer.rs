//! Finding the answer to a request of a legacy server.

use super::{ActiveRequest, Reply, asked_by, is_question};
use crate::{
    Connection, InputRequest, RequestError, RpcFailure,
    connect::{
        connection::WeakConnection,
        legacy::questions::{QuestionName, ServedAnswer, of_plain_call, still_asks_in},
        listening::open_questions::{OpenQuestion, answer_given},
        response::ServerRequest,
    },
    options::input::{InputResponse, answer_by, not_offered},
    question::{
        asking::{AskedBy, HeldQuestion, QuestionAnswer, ask_recorded},
        recorded::{RecordedPlace, RecordedQuestion, related_result},
    },
};
use futures_util::FutureExt;
use longhaul_core::{BoxFuture, Json, Outcome};
use longhaul_wire::Method;
use std::{sync::Arc, time::Duration};
use tokio::sync::watch;

/// The response to a request. `None` if the server has it.
pub(super) async fn reply(
    connection: &WeakConnection,
    serving: &ActiveRequest,
    recorded: Option<&RecordedQuestion>,
    open_answer: Option<watch::Receiver<Option<ServedAnswer>>>,
    answer: &watch::Sender<Option<ServedAnswer>>,
) -> Option<Reply> {
    let request = &serving.request;
    let sent_before = connection
        .upgrade()?
        .listening()
        .sent_response(&request.id, &serving.digest);
    if let Some(text) = sent_before {
        return Some(Reply {
            text,
            outcome: None,
            held: None,
        });
    }
    let answered = match answer_of(open_answer).await {
        Some(outcome) => Some(outcome),
        None => connection.upgrade()?.taken_answer(serving),
    };
    let (outcome, held) = match answered {
        Some(outcome) => (outcome, None),
        None => answer_request(connection, serving, recorded).await?,
    };
    answer.send_replace(Some(outcome.clone()));
    if serving.question.get().is_some()
        && let Some(connection) = connection.upgrade()
    {
        connection.listening().note_question();
    }
    let text = request.respond(outcome.clone());
    Some(Reply {
        text,
        outcome: Some(outcome),
        held,
    })
}

/// Reads the task once more before its answer is recorded. If it asks and has changed when this process is gone, the server has got the answer. `false` if the task
/// does not ask any more: another client was faster.
fn still_asks(
    connection: &WeakConnection,
    serving: &ActiveRequest,
    recorded: Option<&RecordedQuestion>,
) -> BoxFuture<'static, bool> {
    let Some(task) = serving.task.clone() else {
        return std::future::ready(true).boxed();
    };
    let has_number = recorded.is_some_and(|recorded| recorded.number().is_some());
    let (connection, record) = (connection.clone(), recorded.map(|recorded| recorded.record.clone()));
    async move {
        let Some(connection) = connection.upgrade() else {
            return true;
        };
        let was_seen = connection.listening().was_seen_asking(&task);
        if !has_number && !was_seen {
            return true;
        }
        let mut handle = connection.task(task);
        if let Some(record) = &record {
            handle = handle.recorded(record.clone());
        }
        match handle.get().await {
            Ok(task) => still_asks_in(task.status, was_seen),
            Err(error) => {
                tracing::debug!(%error, "a task that asks was not read");
                if let Some(record) = record {
                    record.saw_asking(None);
                }
                true
            }
        }
    }
    .boxed()
}

/// `None` if the server has an answer, or wants none.
async fn answer_request(
    weak: &WeakConnection,
    serving: &ActiveRequest,
    recorded: Option<&RecordedQuestion>,
) -> Option<(ServedAnswer, Option<HeldQuestion>)> {
    let request = &serving.request;
    if let Some(failure) = &request.malformed {
        return Some((Err(failure.clone()), None));
    }
    let method = request.method.as_str();
    if method == Method::Ping.as_str() {
        return Some((Ok(Json::trusted("{}")), None));
    }
    let connection = weak.upgrade()?;
    let hosted = Arc::clone(connection.hosted_tasks());
    match method {
        _ if !connection.options().hosts_tasks => {}
        "tasks/get" => return Some((hosted.get(&request.params).map(Json::from), None)),
        "tasks/list" => return Some((hosted.list(&request.params).map(Json::from), None)),
        "tasks/cancel" => return Some((hosted.cancel(&request.params).map(Json::from), None)),
        "tasks/result" => {
            drop(connection);
            return Some((hosted.result(&request.params).await, None));
        }
        _ => {}
    }
    let Some(inputs) = connection.options().inputs.clone() else {
        let is_of_task = serving.task.is_some() || connection.legacy_tasks().only_recorded().is_some();
        // An error would be the answer. Another process may have a handler, and the task goes on asking.
        return (!is_of_task || !is_question(method)).then(|| (Err(not_offered(method)), None));
    };
    let asked = asked_by(serving, recorded);
    if connection.is_answered_with_task(request) {
        return Some((connection.answer_as_task(request, answer_by(&*inputs, asked)), None));
    }
    let tasks = Arc::clone(connection.legacy_tasks());
    // What is recorded is known to everybody. Anything else only the handle of the task shows.
    let given = match recorded {
        Some(_) => None,
        None => connection.open_question(serving, &asked).map(OpenQuestion::given),
    };
    drop(connection);
    tokio::select! {
        biased;
        _ = answer_given(given.clone()) => {}
        may_ask = tasks.until_may_ask(serving.task.as_deref()) => if !may_ask {
            return None;
        },
    }
    let ask = || {
        let answer = answer_by(&*inputs, asked.clone());
        let still_asks = still_asks(weak, serving, recorded);
        // Not before it is known that nobody has answered it: the status would show it again.
        let opened = || {
            let connection = weak.upgrade()?;
            connection.open_question(serving, &asked).map(OpenQuestion::given)
        };
        let given = answer_given(given.clone().or_else(opened));
        async move {
            let answer = tokio::select! {
                biased;
                answer = given => answer,
                answer = answer => answer.map_err(AnswerError::Failed)?,
            };
            match still_asks.await {
                true => Ok(answer),
                false => Err(AnswerError::TooLate),
            }
        }
        .boxed()
    };
    let (record, name, number) = match recorded {
        Some(recorded) => (Some(&recorded.record), recorded.name.as_str(), recorded.number()),
        None => (None, "", None),
    };
    let asked_by = match (recorded.map(|recorded| &recorded.place), number) {
        (Some(RecordedPlace::PlainCall(_)), _) => AskedBy::PlainCall(&asked),
        (Some(RecordedPlace::Connection(_)), _) => AskedBy::BoundTask(&asked),
        (_, Some(number)) => AskedBy::Request(number),
        (_, None) => AskedBy::Task,
    };
    let too_late = || inputs.not_taken(&asked);
    let QuestionAnswer { response, held } = match ask_recorded(record, name, asked_by, &ask, &too_late).await {
        Ok(answered) => answered?,
        Err(AnswerError::Failed(failure)) => return Some((Err(failure), None)),
        Err(AnswerError::TooLate) => {
            too_late();
            if let Some(recorded) = recorded {
                recorded.withdrawn().await;
            }
            return None;
        }
    };
    Some((Ok(related_result(request, response)), held))
}

/// The answer to another request, if it gets one.
async fn answer_of(other: Option<watch::Receiver<Option<ServedAnswer>>>) -> Option<ServedAnswer> {
    let mut other = other?;
    let answer = other.wait_for(Option::is_some).await.ok()?;
    answer.clone()
}

/// Why a question has no answer.
enum AnswerError {
    Failed(RpcFailure),
    /// The task does not ask any more.
    TooLate,
}

impl From<RequestError> for AnswerError {
    fn from(error: RequestError) -> Self {
        Self::Failed(RpcFailure {
            code: -32603,
            message: error.to_string().into(),
            data: None,
        })
    }
}

impl Connection {
    /// The answer to the same question that the server has taken.
    fn taken_answer(&self, serving: &ActiveRequest) -> Option<ServedAnswer> {
        let task = serving.task.as_ref().filter(|_| is_question(&serving.request.method))?;
        let name = QuestionName::of(&serving.request, task).name;
        self.listening().taken_answer(task, &name, serving.came_at)
    }

    /// Lets the handle of the task answer the question, too.
    fn open_question<'a>(&self, serving: &'a ActiveRequest, asked: &InputRequest) -> Option<&'a OpenQuestion> {
        serving.task.as_ref().filter(|_| is_question(&asked.method))?;
        let question = serving.question.get_or_init(|| {
            let mut asked = asked.clone();
            asked
                .key
                .get_or_insert_with(|| of_plain_call(&serving.request, self.listening().next_question()).1);
            OpenQuestion::new(asked)
        });
        self.listening().note_question();
        Some(question)
    }

    /// Answers a request with a task of this client, which ends with `answer` or with its time.
    #[expect(clippy::disallowed_methods, reason = "the client is not simulated")]
    fn answer_as_task(
        &self,
        request: &ServerRequest,
        answer: BoxFuture<'static, Result<InputResponse, RpcFailure>>,
    ) -> ServedAnswer {
        let created = self.hosted_tasks().create(&request.method, &request.params)?;
        let (hosted, clock) = (Arc::downgrade(self.hosted_tasks()), Arc::clone(&self.options().clock));
        let id = created.id.clone();
        let running = tokio::spawn(async move {
            let outcome = tokio::select! {
                answer = answer => match answer {
                    Ok(answer) => Outcome::result(answer.into_json()),
                    Err(failure) => Outcome::RpcError(failure),
                },
                () = clock.sleep(Duration::from_millis(created.ttl)) => return,
            };
            if let Some(hosted) = hosted.upgrade() {
                hosted.finish(&id, outcome);
            }
        });
        self.hosted_tasks().started(&created.id, running.abort_handle());
        Ok(created.result)
    }
}
