//! `longhaul call --batch`: the calls of a file, several at once.

mod bars;
mod file;
mod open_questions;

use crate::{
    args,
    failure::{Failure, OUTCOME_UNKNOWN},
    interrupt::Interrupt,
    output, record,
    result::{self, Exit},
    servers::{self, Server},
    states,
    waiting::{self, with_notice},
};
use bars::Bars;
use file::{BatchFile, Line};
use futures_util::{StreamExt, stream};
use longhaul_client::{
    BatchLine, BatchRun, BatchStep, CallError, CallOptions, CallResponse, Client, Event, Finished, InputRequest,
    JournalError, Outcome, RecordedCall, RequestError, StopWaiting, SystemClock, TaskHandle, TaskStatus, Tool,
};
use longhaul_core::{Clock, format_duration};
use open_questions::OpenQuestions;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;

/// The lines that a message names.
const MOST_SHOWN: usize = 10;

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
    let path = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let is_new = call.repeat == Some(args::Repeat::All);
    let run = client.begin_batch(&path.to_string_lossy(), is_new).await;
    let run = run.map_err(record::not_recorded)?;
    if let Some(begun_at) = run.as_ref().and_then(BatchRun::continues) {
        let twice = match call.repeat {
            Some(args::Repeat::Unknown) => "only calls of unknown outcome are made twice",
            _ => "no call of it is made twice",
        };
        output::note(&format!(
            "this continues the run of {} that began {} ago: {twice} (for a new run with all calls: --repeat all)",
            file.display(),
            format_duration(record::age(begun_at))
        ));
    }
    let batch = Batch {
        server: &server,
        run,
        repeat: call.repeat,
        takes_keys,
        unclear: Mutex::default(),
        earlier: client.calls().await.unwrap_or_default(),
        repeated: AtomicUsize::new(0),
        client,
        open,
        bars: Bars::new(total),
        is_stopped: AtomicBool::new(false),
    };
    let (exit, is_over) = batch.call_all(lines, total, call.concurrency.into()).await;
    if let (Some(run), true) = (batch.run, is_over)
        && let Err(error) = run.finish().await
    {
        record::warn(&error);
    }
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
    /// The run that this is, or continues, if it is recorded.
    run: Option<BatchRun>,
    repeat: Option<args::Repeat>,
    takes_keys: bool,
    /// The lines whose calls may have run, and for which there is no answer.
    unclear: Mutex<BTreeSet<usize>>,
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
    /// Whether an earlier run has made its call, which may have run and is not made again.
    is_unclear: bool,
    /// Whether its call has an outcome, so that a run which continues this one has nothing to do for it.
    is_over: bool,
}

impl Ended {
    /// How it is counted: each line under one name.
    fn name(&self) -> &'static str {
        match self.exit {
            _ if self.is_unclear => UNCLEAR,
            Exit::Answered => COMPLETED,
            Exit::ToolError => "failed with an error of the tool",
            Exit::NoServer => "without an answer",
            Exit::Cancelled => "cancelled",
            Exit::Asks => ASKING,
            _ => REFUSED,
        }
    }
}

/// How long after a task has said that it asks its question may come.
const LATE_QUESTION: Duration = Duration::from_secs(2);

const COMPLETED: &str = "completed";
const ASKING: &str = "asking";
const REFUSED: &str = "refused or failed without a result";
const UNCLEAR: &str = "of unknown outcome";
/// How lines end, as they are told.
const NAMES: [&str; 7] = [
    COMPLETED,
    "failed with an error of the tool",
    "without an answer",
    "cancelled",
    REFUSED,
    UNCLEAR,
    ASKING,
];

/// What has become of a call.
enum Response {
    Outcome(Outcome),
    /// It has ended in a run before this one, and the result cannot be read again.
    EndedBefore(Finished),
    /// With its questions, as far as the server has told them.
    Asks(Vec<InputRequest>),
}

impl Response {
    fn exit(&self) -> Exit {
        match self {
            Self::Outcome(Outcome::Result { is_error: false, .. }) => Exit::Answered,
            Self::Outcome(Outcome::Result { .. }) => Exit::ToolError,
            Self::Outcome(Outcome::RpcError(_)) => Exit::Refused,
            Self::Outcome(Outcome::Cancelled) | Self::EndedBefore(Finished::Cancelled) => Exit::Cancelled,
            Self::EndedBefore(Finished::Answered | Finished::Completed) => Exit::Answered,
            Self::EndedBefore(Finished::ToolError) => Exit::ToolError,
            Self::EndedBefore(_) => Exit::Refused,
            Self::Asks(_) => Exit::Asks,
        }
    }
}

/// What a call was answered with.
enum Sent {
    Task {
        task: TaskHandle,
        is_asked: bool,
    },
    /// It is printed.
    Done(Response),
}

impl Batch<'_> {
    /// Returns also whether all calls of the file have an outcome.
    async fn call_all(&self, lines: BatchFile<'_>, total: usize, concurrency: usize) -> (Exit, bool) {
        let mut interrupt = Interrupt::new();
        let mut tally = Tally::default();
        let lines = lines.take_while(|_| !self.is_stopped.load(Ordering::Relaxed));
        let mut calls = stream::iter(lines)
            .map(|(line, tool)| {
                let place = self.place(&line, tool);
                self.call(line, tool, place)
            })
            .buffer_unordered(concurrency);
        let interrupted = loop {
            tokio::select! {
                biased;
                exit = interrupt.pressed() => break Some(exit),
                ended = calls.next() => match ended {
                    Some(ended) => {
                        tally.add(&ended);
                        self.bars.ended(ended.line, ended.name(), tally.ended, total, &tally.others());
                    }
                    None => break None,
                },
            }
        };
        drop(calls);
        self.bars.finish();
        output::note(&tally.summary(total));
        if let repeated @ 2.. = self.repeated.load(Ordering::Relaxed) {
            output::note(&format!("{repeated} lines repeat calls whose end was not seen"));
        }
        if interrupted.is_some() || tally.counts.contains_key(ASKING) {
            let goes_on = match self.server.is_child() {
                true => "the server is stopped with this command; its tasks go on if it keeps them",
                false => "the tasks keep running",
            };
            let list = self.server.command_line("tasks", &[]);
            output::note(&format!("{goes_on}; to see them:\n  {list}"));
        }
        let is_over = tally.over == total && output::is_written();
        match (is_over, &self.run) {
            (false, Some(_)) => self.tell_how_to_continue(),
            (true, Some(_)) if tally.exit() != Exit::Answered => {
                output::note("each call has an outcome, so this run is over: the same command makes all calls again");
            }
            _ => {}
        }
        (interrupted.unwrap_or_else(|| tally.exit()), is_over)
    }

    /// What to do about calls without an outcome.
    fn tell_how_to_continue(&self) {
        let without = match self.repeat {
            None => "",
            Some(_) => " without --repeat",
        };
        output::note(&format!(
            "the same command{without} continues this run: it makes the calls that were not made, and no call twice"
        ));
        let unclear = self.unclear.lock();
        if unclear.is_empty() {
            return;
        }
        let shown: Vec<String> = unclear.iter().take(MOST_SHOWN).map(usize::to_string).collect();
        let more = match unclear.len().saturating_sub(MOST_SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        output::note(&format!(
            "may have run, and not made again by itself: line {}{more}. Look at the server whether the work was done; --repeat unknown makes these calls again",
            shown.join(", ")
        ));
    }

    /// The line in the run, if it is the run that decides whether the call is made. A line with a key of its own does.
    fn place(&self, line: &Line, tool: &Tool) -> Option<BatchLine> {
        let run = self.run.as_ref().filter(|_| line.key.is_none())?;
        Some(run.line(&tool.name, &line.arguments))
    }

    /// What is to be done for a line.
    async fn step(&self, place: Option<&BatchLine>) -> Result<BatchStep, Failure> {
        let (Some(run), Some(place)) = (&self.run, place) else {
            return Ok(BatchStep::Call);
        };
        Ok(match run.step(place).await.map_err(record::not_recorded)? {
            step if self.repeat == Some(args::Repeat::Unknown) && may_have_run(&step) => BatchStep::Call,
            step => step,
        })
    }

    /// Whether a line is left with a call that may have run and has no answer.
    async fn is_unsettled(&self, place: Option<&BatchLine>) -> bool {
        let (Some(run), Some(place)) = (&self.run, place) else {
            return false;
        };
        run.step(place).await.is_ok_and(|step| may_have_run(&step))
    }

    /// Makes the call of a line, unless it was made before, and prints what has become of it.
    async fn call(&self, line: Line, tool: &Tool, place: Option<BatchLine>) -> Ended {
        let mut shown = json!({"line": line.number, "tool": tool.name});
        let ended = self.drive(&line, tool, place.clone(), &mut shown).await;
        let mut is_unclear = false;
        let (exit, is_over) = match ended {
            Ok(Response::Asks(_)) => (Exit::Asks, false),
            Ok(response) => (response.exit(), true),
            Err(failure) => {
                is_unclear = failure.kind() == OUTCOME_UNKNOWN;
                shown["exit"] = (failure.exit() as u8).into();
                let failure = failure.of_call();
                shown["error"] = failure.as_json();
                self.bars.print(|| output::json_line(&shown));
                match self.is_unsettled(place.as_ref()).await {
                    true => self.unclear.lock().insert(line.number),
                    false => self.unclear.lock().remove(&line.number),
                };
                (failure.exit(), false)
            }
        };
        Ended {
            line: line.number,
            exit,
            is_unclear,
            is_over,
        }
    }

    /// Brings the call of a line to its end, and records that nothing more is to be done. What it returns is printed.
    async fn drive(
        &self,
        line: &Line,
        tool: &Tool,
        place: Option<BatchLine>,
        shown: &mut Value,
    ) -> Result<Response, Failure> {
        let mut bar = self.bars.begin(line.number);
        let (task, is_asked) = match self.step(place.as_ref()).await? {
            BatchStep::Task(task) => (task, false),
            BatchStep::Ended(Finished::Unanswered) => {
                self.unclear.lock().insert(line.number);
                return Err(Failure::unanswered(
                    "the call was made before, asked, and was not answered, so it is not made again".to_owned(),
                ));
            }
            BatchStep::Ended(finished) => {
                let response = Response::EndedBefore(finished);
                self.print(shown, &response);
                return Ok(response);
            }
            BatchStep::InFlight => {
                return Err(Failure::refused("another command is making this call".to_owned()).with_run(true));
            }
            BatchStep::Lost { reason } => {
                self.unclear.lock().insert(line.number);
                return Err(record::lost_before(&reason));
            }
            BatchStep::Unknown { reason } => {
                self.unclear.lock().insert(line.number);
                return Err(Failure::outcome_unknown(&reason));
            }
            _ => {
                let mut options = CallOptions::default();
                options.idempotency_key.clone_from(&line.key);
                options.batch_line = place;
                match self.send(line, tool, options, shown, &mut bar).await? {
                    Sent::Task { task, is_asked } => (task, is_asked),
                    Sent::Done(response) => return Ok(response),
                }
            }
        };
        shown["taskId"] = task.id().into();
        let waited = match is_asked {
            // The question came before the answer that names the task.
            true => Ok(Response::Asks(Vec::new())),
            false => self.wait(&task, &mut bar).await,
        };
        let response = match waited {
            Ok(response) => response,
            Err(error) => match task.fetched().await.filter(|_| error.is_unknown_task()) {
                Some(finished) => Response::EndedBefore(finished),
                None => {
                    self.stop_if_gone(&error);
                    return Err(record::unread(&task, error).await.with_run(true));
                }
            },
        };
        if matches!(response, Response::Asks(_)) && !task.connection().keeps_tasks().await.unwrap_or(true) {
            waiting::cancel(&task).await;
            return Err(Failure::unanswered(
                "the task asks, and would end with this command, so it is cancelled".to_owned(),
            ));
        }
        self.print(shown, &response);
        if let Response::Outcome(outcome) = &response
            && output::is_written()
        {
            // What was not written can be fetched again.
            self.note_finished(task.finish(outcome).await);
        }
        Ok(response)
    }

    /// Sends the call of a line. A result that comes at once is printed, and recorded as finished.
    async fn send(
        &self,
        line: &Line,
        tool: &Tool,
        mut options: CallOptions,
        shown: &mut Value,
        bar: &mut bars::Bar<'_>,
    ) -> Result<Sent, Failure> {
        let source = line.number as u64;
        options.waits_while_busy = true;
        options.source = Some(source);
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
        let asks = async {
            asked = Some(self.open.of_call(source).await);
            StopWaiting::Cancel
        };
        if !self.takes_keys {
            self.unclear.lock().insert(line.number);
        }
        let sent = call.send_unless(asks, &mut |event| bar.show(&event)).await;
        let Some(sent) = sent else {
            call.unanswered().await;
            return Err(Failure::asked_before_task(&asked.unwrap_or_default()));
        };
        let response = sent.map_err(|error| {
            self.stop_if_gone(&error);
            Failure::of_sent(error)
        })?;
        self.unclear.lock().remove(&line.number);
        match response {
            CallResponse::Done(outcome) => {
                let response = Response::Outcome(outcome.clone());
                self.print(shown, &response);
                if output::is_written() || call.idempotency_key().is_none() {
                    self.note_finished(call.finish(&outcome).await);
                }
                Ok(Sent::Done(response))
            }
            CallResponse::Task(task) => Ok(Sent::Task {
                task,
                is_asked: asked.is_some(),
            }),
        }
    }

    /// The result is printed, whether its end is recorded or not.
    fn note_finished(&self, finished: Result<(), JournalError>) {
        if let Err(error) = finished {
            self.bars.print(|| record::warn(&error));
        }
    }

    fn print(&self, shown: &mut Value, response: &Response) {
        let (name, value) = match response {
            Response::Outcome(Outcome::Result { json, .. }) => ("result", result::value_or_text(json)),
            Response::Outcome(Outcome::RpcError(failure)) => ("error", result::task_error(failure)),
            Response::Outcome(Outcome::Cancelled) => ("cancelled", true.into()),
            Response::EndedBefore(finished) => ("endedBefore", states::of_finished(*finished).into()),
            Response::Asks(asked) => {
                if let Some(asked) = result::questions(asked) {
                    shown["inputRequests"] = asked;
                }
                ("asks", true.into())
            }
        };
        shown["exit"] = (response.exit() as u8).into();
        shown[name] = value;
        self.bars.print(|| output::json_line(&shown));
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
                asked.lock().clone_from(&snapshot.input_requests);
                asks.notify_one();
            }
            bar.show(&event);
        };
        // Some legacy servers say that the task asks, and then ask on another stream.
        let says_that_it_asks = async {
            asks.notified().await;
            if asked.lock().is_empty() {
                SystemClock.sleep(LATE_QUESTION).await;
            }
        };
        tokio::select! {
            biased;
            outcome = task.wait(&mut show) => outcome.map(Response::Outcome),
            asked = self.open.of_task(task.id()) => Ok(Response::Asks(asked)),
            () = says_that_it_asks => Ok(Response::Asks(std::mem::take(&mut asked.lock()))),
        }
    }
}

/// Whether the call may have run and has no answer: then it is made again only with `--repeat unknown`.
fn may_have_run(step: &BatchStep) -> bool {
    matches!(
        step,
        BatchStep::Unknown { .. } | BatchStep::Lost { .. } | BatchStep::Ended(Finished::Unanswered)
    )
}

/// How many lines have ended, and how.
#[derive(Default)]
struct Tally {
    ended: usize,
    /// Those that have an outcome.
    over: usize,
    /// By their names.
    counts: BTreeMap<&'static str, usize>,
    /// The first line of the file that has not succeeded.
    first_failure: Option<(usize, Exit)>,
}

impl Tally {
    fn add(&mut self, ended: &Ended) {
        self.ended += 1;
        self.over += usize::from(ended.is_over);
        *self.counts.entry(ended.name()).or_default() += 1;
        if ended.exit != Exit::Answered && self.first_failure.is_none_or(|(line, _)| ended.line < line) {
            self.first_failure = Some((ended.line, ended.exit));
        }
    }

    /// Those that have not succeeded.
    fn others(&self) -> String {
        self.counts_of(&NAMES[1..]).join(", ")
    }

    fn counts_of(&self, names: &[&str]) -> Vec<String> {
        let counts = names.iter().filter_map(|name| {
            let count = self.counts.get(name)?;
            Some(format!("{count} {name}"))
        });
        counts.collect()
    }

    fn summary(&self, total: usize) -> String {
        let mut parts = self.counts_of(&NAMES);
        if self.ended < total {
            parts.push(format!("{} not ended or not sent", total - self.ended));
        }
        format!("{total} calls: {}", parts.join(", "))
    }

    fn exit(&self) -> Exit {
        self.first_failure.map_or(Exit::Answered, |(_, exit)| exit)
    }
}
