//! A client command failed.

use crate::{
    config::{ConfigError, EXIT_INVALID},
    exit::result::{Exit, rpc_error},
    output::{
        self,
        kinds::{FAILED, INVALID_OUTPUT, LOST, OUTCOME_UNKNOWN, UNANSWERED, UNREACHABLE},
    },
    servers::{ServerError, is_on_this_machine},
};
use longhaul_client::{CallError, Finished, JournalError, OpenError, PendingCall, RequestError, TokenError};
use serde_json::json;
use std::process::ExitCode;

/// How the system says that nobody listens.
const REFUSED: &str = "Connection refused";

/// A command failed.
pub(crate) struct Failure {
    exit: Exit,
    /// A fixed word for the cause, for `--json`.
    kind: &'static str,
    message: String,
    /// The server's JSON-RPC error, for `--json`.
    error: Option<Box<serde_json::Value>>,
    /// Whether the call may have run, if this is the failure of one.
    may_have_run: Option<bool>,
    /// The task that was waited for, which may go on.
    task: Option<String>,
    /// Whether the message says more than the server's error.
    is_explained: bool,
    /// Whether a question was answered elsewhere, or withdrawn.
    is_withdrawn: bool,
}

impl Failure {
    pub(crate) fn usage(message: impl ToString) -> Self {
        Self {
            exit: Exit::Usage,
            kind: "usage",
            message: message.to_string(),
            error: None,
            may_have_run: None,
            task: None,
            is_explained: false,
            is_withdrawn: false,
        }
    }

    pub(crate) fn refused(message: String) -> Self {
        Self {
            exit: Exit::Refused,
            kind: "refused",
            message,
            error: None,
            may_have_run: None,
            task: None,
            is_explained: false,
            is_withdrawn: false,
        }
    }

    /// A call asks before it is a task, and there is nobody to ask.
    pub(crate) fn asked_before_task(question: &str) -> Self {
        Self::unanswered(format!(
            "the tool asks before there is a task, which only a call on a terminal, without --batch, can answer; the call is cancelled: {question}"
        ))
    }

    /// What was asked has no answer. The tool has run as far as to its question.
    pub(crate) fn unanswered(message: String) -> Self {
        Self::refused(message).of_kind(UNANSWERED).with_run(true)
    }

    /// A call that an earlier command has made may have run.
    pub(crate) fn outcome_unknown(reason: &str) -> Self {
        let message = format!("the call was made before and may have run, so it is not made again: {reason}");
        Self::no_server(message).of_kind(OUTCOME_UNKNOWN).with_run(true)
    }

    /// The same of a call that a batch does not make again by itself, since it may have run and has no answer. One whose task is lost says so already.
    pub(crate) fn left_unknown(self) -> Self {
        match self.kind {
            LOST => self,
            _ => Self {
                exit: Exit::NoServer,
                ..self.of_kind(OUTCOME_UNKNOWN).with_run(true)
            },
        }
    }

    /// How the call of an earlier run has failed that ended like this; nothing for those with a result, and for cancelled ones.
    pub(crate) fn ended_before(finished: Finished, had_task: bool) -> Option<Self> {
        Some(match finished {
            Finished::Failed if had_task => Self::refused("the task failed before, without a result".to_owned())
                .of_kind(FAILED)
                .with_run(true),
            Finished::Failed => {
                Self::refused("the call was made before, and answered with an error".to_owned()).with_run(true)
            }
            Finished::InvalidOutput => Self::refused(
                "the call was made before, and its result does not fit the tool's output schema".to_owned(),
            )
            .of_kind(INVALID_OUTPUT)
            .with_run(true),
            Finished::Unanswered => Self::unanswered(
                "the call was made before, asked, and was not answered, so it is not made again".to_owned(),
            ),
            _ => return None,
        })
    }

    /// The server answered with what no MCP server says.
    pub(crate) fn no_server(message: String) -> Self {
        Self {
            exit: Exit::NoServer,
            kind: UNREACHABLE,
            message,
            error: None,
            may_have_run: None,
            task: None,
            is_explained: false,
            is_withdrawn: false,
        }
    }

    /// The same, with what is to be said first.
    pub(crate) fn explained(self, first: &str) -> Self {
        Self {
            message: format!("{first}: {}", self.message),
            is_explained: true,
            ..self
        }
    }

    /// The same, with what to do about it.
    pub(crate) fn with_advice(self, advice: &str) -> Self {
        Self {
            message: format!("{}; {advice}", self.message),
            is_explained: true,
            ..self
        }
    }

    /// The time of `--timeout` is over before anything could be called.
    pub(crate) fn timed_out(message: &str) -> Self {
        Self {
            exit: Exit::TimedOut,
            kind: "timed_out",
            ..Self::usage(message)
        }
    }

    /// A signal has ended the command before anything could be called.
    pub(crate) fn interrupted(exit: Exit, message: &str) -> Self {
        Self {
            exit,
            kind: "interrupted",
            ..Self::usage(message)
        }
    }

    /// The failure of a call that was sent.
    pub(crate) fn of_sent(call: &PendingCall, error: RequestError) -> Self {
        let may_have_run = call.may_have_run(&error);
        Self::from(error).with_run(may_have_run)
    }

    /// Whether nothing was sent, because the server was not reached or the command has ended: then a call that it would have continued may run all the same.
    pub(crate) fn is_before_call(&self) -> bool {
        self.may_have_run.is_none() && self.exit != Exit::Usage
    }

    /// The failure of a call, which has not run unless that is said already.
    pub(crate) fn of_call(self) -> Self {
        let may_have_run = self.may_have_run.unwrap_or_default();
        self.with_run(may_have_run)
    }

    /// The same, with whether the call may have run.
    pub(crate) fn with_run(self, may_have_run: bool) -> Self {
        Self {
            may_have_run: Some(may_have_run),
            ..self
        }
    }

    /// The same, with the task that it is about.
    pub(crate) fn of_task(self, id: &str) -> Self {
        Self {
            task: Some(id.to_owned()),
            ..self
        }
    }

    /// The same, of a question that was answered elsewhere, or withdrawn: others may be open.
    pub(crate) fn withdrawn(self) -> Self {
        Self {
            is_withdrawn: true,
            ..self
        }
    }

    pub(crate) fn is_withdrawn(&self) -> bool {
        self.is_withdrawn
    }

    /// The same, with another word for its cause.
    pub(crate) fn of_kind(self, kind: &'static str) -> Self {
        Self { kind, ..self }
    }

    /// The word for its cause.
    pub(crate) fn kind(&self) -> &'static str {
        self.kind
    }

    /// The exit status of it.
    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    /// The server's JSON-RPC error, with what is to be said about it, else the message; with the kind.
    pub(crate) fn as_json(&self) -> serde_json::Value {
        let message = || json!({"message": self.message});
        let mut shown = self.error.as_deref().cloned().unwrap_or_else(message);
        if self.error.is_some() && self.is_explained {
            shown["explanation"] = self.message.as_str().into();
        }
        shown["kind"] = self.kind.into();
        if let Some(may_have_run) = self.may_have_run {
            shown["mayHaveRun"] = may_have_run.into();
        }
        if let Some(task) = &self.task {
            shown["taskId"] = task.as_str().into();
        }
        shown
    }

    /// Prints the failure; with `json`, also as JSON on standard output.
    pub(crate) fn report(self, json: bool) -> Exit {
        output::note(&format!("longhaul: {}", self.message));
        if json {
            output::json_line(&json!({"error": self.as_json()}));
        }
        self.exit
    }
}

/// A command that works with files and asks no server has failed: prints why. The exit status is 2 if it was not used as it should be, else 1.
pub(crate) fn report_local(error: &impl std::fmt::Display, is_usage: bool, json: bool) -> ExitCode {
    output::note(&format!("longhaul: {error}"));
    local(error, is_usage, json)
}

/// The same of an error of its configuration, which names the file.
pub(crate) fn report_config(error: &ConfigError, json: bool) -> ExitCode {
    output::note(&error.to_string());
    local(error, true, json)
}

fn local(error: &impl std::fmt::Display, is_usage: bool, json: bool) -> ExitCode {
    let (kind, exit) = match is_usage {
        true => ("usage", ExitCode::from(EXIT_INVALID)),
        false => (FAILED, ExitCode::FAILURE),
    };
    if json {
        output::json_line(&json!({"error": {"kind": kind, "message": error.to_string()}}));
    }
    exit
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

/// The command that helps where a token is missing.
fn way_on(error: &TokenError, address: &str) -> Option<String> {
    let by_key = || format!("keep a key with `longhaul login --key {address}`");
    Some(match error {
        TokenError::LoginRequired {
            names_issuers: true, ..
        } => format!("log in with `longhaul login {address}`"),
        TokenError::LoginRequired { .. } => format!("log in with `longhaul login {address}`, or {}", by_key()),
        TokenError::NoIssuer => format!("if it takes keys, {}", by_key()),
        TokenError::NoRegistration => "ask its operator for a client id, and give it with `--client-id`".to_owned(),
        TokenError::InvalidClient { .. } => format!(
            "check `--client-id` and `--client-secret-file` if you gave them, else run `longhaul logout {address}` and log in again"
        ),
        TokenError::NotGranted { .. } => {
            format!("once it does, log in again with `longhaul login {address}`")
        }
        TokenError::InvalidScope { .. } => "name what to ask for with `--scope`".to_owned(),
        _ => return None,
    })
}

/// The same cause has the same word in every command.
fn kind_of(error: &RequestError) -> &'static str {
    match error {
        RequestError::Unavailable { .. }
        | RequestError::Token {
            error: TokenError::Unavailable { .. },
            ..
        } => "unavailable",
        RequestError::Token {
            error: TokenError::TokenFile { .. },
            ..
        } => "token_file",
        RequestError::Token {
            error: TokenError::NotGranted { .. },
            ..
        } => "refused",
        RequestError::Token { .. } | RequestError::Unauthorized { .. } => "login_required",
        RequestError::Rpc(_)
        | RequestError::NotAsked { .. }
        | RequestError::PageRequired { .. }
        | RequestError::LostWithSession
        | RequestError::InvalidTaskId
        | RequestError::InputRequired { .. }
        | RequestError::NoDeletion
        | RequestError::NoCancellationByKey
        | RequestError::Http { status: 403 | 413, .. } => "refused",
        RequestError::Http {
            status: 408 | 429 | 500..,
            ..
        } => "unavailable",
        RequestError::LostTask { error, .. } => kind_of(error),
        RequestError::NoResult { error, .. } => match **error {
            RequestError::Rpc(_) => LOST,
            ref other => kind_of(other),
        },
        RequestError::InvalidAnswer { .. } => "usage",
        RequestError::InvalidOutput { .. } => INVALID_OUTPUT,
        RequestError::Invalid(_)
        | RequestError::UnknownRevision { .. }
        | RequestError::AsksAgain { .. }
        | RequestError::UnexpectedTask { .. }
        | RequestError::TooLarge { .. }
        | RequestError::Http { .. } => "invalid_answer",
        RequestError::Unanswered { .. } => UNANSWERED,
        RequestError::TimedOut { .. } => "timed_out",
        RequestError::CancelledElsewhere => "cancelled",
        _ => UNREACHABLE,
    }
}

impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Self {
        let message = error.to_string();
        let kind = kind_of(&error);
        match error {
            RequestError::Rpc(failure) => Self {
                exit: Exit::Refused,
                kind,
                message,
                error: Some(Box::new(rpc_error(&failure))),
                may_have_run: None,
                task: None,
                is_explained: false,
                is_withdrawn: false,
            },
            // As without a JSON-RPC error.
            RequestError::Unavailable { failure, .. } => Self {
                exit: Exit::NoServer,
                kind,
                message,
                error: Some(Box::new(rpc_error(&failure))),
                may_have_run: None,
                task: None,
                is_explained: false,
                is_withdrawn: false,
            },
            RequestError::InvalidOutput { result, .. } => Self {
                exit: Exit::Refused,
                kind,
                error: Some(Box::new(json!({
                    "message": message,
                    "result": serde_json::from_str::<serde_json::Value>(result.as_str()).ok(),
                }))),
                message: format!("{message}; --json prints the result"),
                may_have_run: None,
                task: None,
                is_explained: false,
                is_withdrawn: false,
            },
            RequestError::NoResult { error, .. } if matches!(*error, RequestError::Rpc(_)) => {
                Self::refused(message).of_kind(kind).with_run(true)
            }
            // Whoever reads a task says that it is lost.
            RequestError::LostTask { error, .. } => (*error).into(),
            RequestError::Unreachable { address, reason, .. }
                if reason.starts_with(REFUSED) && is_on_this_machine(&address) =>
            {
                Self::no_server(message).with_advice("no server runs there: start it with `longhaul serve FILE`")
            }
            RequestError::InvalidAnswer { error, .. } => Self::usage(format!("{error}; nothing was answered")),
            RequestError::Unanswered { .. } => Self::unanswered(message),
            RequestError::CancelledElsewhere => Self {
                exit: Exit::Cancelled,
                ..Self::refused(message).of_kind(kind)
            },
            RequestError::Token {
                error: TokenError::Unavailable { .. },
                ..
            } => Self::no_server(message).of_kind(kind),
            RequestError::Token {
                error: TokenError::TokenFile { .. },
                ..
            } => Self::usage(message).of_kind(kind),
            RequestError::Token { error, address } => Self::refused(match way_on(&error, &address) {
                Some(way_on) => format!("{message}; {way_on}"),
                None => message,
            })
            .of_kind(kind),
            RequestError::Unauthorized { .. }
            | RequestError::Http { status: 403 | 413, .. }
            | RequestError::NotAsked { .. }
            | RequestError::PageRequired { .. }
            | RequestError::InvalidTaskId
            | RequestError::NoDeletion
            | RequestError::NoCancellationByKey
            | RequestError::InputRequired { .. }
            | RequestError::LostWithSession => Self::refused(message).of_kind(kind),
            _ => Self {
                exit: Exit::NoServer,
                kind,
                message,
                error: None,
                may_have_run: None,
                task: None,
                is_explained: false,
                is_withdrawn: false,
            },
        }
    }
}

impl From<ServerError> for Failure {
    fn from(error: ServerError) -> Self {
        Self::usage(error)
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Address(error) => Self::usage(error),
            OpenError::Request(error) => error.into(),
        }
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Request(error) | CallError::Task { error, .. } => error.into(),
            CallError::Journal(error) => error.into(),
            unknown @ CallError::OutcomeUnknown { .. } => Self::no_server(unknown.to_string())
                .of_kind(OUTCOME_UNKNOWN)
                .with_run(true),
            other => Self::usage(other),
        }
    }
}

impl From<JournalError> for Failure {
    fn from(error: JournalError) -> Self {
        if let JournalError::InvalidAnswer(error) = error {
            return Self::usage(format!("{error}; nothing was answered"));
        }
        Self::usage(format!(
            "the client journal cannot be used, and nothing was sent: {error}"
        ))
        .of_kind("journal")
    }
}
