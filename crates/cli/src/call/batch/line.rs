//! One line of a batch: its call, from what an earlier run has left of it to its end.

use super::{
    Batch, bars,
    file::Line,
    tally::{EndedLine, LineStatus},
};
use crate::{
    args,
    call::{record, waiting},
    exit::{
        failure::Failure,
        result::{self, Exit},
    },
    output::{self, json_text::with_member, states},
};
use longhaul_client::{
    BatchLine, CallError, CallOptions, CallResponse, Event, Finished, InputRequest, JournalError, Outcome,
    RequestError, StopWaiting, SystemClock, TaskHandle, TaskStatus, Tool,
};
use longhaul_core::Clock;
use longhaul_ledger::BatchStep;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{sync::atomic::Ordering, time::Duration};
use tokio::sync::Notify;

/// How long after a task has said that it asks its question may come.
const LATE_QUESTION: Duration = Duration::from_secs(2);

/// What has become of a call.
enum Response {
    Outcome(Outcome),
    /// It has ended in a run before this one, and the result cannot be read again.
    EndedBefore {
        finished: Finished,
        had_task: bool,
    },
    /// With its questions, as far as the server has told them.
    Asks(Vec<InputRequest>),
}

impl Response {
    fn exit(&self) -> Exit {
        match self {
            Self::Outcome(outcome) => outcome.into(),
            Self::EndedBefore { finished, .. } => match finished {
                Finished::Answered | Finished::Completed => Exit::Answered,
                Finished::ToolError => Exit::ToolError,
                Finished::Cancelled => Exit::Cancelled,
                _ => Exit::Refused,
            },
            Self::Asks(_) => Exit::Asks,
        }
    }

    /// How a call that ended before has failed.
    fn failure(&self) -> Option<Failure> {
        match self {
            Self::EndedBefore { finished, had_task } => Failure::ended_before(*finished, *had_task),
            _ => None,
        }
    }

    /// Adds to the line what there is to say. One that ended before says what the run said in which it ended, but for the result.
    fn describe(&self, shown: &mut Value) {
        shown["exit"] = (self.exit() as u8).into();
        match self {
            // Added to the line as it is.
            Self::Outcome(Outcome::Result { .. }) => {}
            Self::Outcome(Outcome::RpcError(failure)) => shown["error"] = result::task_error(failure),
            Self::Outcome(Outcome::Cancelled) => describe_cancelled(shown),
            Self::EndedBefore { finished, .. } => {
                shown["endedBefore"] = states::finished_in_mcp(*finished).into();
                if *finished == Finished::Cancelled {
                    describe_cancelled(shown);
                }
                if let Some(failure) = self.failure() {
                    shown["error"] = failure.as_json();
                }
            }
            Self::Asks(asked) => {
                shown["asks"] = true.into();
                if let Some(asked) = result::questions(asked) {
                    shown["inputRequests"] = asked;
                }
            }
        }
    }
}

fn describe_cancelled(shown: &mut Value) {
    shown["cancelled"] = true.into();
    shown["mayHaveRun"] = true.into();
}

/// What a call was answered with.
enum CallReply {
    Task { task: TaskHandle, is_asked: bool },
    Done(Outcome),
}

impl Batch<'_> {
    /// The line in the run, if it is recorded. One with a key of its own is known by that.
    pub(super) fn place(&self, line: &Line, tool: &Tool) -> Option<BatchLine> {
        let run = self.run.as_ref()?;
        Some(match &line.key {
            Some(key) => run.keyed_line(key),
            None => run.line(&tool.name, &line.arguments),
        })
    }

    /// What is to be done for a line.
    async fn step(&self, place: Option<&BatchLine>) -> Result<BatchStep, Failure> {
        let (Some(run), Some(place)) = (&self.run, place) else {
            return Ok(BatchStep::Call);
        };
        Ok(match run.step(place).await.map_err(record::not_recorded)? {
            BatchStep::Unknown { .. } | BatchStep::Lost { .. } if self.repeat == Some(args::Repeat::Unknown) => {
                BatchStep::Call
            }
            step => step,
        })
    }

    /// Where a line stands after its call. What cannot be read is not taken for settled.
    async fn status(&self, place: Option<&BatchLine>) -> LineStatus {
        let (Some(run), Some(place)) = (&self.run, place) else {
            return LineStatus::Open;
        };
        if let Ok(Some(finished)) = run.outcome(place).await {
            return LineStatus::Settled(finished);
        }
        match run.step(place).await {
            Ok(BatchStep::Unknown { .. } | BatchStep::Lost { .. }) => LineStatus::Unclear,
            _ => LineStatus::Open,
        }
    }

    /// Makes the call of a line, unless it was made before, and prints what has become of it.
    pub(super) async fn call(&self, line: Line, tool: &Tool, place: Option<BatchLine>) -> EndedLine {
        let mut shown = json!({"line": line.number, "tool": tool.name});
        let ended = self.drive(&line, tool, place.clone(), &mut shown).await;
        let status = self.status(place.as_ref()).await;
        match status {
            LineStatus::Unclear => self.unclear.lock().insert(line.number),
            _ => self.unclear.lock().remove(&line.number),
        };
        let response = match ended {
            Ok(response) => response,
            // Another command has cancelled the call, and nothing of it runs.
            Err(_) if status == LineStatus::Settled(Finished::Cancelled) => {
                let response = Response::Outcome(Outcome::Cancelled);
                self.print(&mut shown, &response);
                response
            }
            Err(failure) => {
                let failure = match status {
                    LineStatus::Unclear => failure.left_unknown(),
                    _ => failure.of_call(),
                };
                shown["exit"] = (failure.exit() as u8).into();
                shown["error"] = failure.as_json();
                self.bars.print(|| output::json_line(&shown));
                return EndedLine::new(line.number, failure.exit(), Some(&failure), status);
            }
        };
        EndedLine::new(line.number, response.exit(), response.failure().as_ref(), status)
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
            BatchStep::Task(task) => (task.of_tool(tool), false),
            BatchStep::Ended(finished) => {
                let response = Response::EndedBefore {
                    finished,
                    had_task: false,
                };
                self.print(shown, &response);
                return Ok(response);
            }
            BatchStep::InFlight => {
                return Err(Failure::refused("another command is making this call".to_owned()).with_run(true));
            }
            BatchStep::Lost { reason } => return Err(record::lost_before(&reason)),
            BatchStep::Unknown { reason } => return Err(Failure::outcome_unknown(&reason)),
            _ => {
                let mut options = CallOptions::default();
                options.idempotency_key.clone_from(&line.key);
                options.batch_line = place;
                match self.send(line, tool, options, shown, &mut bar).await? {
                    CallReply::Task { task, is_asked } => (task, is_asked),
                    CallReply::Done(outcome) => return Ok(Response::Outcome(outcome)),
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
                Some(finished) => Response::EndedBefore {
                    finished,
                    had_task: true,
                },
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
    ) -> Result<CallReply, Failure> {
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
        if let Some(repeated) = record::RepeatedCall::of(&call, &self.earlier)
            && self.repeated.fetch_add(1, Ordering::Relaxed) == 0
        {
            let warning = repeated.describe(self.server, &self.client).await;
            self.bars
                .print(|| output::note(&format!("line {}: {warning}", line.number)));
        }
        let repeated = record::answered(&call, &self.by_key);
        let mut asked = None;
        let asks = async {
            asked = Some(self.open.of_call(source).await);
            StopWaiting::Cancel
        };
        if !self.takes_keys {
            self.unclear.lock().insert(line.number);
        }
        let sent = call.send_unless(asks, &mut |event| bar.show(&event)).await;
        let is_repeated = repeated.is_some() && !record::made_again(repeated, &sent);
        let Some(sent) = sent else {
            call.unanswered().await;
            return Err(Failure::asked_before_task(&asked.unwrap_or_default()));
        };
        let response = sent.map_err(|error| {
            self.stop_if_gone(&error);
            Failure::of_sent(&call, error)
        })?;
        self.unclear.lock().remove(&line.number);
        if is_repeated {
            shown["repeated"] = true.into();
            self.answered_again
                .fetch_add(usize::from(line.key.is_some()), Ordering::Relaxed);
        }
        match response {
            CallResponse::Done(outcome) => {
                self.print(shown, &Response::Outcome(outcome.clone()));
                if output::is_written() || call.idempotency_key().is_none() {
                    self.note_finished(call.finish(&outcome).await);
                }
                Ok(CallReply::Done(outcome))
            }
            CallResponse::Task(task) => Ok(CallReply::Task {
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
        response.describe(shown);
        let line = match response {
            Response::Outcome(Outcome::Result { json, .. }) => with_member(&shown.to_string(), "result", json.as_str()),
            _ => shown.to_string(),
        };
        self.bars.print(|| output::json_line(&line));
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
