//! `longhaul call`: calls a tool and prints its result.

mod arguments;
mod display;
mod interrupt;
mod result;

pub(crate) use display::Display;
pub(crate) use interrupt::Interrupt;
pub(crate) use result::{Exit, print_outcome, rpc_error, value_or_text};

use crate::{args, nearest, output};
use longhaul_client::{CallResponse, Connection, OpenError, Options, Outcome, RequestError, TaskHandle, Tool};
use serde_json::json;
use std::process::ExitCode;

/// The options of this program's connections.
pub(crate) fn client_options() -> Options {
    Options::named("longhaul", env!("CARGO_PKG_VERSION"))
}

/// Calls the tool, waits, prints the result.
pub(crate) async fn run(call: &args::Call) -> ExitCode {
    match call_tool(call).await {
        Ok(exit) => exit,
        Err(failure) => failure.report(call.json),
    }
    .into()
}

async fn call_tool(call: &args::Call) -> Result<Exit, Failure> {
    let words = arguments::parse(&call.arguments).map_err(Failure::usage)?;
    let connection = Connection::open(&call.url, client_options()).await?;
    let tools = connection.list_tools().await?;
    let tool = find(&tools, &call.tool)?;
    let arguments = arguments::fit(words, &tool.input_schema).map_err(Failure::usage)?;

    let (mut display, mut interrupt) = (Display::new(), Interrupt::new());
    let called = interrupt
        .unless(connection.call_tool(tool, &arguments, &mut |event| display.show(&event)))
        .await;
    let Some(called) = called else {
        display.finish();
        output::note("interrupted before the server created a task; the call is cancelled");
        return Ok(Exit::Interrupted);
    };
    let outcome = match called {
        Ok(CallResponse::Done(outcome)) => outcome,
        Ok(CallResponse::Task(task)) => {
            display.note(&format!("task {} on {}", task.id(), call.url));
            match wait(&task, &mut display, &mut interrupt, call.json).await? {
                Some(outcome) => outcome,
                None => return Ok(Exit::Interrupted),
            }
        }
        Err(error) => {
            display.finish();
            if error.is_transient() && !matches!(error, RequestError::Unavailable { .. }) {
                output::note("the server may or may not have received the call; it was not sent again");
            }
            return Err(error.into());
        }
    };
    display.finish();
    connection.close().await;
    Ok(print_outcome(&outcome, call.json))
}

/// Waits for the task; `None` when the user pressed Ctrl-C. Then the command that waits for it again is printed.
pub(crate) async fn wait(
    task: &TaskHandle,
    display: &mut Display,
    interrupt: &mut Interrupt,
    json: bool,
) -> Result<Option<Outcome>, RequestError> {
    let outcome = interrupt.unless(task.wait(&mut |event| display.show(&event))).await;
    display.finish();
    if outcome.is_none() {
        let url = task.connection().address().to_string();
        output::note(&format!(
            "the task keeps running; to wait for it again:\n  {}",
            wait_command(&url, task.id())
        ));
        if json {
            output::json_line(&json!({"taskId": task.id(), "url": url, "interrupted": true}));
        }
    }
    outcome.transpose()
}

/// The command that waits for a task, quoted for a shell.
fn wait_command(url: &str, id: &str) -> String {
    format!("longhaul task {} {} --wait", shell_word(url), shell_word(id))
}

/// Quotes a word for a shell if needed.
fn shell_word(word: &str) -> String {
    let harmless = |char: char| char.is_ascii_alphanumeric() || "-_./:@%+=,".contains(char);
    if !word.is_empty() && word.chars().all(harmless) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn find<'a>(tools: &'a [Tool], name: &str) -> Result<&'a Tool, Failure> {
    tools.iter().find(|tool| tool.name == name).ok_or_else(|| {
        let hint = nearest::suggestion(name, tools.iter().map(|tool| tool.name.as_str()));
        Failure::usage(format!(
            "there is no tool `{name}`; {}",
            hint.as_deref().unwrap_or("the server has no tools")
        ))
    })
}

/// A command failed.
pub(crate) struct Failure {
    exit: Exit,
    message: String,
    /// The server's JSON-RPC error, for `--json`.
    error: Option<serde_json::Value>,
}

impl Failure {
    pub(crate) fn usage(message: impl ToString) -> Self {
        Self {
            exit: Exit::Usage,
            message: message.to_string(),
            error: None,
        }
    }

    /// Prints the failure; with `json`, also as JSON on standard output.
    pub(crate) fn report(self, json: bool) -> Exit {
        output::note(&format!("longhaul: {}", self.message));
        if json {
            let error = self.error.unwrap_or_else(|| json!({"message": self.message}));
            output::json_line(&json!({"error": error}));
        }
        self.exit
    }
}

impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Self {
        let message = error.to_string();
        match error {
            RequestError::Rpc(failure) | RequestError::Unavailable { failure, .. } => Self {
                exit: Exit::Refused,
                message,
                error: Some(rpc_error(&failure)),
            },
            _ => Self {
                exit: Exit::NoServer,
                message,
                error: None,
            },
        }
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

#[cfg(test)]
mod tests {
    use super::wait_command;

    #[test]
    fn the_wait_command_is_quoted_for_a_shell() {
        assert_eq!(
            wait_command("http://127.0.0.1:7411/mcp", "a-B_1"),
            "longhaul task http://127.0.0.1:7411/mcp a-B_1 --wait"
        );
        assert_eq!(
            wait_command("http://h/mcp?a=1&b=2", "it's"),
            r"longhaul task 'http://h/mcp?a=1&b=2' 'it'\''s' --wait"
        );
    }
}
