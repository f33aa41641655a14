//! Where there is no client journal: nothing is recorded.

use crate::{failure::Failure, servers::Server};
use longhaul_client::{CallFilter, Connection, Finished, Outcome, RecordedCall, TaskHandle, TaskSnapshot, TaskStatus};
use serde_json::{Map, Value};

/// The record of one call.
pub(crate) struct Record;

impl Record {
    pub(crate) async fn begin(_: &Server, _: &Connection, _: &str, _: &Map<String, Value>, _: Option<String>) -> Self {
        Self
    }

    pub(crate) async fn acknowledge(&self, _: &TaskHandle) {}

    pub(crate) async fn note_question(&self) {}

    pub(crate) async fn finish(&self, _: Finished) {}

    pub(crate) async fn mark_unknown(&self, _: &str) {}
}

pub(crate) fn finished(outcome: &Outcome) -> Finished {
    match outcome {
        Outcome::Cancelled => Finished::Cancelled,
        Outcome::Result { .. } | Outcome::RpcError(_) => Finished::Completed,
    }
}

/// A task that a command names.
pub(crate) struct Named {
    pub(crate) server: Server,
    pub(crate) id: String,
}

impl Named {
    pub(crate) async fn find(server: Server, id: &str) -> Result<Self, Failure> {
        let id = id.to_owned();
        Ok(Self { server, id })
    }

    pub(crate) async fn only(_: Server, command: &str) -> Result<Self, Failure> {
        Err(Failure::usage(format!("name a task: longhaul {command} [SERVER] ID")))
    }

    pub(crate) async fn live(_: &Server) -> Vec<Self> {
        Vec::new()
    }

    pub(crate) fn call(&self) -> Option<&RecordedCall> {
        None
    }

    pub(crate) async fn resume(&self, _: &Connection) {}

    pub(crate) async fn note(&self, _: &TaskSnapshot) {}

    pub(crate) async fn finish(&self, _: Finished) {}

    pub(crate) fn keeps_session(&self) -> bool {
        false
    }
}

pub(crate) async fn note_status(_: &mut RecordedCall, _: TaskStatus) {}

pub(crate) async fn mark_lost(_: &mut RecordedCall) {}

pub(crate) async fn list(_: CallFilter) -> Result<Vec<RecordedCall>, String> {
    Err("calls are recorded on Unix only".to_owned())
}
