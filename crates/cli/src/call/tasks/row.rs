//! A call or a task, as it is listed.

use crate::{
    output::{self, fraction, plain, states, timestamp::timestamp},
    servers::{self, Server},
};
use longhaul_client::{CallId, CallState, Finished, Outcome, RecordedCall, RequestError, TaskSnapshot, TaskStatus};
use longhaul_core::{UnixMillis, approximate_duration};
use serde_json::{Value, json};

/// The letters of a status message that are listed.
const SHOWN_MESSAGE: usize = 60;

/// Why a completed task or call has not succeeded.
const WITH_ERROR: &str = "with an error of the tool";

/// The same, if the server has told the result.
fn told_error(task: &TaskSnapshot) -> Option<&'static str> {
    matches!(&task.outcome, Some(Outcome::Result { is_error: true, .. })).then_some(WITH_ERROR)
}

/// What a call that is no task is called on the command line.
const CALL: &str = "call-";

/// The name of a call that is no task: it has no id of the server.
pub(crate) fn call_name(call: CallId) -> String {
    format!("{CALL}{}", call.number())
}

/// What commands take for it: the id of its task, else its name.
pub(crate) fn name_of(call: &RecordedCall) -> String {
    match &call.task {
        Some(task) => task.task_id.clone(),
        None => call_name(call.id),
    }
}

/// The call of this name.
pub(crate) fn call_number(name: &str) -> Option<CallId> {
    name.strip_prefix(CALL)?.parse().ok().map(CallId::from_number)
}

/// A call that is recorded, or a task that a server lists.
pub(crate) struct TaskRow {
    /// `None` if only the server knows the task.
    pub(crate) call: Option<RecordedCall>,
    /// For people.
    server: String,
    /// What the server told now.
    pub(crate) snapshot: Option<TaskSnapshot>,
    /// Why the server did not tell it.
    pub(crate) not_told: Option<NotTold>,
}

/// Why a server did not tell how a task stands.
pub(crate) struct NotTold {
    pub(crate) reason: String,
    /// In two words, for lists.
    pub(crate) short: &'static str,
}

impl NotTold {
    pub(crate) fn unreached(reason: &str) -> Self {
        Self {
            reason: reason.to_owned(),
            short: "not reached",
        }
    }

    /// It would have to be started.
    pub(crate) fn not_asked() -> Self {
        Self {
            reason: "its server is a child process, which is asked only if it is named".to_owned(),
            short: "not asked",
        }
    }

    pub(crate) fn because(error: &RequestError) -> Self {
        let short = match error {
            RequestError::Invalid(_) | RequestError::TooLarge { .. } => "invalid answer",
            RequestError::Rpc(_) => "refused",
            RequestError::Unauthorized { .. } | RequestError::Token { .. } => "login required",
            _ => "not reached",
        };
        Self {
            reason: error.to_string(),
            short,
        }
    }
}

impl TaskRow {
    pub(crate) fn recorded(call: RecordedCall) -> Self {
        Self {
            server: servers::recorded(&call).shown(),
            call: Some(call),
            snapshot: None,
            not_told: None,
        }
    }

    pub(crate) fn listed(server: &Server, snapshot: TaskSnapshot) -> Self {
        Self {
            call: None,
            server: server.shown(),
            snapshot: Some(snapshot),
            not_told: None,
        }
    }

    /// Whether the server has forgotten the task, as far as it is recorded.
    pub(crate) fn is_lost(&self) -> bool {
        let call = self.call.as_ref();
        call.is_some_and(|call| matches!(call.state, CallState::Lost { .. }))
    }

    /// Whether the task has ended, as far as is known. It stays so whatever its server tells.
    pub(crate) fn has_ended(&self) -> bool {
        self.status().is_some_and(TaskStatus::is_final)
    }

    pub(crate) fn id(&self) -> Option<&str> {
        let task = self.call.as_ref().and_then(|call| call.task.as_ref());
        let listed = self.snapshot.as_ref().map(|task| task.id.as_str());
        task.map(|task| task.task_id.as_str()).or(listed)
    }

    /// What commands take: the id of the task, or the name of a call that is no task and has not ended.
    pub(crate) fn shown_id(&self) -> String {
        match (self.id(), &self.call) {
            (Some(id), _) => output::id(id).into_owned(),
            (None, _) => self.call_name().unwrap_or_else(|| "-".to_owned()),
        }
    }

    /// The name of a call that is no task, and can be shown, answered or cancelled.
    fn call_name(&self) -> Option<String> {
        let call = self.call.as_ref().filter(|call| call.task.is_none())?;
        let is_open = match call.state {
            CallState::InFlight | CallState::Interrupted => true,
            // By its key it can be cancelled at its server.
            CallState::Unknown { .. } => self.has_key(),
            _ => false,
        };
        is_open.then(|| call_name(call.id))
    }

    /// For people: the server's name, URL or command line.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// Id, tool, state, age, server. The whole id, so that it can be copied.
    pub(crate) fn line(&self, now: UnixMillis) -> String {
        let age = self.call.as_ref().map_or_else(
            || "-".to_owned(),
            |call| {
                let age = now.0.saturating_sub(call.begun_at.0).max(0) as u64;
                format!("{} ago", approximate_duration(age - age % 1000))
            },
        );
        let state = match (self.detail(), &self.not_told) {
            (_, Some(why)) => format!("{} ({})", self.state_with_reason(), why.short),
            (Some(detail), None) => format!("{}: {detail}", self.state().0),
            (None, None) => self.state().0,
        };
        format!(
            "{}  {}  {}  {age}  {}",
            plain(&self.shown_id(), ""),
            plain(self.tool().unwrap_or("-"), ""),
            plain(&state, ""),
            plain(&self.server, "")
        )
    }

    pub(crate) fn tool(&self) -> Option<&str> {
        self.call.as_ref().map(|call| call.tool.as_str())
    }

    /// The status message of a task that has not ended.
    fn message(&self) -> Option<&str> {
        let open = self.snapshot.as_ref().filter(|task| !task.status.is_final());
        open.and_then(states::detail)
    }

    /// What is to be said beside the state: why, or the beginning of the status message.
    pub(crate) fn detail(&self) -> Option<String> {
        let reason = self.state().1;
        reason.or_else(|| Some(self.message()?.chars().take(SHOWN_MESSAGE).collect()))
    }

    /// How far the task is, as far as its status message says that in numbers.
    pub(crate) fn fraction(&self) -> Option<f64> {
        fraction::fraction_in(self.message()?)
    }

    fn status(&self) -> Option<TaskStatus> {
        let told = self.snapshot.as_ref().map(|task| task.status);
        told.or_else(|| self.call.as_ref()?.status)
    }

    /// Whether the task asks something.
    pub(crate) fn asks(&self) -> bool {
        match (&self.snapshot, &self.call) {
            // Some legacy servers ask while the task is `working`: then the journal knows.
            (Some(task), Some(call)) if !task.status.is_final() => {
                task.status == TaskStatus::InputRequired || call.asks
            }
            (Some(task), _) => task.status == TaskStatus::InputRequired,
            (None, Some(call)) => call.asks,
            (None, None) => false,
        }
    }

    /// The state in a word or two, and why it is that.
    pub(crate) fn state(&self) -> (String, Option<String>) {
        let of_task = || match &self.snapshot {
            Some(task) => states::of_snapshot(task),
            None => states::of_task(self.status().unwrap_or(TaskStatus::Working)),
        };
        let (state, reason) = match self.call.as_ref().map(|call| &call.state) {
            None | Some(CallState::Task | CallState::InFlight) if self.asks() => {
                (states::of_task(TaskStatus::InputRequired), None)
            }
            None | Some(CallState::Task) => (of_task(), self.snapshot.as_ref().and_then(told_error)),
            Some(CallState::InFlight) => ("being sent", None),
            Some(CallState::Interrupted) => match self.has_key() {
                true => ("interrupted", Some("the same call again continues it, within a day")),
                false => ("outcome unknown", Some("the program ended before there was an answer")),
            },
            Some(CallState::Unknown { reason }) => ("outcome unknown", Some(reason.as_str())),
            Some(CallState::Lost { reason }) => ("lost", Some(reason.as_str())),
            Some(CallState::Finished(finished)) => (
                states::of_finished(*finished),
                match finished {
                    Finished::ToolError => Some(WITH_ERROR),
                    Finished::InvalidOutput => Some("the result does not fit the tool's output schema"),
                    _ => None,
                },
            ),
            Some(_) => ("unknown", None),
        };
        (state.to_owned(), reason.map(str::to_owned))
    }

    /// Whether it has not ended, as far as that is known.
    pub(crate) fn is_open(&self) -> bool {
        match self.call.as_ref().map(|call| &call.state) {
            None | Some(CallState::Task) => !self.status().is_some_and(TaskStatus::is_final),
            Some(CallState::InFlight) => true,
            // The same call continues it, and `cancel` ends it.
            Some(CallState::Interrupted) => self.has_key(),
            Some(_) => false,
        }
    }

    /// Whether it is a call that was made under an idempotency key.
    fn has_key(&self) -> bool {
        self.call.as_ref().is_some_and(|call| call.idempotency_key.is_some())
    }

    /// Whether it is a call that was answered and had no task.
    pub(crate) fn is_ended_call(&self) -> bool {
        let call = self.call.as_ref().filter(|call| call.task.is_none());
        call.is_some_and(|call| matches!(call.state, CallState::Finished(_)))
    }

    fn state_with_reason(&self) -> String {
        match self.state() {
            (state, Some(reason)) => format!("{state}: {}", plain(&reason, "")),
            (state, None) => state,
        }
    }

    /// Whether the result is an error of the tool; `None` without a result, or if that is not known.
    fn is_error(&self) -> Option<bool> {
        match (self.call.as_ref().map(|call| &call.state), &self.snapshot) {
            (Some(CallState::Finished(Finished::ToolError)), _) => Some(true),
            (Some(CallState::Finished(Finished::Answered | Finished::Completed)), _) => Some(false),
            (_, Some(task)) => states::is_error(task),
            _ => None,
        }
    }

    pub(crate) fn as_json(&self) -> Value {
        let call = self.call.as_ref();
        // The status by its name in MCP.
        let (state, detail) = match call.map(|call| &call.state) {
            None | Some(CallState::Task) => {
                let told = self.snapshot.as_ref().map(states::in_mcp);
                let recorded = self.status().unwrap_or(TaskStatus::Working).as_str();
                (told.unwrap_or(recorded).to_owned(), self.state().1)
            }
            Some(CallState::Finished(finished)) => (states::finished_in_mcp(*finished).to_owned(), self.state().1),
            _ => self.state(),
        };
        json!({
            "taskId": self.id(),
            "call": self.call_name(),
            "tool": self.tool(),
            "server": call.map_or_else(|| self.server.as_str().into(), |call| servers::as_json(&call.server)),
            "serverFolder": call.and_then(|call| servers::recorded_folder(&call.server)),
            "serverName": call.and_then(|call| call.server_name.as_ref()),
            "state": state,
            "status": self.snapshot.as_ref().map(states::in_mcp),
            "detail": detail,
            "isError": self.is_error(),
            "statusMessage": self.snapshot.as_ref().and_then(|task| task.message.as_ref()),
            "asks": self.asks(),
            "notReached": self.not_told.as_ref().map(|why| &why.reason),
            "recorded": call.is_some(),
            "idempotencyKey": call.and_then(|call| call.idempotency_key.as_ref()),
            "begunAt": call.map(|call| timestamp(call.begun_at)),
        })
    }
}
