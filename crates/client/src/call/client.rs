//! A client whose calls outlive its process.

use crate::{
    CallError, CallFilter, CallJournal, CallOptions, CallState, Connection, Generation, JournalError, OtherLogin,
    Outcome, PendingCall, RecordedCall, RunningCall, TaskHandle, Tool,
    address::masked_address,
    journal::call_record::{CallRecord, JournalTarget},
};
use futures_util::{Stream, stream::FuturesUnordered};
use serde_json::{Map, Value};
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// A client of one server. Its calls are driven to their end: through multi-round requests, tasks of either generation, questions, and restarts of
/// the server. Cheap to clone.
///
/// With a [journal](Self::recorded) they also outlive this process. The call is on disk before it is sent, and then its task. So after a crash:
///
/// | it ended | what to do |
/// | --- | --- |
/// | before the server answered, and the server [takes idempotency keys](crate::ServerDescription::takes_idempotency_keys) | make the same call again: it is sent under the key of the first one, so it is the same call |
/// | before the server answered, and it takes none | the call may have run: [`Client::calls`] lists it as of [unknown outcome](CallState::Unknown), and nothing is repeated |
/// | after the server had created a task | [`Client::tasks`] returns its handle |
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use futures_util::StreamExt;
/// use longhaul_client::{Client, Connection, Options};
/// use longhaul_ledger::ClientJournal;
/// use serde_json::json;
///
/// let connection = Connection::open("http://127.0.0.1:7411/mcp", Options::named("example", "1.0")).await?;
/// let journal = ClientJournal::open(&ClientJournal::default_path()?).await?;
/// let client = Client::recorded(connection, journal);
/// // What an earlier process has begun:
/// let mut results = client.results().await?;
/// while let Some((task, outcome)) = results.next().await {
///     match outcome {
///         Ok(outcome) => {
///             println!("{}: {}", task.id(), outcome.text());
///             task.finish(&outcome).await?;
///         }
///         Err(error) => eprintln!("{error}"),
///     }
/// }
/// let outcome = client.call("build", json!({"target": "release"})).await?;
/// println!("{}", outcome.text());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Client(Arc<Shared>);

struct Shared {
    connection: Connection,
    recording: Option<JournalTarget>,
    /// Whether there may be calls that the journal does not know, so that the session is not ended for what it knows: one was made without a record, or could not be
    /// recorded, and its caller may make it on the connection.
    may_have_unrecorded_calls: AtomicBool,
    /// Whether it has looked for calls that nobody may send again.
    has_settled: AtomicBool,
}

impl Client {
    /// A client that records nothing. Its calls and tasks are known to this process alone.
    pub fn new(connection: Connection) -> Self {
        Self::with(connection, None)
    }

    /// A client that records its calls in `journal`, under the address of the connection.
    pub fn recorded(connection: Connection, journal: impl CallJournal) -> Self {
        let server = connection.address().to_owned();
        Self::recorded_as(connection, journal, server, None)
    }

    /// As [`recorded`](Self::recorded), with the server as it is listed (see [`NewCall::server`](crate::NewCall::server)) and its name in the user's
    /// configuration.
    pub fn recorded_as(
        connection: Connection,
        journal: impl CallJournal,
        server: String,
        server_name: Option<String>,
    ) -> Self {
        let recording = JournalTarget {
            journal: Arc::new(journal),
            server,
            server_name,
        };
        Self::with(connection, Some(recording))
    }

    fn with(connection: Connection, recording: Option<JournalTarget>) -> Self {
        Self(Arc::new(Shared {
            connection,
            recording,
            may_have_unrecorded_calls: AtomicBool::new(false),
            has_settled: AtomicBool::new(false),
        }))
    }

    /// The connection.
    pub fn connection(&self) -> &Connection {
        &self.0.connection
    }

    /// Whether its calls are recorded.
    pub fn has_journal(&self) -> bool {
        self.0.recording.is_some()
    }

    /// The server and its name as they are recorded; `None` without a journal.
    pub fn recorded_server(&self) -> Option<(&str, Option<&str>)> {
        let recording = self.recording()?;
        Some((&recording.server, recording.server_name.as_deref()))
    }

    fn recording(&self) -> Option<&JournalTarget> {
        self.0.recording.as_ref()
    }

    /// Calls a tool and returns its outcome, whether it comes at once or is that of a task. `arguments` must be an object, or null.
    ///
    /// Dropping the future stops the wait and not the task. A call that the server has not answered is recorded as interrupted then if it has an idempotency key,
    /// and else as of unknown outcome. With a journal the call is recorded as finished when this returns.
    ///
    /// # Errors
    /// [`CallError`]. After [`CallError::Request`] the call may have run, unless [`RequestError::is_refusal`](crate::RequestError::is_refusal) says that it has
    /// not. After [`CallError::Task`] it was accepted.
    pub async fn call(&self, tool: &str, arguments: Value) -> Result<Outcome, CallError> {
        self.start(tool, arguments).await?.result().await
    }

    /// Calls a tool, and returns when the call is recorded. It goes on by itself; the return value tells how it stands, and gives its result.
    ///
    /// # Errors
    /// [`CallError`]. Nothing was sent then.
    pub async fn start(&self, tool: &str, arguments: Value) -> Result<RunningCall, CallError> {
        self.start_with(tool, arguments, CallOptions::default()).await
    }

    /// As [`start`](Self::start), with options.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_with(
        &self,
        tool: &str,
        arguments: Value,
        options: CallOptions,
    ) -> Result<RunningCall, CallError> {
        let found = match arguments {
            Value::Object(arguments) => {
                let found = self.connection().tool(tool).await?;
                let tool = found.ok_or_else(|| CallError::NoSuchTool { tool: tool.to_owned() })?;
                let call = self.prepare(&tool, &arguments, options).await?;
                return Ok(RunningCall::start(call));
            }
            Value::Null => return Box::pin(self.start_with(tool, Value::Object(Map::new()), options)).await,
            Value::Array(_) => "an array",
            Value::String(_) => "a string",
            Value::Number(_) => "a number",
            Value::Bool(_) => "a boolean",
        };
        Err(CallError::InvalidArguments { found })
    }

    /// Records a call of `tool`, and returns it ready to be sent. With [`CallOptions::idempotency_key`] unset, a recorded call to a server that takes keys
    /// gets one of its own; if the same call was interrupted within the last day, and as long as the server [knows keys](crate::ServerDescription::idempotency_retention),
    /// it is taken over with its key. An older one is listed as of unknown outcome from then on, and this is another call.
    ///
    /// [`start`](Self::start) does all that follows; use this to observe each step.
    ///
    /// # Errors
    /// [`CallError`]. Nothing was sent then. [`CallError::Journal`] if the call cannot be recorded; [`CallOptions::unrecorded`] makes it all the same.
    pub async fn prepare(
        &self,
        tool: &Tool,
        arguments: &Map<String, Value>,
        options: CallOptions,
    ) -> Result<PendingCall, CallError> {
        if let Some(recording) = self.recording()
            && !self.0.has_settled.load(Ordering::Relaxed)
        {
            self.settle_abandoned(recording).await;
        }
        let recording = self.recording().filter(|_| !options.unrecorded);
        if recording.is_none() {
            self.0.may_have_unrecorded_calls.store(true, Ordering::Relaxed);
        }
        let prepared = PendingCall::prepare(self.connection(), recording, tool, arguments, options).await;
        if matches!(prepared, Err(CallError::Journal(_))) {
            self.0.may_have_unrecorded_calls.store(true, Ordering::Relaxed);
        }
        prepared
    }

    /// The tasks of this server in the journal whose end was not fetched yet, the latest first: those of this process, and of any other one of the
    /// same user. None without a journal. Nothing is requested, and nobody is asked what they ask: that is done by who waits for them ([`results`](Self::results),
    /// [`TaskHandle::follow`], [`TaskHandle::wait`]).
    ///
    /// # Errors
    /// Those of the journal.
    pub async fn tasks(&self) -> Result<Vec<TaskHandle>, JournalError> {
        let mut tasks = Vec::new();
        for call in self.calls().await? {
            if call.state == CallState::Task
                && let Some(task) = self.task(&call).await
            {
                tasks.push(task);
            }
        }
        Ok(tasks)
    }

    /// The calls of this server, under this name, in the journal that are neither finished nor lost, the latest first. None without a journal.
    ///
    /// # Errors
    /// Those of the journal.
    pub async fn calls(&self) -> Result<Vec<RecordedCall>, JournalError> {
        let Some(recording) = self.recording() else {
            return Ok(Vec::new());
        };
        self.settle_abandoned(recording).await;
        let filter = CallFilter {
            server: Some(recording.server.clone()),
            unfinished: true,
            ..CallFilter::default()
        };
        let mut calls = recording.journal.list(filter).await?;
        // Two names may be two callers of one server, who do not know each other's tasks.
        calls.retain(|call| call.server_name == recording.server_name);
        Ok(calls)
    }

    /// Calls that nobody may send again are of unknown outcome.
    async fn settle_abandoned(&self, recording: &JournalTarget) {
        self.0.has_settled.store(true, Ordering::Relaxed);
        if let Err(error) = recording.journal.settle_abandoned().await {
            tracing::warn!(%error, "calls of unknown outcome are not recorded as such");
        }
    }

    /// The task of a recorded call of this server, if it has one. A legacy task is read in the session that it was created in.
    pub async fn task(&self, call: &RecordedCall) -> Option<TaskHandle> {
        let (recording, task) = (self.recording()?, call.task.as_ref()?);
        let connection = match &task.session {
            Some(session) => self.connection().in_session(session).await,
            None => self.connection().clone(),
        };
        let record = CallRecord::of_task(&recording.journal, call);
        let present = self.connection().login().await;
        let other = OtherLogin::of(call, present.as_deref());
        if let Some(other) = &other {
            tracing::warn!(task = task.task_id, "a task is asked for with another login: {other}");
        }
        if task.generation == Generation::Legacy && call.state == CallState::Task {
            connection.follow_legacy_task(&task.task_id, Some(&record));
        }
        let task = connection.task(&task.task_id).recorded(record).known_from(call);
        Some(task.with_other_login(other))
    }

    /// The outcomes of all [`tasks`](Self::tasks), each as soon as its task ends: they are waited for together, so a long one holds up no other. What they ask goes to
    /// [`Options::inputs`](crate::Options::inputs). The stream ends with the last one; to stop waiting, drop it. A task stays in the journal until it is
    /// [finished](TaskHandle::finish).
    ///
    /// ```no_run
    /// # async fn example(client: longhaul_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use futures_util::StreamExt;
    ///
    /// let mut results = client.results().await?;
    /// while let Some((task, outcome)) = results.next().await {
    ///     match outcome {
    ///         Ok(outcome) => {
    ///             println!("{}: {}", task.id(), outcome.text());
    ///             task.finish(&outcome).await?;
    ///         }
    ///         Err(error) => eprintln!("{error}"),
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Those of the journal. That a task has no outcome is an item of the stream: [`CallError::Task`].
    pub async fn results(
        &self,
    ) -> Result<impl Stream<Item = (TaskHandle, Result<Outcome, CallError>)> + Send + Unpin + use<>, JournalError> {
        let waits = self.tasks().await?.into_iter().map(|task| async move {
            let outcome = task.wait(&mut |_| {}).await;
            let outcome = outcome.map_err(|error| CallError::of_task(&task, error));
            (task, outcome)
        });
        Ok(waits.collect::<FuturesUnordered<_>>())
    }

    /// Ends the connection, as [`Connection::close`] does, but keeps a legacy session in which a recorded task is: the task may be bound to it, and other processes
    /// may wait for it. The server ends that session when nobody uses it any more.
    pub async fn close(self) {
        let sessions = self.connection().take_resumed_sessions().await;
        for connection in sessions.into_iter().chain([self.connection().clone()]) {
            let ends = self.may_end_session(&connection).await;
            connection.close_session(ends).await;
        }
    }

    /// Whether no recorded call needs the legacy session of the connection. If nobody knows, it stays.
    async fn may_end_session(&self, connection: &Connection) -> bool {
        let (Some(recording), Some(session)) = (self.recording(), connection.session().await) else {
            return true;
        };
        if self.0.may_have_unrecorded_calls.load(Ordering::Relaxed) {
            return false;
        }
        let may_end = recording
            .journal
            .may_end_session(recording.server.clone(), session.id)
            .await;
        may_end.unwrap_or(false)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client({})", masked_address(self.connection().address()))
    }
}
