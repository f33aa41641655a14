//! `longhaul call`: calls a tool and prints its result.

use crate::{
    args,
    arguments::{self, ArgumentError},
    ask::{Asking, Unasked},
    batch,
    failure::Failure,
    interrupt::Interrupt,
    json_text::{self, TextError},
    listings, nearest, output,
    record::Record,
    result::{Exit, print_outcome},
    servers::{self, Server},
    waiting::{Display, Ended, Waiting, what_goes_on},
};
use longhaul_client::{CallOptions, CallResponse, Connection, Event, Finished, RequestError, TaskHandle, Tool};
use serde_json::{Map, Value, json};
use std::{
    fs,
    io::{self, Read},
    path::Path,
    process::ExitCode,
    time::Duration,
};

/// Calls the tool, waits, prints the result.
pub(crate) async fn run(call: &args::Call) -> ExitCode {
    match choose_and_call(call).await {
        Ok(exit) => exit,
        Err(failure) => failure.report(call.json),
    }
    .into()
}

async fn choose_and_call(call: &args::Call) -> Result<Exit, Failure> {
    if let Some(file) = &call.batch {
        return batch::run(call, file).await;
    }
    let (server, words) = servers::choose(&call.server, &call.words)?;
    let Some((tool, words)) = words.split_first() else {
        return listings::list_tools(&server, call.json).await;
    };
    let words = arguments::parse(words).map_err(|error| match error {
        ArgumentError::NoValue(_) => Failure::usage(format!(
            "{error}. `{tool}` was taken for the tool, since no server of that name is configured"
        )),
        other => Failure::usage(other),
    })?;
    let whole = call.input.as_deref().map(read_input).transpose()?.unwrap_or_default();
    let (asking, unasked) = Asking::new();
    let connection = server.connection(|options| options.inputs = Some(asking.clone()))?;
    let called = Called {
        server: &server,
        connection: &connection,
        display: Display::new(),
        interrupt: Interrupt::new(),
        unasked,
        json: call.json,
    };
    asking.hides(called.display.bar());
    let exit = called.call(call, tool, words, whole).await;
    // A session must not end while a task of it lives.
    let is_over = match exit {
        Ok(Exit::Answered) => !call.detach,
        Ok(Exit::AnsweredAtOnce | Exit::ToolError | Exit::Cancelled | Exit::Refused) => true,
        _ => false,
    };
    if is_over || server.is_child() {
        connection.close().await;
    }
    exit
}

/// A call, and what is shown of it.
struct Called<'a> {
    server: &'a Server,
    connection: &'a Connection,
    display: Display,
    interrupt: Interrupt,
    unasked: Unasked,
    json: bool,
}

impl Called<'_> {
    async fn call(
        mut self,
        call: &args::Call,
        tool: &str,
        words: arguments::Words,
        whole: Map<String, Value>,
    ) -> Result<Exit, Failure> {
        let listing = self.connection.list_tools();
        let tools = self.display.waits_for(self.connection.address(), listing).await?;
        let tool = find(&tools, tool)?;
        let arguments = arguments::fit(words, whole, &tool.input_schema).map_err(Failure::usage)?;
        if call.detach && !self.connection.can_be_task(tool).await? {
            let reason = format!(
                "`{}` cannot become a task on this server; nothing was called",
                tool.name
            );
            return Err(Failure::usage(reason));
        }
        let mut options = CallOptions::default();
        options.idempotency_key.clone_from(&call.idempotency_key);
        if call.idempotency_key.is_some() && !self.connection.server().await?.takes_idempotency_keys() {
            let reason = "this server does not declare idempotency keys, so it would ignore --idempotency-key; nothing was called";
            return Err(Failure::usage(reason));
        }
        let limit = call.timeout.map(Duration::from_millis);
        let record = Record::begin(
            self.server,
            self.connection,
            &tool.name,
            &arguments,
            call.idempotency_key.clone(),
        )
        .await;
        let response = {
            let display = &mut self.display;
            let mut show = |event: Event<'_>| display.show(&event);
            let calling = self.connection.call_tool_with(tool, &arguments, &options, &mut show);
            Ended::first(calling, &mut self.interrupt, &mut self.unasked, limit).await
        };
        let task = match response {
            Ended::Done(Ok(CallResponse::Done(outcome))) => {
                self.display.finish();
                let exit = print_outcome(&outcome, self.json);
                record.finish(Finished::Answered).await;
                return Ok(if call.detach && exit == Exit::Answered {
                    Exit::AnsweredAtOnce
                } else {
                    exit
                });
            }
            Ended::Done(Ok(CallResponse::Task(task))) => task,
            Ended::Done(Err(error)) => {
                self.display.finish();
                if error.is_transient() && !matches!(error, RequestError::Unavailable { .. }) {
                    output::note("the server may or may not have received the call; it was not sent again");
                }
                if is_refusal(&error) {
                    record.finish(Finished::Refused).await;
                } else {
                    record.mark_unknown(&error.to_string()).await;
                }
                return Err(error.into());
            }
            Ended::Interrupted | Ended::TimedOut => {
                let exit = response.exit();
                self.display.finish();
                let what = response.what();
                record.mark_unknown(what).await;
                output::note(&format!(
                    "{what} before the server created a task; the call is no longer waited for, and may have run"
                ));
                return Ok(exit);
            }
            Ended::Asked(question) => {
                self.display.finish();
                record.finish(Finished::Cancelled).await;
                let reason = format!(
                    "the tool asks before there is a task, and it was not answered; the call is cancelled: {}",
                    question.message()
                );
                return Err(Failure::refused(reason));
            }
        };
        record.acknowledge(&task).await;
        if call.detach {
            self.display.finish();
            print_task(self.server, &task, self.json);
            return Ok(Exit::Answered);
        }
        self.display
            .note(&format!("task {} on {}", task.id(), self.connection.address()));
        let mut waiting = Waiting {
            server: self.server,
            display: &mut self.display,
            interrupt: &mut self.interrupt,
            unasked: &mut self.unasked,
            json: self.json,
        };
        let waited = waiting.wait(&task, limit).await?;
        match waited.finished {
            Some(finished) => record.finish(finished).await,
            None if waited.exit == Exit::Asks => record.note_question().await,
            None => {}
        }
        Ok(waited.exit)
    }
}

/// Whether the error says that the tool has not run. Any other response may come after it has.
fn is_refusal(error: &RequestError) -> bool {
    matches!(
        error,
        RequestError::Rpc(_)
            | RequestError::Unavailable { .. }
            | RequestError::NotStarted { .. }
            | RequestError::Certificate { .. }
            | RequestError::Setup(_)
            | RequestError::Unanswered { .. }
    )
}

/// Prints the id of a task that is not waited for.
fn print_task(server: &Server, task: &TaskHandle, json: bool) {
    if json {
        output::json_line(&json!({"taskId": task.id(), "url": task.connection().address()}));
    } else {
        output::text(task.id());
    }
    output::note(&format!(
        "{}; to wait for it:\n  {}",
        what_goes_on(server),
        server.command_line("task", &[task.id(), "--wait"])
    ));
}

/// Reads a JSON object from a file, or from standard input.
fn read_input(file: &Path) -> Result<Map<String, Value>, Failure> {
    let wrong = |reason: &dyn std::fmt::Display| Failure::usage(format!("--input {}: {reason}", file.display()));
    let mut text = String::new();
    let read = match file.as_os_str() == "-" {
        true => io::stdin().read_to_string(&mut text).map(drop),
        false => fs::read_to_string(file).map(|read| text = read),
    };
    read.map_err(|error| wrong(&error))?;
    json_text::read(&text).map_err(|error| match error {
        TextError::NotJson(reason) => wrong(&format_args!("it must be a JSON object: {reason}")),
        TextError::TooLarge(_) => wrong(&error),
    })
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
