//! A call or a task, as it is listed.

use crate::{
    output::plain,
    servers::{self, Server},
};
use longhaul_client::{CallState, Finished, RecordedCall, TaskSnapshot, TaskStatus};
use longhaul_core::{UnixMillis, format_duration};
use serde_json::{Value, json};

/// The letters of a status message that are listed.
const SHOWN_MESSAGE: usize = 60;

/// A call that is recorded, or a task that a server lists.
pub(crate) struct Row {
    /// `None` if only the server knows the task.
    pub(crate) call: Option<RecordedCall>,
    /// For people.
    server: String,
    /// What the server told now.
    pub(crate) snapshot: Option<TaskSnapshot>,
    /// Why the server did not tell it.
    pub(crate) not_reached: Option<String>,
}

impl Row {
    pub(crate) fn recorded(call: RecordedCall) -> Self {
        Self {
            server: servers::recorded(&call).shown(),
            call: Some(call),
            snapshot: None,
            not_reached: None,
        }
    }

    pub(crate) fn listed(server: &Server, snapshot: TaskSnapshot) -> Self {
        Self {
            call: None,
            server: server.shown(),
            snapshot: Some(snapshot),
            not_reached: None,
        }
    }

    pub(crate) fn id(&self) -> Option<&str> {
        let task = self.call.as_ref().and_then(|call| call.task.as_ref());
        let listed = self.snapshot.as_ref().map(|task| task.id.as_str());
        task.map(|task| task.task_id.as_str()).or(listed)
    }

    /// Id, tool, state, age, server. The whole id, so that it can be copied.
    pub(crate) fn line(&self, now: UnixMillis) -> String {
        let age = self.call.as_ref().map_or_else(
            || "-".to_owned(),
            |call| {
                let age = now.0.saturating_sub(call.begun_at.0).max(0) as u64;
                format!("{} ago", format_duration(age - age % 1000))
            },
        );
        format!(
            "{}  {}  {}  {age}  {}",
            plain(self.id().unwrap_or("-"), ""),
            plain(self.tool().unwrap_or("-"), ""),
            self.state_with_message(),
            plain(&self.server, "")
        )
    }

    fn tool(&self) -> Option<&str> {
        self.call.as_ref().map(|call| call.tool.as_str())
    }

    fn state_with_message(&self) -> String {
        let state = self.state();
        let open = self.snapshot.as_ref().filter(|task| !task.status.is_final());
        let message = open.and_then(|task| task.message.as_deref()).unwrap_or_default();
        let message: String = plain(message, "").chars().take(SHOWN_MESSAGE).collect();
        match (message.is_empty(), &self.not_reached) {
            (_, Some(_)) => format!("{state} (not reached)"),
            (true, None) => state,
            (false, None) => format!("{state}: {message}"),
        }
    }

    fn status(&self) -> Option<TaskStatus> {
        let told = self.snapshot.as_ref().map(|task| task.status);
        told.or_else(|| self.call.as_ref()?.status)
    }

    /// Whether the task asks something.
    pub(crate) fn asks(&self) -> bool {
        match (&self.snapshot, &self.call) {
            (Some(task), _) => task.status == TaskStatus::InputRequired,
            (None, Some(call)) => call.asks,
            (None, None) => false,
        }
    }

    pub(crate) fn state(&self) -> String {
        let of_task = || match self.status() {
            Some(TaskStatus::InputRequired) => "asks".to_owned(),
            Some(status) => status.as_str().to_owned(),
            None => "working".to_owned(),
        };
        match self.call.as_ref().map(|call| &call.state) {
            None | Some(CallState::Task) => of_task(),
            Some(CallState::InFlight) => "being sent".to_owned(),
            Some(CallState::Interrupted) => match self.call.as_ref().is_some_and(|call| call.idempotency_key.is_some())
            {
                true => "interrupted: the same call again continues it, within a day".to_owned(),
                false => "outcome unknown: the program ended before there was an answer".to_owned(),
            },
            Some(CallState::Unknown { reason }) => format!("outcome unknown: {}", plain(reason, "")),
            Some(CallState::Lost { reason }) => format!("lost: {}", plain(reason, "")),
            Some(CallState::Finished(finished)) => match finished {
                Finished::Answered | Finished::Completed => "done".to_owned(),
                Finished::Failed => "failed".to_owned(),
                Finished::Cancelled => "cancelled".to_owned(),
                _ => "refused".to_owned(),
            },
            Some(_) => "unknown".to_owned(),
        }
    }

    pub(crate) fn as_json(&self) -> Value {
        let call = self.call.as_ref();
        // The status by its name in MCP.
        let state = match (call.map(|call| &call.state), self.status()) {
            (None | Some(CallState::Task), Some(status)) => status.as_str().to_owned(),
            _ => self.state(),
        };
        json!({
            "taskId": self.id(),
            "tool": self.tool(),
            "server": call.map_or(&self.server, |call| &call.server),
            "serverName": call.and_then(|call| call.server_name.as_ref()),
            "state": state,
            "statusMessage": self.snapshot.as_ref().and_then(|task| task.message.as_ref()),
            "asks": self.asks(),
            "notReached": self.not_reached,
            "recorded": call.is_some(),
            "idempotencyKey": call.and_then(|call| call.idempotency_key.as_ref()),
            "begunAt": call.map(|call| call.begun_at.0),
        })
    }
}
