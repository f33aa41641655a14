//! Progress on standard error: a bar on a terminal, else plain lines.

use super::with_notice;
use crate::{fraction::fraction_in, output, states};
use indicatif::{ProgressBar, ProgressStyle};
use longhaul_client::{Event, Progress, TaskSnapshot, TaskStatus};
use longhaul_core::{Millis, format_duration};
use std::{
    io::{self, IsTerminal},
    time::Duration,
};

/// Shows events as they come.
pub(crate) enum Display {
    /// A terminal: one line that is updated.
    Bar(ProgressBar),
    /// A file or a pipe: a line for each change.
    Lines {
        /// The last line, so that it is not repeated.
        last: String,
    },
}

const TICK: Duration = Duration::from_millis(120);
const LENGTH: u64 = 1000;

impl Display {
    /// Chooses by whether standard error is a terminal.
    pub(crate) fn new() -> Self {
        if !io::stderr().is_terminal() {
            return Self::Lines { last: String::new() };
        }
        let bar = ProgressBar::new_spinner();
        bar.set_style(spinner_style());
        bar.enable_steady_tick(TICK);
        Self::Bar(bar)
    }

    /// A line of a table on the terminal, which begins with this name.
    pub(crate) fn in_table(bar: ProgressBar, name: String) -> Self {
        bar.set_style(spinner_style());
        bar.set_prefix(name);
        bar.enable_steady_tick(TICK);
        Self::Bar(bar)
    }

    /// The line on the terminal, if there is one.
    pub(crate) fn bar(&self) -> Option<ProgressBar> {
        match self {
            Self::Bar(bar) => Some(bar.clone()),
            Self::Lines { .. } => None,
        }
    }

    /// Does the work, and shows meanwhile that the server is waited for.
    pub(crate) async fn waits_for<T>(&self, address: &str, work: impl Future<Output = T>) -> T {
        match self {
            Self::Bar(bar) => {
                bar.set_message(output::plain(&format!("waiting for {address} to answer"), ""));
                let done = work.await;
                bar.set_message("");
                done
            }
            Self::Lines { .. } => with_notice(address, work).await,
        }
    }

    /// Shows an event.
    pub(crate) fn show(&mut self, event: &Event<'_>) {
        match event {
            Event::Progress(progress) => {
                self.progress(progress.message.as_deref().unwrap_or("running"), fraction(progress))
            }
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
            Event::AnswerRefused { error } => self.note(&format!("longhaul: the answer was refused: {error}")),
            Event::NotRecorded { error } => self.note(&format!("longhaul: this task is not recorded: {error}")),
            _ => {}
        }
    }

    /// Prints a line that stays.
    pub(crate) fn note(&mut self, line: &str) {
        match self {
            Self::Bar(bar) => bar.suspend(|| output::note(line)),
            Self::Lines { .. } => output::note(line),
        }
    }

    /// Removes the bar, so that later output begins on an empty line.
    pub(crate) fn finish(&mut self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }

    fn progress(&mut self, message: &str, fraction: Option<f64>) {
        // A server's text may hold terminal control sequences.
        let message = output::plain(message, "");
        match self {
            Self::Bar(bar) => {
                if let Some(fraction) = fraction {
                    if bar.length().is_none() {
                        bar.set_length(LENGTH);
                        bar.set_style(bar_style());
                    }
                    bar.set_position((fraction * LENGTH as f64) as u64);
                }
                bar.set_message(message);
            }
            Self::Lines { last } if *last != message => {
                output::note(&message);
                *last = message;
            }
            Self::Lines { .. } => {}
        }
    }

    /// Shows every retry on a terminal, else only the first of several.
    fn show_retry(&mut self, error: &str, attempt: u32, retry_in: Millis) {
        let wait = format_duration(retry_in.div_ceil(1000).max(1) * 1000);
        let line = format!("{error}; retrying");
        match self {
            Self::Bar(bar) => bar.set_message(output::plain(&format!("{error}; retrying in {wait}"), "")),
            Self::Lines { last } if attempt == 1 => {
                output::note(&line);
                *last = line;
            }
            Self::Lines { .. } => {}
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
        (_, Some(message)) => message.clone(),
        (status, None) => states::of_task(status).to_owned(),
    }
}

fn fraction(progress: &Progress) -> Option<f64> {
    let total = progress.total.filter(|total| *total > 0.0)?;
    Some((progress.progress / total).clamp(0.0, 1.0))
}
