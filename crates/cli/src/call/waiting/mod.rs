//! Waiting for a call or a task: what is shown meanwhile, and what may come first.

mod display;

pub(crate) use display::Display;

use crate::{
    ask::{UnaskedQuestions, closes_forms, fields, text_of_task},
    call::record,
    exit::{
        failure::Failure,
        interrupt::Interrupt,
        result::{self, Exit, PrintOptions, print_outcome},
    },
    output,
    servers::{Server, masked},
};
use longhaul_client::{Event, InputRequest, LONGEST_POLL_INTERVAL, Outcome, RequestError, SystemClock, TaskHandle};
use longhaul_core::{Clock, Millis};
use serde_json::json;
use std::time::Duration;

/// When a command stops waiting: one limit for all that it waits for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline(Option<Duration>);

impl Deadline {
    /// After so many milliseconds from now; never without a limit.
    pub(crate) fn after(limit: Option<Millis>) -> Self {
        Self(limit.map(|limit| SystemClock.monotonic() + Duration::from_millis(limit)))
    }

    /// Waits for it. It closes a form that is shown.
    async fn passed_for_forms(self) {
        self.passed().await;
        // The form is dropped with this future, before anything else is said.
        closes_forms(TIME_IS_OVER);
    }

    /// Waits for it.
    pub(crate) async fn passed(self) {
        match self.0 {
            Some(at) => SystemClock.sleep(at.saturating_sub(SystemClock.monotonic())).await,
            None => std::future::pending().await,
        }
    }
}

const TIME_IS_OVER: &str = "the time of --timeout is over";

/// What ended a wait.
pub(crate) enum WaitEnd<T> {
    Done(T),
    /// By a signal, with the status for it.
    Interrupted(Exit),
    TimedOut,
    /// There is no terminal to ask this on.
    Asked(InputRequest),
}

impl<T> WaitEnd<T> {
    pub(crate) async fn first(
        work: impl Future<Output = T>,
        interrupt: &mut Interrupt,
        unasked: &mut UnaskedQuestions,
        until: Deadline,
    ) -> Self {
        tokio::select! {
            biased;
            // Its listener is registered before the work starts.
            exit = interrupt.pressed() => Self::Interrupted(exit),
            asked = unasked.next() => Self::Asked(asked),
            done = work => Self::Done(done),
            () = until.passed_for_forms() => Self::TimedOut,
        }
    }

    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Done(_) => Exit::Answered,
            Self::Interrupted(exit) => *exit,
            Self::TimedOut => Exit::TimedOut,
            Self::Asked(_) => Exit::Asks,
        }
    }

    pub(crate) fn what(&self) -> &'static str {
        match self {
            Self::TimedOut => TIME_IS_OVER,
            _ => "interrupted",
        }
    }
}

/// How to answer a question of a task.
pub(crate) fn how_to_answer(server: &Server, id: &str, question: &InputRequest) -> String {
    format!("{}; {}", what_goes_on(server), answer_line(server, id, question))
}

/// The longest key of a question that hints write out, in characters.
const LONGEST_KEY: usize = 32;
/// The part of a longer one that stands for it there: its end, where keys with a common beginning differ.
const KEY_PART: usize = 12;

/// A key as hints write it: `--question` takes a part that no other open question has.
fn short_key(key: &str) -> &str {
    if key.chars().count() <= LONGEST_KEY {
        return key;
    }
    key.char_indices()
        .nth_back(KEY_PART - 1)
        .map_or(key, |(at, _)| &key[at..])
}

/// The letters of an unknown method that are shown.
const SHOWN_METHOD: usize = 80;

/// The command that answers a question of a task, or of a call that is no task.
pub(crate) fn answer_line(server: &Server, id: &str, question: &InputRequest) -> String {
    if !question.is_elicitation() {
        let method = output::plain(&question.method.chars().take(SHOWN_METHOD).collect::<String>(), "");
        let wait = question
            .task
            .as_ref()
            .map(|_| server.task_line("task", id, &["--wait"]));
        let wait = wait.map_or_else(String::new, |wait| format!("\n  {wait}"));
        let cancel = server.task_line("cancel", id, &[]);
        return format!(
            "this command does not offer {method}, so only another client can answer; to wait for that, or to end it:{wait}\n  {cancel}"
        );
    }
    let invalid = (question.page_problem()).or_else(|| fields::invalid_form(question));
    let fields = fields::values(question);
    let has_values = invalid.is_none() && !fields.is_empty();
    let values = match &invalid {
        Some(_) => vec!["--decline".to_owned()],
        None if has_values || question.url().is_some() => fields,
        None => vec!["--accept".to_owned()],
    };
    let key = short_key(question.key.as_deref().unwrap_or_default());
    let in_one_word = format!("--question={key}");
    let mut words = match question.key {
        None => Vec::new(),
        Some(_) if key.starts_with('-') => vec![in_one_word.as_str()],
        Some(_) => vec!["--question", key],
    };
    words.extend(values.iter().map(String::as_str));
    let answer = server.task_line("answer", id, &words);
    if let Some(invalid) = invalid {
        return format!("{invalid}; to say no:\n  {answer}");
    }
    match has_values {
        true => format!("to answer, with your own values:\n  {answer}"),
        false => format!("to answer:\n  {answer}"),
    }
}

/// What to do about a question that the server shows only to the client that answers it, as legacy servers do.
pub(crate) fn how_to_be_asked(server: &Server, id: &str) -> String {
    format!(
        "the server shows the question only to the client that answers it; to answer, on a terminal or with NAME=VALUE:\n  {}",
        server.task_line("answer", id, &[])
    )
}

/// What to do about a question that the server shows after it has acknowledged the answer.
pub(crate) fn asked_again(server: &Server, id: &str, question: &InputRequest) -> String {
    let key = output::plain(question.key.as_deref().unwrap_or_default(), "");
    format!(
        "`{key}` is answered, and the server has acknowledged that, so it is not answered again. If the task still asks it, the server is broken; to end the task:\n  {}",
        server.task_line("cancel", id, &[])
    )
}

/// So many questions of a task are explained. A server may ask any number.
pub(crate) const MOST_SHOWN: usize = 10;

/// Says that there are more questions than are explained.
pub(crate) fn more_questions(server: &Server, id: &str, asked: usize) {
    if asked > MOST_SHOWN {
        let all = server.task_line("task", id, &["--json"]);
        output::note(&format!(
            "and {} more questions; all of them:\n  {all}",
            asked - MOST_SHOWN
        ));
    }
}

/// What becomes of a task when this command ends.
pub(crate) fn what_goes_on(server: &Server) -> &'static str {
    match server.ends_its_tasks() {
        true => "the server is stopped with this command; the task goes on if the server keeps its tasks",
        false => "the task keeps running",
    }
}

/// What is needed to wait for a task.
pub(crate) struct TaskWaiter<'a> {
    pub(crate) server: &'a Server,
    /// The tool of the task, if that is known.
    pub(crate) tool: Option<&'a str>,
    pub(crate) display: &'a mut Display,
    pub(crate) interrupt: &'a mut Interrupt,
    pub(crate) unasked: &'a mut UnaskedQuestions,
    pub(crate) json: bool,
    /// Whether the task is that of an earlier call under the same idempotency key.
    pub(crate) is_repeated: bool,
}

impl TaskWaiter<'_> {
    /// What has ended the wait, and how to wait again if the task has not ended with it.
    async fn wait_failed(&self, error: RequestError, task: &TaskHandle) -> Failure {
        let again = || self.server.task_line("task", task.id(), &["--wait"]);
        let first = match &error {
            RequestError::Unauthorized { .. } | RequestError::Token { .. } => format!(
                "{}; after a login (`{}`) wait for it with `{}`",
                what_goes_on(self.server),
                self.server.login_line(),
                again()
            ),
            RequestError::AsksAgain { .. } => format!(
                "the wait has failed, and the task cannot go on; end it with `{}`",
                self.server.task_line("cancel", task.id(), &[])
            ),
            // The task has ended, or was cancelled.
            RequestError::InvalidOutput { .. } | RequestError::NoResult { .. } => return error.into(),
            // It is cancelled then, and its server may take its time.
            RequestError::Unanswered { .. } if record::read(task).await.is_ok_and(|now| now.status.is_final()) => {
                return Failure::from(error).explained("the task was cancelled, since nobody can answer what it asks");
            }
            RequestError::Unanswered { .. } => format!(
                "the wait has failed, and the task stays open, although it was asked to be cancelled; wait for it again with `{}`, or end it with `{}`",
                again(),
                self.server.task_line("cancel", task.id(), &[])
            ),
            // Other requests than `tasks/get` are refused with the same code.
            _ if error.is_unknown_task() && matches!(task.get().await, Err(now) if now.is_unknown_task()) => {
                return record::unread(task, error).await;
            }
            _ => format!(
                "the wait has failed, but the task may go on; wait for it again with `{}`",
                again()
            ),
        };
        Failure::from(error).explained(&first)
    }

    /// That the task is waited for, how to stop that, and how to come back.
    async fn notice(&self, task: &TaskHandle) -> String {
        let id = output::id(task.id());
        let address = match self.server.is_child() {
            true => String::new(),
            false => format!(" on {}", masked(task.connection().address())),
        };
        let waiting = output::plain(&format!("task {id}{address} is waited for"), "");
        // The connection may have ended meanwhile.
        let is_kept = task.connection().keeps_tasks().await.unwrap_or(true);
        match is_kept {
            true => format!(
                "{waiting}; Ctrl-C stops the wait, not the task; `{}` waits again",
                self.server.task_line("task", task.id(), &["--wait"])
            ),
            false => format!("{waiting}; Ctrl-C stops the wait, and the task ends with this command"),
        }
    }

    /// Waits for the task and prints its outcome. If something else comes first, the commands that go on with the task are printed.
    pub(crate) async fn wait(&mut self, task: &TaskHandle, until: Deadline) -> Result<Exit, Failure> {
        let ended = {
            let notice = self.notice(task).await;
            let display = &mut *self.display;
            let (mut is_said, mut is_begun) = (false, false);
            let mut show = |event: Event<'_>| {
                let has_ended = matches!(&event, Event::Status(task) if task.status.is_final());
                if !has_ended && !std::mem::replace(&mut is_begun, true) {
                    display.note(&notice);
                }
                let asked = match &event {
                    Event::Status(task) if !task.status.is_final() => task.poll_interval.unwrap_or_default(),
                    _ => 0,
                };
                if asked > LONGEST_POLL_INTERVAL && !std::mem::replace(&mut is_said, true) {
                    display.note(&format!(
                        "the server asks to look at the task every {asked} ms; it is looked at every {LONGEST_POLL_INTERVAL} ms"
                    ));
                }
                display.show(&event);
            };
            let waiting = task.wait(&mut show);
            WaitEnd::first(waiting, self.interrupt, self.unasked, until).await
        };
        let stopped = match ended {
            WaitEnd::Done(outcome) => {
                self.display.finish();
                let outcome = match outcome {
                    Ok(outcome) => outcome,
                    Err(error) => return Err(self.wait_failed(error, task).await.of_task(task.id())),
                };
                let status = match &outcome {
                    // Only the task says why.
                    Outcome::Cancelled => task.get().await.ok().and_then(|task| task.message),
                    _ => None,
                };
                let printing = PrintOptions {
                    json: self.json,
                    is_repeated: self.is_repeated,
                    task: Some((task.id(), status.as_deref())),
                };
                let exit = print_outcome(&outcome, printing);
                if !output::is_written() {
                    // It can be fetched again.
                    let again = self.server.task_line("task", task.id(), &["--wait"]);
                    output::note(&format!("the result was not written; to fetch it again:\n  {again}"));
                    return Ok(exit);
                }
                if let Err(error) = task.finish(&outcome).await {
                    record::warn(&error);
                }
                return Ok(exit);
            }
            WaitEnd::Asked(question) => WaitEnd::Asked(question),
            WaitEnd::Interrupted(exit) => WaitEnd::Interrupted(exit),
            WaitEnd::TimedOut => WaitEnd::TimedOut,
        };
        Ok(self.leave(task, stopped).await)
    }

    /// Prints the commands that go on with the task, because something came before its end. A task that asks, and would end with this command, is cancelled.
    pub(crate) async fn leave(&mut self, task: &TaskHandle, stopped: WaitEnd<()>) -> Exit {
        self.display.finish();
        // The connection may have ended meanwhile.
        let is_kept = task.connection().keeps_tasks().await.unwrap_or(true);
        let exit = match &stopped {
            WaitEnd::Asked(_) if !is_kept => Exit::Refused,
            stopped => stopped.exit(),
        };
        let server = self.server.as_json();
        match stopped {
            WaitEnd::Done(()) => {}
            WaitEnd::Asked(question) => {
                // Others may be open, too. The one that came here may be one of them.
                let mut asked = match is_kept {
                    true => record::read(task)
                        .await
                        .map(|task| task.input_requests)
                        .unwrap_or_default(),
                    false => Vec::new(),
                };
                asked = record::open_and_answered(task, asked).await.0;
                if asked.iter().all(|other| other.key != question.key) {
                    asked.insert(0, question.clone());
                }
                let has_several = asked.len() > 1;
                for question in asked.iter().take(MOST_SHOWN) {
                    let key = question.key.as_deref().filter(|_| has_several);
                    let key = key.map_or_else(String::new, |key| format!(" [{}]", output::plain(key, "")));
                    output::note(&format!(
                        "the task asks: {}{key}",
                        text_of_task(question, self.tool, task.id())
                    ));
                    for field in fields::of_question(question) {
                        output::note(&format!("  {field}"));
                    }
                }
                if !is_kept {
                    cancel(task).await;
                    output::note(&format!("longhaul: {NOT_KEPT}"));
                } else {
                    for question in asked.iter().take(MOST_SHOWN) {
                        output::note(&match question.key {
                            Some(_) => how_to_answer(self.server, task.id(), question),
                            None => how_to_be_asked(self.server, task.id()),
                        });
                    }
                    more_questions(self.server, task.id(), asked.len());
                }
                if self.json {
                    // What only the status says is no question that the server has sent.
                    let is_sent = question.key.is_some() || question.form().is_some() || question.url().is_some();
                    let first = is_sent.then(|| result::question(&question));
                    let mut shown = json!({"taskId": task.id(), "server": server, "asks": true, "question": first});
                    if !is_kept {
                        shown["cancelled"] = true.into();
                        let failure = Failure::unanswered(NOT_KEPT.to_owned()).of_task(task.id());
                        shown["error"] = failure.as_json();
                    }
                    if let Some(asked) = result::questions(&asked) {
                        shown["inputRequests"] = asked;
                    }
                    output::json_line(&shown);
                }
            }
            WaitEnd::Interrupted(_) | WaitEnd::TimedOut => {
                if let Some(question) = self.unasked.left().filter(|_| is_kept) {
                    output::note(&how_to_answer(self.server, task.id(), &question));
                }
                let again = self.server.task_line("task", task.id(), &["--wait"]);
                let goes_on = match is_kept || self.server.is_child() {
                    true => what_goes_on(self.server),
                    false => "the task ends with this command, unless the server keeps it for other connections",
                };
                output::note(&format!("{goes_on}; to wait for it again:\n  {again}"));
                if self.json {
                    output::json_line(&json!({"taskId": task.id(), "server": server, "interrupted": true}));
                }
            }
        }
        exit
    }
}

/// Why a task that asks is cancelled.
const NOT_KEPT: &str =
    "there is no terminal to answer on, and the task would end with this command, so it is cancelled";

/// Cancels a task that asks and ends with this command, and records that nobody has answered.
pub(crate) async fn cancel(task: &TaskHandle) {
    if let Err(error) = task.cancel().await {
        output::note(&format!(
            "longhaul: the task was not cancelled, and ends with this command: {error}"
        ));
    }
    if let Err(error) = task.unanswered().await {
        record::warn(&error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_key_is_named_by_its_end() {
        assert_eq!(short_key("q1"), "q1");
        let longest = "k".repeat(LONGEST_KEY);
        assert_eq!(short_key(&longest), longest);
        let long = format!("{}-of-question-\u{e4}7", "x".repeat(90));
        assert_eq!(short_key(&long), "-question-\u{e4}7");
    }
}
