//! `longhaul call --batch`: the calls of a file, several at once.

mod bars;
mod file;
mod open_questions;

use crate::{
    args,
    failure::Failure,
    interrupt::Interrupt,
    output, record,
    result::{self, Exit},
    servers::{self, Server},
    waiting::{self, with_notice},
};
use bars::Bars;
use file::{BatchFile, Line};
use futures_util::{StreamExt, stream};
use longhaul_client::{
    CallError, CallOptions, CallResponse, Client, Event, JournalError, Outcome, RecordedCall, RequestError, TaskHandle,
    TaskStatus, Tool,
};
use open_questions::OpenQuestions;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};
use tokio::sync::Notify;

/// Checks every line of the file, and then makes the calls. Results are printed in the order in which the calls end.
pub(crate) async fn run(call: &args::Call, file: &Path) -> Result<Exit, Failure> {
    let (server, words) = servers::choose(&call.server, &call.words)?;
    let tool = match words {
        [] => None,
        [tool] => Some(tool.as_str()),
        [_, more, ..] => {
            return Err(Failure::usage(format!(
                "with --batch all arguments are in the file; `{more}` is one too many"
            )));
        }
    };
    let journal = record::for_calls(call.unrecorded).await?;
    // A question leaves its task waiting for `longhaul answer`.
    let open = Arc::new(OpenQuestions::default());
    let connection = server.connection(|options| options.inputs = Some(open.clone()))?;
    let listed = async {
        let tools = connection.list_tools().await?;
        Ok::<_, RequestError>((tools, connection.server().await?.takes_idempotency_keys()))
    };
    let (tools, takes_keys) = with_notice(connection.address(), listed).await?;
    let mut lines = BatchFile::open(file, &tools, tool, takes_keys)?;
    let total = lines.check()?;
    let client = record::client(&server, connection, journal);
    let batch = Batch {
        server: &server,
        earlier: client.calls().await.unwrap_or_default(),
        repeated: AtomicUsize::new(0),
        client,
        open,
        bars: Bars::new(total),
        is_stopped: AtomicBool::new(false),
    };
    let exit = batch.call_all(lines, total, call.concurrency.into()).await;
    batch.client.close().await;
    Ok(match output::is_written() {
        true => exit,
        false => Exit::NotWritten,
    })
}

/// A run over the lines of a file.
struct Batch<'a> {
    server: &'a Server,
    client: Client,
    /// What is asked before there is a task, and what legacy servers ask.
    open: Arc<OpenQuestions>,
    bars: Bars,
    /// The calls that were unfinished before.
    earlier: Vec<RecordedCall>,
    /// The lines that repeat one of them.
    repeated: AtomicUsize,
    /// Whether the server cannot be reached, so nothing more is sent. One that is busy is waited for.
    is_stopped: AtomicBool,
}

/// How a line has ended.
struct Ended {
    line: usize,
    exit: Exit,
}

/// What has become of a call.
enum Response {
    Outcome(Outcome),
    /// With the keys of its questions.
    Asks(Vec<String>),
}

impl Batch<'_> {
    async fn call_all(&self, lines: BatchFile<'_>, total: usize, concurrency: usize) -> Exit {
        let mut interrupt = Interrupt::new();
        let mut tally = Tally::default();
        let lines = lines.take_while(|_| !self.is_stopped.load(Ordering::Relaxed));
        let mut calls = stream::iter(lines)
            .map(|(line, tool)| self.call(line, tool))
            .buffer_unordered(concurrency);
        let interrupted = loop {
            tokio::select! {
                biased;
                exit = interrupt.pressed() => break Some(exit),
                ended = calls.next() => match ended {
                    Some(ended) => {
                        tally.add(&ended);
                        self.bars.ended(ended.line, ended.exit, tally.ended, total);
                    }
                    None => break None,
                },
            }
        };
        drop(calls);
        self.bars.finish();
        output::note(&tally.summary(total));
        if let repeated @ 2.. = self.repeated.load(Ordering::Relaxed) {
            output::note(&format!("{repeated} lines repeat calls whose tasks had not ended"));
        }
        if interrupted.is_some() || tally.counts.contains_key(&(Exit::Asks as u8)) {
            let goes_on = match self.server.is_child() {
                true => "the server is stopped with this command; its tasks go on if it keeps them",
                false => "the tasks keep running",
            };
            let list = self.server.command_line("tasks", &[]);
            output::note(&format!("{goes_on}; to see them:\n  {list}"));
        }
        interrupted.unwrap_or_else(|| tally.exit())
    }

    /// Makes the call of a line, prints what has become of it, and records that nothing more is to be done.
    async fn call(&self, line: Line, tool: &Tool) -> Ended {
        let mut bar = self.bars.begin(line.number);
        let mut shown = json!({"line": line.number, "tool": tool.name});
        let mut options = CallOptions::default();
        options.idempotency_key.clone_from(&line.key);
        options.waits_while_busy = true;
        let source = line.number as u64;
        options.source = Some(source);
        let ended = async {
            let prepared = self.client.prepare(tool, &line.arguments, options).await;
            let mut call = prepared.map_err(|error| match error {
                CallError::Journal(error) => record::not_recorded(error),
                CallError::Request(error) => {
                    self.stop_if_gone(&error);
                    error.into()
                }
                other => other.into(),
            })?;
            if let Some(warning) = record::repeated(self.server, &call, &self.earlier)
                && self.repeated.fetch_add(1, Ordering::Relaxed) == 0
            {
                self.bars
                    .print(|| output::note(&format!("line {}: {warning}", line.number)));
            }
            let mut asked = None;
            let asks = async { asked = Some(self.open.of_call(source).await) };
            let sent = call.send_unless(asks, &mut |event| bar.show(&event)).await;
            let Some(sent) = sent else {
                call.cancelled().await;
                return Err(Failure::asked_before_task(&asked.unwrap_or_default()));
            };
            let response = sent.map_err(|error| {
                self.stop_if_gone(&error);
                Failure::of_sent(error)
            })?;
            let task = match response {
                CallResponse::Done(outcome) => {
                    let exit = self.print(&mut shown, &Response::Outcome(outcome.clone()));
                    if output::is_written() || call.idempotency_key().is_none() {
                        self.note_finished(call.finish(&outcome).await);
                    }
                    return Ok(exit);
                }
                CallResponse::Task(task) => task,
            };
            shown["taskId"] = task.id().into();
            let waited = match asked {
                // The question came before the answer that names the task.
                Some(_) => Ok(Response::Asks(Vec::new())),
                None => self.wait(&task, &mut bar).await,
            };
            let response = waited.map_err(|error| {
                self.stop_if_gone(&error);
                Failure::from(error).with_run(true)
            })?;
            if matches!(response, Response::Asks(_)) && !task.connection().keeps_tasks().await.unwrap_or(true) {
                waiting::cancel(&task).await;
                return Err(Failure::refused(
                    "the task asks, and would end with this command, so it is cancelled".to_owned(),
                )
                .with_run(true));
            }
            let exit = self.print(&mut shown, &response);
            if let Response::Outcome(outcome) = &response
                && output::is_written()
            {
                // What was not written can be fetched again.
                self.note_finished(task.finish(outcome).await);
            }
            Ok::<_, Failure>(exit)
        };
        let ended = ended.await;
        let exit = ended.unwrap_or_else(|failure| {
            shown["exit"] = (failure.exit() as u8).into();
            let failure = failure.of_call();
            shown["error"] = failure.as_json();
            self.bars.print(|| output::json_line(&shown));
            failure.exit()
        });
        Ended {
            line: line.number,
            exit,
        }
    }

    /// The result is printed, whether its end is recorded or not.
    fn note_finished(&self, finished: Result<(), JournalError>) {
        if let Err(error) = finished {
            self.bars.print(|| record::warn(&error));
        }
    }

    fn print(&self, shown: &mut Value, response: &Response) -> Exit {
        let (exit, name, value) = match response {
            Response::Outcome(Outcome::Result { json, is_error }) => {
                let exit = if *is_error { Exit::ToolError } else { Exit::Answered };
                (exit, "result", result::value_or_text(json))
            }
            Response::Outcome(Outcome::RpcError(failure)) => (Exit::Refused, "error", result::task_error(failure)),
            Response::Outcome(Outcome::Cancelled) => (Exit::Cancelled, "cancelled", true.into()),
            Response::Asks(keys) => (Exit::Asks, "asks", keys.clone().into()),
        };
        shown["exit"] = (exit as u8).into();
        shown[name] = value;
        self.bars.print(|| output::json_line(&shown));
        exit
    }

    /// Sends nothing more if the server is not there. One that answers, with whatever error, may take the next line.
    fn stop_if_gone(&self, error: &RequestError) {
        let is_gone = matches!(
            error,
            RequestError::Unreachable { .. }
                | RequestError::NotStarted { .. }
                | RequestError::Certificate { .. }
                | RequestError::Setup(_)
                | RequestError::HandshakeFailed(_)
                | RequestError::UnsupportedRevisions { .. }
        );
        if is_gone {
            self.is_stopped.store(true, Ordering::Relaxed);
        }
    }

    /// Waits until the task ends or asks. Some legacy servers ask while the task is `working`.
    async fn wait(&self, task: &TaskHandle, bar: &mut bars::Bar<'_>) -> Result<Response, RequestError> {
        let (asked, asks) = (Mutex::new(Vec::new()), Notify::new());
        let mut show = |event: Event<'_>| {
            if let Event::Status(snapshot) = &event
                && snapshot.status == TaskStatus::InputRequired
            {
                let keys = snapshot.input_requests.iter().filter_map(|request| request.key.clone());
                *asked.lock() = keys.collect();
                asks.notify_one();
            }
            bar.show(&event);
        };
        tokio::select! {
            biased;
            outcome = task.wait(&mut show) => outcome.map(Response::Outcome),
            () = asks.notified() => Ok(Response::Asks(std::mem::take(&mut asked.lock()))),
            keys = self.open.of_task(task.id()) => Ok(Response::Asks(keys)),
        }
    }
}

/// How many lines have ended, and how.
#[derive(Default)]
struct Tally {
    ended: usize,
    counts: BTreeMap<u8, usize>,
    /// The first line of the file that has not succeeded.
    first_failure: Option<(usize, Exit)>,
}

impl Tally {
    fn add(&mut self, ended: &Ended) {
        self.ended += 1;
        *self.counts.entry(ended.exit as u8).or_default() += 1;
        if ended.exit != Exit::Answered && self.first_failure.is_none_or(|(line, _)| ended.line < line) {
            self.first_failure = Some((ended.line, ended.exit));
        }
    }

    fn summary(&self, total: usize) -> String {
        let names = [
            (Exit::Answered, "completed"),
            (Exit::ToolError, "failed with an error of the tool"),
            (Exit::NoServer, "without an answer"),
            (Exit::Cancelled, "cancelled"),
            (Exit::Refused, "refused or failed without a result"),
            (Exit::Asks, "asking"),
        ];
        let counts = names.iter().filter_map(|(exit, name)| {
            let count = self.counts.get(&(*exit as u8))?;
            Some(format!("{count} {name}"))
        });
        let mut parts: Vec<String> = counts.collect();
        if self.ended < total {
            parts.push(format!("{} not ended or not sent", total - self.ended));
        }
        format!("{total} calls: {}", parts.join(", "))
    }

    fn exit(&self) -> Exit {
        self.first_failure.map_or(Exit::Answered, |(_, exit)| exit)
    }
}
