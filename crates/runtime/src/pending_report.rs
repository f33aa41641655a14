//! What is known about running work and not yet written.

use longhaul_core::{Event, MAX_STATUS_BYTES, Progress, truncate};
use std::sync::Arc;

/// PendingReport of one attempt: the latest of each kind only.
#[derive(Default)]
pub(crate) struct PendingReport {
    begun: Begun,
    status: Option<Arc<str>>,
    progress: Option<Progress>,
}

/// Whether the work has begun, which is told once.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Begun {
    NotYet,
    ToTell,
    #[default]
    Told,
}

impl PendingReport {
    /// Of an attempt that is `starting`, or is known to have begun.
    pub(crate) fn of_attempt(starting: bool) -> Self {
        Self {
            begun: if starting { Begun::NotYet } else { Begun::Told },
            ..Self::default()
        }
    }

    pub(crate) fn started(&mut self) {
        if self.begun == Begun::NotYet {
            self.begun = Begun::ToTell;
        }
    }

    /// Whether the work is known to have begun.
    pub(crate) fn have_begun(&self) -> bool {
        self.begun != Begun::NotYet
    }

    /// Whether its beginning is written, or about to be.
    pub(crate) fn is_begun_told(&self) -> bool {
        self.begun == Begun::Told
    }

    /// Notes that its beginning is written already.
    pub(crate) fn begun_is_told(&mut self) {
        self.begun = Begun::Told;
    }

    /// A line for people, or as much of it as is one.
    pub(crate) fn status(&mut self, line: Arc<str>) {
        self.status = Some(match line.len() {
            0..=MAX_STATUS_BYTES => line,
            _ => Arc::from(truncate(&line, MAX_STATUS_BYTES)),
        });
    }

    pub(crate) fn progress(&mut self, progress: Progress) {
        self.progress = Some(progress);
    }

    /// Whether there is nothing to tell. Work that is `replayed` has only begun: its lines and figures are old ones.
    pub(crate) fn is_empty(&self, replayed: bool) -> bool {
        self.begun != Begun::ToTell && (replayed || (self.status.is_none() && self.progress.is_none()))
    }

    /// Takes what is to be told.
    pub(crate) fn take(&mut self, replayed: bool) -> Self {
        let begun = match self.begun {
            Begun::NotYet => Begun::NotYet,
            Begun::ToTell | Begun::Told => Begun::Told,
        };
        let kept = Self {
            begun,
            status: self.status.take_if(|_| replayed),
            progress: self.progress.take_if(|_| replayed),
        };
        std::mem::replace(self, kept)
    }

    /// Adds what `older` has where there is nothing newer.
    pub(crate) fn fill_from(&mut self, older: Self) {
        if older.begun == Begun::ToTell {
            self.begun = Begun::ToTell;
        }
        self.status = self.status.take().or(older.status);
        self.progress = self.progress.take().or(older.progress);
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        if self.begun == Begun::ToTell {
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
