//! A task on a server: reading it, cancelling it.

pub(crate) mod artifact;
pub(crate) mod earlier_requests;
pub(crate) mod event;
pub(crate) mod history;
pub(crate) mod log;
pub(crate) mod result_request;
pub(crate) mod streams;

use crate::{
    Connection, Finished, Generation, InputRequest, JournalError, OtherLogin, Outcome, RecordedCall, RequestError,
    TaskRef, TaskSnapshot, TaskStatus, Tool,
    connect::{era::Era, request::Request},
    error::{excerpt, rpc_failure::INTERNAL_ERROR},
    journal::{call_record::CallRecord, watch::JournalWatch},
    offer::output_schema::OutputSchema,
    task::{
        earlier_requests::{EarlierRequest, UnansweredRequests},
        result_request::ResultRequest,
    },
};
use longhaul_core::Json;
use longhaul_wire::Method;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// A task by its id. Cheap to clone. Dropping it does not affect the task.
#[derive(Debug, Clone)]
pub struct TaskHandle {
    connection: Connection,
    id: String,
    /// The task as the server created it, if this handle comes from a call.
    created: Option<Arc<TaskSnapshot>>,
    /// What is recorded of it, if this handle comes from a call.
    reference: Option<Arc<TaskRef>>,
    /// That of its tool, if this handle comes from a call.
    output: Option<OutputSchema>,
    record: Option<CallRecord>,
    other_login: Option<OtherLogin>,
    earlier_requests: UnansweredRequests,
    /// The status that the journal has of it.
    noted: Option<TaskStatus>,
    done: Arc<Done>,
}

/// What was done by a handle. The server may show the effects a moment later.
#[derive(Debug, Default)]
struct Done {
    /// The keys of the questions that the server has taken an answer to, or is being sent one.
    answered: Mutex<HashSet<String>>,
    /// Those of which the journal says the same: another handle has answered, perhaps of another process.
    taken: Mutex<HashSet<String>>,
    /// What the task asked when it was last read, if it says so in its status.
    asked: Mutex<Vec<InputRequest>>,
    /// The server was asked to cancel the task.
    is_cancelled: AtomicBool,
}

impl Connection {
    /// A handle to the task with this id. Sends no request.
    pub fn task(&self, id: impl Into<String>) -> TaskHandle {
        TaskHandle::new(self.clone(), id.into())
    }
}

impl Connection {
    /// A handle to a task that an earlier process has started, in the session in which it was started. Sends no request. If the server has ended that session,
    /// there is a new one, in which it may know the task or not.
    ///
    /// ```no_run
    /// # async fn example(connection: longhaul_client::Connection, stored: longhaul_client::TaskRef) -> Result<(), longhaul_client::RequestError> {
    /// let task = connection.resume_task(&stored).await;
    /// println!("{:?}", task.wait(&mut |_| {}).await?);
    /// # Ok(()) }
    /// ```
    pub async fn resume_task(&self, task: &TaskRef) -> TaskHandle {
        let connection = match &task.session {
            Some(session) => self.in_session(session).await,
            None => self.clone(),
        };
        if task.generation == Generation::Legacy {
            connection.follow_legacy_task(&task.task_id, None);
        }
        TaskHandle {
            reference: Some(Arc::new(task.clone())),
            ..connection.task(&task.task_id)
        }
    }
}

impl TaskHandle {
    fn new(connection: Connection, id: String) -> Self {
        Self {
            connection,
            id,
            created: None,
            reference: None,
            output: None,
            record: None,
            other_login: None,
            earlier_requests: UnansweredRequests::default(),
            noted: None,
            done: Arc::default(),
        }
    }

    /// The server has taken an answer to this question, or is being sent one. `false` if that was known.
    pub(crate) fn note_answered(&self, key: &str) -> bool {
        self.done.answered.lock().insert(key.to_owned())
    }

    /// The server has not taken the answer.
    pub(crate) fn note_not_answered(&self, key: &str) {
        self.done.answered.lock().remove(key);
    }

    /// Whether this handle has answered the question.
    pub(crate) fn has_answered(&self, key: &str) -> bool {
        self.done.answered.lock().contains(key)
    }

    /// The journal says that the server has taken an answer to this question.
    pub(crate) fn note_taken(&self, key: &str) {
        self.done.taken.lock().insert(key.to_owned());
    }

    /// Whether the question is known to be answered, by this handle or by another one.
    pub(crate) fn is_answered(&self, key: &str) -> bool {
        self.has_answered(key) || self.done.taken.lock().contains(key)
    }

    /// The task asks this, as its server says in its status.
    pub(crate) fn note_asked(&self, task: &TaskSnapshot) {
        let mut asked = self.done.asked.lock();
        if *asked != task.input_requests {
            asked.clone_from(&task.input_requests);
        }
    }

    /// What the task asked under this key when it was last read.
    pub(crate) fn last_asked(&self, key: &str) -> Option<InputRequest> {
        let asked = self.done.asked.lock();
        let mut asked = asked.iter();
        asked.find(|question| question.key.as_deref() == Some(key)).cloned()
    }

    /// The task as far as it is known without a request.
    pub(crate) fn known_status(&self) -> TaskSnapshot {
        if let Some(created) = &self.created {
            return (**created).clone();
        }
        let reference = self.reference.as_deref();
        TaskSnapshot {
            created_at: reference.and_then(|task| task.created_at.clone()),
            ttl: reference.and_then(|task| task.ttl),
            ..TaskSnapshot::unread(&self.id, self.noted.unwrap_or(TaskStatus::Working))
        }
    }

    /// Tells what other processes do with the journal. `None` without one.
    pub(crate) fn journal_watch(&self) -> Option<JournalWatch> {
        self.record.as_ref().map(CallRecord::watch)
    }

    /// The same task, with what its call is recorded with.
    pub(crate) fn known_from(self, call: &RecordedCall) -> Self {
        Self {
            reference: call.task.clone().map(Arc::new).or(self.reference),
            noted: call.status,
            ..self
        }
    }

    /// Whether this handle has changed what the task asks.
    pub(crate) fn has_answered_or_cancelled(&self) -> bool {
        self.done.is_cancelled.load(Ordering::Relaxed) || !self.done.answered.lock().is_empty()
    }

    /// The task that a call was answered with in this era.
    pub(crate) fn created_in(connection: Connection, era: &Era, created: TaskSnapshot) -> Self {
        let reference = TaskRef {
            task_id: created.id.clone(),
            generation: match era {
                Era::Modern(_) => Generation::Modern,
                Era::Legacy(_) => Generation::Legacy,
            },
            session: connection.session_of(era),
            created_at: created.created_at.clone(),
            ttl: created.ttl,
        };
        Self {
            reference: Some(Arc::new(reference)),
            created: Some(Arc::new(created.clone())),
            ..Self::new(connection, created.id)
        }
    }

    /// The same task, with its record.
    pub(crate) fn recorded(self, record: CallRecord) -> Self {
        Self {
            record: Some(record),
            ..self
        }
    }

    pub(crate) fn with_other_login(self, other_login: Option<OtherLogin>) -> Self {
        Self { other_login, ..self }
    }

    /// The login that the recorded call was made with, if it is not the present one. If the server does not know the task, that is why: the task is not recorded as
    /// lost.
    pub fn other_login(&self) -> Option<&OtherLogin> {
        self.other_login.as_ref()
    }

    pub(crate) fn record(&self) -> Option<&CallRecord> {
        self.record.as_ref()
    }

    /// The same task, about which a legacy server has asked this, and an earlier process may not have answered it: some servers ask once. [`wait`](Self::wait)
    /// puts it to the handler, and sends the answer in the session that it came in, unless the server asks the same again meanwhile: then that gets the answer.
    /// For tasks that no journal has.
    ///
    /// ```no_run
    /// # async fn example(connection: longhaul_client::Connection, stored: longhaul_client::TaskRef, asked: longhaul_client::EarlierRequest) -> Result<(), longhaul_client::RequestError> {
    /// let task = connection.resume_task(&stored).await.with_earlier_requests([asked]);
    /// println!("{:?}", task.wait(&mut |_| {}).await?);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn with_earlier_requests(self, requests: impl IntoIterator<Item = EarlierRequest>) -> Self {
        self.earlier_requests().lock().extend(requests);
        self
    }

    /// What an earlier process was asked about it, until it is dealt with here.
    pub(crate) fn earlier_requests(&self) -> &UnansweredRequests {
        &self.earlier_requests
    }

    /// Whether a journal has the call that has created the task.
    pub fn is_recorded(&self) -> bool {
        self.record.is_some()
    }

    /// What the task is found again by in another process, if this handle comes from a call or from [`Connection::resume_task`].
    pub fn reference(&self) -> Option<&TaskRef> {
        self.reference.as_deref()
    }

    /// Records what other processes should know of the task.
    pub(crate) async fn note(&self, snapshot: &TaskSnapshot) {
        let Some(record) = &self.record else { return };
        let Some(era) = self.connection.known_era().await else {
            return;
        };
        let session = self.connection.session_of(&era);
        // The task could not be recorded when it was created, or it was taken for lost; or the server has ended the session, and knows the task in the new one.
        if record.lacks_task() || record.has_other_session(session.as_ref()) {
            let task = TaskRef {
                task_id: self.id.clone(),
                generation: match &*era {
                    Era::Modern(_) => Generation::Modern,
                    Era::Legacy(_) => Generation::Legacy,
                },
                session,
                created_at: snapshot.created_at.clone(),
                ttl: snapshot.ttl,
            };
            let is_kept = self.connection.keeps_tasks_of(&era);
            if let Err(error) = record.acknowledge(task, is_kept).await {
                tracing::warn!(%error, "a task, or its session, is not recorded");
                return;
            }
        }
        if snapshot.status == TaskStatus::InputRequired {
            record.saw_asking(snapshot.last_updated_at.as_deref());
        }
        record.note_status(snapshot.status).await;
    }

    /// How the task has finished, if the journal says that its outcome was used, by this process or another one. A server that gives a result once does not
    /// know such a task any more. `None` without a journal.
    ///
    /// ```no_run
    /// # async fn example(task: longhaul_client::TaskHandle) -> Result<(), longhaul_client::RequestError> {
    /// match task.wait(&mut |_| {}).await {
    ///     Err(error) if error.is_unknown_task() && task.fetched().await.is_some() => println!("another process has the result"),
    ///     waited => println!("{:?}", waited?),
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn fetched(&self) -> Option<Finished> {
        self.record.as_ref()?.finished().await
    }

    /// Whether the task ends with another process, which lives: its server is a child of that process, or its session a connection of it. Then a server that does not
    /// know the task has not lost it; only that process can reach it. Without a record it is `false`.
    pub async fn is_followed_elsewhere(&self) -> bool {
        match &self.record {
            Some(record) => record.is_followed_elsewhere().await,
            None => false,
        }
    }

    /// Records that the outcome was used, so that the task is listed as finished. Without a journal it does nothing.
    ///
    /// Until then [`Client::tasks`](crate::Client::tasks) returns the task, also in the next process.
    ///
    /// # Errors
    /// Those of the journal.
    pub async fn finish(&self, outcome: &Outcome) -> Result<(), JournalError> {
        match &self.record {
            Some(record) => record.finish(Finished::of_task(outcome)).await,
            None => Ok(()),
        }
    }

    /// Records that the task was cancelled because nobody answered what it asks. Without a journal it does nothing.
    ///
    /// # Errors
    /// Those of the journal.
    pub async fn unanswered(&self) -> Result<(), JournalError> {
        match &self.record {
            Some(record) => record.finish(Finished::Unanswered).await,
            None => Ok(()),
        }
    }

    /// The same task, of which the server tells this now.
    pub(crate) fn seen_as(self, snapshot: TaskSnapshot) -> Self {
        Self {
            created: Some(Arc::new(snapshot)),
            ..self
        }
    }

    /// The result is in the error of the wait, so nothing more is to be done.
    pub(crate) async fn record_invalid_output(&self) {
        if let Some(record) = &self.record
            && let Err(error) = record.finish(Finished::InvalidOutput).await
        {
            tracing::warn!(%error, "the end of a call is not recorded");
        }
    }

    /// The same task, whose result must fit the output schema of `tool`, as that of a task that a call returned must.
    pub fn of_tool(self, tool: &Tool) -> Self {
        Self {
            output: tool.output.clone(),
            ..self
        }
    }

    /// Checks the outcome against the output schema of the tool, if that is known.
    pub(crate) async fn check(&self, outcome: &Outcome) -> Result<(), RequestError> {
        match &self.output {
            Some(output) => output.check(outcome).await,
            None => Ok(()),
        }
    }

    /// The task id. On a server without authentication, whoever knows it can read the task.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The connection to its server.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Reads the task. Of a recorded one it notes whether it asks, or that the server does not know it any more.
    ///
    /// # Errors
    /// Any [`RequestError`]; see [`RequestError::is_unknown_task`].
    pub async fn get(&self) -> Result<TaskSnapshot, RequestError> {
        let answer = match self.request(Method::TasksGet).await {
            // It is an answer in a session that was opened just now.
            Err(RequestError::Http { status: 404, .. }) if self.connection.session().await.is_some() => {
                Err(RequestError::LostWithSession)
            }
            answer => answer,
        };
        match answer {
            Ok(task) => {
                let task = TaskSnapshot::read(task.as_str())?;
                if task.id != self.id() {
                    let other = excerpt(&task.id);
                    return Err(RequestError::Invalid(format!("it is about another task, {other:?}")));
                }
                self.note_asked(&task);
                self.keep_session(&task).await;
                self.note(&task).await;
                Ok(task)
            }
            Err(error) if error.is_unknown_task() => Err(self.not_known(error).await),
            Err(error) => Err(error),
        }
    }

    /// The server does not know the task. One that a call was answered with is lost, unless its result was fetched, or only another login or another process reaches it.
    async fn not_known(&self, error: RequestError) -> RequestError {
        self.connection.legacy_tasks().ended(self.id());
        if self.other_login.is_some() {
            return error;
        }
        let lost = RequestError::LostTask {
            task: excerpt(&self.id).into_owned(),
            error: Box::new(error),
        };
        if let Some(record) = &self.record {
            record.mark_lost(&lost.to_string()).await;
        }
        let is_created = self.record.is_some() || self.reference.is_some();
        let is_lost = is_created && !self.is_followed_elsewhere().await && self.fetched().await.is_none();
        match lost {
            RequestError::LostTask { error, .. } if !is_lost => *error,
            lost => lost,
        }
    }

    async fn is_legacy(&self) -> bool {
        let era = self.connection.known_era().await;
        era.is_some_and(|era| era.legacy().is_some())
    }

    /// Keeps the session of a live legacy task warm.
    async fn keep_session(&self, task: &TaskSnapshot) {
        let is_legacy = self.is_legacy().await;
        if is_legacy && !task.status.is_final() {
            self.connection.follow_legacy_task(self.id(), self.record.as_ref());
        } else if is_legacy {
            self.connection.legacy_tasks().ended(self.id());
        }
    }

    /// Asks the server to cancel the task. A modern server only acknowledges the request, so the task may still end with any outcome;
    /// a legacy server returns the cancelled task.
    ///
    /// To cancel it again, or when it has ended, changes nothing and is no error, whatever the server says: its outcome tells how it has ended. A legacy server, which must refuse
    /// that, is asked how the task stands, and the task is returned.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub async fn cancel(&self) -> Result<Option<TaskSnapshot>, RequestError> {
        let answer = match self.request(Method::TasksCancel).await {
            Err(RequestError::Rpc(refusal)) if self.is_legacy().await => {
                return match self.get().await {
                    Ok(now) if now.status.is_final() => Ok(Some(now)),
                    Err(error) if error.is_unknown_task() => Err(error),
                    _ => Err(RequestError::Rpc(refusal)),
                };
            }
            answer => answer?,
        };
        self.done.is_cancelled.store(true, Ordering::Relaxed);
        match self.connection.era().await?.legacy() {
            Some(_) => TaskSnapshot::read(answer.as_str()).map(Some),
            None => Ok(None),
        }
    }

    /// Deletes the task, which has ended, with all that it has left on the server: arguments, result, questions, log, history, and the finished tasks that it
    /// started. Its idempotency key is free again. A recorded task is forgotten in the journal, too. An extension of Longhaul.
    ///
    /// ```no_run
    /// # async fn example(client: longhaul_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// for task in client.tasks().await? {
    ///     if task.get().await?.status.is_final() {
    ///         task.delete().await?;
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`RequestError::NoDeletion`] if the server does not [declare](crate::ServerDescription::deletes_tasks) it, [`RequestError::Rpc`] if the task or one that it
    /// started has not ended, or the server does not know the task. Any other [`RequestError`]: it may have been deleted.
    pub async fn delete(&self) -> Result<(), RequestError> {
        let server = self.connection.server().await?;
        // In a session that an earlier process has opened nobody knows what the server declared.
        if server
            .capabilities
            .as_object()
            .is_some_and(|declared| !declared.is_empty())
            && !server.deletes_tasks()
        {
            return Err(RequestError::NoDeletion);
        }
        self.request(Method::TasksDelete).await?;
        self.connection.legacy_tasks().ended(self.id());
        if let Some(record) = &self.record {
            record.forget().await;
        }
        Ok(())
    }

    /// Reads the outcome of an ended legacy task.
    pub(crate) async fn fetch_outcome(&self, status: TaskStatus) -> Result<Outcome, RequestError> {
        let answer = match self.connection.era().await?.legacy() {
            Some(_) => self.request(Method::TasksResult).await,
            None => Err(RequestError::Invalid("its status has no result".to_owned())),
        };
        match answer {
            Ok(result) => Ok(Outcome::result(result)),
            Err(RequestError::Rpc(failure)) if status == TaskStatus::Failed => Ok(Outcome::RpcError(failure)),
            // A server that fails has the result perhaps.
            Err(RequestError::Rpc(failure)) if failure.code == INTERNAL_ERROR => Err(RequestError::Rpc(failure)),
            Err(error @ (RequestError::Rpc(_) | RequestError::Invalid(_))) => {
                let error = RequestError::NoResult {
                    task: excerpt(&self.id).into_owned(),
                    status,
                    error: Box::new(error),
                };
                if let Some(record) = &self.record {
                    record.mark_lost(&error.to_string()).await;
                }
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    /// The task as the server created it, if this handle comes from a call; if the server knew its idempotency key already, and the task has ended, as it is.
    pub fn created(&self) -> Option<&TaskSnapshot> {
        self.created.as_deref()
    }

    /// Waits for the result of a legacy task with the request that holds until there is one. On its stream the server asks what the task
    /// needs. `None` if the server answers that there is no result yet, as some do.
    pub(crate) async fn hold_for_outcome(&self) -> Result<Option<Outcome>, RequestError> {
        let mut request = ResultRequest::begin(&self.connection, &self.id, self.record.as_ref()).await?;
        let id = Mutex::new(Some(request.id()));
        let build = |_: &Era| Request {
            // If it is sent again it is in another session.
            id: id.lock().take(),
            ..Request::new(
                Method::TasksResult.as_str(),
                Map::from_iter([("taskId".to_owned(), Value::from(self.id.as_str()))]),
            )
        };
        let answered = self.connection.exchange(build, &mut |_| {}, None).await;
        match answered {
            Ok((result, _)) => {
                request.is_answered();
                Ok(Some(Outcome::result(result)))
            }
            Err(RequestError::Rpc(_)) => {
                request.is_answered();
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    async fn request(&self, method: Method) -> Result<Json, RequestError> {
        let params = Map::from_iter([("taskId".to_owned(), Value::from(self.id.as_str()))]);
        self.connection.request(method, params).await
    }
}
