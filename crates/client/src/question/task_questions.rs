//! Answering what a task asks while it is waited for.

use crate::{
    InputRequest, InputResponse, RequestError, TaskHandle, TaskSnapshot, TaskStatus,
    error::excerpt,
    options::params_text::object_of,
    question::{
        asking::{HeldQuestion, QuestionAnswer, claim_answer},
        recorded::asks_not,
    },
};
use futures_util::{
    StreamExt,
    future::{AbortHandle, Abortable, BoxFuture},
    stream::FuturesUnordered,
};
use longhaul_core::JsonMembers;
use longhaul_wire::Method;
use serde_json::{Map, Value};
use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

/// How many questions a task may ask while it is waited for.
const MAX_QUESTIONS: usize = 10_000;
/// How many of them are put to the handler at once. The others follow when these are answered.
const MAX_OPEN: usize = 64;
/// The longest key, in bytes.
const MAX_KEY: usize = 1_024;
/// How many polls in a row may show a question whose answer the server has acknowledged. It may acknowledge an answer before its effects can be seen,
/// but a key is not used again, and no client answers it again.
const MAX_REPEATS: u32 = 30;
/// How often such a question may be gone, and come again. One replica of a server may know of the answer before another one does.
const MAX_RETURNS: u32 = 30;
/// How many answers to one question the server may refuse.
const MAX_REFUSALS: u32 = 3;

/// An answer after this time is sent only if the task still asks: another client may have been faster, and the server would ignore the answer without a word.
const SOON: Duration = Duration::from_secs(1);

type Answer = (InputRequest, Duration, Result<Option<QuestionAnswer>, RequestError>);

/// What became of a question.
enum QuestionState {
    /// The handler works on it.
    Open(AbortHandle),
    /// The handler has answered, and the server has not acknowledged it.
    Closed,
    /// The server has acknowledged the answer.
    Acknowledged(Repeats),
}

/// How a question was shown since its answer was acknowledged.
#[derive(Default)]
struct Repeats {
    /// By so many polls, the latest ones, in a row.
    polls: u32,
    /// So often after it was gone.
    returns: u32,
    /// The latest poll has not shown it.
    is_gone: bool,
}

impl Repeats {
    fn note(&mut self, is_shown: bool) {
        self.polls = if is_shown { self.polls + 1 } else { 0 };
        self.returns += u32::from(is_shown && self.is_gone);
        self.is_gone = !is_shown;
    }

    fn is_too_much(&self) -> bool {
        self.polls > MAX_REPEATS || self.returns > MAX_RETURNS
    }
}

/// The questions of one task. Each is put to the handler once.
#[derive(Default)]
pub(crate) struct Questions {
    /// By key.
    asked: HashMap<String, QuestionState>,
    /// How many were put to the handler, those that were withdrawn included.
    put: usize,
    open: FuturesUnordered<Abortable<BoxFuture<'static, Answer>>>,
    /// Answers that the server has not acknowledged.
    unsent: JsonMembers,
    /// The questions of those that came late.
    late: HashMap<String, InputRequest>,
    /// The records of the questions with these answers.
    held: HashMap<String, HeldQuestion>,
    /// How many answers to a question were refused, by key.
    refusals: HashMap<String, u32>,
    /// How many polls in a row have shown that the task asks, although there is no handler.
    lingering: u32,
}

impl Questions {
    /// Puts new questions to the handler, and withdraws those that are no longer open. A push that [withdraws](Self::withdraws) some may be an old one.
    ///
    /// # Errors
    /// [`RequestError::Invalid`] if the task asks without end.
    pub(crate) fn update(&mut self, task: &TaskHandle, snapshot: &TaskSnapshot) -> Result<(), RequestError> {
        let listed: HashSet<&str> = keys(snapshot).collect();
        let mut open = 0;
        // A question that is listed again later is put to the handler again: this list may have been an old one.
        self.asked.retain(|key, state| match state {
            QuestionState::Open(question) if !listed.contains(key.as_str()) => {
                question.abort();
                false
            }
            QuestionState::Open(_) => {
                open += 1;
                true
            }
            QuestionState::Closed | QuestionState::Acknowledged(_) => true,
        });
        for request in &snapshot.input_requests {
            if open == MAX_OPEN {
                break;
            }
            let Some(key) = request.key.clone().filter(|key| !self.asked.contains_key(key)) else {
                continue;
            };
            if key.len() > MAX_KEY {
                let key = excerpt(&key);
                return Err(invalid(
                    task,
                    &format!("the key of a question is longer than {MAX_KEY} bytes: {key:?}"),
                ));
            }
            if self.put == MAX_QUESTIONS {
                return Err(invalid(
                    task,
                    &format!("it has asked {MAX_QUESTIONS} questions, and asks more"),
                ));
            }
            let (handle, registration) = AbortHandle::new_pair();
            self.asked.insert(key.clone(), QuestionState::Open(handle));
            self.put += 1;
            open += 1;
            let (task, request) = (task.clone(), request.clone());
            let answer = async move {
                let (connection, name) = (task.connection(), recorded_as(&key));
                let clock = &connection.options().clock;
                let asked_at = clock.monotonic();
                let answer = connection.ask_once(request.clone(), task.record(), &name).await;
                (request, clock.monotonic().saturating_sub(asked_at), answer)
            };
            self.open.push(Abortable::new(Box::pin(answer), registration));
        }
        Ok(())
    }

    /// What the task asks, and nobody answers: there is no handler. A server may show a question that was answered, or whose task was cancelled, a little longer.
    ///
    /// # Errors
    /// [`RequestError::InputRequired`], unless all of them are answered; [`RequestError::Invalid`] as [`update`](Self::update).
    pub(crate) async fn require_none(
        &mut self,
        task: &TaskHandle,
        snapshot: &TaskSnapshot,
    ) -> Result<(), RequestError> {
        if snapshot.status != TaskStatus::InputRequired {
            self.lingering = 0;
            return Ok(());
        }
        let mut open = Vec::new();
        for request in &snapshot.input_requests {
            let key = request.key.as_deref().unwrap_or_default();
            if task.has_answered(key) || task.has_taken_answer(key).await {
                self.asked
                    .entry(key.to_owned())
                    .or_insert_with(|| QuestionState::Acknowledged(Repeats::default()));
            } else {
                open.push(request.clone());
            }
        }
        if open.is_empty() && !snapshot.input_requests.is_empty() {
            return Ok(());
        }
        self.lingering += 1;
        if task.has_answered_or_cancelled() && self.lingering <= MAX_REPEATS {
            return Ok(());
        }
        Err(RequestError::InputRequired {
            task: excerpt(task.id()).into_owned(),
            questions: open,
            message: snapshot.message.clone(),
        })
    }

    /// Whether a question that the handler works on is not among those of the task any more.
    pub(crate) fn withdraws(&self, snapshot: &TaskSnapshot) -> bool {
        let listed: HashSet<&str> = keys(snapshot).collect();
        let mut asked = self.asked.iter();
        asked.any(|(key, state)| matches!(state, QuestionState::Open(_)) && !listed.contains(key.as_str()))
    }

    /// Counts how often a poll shows a question whose answer was acknowledged.
    ///
    /// # Errors
    /// [`RequestError::AsksAgain`] if the server does not take it away.
    pub(crate) fn check_repeats(&mut self, task: &TaskHandle, snapshot: &TaskSnapshot) -> Result<(), RequestError> {
        let listed: HashSet<&str> = keys(snapshot).collect();
        for (key, state) in &mut self.asked {
            let QuestionState::Acknowledged(repeats) = state else {
                continue;
            };
            repeats.note(listed.contains(key.as_str()));
            if repeats.is_too_much() {
                return Err(RequestError::AsksAgain {
                    task: excerpt(task.id()).into_owned(),
                    key: excerpt(key).into_owned(),
                    polls: MAX_REPEATS,
                });
            }
        }
        Ok(())
    }

    /// Waits for the next answer of the handler and keeps it to be sent. Never completes if nothing is asked.
    ///
    /// # Errors
    /// [`RequestError::Unanswered`] if there is no answer.
    pub(crate) async fn answered(&mut self) -> Result<(), RequestError> {
        loop {
            match self.open.next().await {
                Some(Ok((request, took, answer))) => {
                    let key = request.key.clone().unwrap_or_default();
                    let Some(QuestionAnswer { response, held }) = answer? else {
                        self.asked.insert(key, QuestionState::Acknowledged(Repeats::default()));
                        continue;
                    };
                    self.asked.insert(key.clone(), QuestionState::Closed);
                    if took > SOON {
                        self.late.insert(key.clone(), request);
                    }
                    if let Some(held) = held {
                        self.held.insert(key.clone(), held);
                    }
                    self.unsent.insert(key, response.into_json());
                    return Ok(());
                }
                Some(Err(_withdrawn)) => {}
                None => std::future::pending().await,
            }
        }
    }

    /// Sends the answers that the server has not acknowledged: together, and if that is refused one by one, since one wrong answer may spoil the others. After
    /// a transient error they are sent again the next time.
    ///
    /// # Errors
    /// The error of the request; the first, if there are several.
    pub(crate) async fn send(&mut self, task: &TaskHandle) -> Result<(), RequestError> {
        if !self.late.is_empty() {
            self.drop_answered_elsewhere(task).await?;
        }
        if self.unsent.is_empty() {
            return Ok(());
        }
        let sent = task.update(self.unsent.clone()).await;
        match &sent {
            Ok(()) => {
                for key in self.unsent.keys().cloned().collect::<Vec<_>>() {
                    self.settle(&key, true).await;
                }
                return Ok(());
            }
            Err(error) if error.is_transient() => return sent,
            Err(_) => {}
        }
        if self.unsent.len() == 1 {
            for key in self.unsent.keys().cloned().collect::<Vec<_>>() {
                self.settle(&key, false).await;
            }
            return sent;
        }
        let mut refused = Ok(());
        for (key, answer) in self.unsent.clone() {
            let sent = task.update(JsonMembers::from([(key.clone(), answer)])).await;
            if matches!(&sent, Err(error) if error.is_transient()) {
                return sent;
            }
            self.settle(&key, sent.is_ok()).await;
            refused = refused.and(sent);
        }
        refused
    }

    /// Discards late answers to what the task does not ask any more.
    async fn drop_answered_elsewhere(&mut self, task: &TaskHandle) -> Result<(), RequestError> {
        let snapshot = task.get().await?;
        let listed: HashSet<&str> = keys(&snapshot).collect();
        for (key, request) in std::mem::take(&mut self.late) {
            if listed.contains(key.as_str()) {
                continue;
            }
            self.settle(&key, true).await;
            if let Some(inputs) = &task.connection().options().inputs {
                inputs.not_taken(&request);
            }
        }
        Ok(())
    }

    /// Whether no question has had too many answers refused.
    pub(crate) fn may_ask_again(&self) -> bool {
        self.refusals.values().all(|refusals| *refusals < MAX_REFUSALS)
    }

    /// The server has taken the answer, or refused it. A refused question is asked again.
    async fn settle(&mut self, key: &str, is_accepted: bool) {
        self.unsent.remove(key);
        let held = self.held.remove(key);
        if is_accepted {
            self.asked
                .insert(key.to_owned(), QuestionState::Acknowledged(Repeats::default()));
        } else {
            self.asked.remove(key);
            *self.refusals.entry(key.to_owned()).or_default() += 1;
        }
        match held {
            Some(question) if is_accepted => question.accepted().await,
            Some(question) => question.discarded().await,
            None => {}
        }
    }
}

fn keys(snapshot: &TaskSnapshot) -> impl Iterator<Item = &str> {
    snapshot
        .input_requests
        .iter()
        .filter_map(|request| request.key.as_deref())
}

fn invalid(task: &TaskHandle, reason: &str) -> RequestError {
    RequestError::Invalid(format!("its task {}: {reason}", excerpt(task.id())))
}

/// The name of a question in the journal. Questions from before the task have other names.
fn recorded_as(key: &str) -> String {
    format!("{OF_TASK}{key}")
}

/// The beginning of such a name.
const OF_TASK: &str = "task ";

/// An answer that is being sent. Dropped, it was not taken.
struct AnswerInFlight<'a> {
    task: &'a TaskHandle,
    key: &'a str,
    is_taken: bool,
}

impl<'a> AnswerInFlight<'a> {
    /// `None` if the question was answered, or is being answered.
    fn begin(task: &'a TaskHandle, key: &'a str) -> Option<Self> {
        let is_taken = false;
        task.note_answered(key).then_some(Self { task, key, is_taken })
    }

    fn taken(mut self) {
        self.is_taken = true;
    }
}

impl Drop for AnswerInFlight<'_> {
    fn drop(&mut self) {
        if !self.is_taken {
            self.task.note_not_answered(self.key);
        }
    }
}

impl TaskHandle {
    /// Answers a question of the task; `key` is that of the [`InputRequest`](crate::InputRequest) in [`questions`](Self::questions). An answer that does not
    /// [fit](crate::InputRequest::check) is not sent. If the [handler](crate::Options::inputs) is being asked a question of a legacy task, that ends. The answer to a recorded task is in the
    /// journal before it is sent. If another process has answered, nothing is sent; of several users the server takes the answer that arrives first.
    ///
    /// # Errors
    /// Any [`RequestError`]; [`RequestError::InvalidAnswer`] if the answer does not fit the form of the question; [`RequestError::NotAsked`] if the task does not ask under
    /// this key, or was answered, also by another process of this user. A legacy server asks while the task is waited for, and nobody knows its questions before.
    pub async fn answer(&self, key: &str, answer: InputResponse) -> Result<(), RequestError> {
        if self.connection().era().await?.legacy().is_some() {
            return self.answer_recorded(key, &answer).await;
        }
        if self.has_answered(key) || self.has_taken_answer(key).await {
            return Err(asks_not(self, key));
        }
        let question = self.asked_under(key).await?;
        self.check_answer(key, &question, &answer)?;
        let name = recorded_as(key);
        if let Some(record) = self.record()
            && !claim_answer(record, &name, None, &answer).await
        {
            return Err(asks_not(self, key));
        }
        // Without a journal this alone tells two answers apart that are given at once.
        let Some(answering) = AnswerInFlight::begin(self, key) else {
            return Err(asks_not(self, key));
        };
        let sent = self
            .update(JsonMembers::from([(key.to_owned(), answer.into_json())]))
            .await;
        if sent.is_ok() {
            answering.taken();
        }
        if let Some(record) = self.record() {
            match &sent {
                Ok(()) => record.answer_accepted(&name).await,
                Err(error) if error.is_transient() => record.release_question(name),
                Err(_) => record.answer_refused(&name).await,
            }
        }
        sent
    }

    /// Whether the journal says that the server has acknowledged an answer to this question of the task, so that [`answer`](Self::answer) sends no other one.
    /// A server may show the question for a moment longer; one that goes on asks under a key that it must not use again. `false` for what the journal does not
    /// know.
    ///
    /// ```no_run
    /// # async fn example(task: longhaul_client::TaskHandle) -> Result<(), longhaul_client::RequestError> {
    /// for question in task.get().await?.input_requests {
    ///     let key = question.key.as_deref().unwrap_or_default();
    ///     if !task.has_taken_answer(key).await {
    ///         println!("{key}: {}", question.message());
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn has_taken_answer(&self, key: &str) -> bool {
        match self.record() {
            Some(record) => record.is_answer_accepted(&recorded_as(key)).await,
            None => false,
        }
    }

    /// What the task asks under this key, as it was last read; it is read once more if it has not asked that before.
    async fn asked_under(&self, key: &str) -> Result<InputRequest, RequestError> {
        if let Some(question) = self.last_asked(key) {
            return Ok(question);
        }
        self.get().await?;
        self.last_asked(key).ok_or_else(|| asks_not(self, key))
    }

    /// Whether the answer may be sent.
    ///
    /// # Errors
    /// [`RequestError::InvalidAnswer`].
    pub(crate) fn check_answer(
        &self,
        key: &str,
        question: &InputRequest,
        answer: &InputResponse,
    ) -> Result<(), RequestError> {
        question.check(answer).map_err(|error| RequestError::InvalidAnswer {
            task: excerpt(self.id()).into_owned(),
            key: excerpt(key).into_owned(),
            error,
        })
    }

    /// Notes which answers the server has taken, from this process or from another one, as far as the journal knows.
    pub(crate) async fn note_taken_answers(&self) {
        if let Some(record) = self.record() {
            for name in record.accepted_answers().await {
                if let Some(key) = name.strip_prefix(OF_TASK) {
                    self.note_taken(key);
                }
            }
        }
    }

    async fn update(&self, responses: JsonMembers) -> Result<(), RequestError> {
        let params = Map::from_iter([("taskId".to_owned(), Value::from(self.id()))]);
        let responses = object_of(&responses);
        self.connection()
            .request_with(Method::TasksUpdate, params, ("inputResponses", responses))
            .await
            .map(drop)
    }
}
