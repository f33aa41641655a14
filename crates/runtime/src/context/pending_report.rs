//! Reports of running work that are not written yet.

use longhaul_core::{Event, MAX_STATUS_BYTES, Progress, truncate};
use std::sync::Arc;

/// The reports of one attempt: the latest of each kind.
#[derive(Default)]
pub(crate) struct PendingReport {
    start: StartReport,
    status: Option<Arc<str>>,
    progress: Option<Progress>,
}

/// The report that the work has started, which is written once.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum StartReport {
    NotStarted,
    Pending,
    #[default]
    Written,
}

impl PendingReport {
    /// Of an attempt that is `starting`, or is known to have started.
    pub(crate) fn of_attempt(starting: bool) -> Self {
        Self {
            start: if starting {
                StartReport::NotStarted
            } else {
                StartReport::Written
            },
            ..Self::default()
        }
    }

    pub(crate) fn started(&mut self) {
        if self.start == StartReport::NotStarted {
            self.start = StartReport::Pending;
        }
    }

    /// Whether the work is known to have started.
    pub(crate) fn has_started(&self) -> bool {
        self.start != StartReport::NotStarted
    }

    /// Whether its start is written, or about to be.
    pub(crate) fn is_start_written(&self) -> bool {
        self.start == StartReport::Written
    }

    /// Notes that its start is written already.
    pub(crate) fn start_is_written(&mut self) {
        self.start = StartReport::Written;
    }

    /// Sets the status line, cut to the longest that is stored.
    pub(crate) fn status(&mut self, line: Arc<str>) {
        self.status = Some(match line.len() {
            0..=MAX_STATUS_BYTES => line,
            _ => Arc::from(truncate(&line, MAX_STATUS_BYTES)),
        });
    }

    pub(crate) fn progress(&mut self, progress: Progress) {
        self.progress = Some(progress);
    }

    /// Whether there is nothing to write. During replay only the start is written, since status and progress are old.
    pub(crate) fn is_empty(&self, replaying: bool) -> bool {
        self.start != StartReport::Pending && (replaying || (self.status.is_none() && self.progress.is_none()))
    }

    /// Takes what is to be written.
    pub(crate) fn take(&mut self, replaying: bool) -> Self {
        let start = match self.start {
            StartReport::NotStarted => StartReport::NotStarted,
            StartReport::Pending | StartReport::Written => StartReport::Written,
        };
        let kept = Self {
            start,
            status: self.status.take_if(|_| replaying),
            progress: self.progress.take_if(|_| replaying),
        };
        std::mem::replace(self, kept)
    }

    /// Adds from `older` what has no newer value.
    pub(crate) fn fill_from(&mut self, older: Self) {
        if older.start == StartReport::Pending {
            self.start = StartReport::Pending;
        }
        self.status = self.status.take().or(older.status);
        self.progress = self.progress.take().or(older.progress);
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        if self.start == StartReport::Pending {
            events.push(Event::Started);
        }
        if self.status.is_some() || self.progress.is_some() {
            events.push(Event::Reported {
                status: self.status.clone(),
                progress: self.progress,
            });
        }
        events
    }
}
