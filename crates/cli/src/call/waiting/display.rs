//! Progress on standard error: a bar on a terminal, else plain lines.

use crate::output::{self, fraction::fraction_in, states};
use crate::servers::notice::with_notice;
use indicatif::{ProgressBar, ProgressStyle};
use longhaul_client::{Event, Progress, SystemClock, TaskSnapshot, TaskStatus};
use longhaul_core::{Clock, Millis, approximate_duration};
use std::{
    io::{self, IsTerminal},
    time::Duration,
};

/// Shows events as they come.
pub(crate) struct Display {
    shown: ProgressOutput,
    /// `None` if nothing is said of streams.
    streams: Option<StreamNotes>,
}

enum ProgressOutput {
    /// A terminal: one line that is updated.
    Bar(ProgressBar),
    /// A file or a pipe: a line for each change.
    Lines {
        /// The last line, so that it is not repeated.
        last: String,
        /// When it was last said that a server is not there.
        retried_at: Duration,
    },
}

/// The lines about lost streams: at most one a minute, since a server may lose its streams again and again.
#[derive(Default)]
struct StreamNotes {
    said_at: Option<Duration>,
    /// The latest loss was said.
    is_said: bool,
}

/// Between two losses that are said.
const BETWEEN_LOSSES: Duration = Duration::from_secs(60);

const TICK: Duration = Duration::from_millis(120);
const LENGTH: u64 = 1000;

impl Display {
    /// Chooses by whether standard error is a terminal.
    pub(crate) fn new() -> Self {
        let shown = match io::stderr().is_terminal() {
            false => ProgressOutput::Lines {
                last: String::new(),
                retried_at: Duration::ZERO,
            },
            true => {
                let bar = ProgressBar::new_spinner();
                bar.set_style(spinner_style());
                bar.enable_steady_tick(TICK);
                ProgressOutput::Bar(bar)
            }
        };
        Self {
            shown,
            streams: Some(StreamNotes::default()),
        }
    }

    /// A line of a table on the terminal, which begins with this name. The calls of a table share their streams, so nothing is said of those.
    pub(crate) fn in_table(bar: ProgressBar, name: String) -> Self {
        bar.set_style(spinner_style());
        bar.set_prefix(name);
        bar.enable_steady_tick(TICK);
        Self {
            shown: ProgressOutput::Bar(bar),
            streams: None,
        }
    }

    /// The line on the terminal, if there is one.
    pub(crate) fn bar(&self) -> Option<ProgressBar> {
        match &self.shown {
            ProgressOutput::Bar(bar) => Some(bar.clone()),
            ProgressOutput::Lines { .. } => None,
        }
    }

    /// Does the work, and shows meanwhile that the server is waited for.
    pub(crate) async fn waits_for<T>(&self, address: &str, work: impl Future<Output = T>) -> T {
        match &self.shown {
            ProgressOutput::Bar(bar) => {
                bar.set_message(output::plain(&format!("waiting for {address} to answer"), ""));
                let done = work.await;
                bar.set_message("");
                done
            }
            ProgressOutput::Lines { .. } => with_notice(address, work).await,
        }
    }

    /// Shows an event.
    pub(crate) fn show(&mut self, event: &Event<'_>) {
        match event {
            Event::Progress(progress) => {
                let fraction = fraction(progress);
                let message = match (&progress.message, fraction, &self.shown) {
                    (Some(message), ..) => message.clone(),
                    (None, Some(fraction), ProgressOutput::Lines { .. }) => {
                        format!("running, {:.0}%", (fraction * 100.0).floor())
                    }
                    (None, ..) => "running".to_owned(),
                };
                self.progress(&message, fraction);
            }
            Event::TaskProgress(progress) => match &progress.message {
                Some(message) => self.progress(message, fraction(progress)),
                // Its status says it in words, or nothing.
                None => self.fill(fraction(progress)),
            },
            Event::Status(task) if !task.status.is_final() => {
                let message = status_line(task);
                let fraction = fraction_in(&message);
                self.progress(&message, fraction);
            }
            Event::Retrying {
                error,
                attempt,
                retry_in,
            } => self.show_retry(&error.to_string(), *attempt, *retry_in),
            Event::Recovered => self.note("the server answers again"),
            Event::StreamLost { reason } => self.stream_lost(reason),
            Event::StreamReopened => self.stream_reopened(),
            Event::AnswerRefused { error } => self.note(&format!("longhaul: the answer was refused: {error}")),
            Event::NotRecorded { error } => self.note(&format!("longhaul: this task is not recorded: {error}")),
            _ => {}
        }
    }

    /// Prints a line that stays.
    pub(crate) fn note(&mut self, line: &str) {
        match &self.shown {
            ProgressOutput::Bar(bar) => bar.suspend(|| output::note(line)),
            ProgressOutput::Lines { .. } => output::note(line),
        }
    }

    /// Removes the bar, so that later output begins on an empty line.
    pub(crate) fn finish(&mut self) {
        if let ProgressOutput::Bar(bar) = &self.shown {
            bar.finish_and_clear();
        }
    }

    fn progress(&mut self, message: &str, fraction: Option<f64>) {
        // A server's text may hold terminal control sequences.
        let message = output::plain(message, "");
        self.fill(fraction);
        match &mut self.shown {
            ProgressOutput::Bar(bar) => bar.set_message(message),
            ProgressOutput::Lines { last, .. } if *last != message => {
                output::note(&message);
                *last = message;
            }
            ProgressOutput::Lines { .. } => {}
        }
    }

    /// Fills the bar so far.
    fn fill(&self, fraction: Option<f64>) {
        let (ProgressOutput::Bar(bar), Some(fraction)) = (&self.shown, fraction) else {
            return;
        };
        if bar.length().is_none() {
            bar.set_length(LENGTH);
            bar.set_style(bar_style());
        }
        bar.set_position((fraction * LENGTH as f64) as u64);
    }

    fn stream_lost(&mut self, reason: &str) {
        let Some(streams) = &mut self.streams else { return };
        let now = SystemClock.monotonic();
        let is_recent = |said_at| now.saturating_sub(said_at) < BETWEEN_LOSSES;
        streams.is_said = !streams.said_at.is_some_and(is_recent);
        if streams.is_said {
            streams.said_at = Some(now);
            self.note(&format!(
                "the stream of the server was lost, and is opened again: {reason}"
            ));
        }
    }

    fn stream_reopened(&mut self) {
        let streams = self.streams.as_mut();
        if streams.is_some_and(|streams| std::mem::take(&mut streams.is_said)) {
            self.note("the stream of the server is open again");
        }
    }

    /// Shows every retry on a terminal, else the first of several, and one a minute of the others.
    fn show_retry(&mut self, error: &str, attempt: u32, retry_in: Millis) {
        let wait = approximate_duration(retry_in.div_ceil(1000).max(1) * 1000);
        let line = format!("{error}; retrying");
        match &mut self.shown {
            ProgressOutput::Bar(bar) => bar.set_message(output::plain(&format!("{error}; retrying in {wait}"), "")),
            ProgressOutput::Lines { last, retried_at } => {
                let now = SystemClock.monotonic();
                if attempt == 1 || now.saturating_sub(*retried_at) >= BETWEEN_LOSSES {
                    output::note(&line);
                    (*last, *retried_at) = (line, now);
                }
            }
        }
    }
}

fn spinner_style() -> ProgressStyle {
    style("{spinner} {elapsed} {prefix}{wide_msg}")
}

fn bar_style() -> ProgressStyle {
    style("{spinner} {elapsed} [{bar:30}] {percent}% {prefix}{wide_msg}")
}

fn style(template: &str) -> ProgressStyle {
    // The templates are constants that parse.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

fn status_line(task: &TaskSnapshot) -> String {
    match (task.status, &task.message) {
        (TaskStatus::InputRequired, Some(question)) => format!("asks: {question}"),
        (TaskStatus::InputRequired, None) => "asks".to_owned(),
        (_, Some(message)) => match &task.unknown_status {
            Some(_) => format!("{}: {message}", states::of_snapshot(task)),
            None => message.clone(),
        },
        (_, None) => states::of_snapshot(task).to_owned(),
    }
}

fn fraction(progress: &Progress) -> Option<f64> {
    let total = progress.total.filter(|total| *total > 0.0)?;
    Some((progress.progress / total).clamp(0.0, 1.0))
}
