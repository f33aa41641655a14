//! What this user has called: the client journal, as the commands use it.

use crate::{failure::Failure, output, servers::Server};
use longhaul_client::{
    CallFilter, CallId, CallState, Client, ClientJournal, Connection, Finished, Generation, JournalError, NewCall,
    Outcome, RecordedCall, TaskHandle, TaskRef, TaskSnapshot, TaskStatus,
};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// The record of one call. Without a journal nothing is recorded, and the user is told.
pub(crate) struct Record(Option<(ClientJournal, CallId)>);

impl Record {
    /// Records that the tool is about to be called.
    pub(crate) async fn begin(
        server: &Server,
        connection: &Connection,
        tool: &str,
        arguments: &Map<String, Value>,
        idempotency_key: Option<String>,
    ) -> Self {
        let begun = async {
            let journal = open().await?;
            let call = NewCall {
                server: server.recorded(),
                server_name: server.name().map(str::to_owned),
                tool: tool.to_owned(),
                arguments_digest: Sha256::digest(Value::from(arguments.clone()).to_string()).into(),
                idempotency_key,
                session: connection.session().await,
            };
            let id = journal.begin(call).await?;
            Ok::<_, JournalError>((journal, id))
        };
        Self(begun.await.map_err(|error| warn(&error)).ok())
    }

    /// Records the task that the server has created.
    pub(crate) async fn acknowledge(&self, task: &TaskHandle) {
        let Some((journal, call)) = &self.0 else { return };
        let connection = task.connection();
        let version = connection.server().await.map(|server| server.version);
        let snapshot = task.created();
        let recorded = journal.acknowledge(
            *call,
            TaskRef {
                task_id: task.id().to_owned(),
                generation: match version {
                    Ok("2026-07-28") => Generation::Modern,
                    _ => Generation::Legacy,
                },
                session: connection.session().await,
                created_at: snapshot.and_then(|created| created.created_at.clone()),
                ttl: snapshot.and_then(|created| created.ttl),
            },
        );
        if let Err(error) = recorded.await {
            warn(&error);
        }
    }

    /// Records that the task waits for an answer.
    pub(crate) async fn note_question(&self) {
        if let Some((journal, call)) = &self.0
            && let Err(error) = journal.note_status(*call, TaskStatus::InputRequired).await
        {
            warn(&error);
        }
    }

    /// Records that nothing more is to be done.
    pub(crate) async fn finish(&self, finished: Finished) {
        if let Some((journal, call)) = &self.0
            && let Err(error) = journal.finish(*call, finished).await
        {
            warn(&error);
        }
    }

    /// Records that the call may or may not have been carried out.
    pub(crate) async fn mark_unknown(&self, reason: &str) {
        if let Some((journal, call)) = &self.0
            && let Err(error) = journal.mark_unknown(*call, reason).await
        {
            warn(&error);
        }
    }
}

/// How a call with this outcome has finished.
pub(crate) fn finished(outcome: &Outcome) -> Finished {
    match outcome {
        Outcome::Result { is_error: false, .. } => Finished::Completed,
        Outcome::Result { .. } | Outcome::RpcError(_) => Finished::Failed,
        Outcome::Cancelled => Finished::Cancelled,
    }
}

/// The user's journal.
pub(crate) async fn open() -> Result<ClientJournal, JournalError> {
    ClientJournal::open(&ClientJournal::default_path()?).await
}

/// A client whose calls are recorded. Without a journal nothing is recorded, and the user is told.
pub(crate) async fn client(server: &Server, connection: Connection) -> Client {
    match open().await {
        Ok(journal) => {
            let name = server.name().map(str::to_owned);
            Client::recorded_as(connection, journal, server.recorded(), name)
        }
        Err(error) => {
            output::note(&format!("longhaul: these calls are not recorded: {error}"));
            Client::new(connection)
        }
    }
}

fn warn(error: &JournalError) {
    output::note(&format!("longhaul: this call is not recorded: {error}"));
}

/// A task that a command names.
pub(crate) struct Named {
    pub(crate) server: Server,
    pub(crate) id: String,
    recorded: Option<(ClientJournal, RecordedCall)>,
}

impl Named {
    /// The task of this id, or of this part of an id that is recorded. If no server was chosen, a recorded task's own server is meant.
    pub(crate) async fn find(server: Server, id: &str) -> Result<Self, Failure> {
        let Ok(journal) = open().await else {
            return Ok(Self::unrecorded(server, id));
        };
        let found = journal.find(id).await.unwrap_or_default();
        let address = server.recorded();
        let fitting = |call: &&RecordedCall| !server.is_chosen() || call.server == address;
        let mut fitting = found.iter().filter(fitting);
        match (fitting.next(), fitting.next()) {
            (None, _) => Ok(Self::unrecorded(server, id)),
            (Some(call), None) => Ok(Self {
                server: server.of_call(call),
                id: call
                    .task
                    .as_ref()
                    .map_or_else(|| id.to_owned(), |task| task.task_id.clone()),
                recorded: Some((journal, call.clone())),
            }),
            (Some(_), Some(_)) => {
                let ids: Vec<&str> = found
                    .iter()
                    .filter_map(|call| Some(call.task.as_ref()?.task_id.as_str()))
                    .collect();
                Err(Failure::usage(format!(
                    "`{id}` is part of several task ids:\n  {}",
                    ids.join("\n  ")
                )))
            }
        }
    }

    /// The only recorded task that has not ended, on this server if one was chosen; for `answer` the only one that asks.
    pub(crate) async fn only(server: Server, command: &str) -> Result<Self, Failure> {
        let live = match open().await {
            Ok(journal) => journal.live().await.unwrap_or_default(),
            Err(_) => Vec::new(),
        };
        let address = server.recorded();
        let mut fitting = live.iter().filter(|call| !server.is_chosen() || call.server == address);
        let id = |call: &RecordedCall| call.task.as_ref().map(|task| task.task_id.clone()).unwrap_or_default();
        match (fitting.next(), fitting.next()) {
            (Some(only), None) => Self::find(server, &id(only)).await,
            (None, _) => Err(Failure::usage(format!(
                "name a task: longhaul {command} [SERVER] ID; none is recorded that has not ended"
            ))),
            (Some(_), Some(_)) => {
                let ids: Vec<String> = live.iter().map(|call| format!("{}  {}", id(call), call.tool)).collect();
                Err(Failure::usage(format!(
                    "name one of your tasks:\n  {}",
                    ids.join("\n  ")
                )))
            }
        }
    }

    /// The recorded tasks that have not ended, on this server if one was chosen.
    pub(crate) async fn live(server: &Server) -> Vec<Self> {
        let Ok(journal) = open().await else {
            return Vec::new();
        };
        let address = server.recorded();
        let live = journal.live().await.unwrap_or_default().into_iter();
        let fitting = live.filter(|call| {
            let has_ended = call.status.is_some_and(TaskStatus::is_final);
            !has_ended && (!server.is_chosen() || call.server == address)
        });
        let named = fitting.filter_map(|call| {
            Some(Self {
                server: server.clone().of_call(&call),
                id: call.task.as_ref()?.task_id.clone(),
                recorded: Some((journal.clone(), call)),
            })
        });
        named.collect()
    }

    fn unrecorded(server: Server, id: &str) -> Self {
        Self {
            server,
            id: id.to_owned(),
            recorded: None,
        }
    }

    /// What is recorded of the call that has created it.
    pub(crate) fn call(&self) -> Option<&RecordedCall> {
        self.recorded.as_ref().map(|(_, call)| call)
    }

    /// Uses the legacy session that the task was created in.
    pub(crate) async fn resume(&self, connection: &Connection) {
        let session = self
            .recorded
            .as_ref()
            .and_then(|(_, call)| call.task.as_ref()?.session.as_ref());
        if let Some(session) = session {
            connection.resume(session).await;
        }
    }

    /// Notes the status of the task, for lists.
    pub(crate) async fn note(&self, snapshot: &TaskSnapshot) {
        if let Some((journal, call)) = &self.recorded
            && let Err(error) = journal.note_status(call.id, snapshot.status).await
        {
            warn(&error);
        }
    }

    /// Records that the result was fetched.
    pub(crate) async fn finish(&self, finished: Finished) {
        if let Some((journal, call)) = &self.recorded
            && let Err(error) = journal.finish(call.id, finished).await
        {
            warn(&error);
        }
    }

    /// Whether the session that the task was created in must be kept open.
    pub(crate) fn keeps_session(&self) -> bool {
        self.recorded.is_some() && !self.server.is_child()
    }
}

/// The recorded calls, the latest first.
pub(crate) async fn list(filter: CallFilter) -> Result<Vec<RecordedCall>, JournalError> {
    open().await?.list(filter).await
}

/// Notes the status of a call's task.
pub(crate) async fn note_status(call: &mut RecordedCall, status: TaskStatus) {
    call.status = Some(status);
    let noted = async { open().await?.note_status(call.id, status).await };
    if let Err(error) = noted.await {
        warn(&error);
    }
}

/// Records that the server does not know the call's task any more.
pub(crate) async fn mark_lost(call: &mut RecordedCall) {
    let reason = "the server does not know the task any more";
    call.state = CallState::Lost {
        reason: reason.to_owned(),
    };
    let marked = async { open().await?.mark_lost(call.id, reason).await };
    if let Err(error) = marked.await {
        warn(&error);
    }
}
