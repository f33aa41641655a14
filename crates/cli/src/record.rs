//! What this user has called: the client journal, as the commands use it.

use crate::{
    failure::Failure,
    output,
    servers::{self, Server},
};
use futures_util::future::join_all;
use longhaul_client::{
    CallFilter, CallId, CallState, ClientJournal, Connection, Finished, Generation, JournalError, NewCall, Outcome,
    RecordedCall, TaskHandle, TaskRef, TaskSnapshot, TaskStatus,
};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::time::Duration;

/// How long a server may take to tell the status of a task for a list.
const STATUS_TIMEOUT: Duration = Duration::from_secs(2);

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
                server: match server.is_chosen() {
                    true => server,
                    false => servers::recorded(call),
                },
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

    fn unrecorded(server: Server, id: &str) -> Self {
        Self {
            server,
            id: id.to_owned(),
            recorded: None,
        }
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

/// All recorded calls, the latest first; only those of the server, if one was chosen.
pub(crate) async fn list(server: &Server) -> Result<Vec<RecordedCall>, JournalError> {
    let journal = open().await?;
    let filter = CallFilter {
        server: server.is_chosen().then(|| server.recorded()),
        ..CallFilter::default()
    };
    let mut calls = journal.list(filter).await?;
    let live = calls.iter_mut().filter(|call| call.state == CallState::Task);
    join_all(live.map(|call| refresh(&journal, call))).await;
    Ok(calls)
}

/// Asks the server of a recorded task for its status. A server that does not answer soon, or that would have to be started, is not asked.
async fn refresh(journal: &ClientJournal, call: &mut RecordedCall) {
    let server = servers::recorded(call);
    if server.is_child() {
        return;
    }
    let Some(task) = &call.task else { return };
    let Ok(connection) = server.connection(|options| options.request_timeout = STATUS_TIMEOUT) else {
        return;
    };
    if let Some(session) = &task.session {
        connection.resume(session).await;
    }
    let lost = match connection.task(&task.task_id).get().await {
        Ok(snapshot) => {
            call.status = Some(snapshot.status);
            journal.note_status(call.id, snapshot.status).await
        }
        Err(error) if error.is_unknown_task() => {
            let reason = "the server does not know the task any more";
            call.state = CallState::Lost {
                reason: reason.to_owned(),
            };
            journal.mark_lost(call.id, reason).await
        }
        Err(_) => return,
    };
    if let Err(error) = lost {
        warn(&error);
    }
}
