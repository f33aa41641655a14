//! Status lines, progress and log messages of running work.

use super::TaskContext;
use crate::{execution_end::End, pending_report::PendingReport, progress_stream::ToolMessage};
use longhaul_core::{Event, Json, LogLevel, Progress};
use parking_lot::MutexGuard;
use std::sync::Arc;

impl TaskContext {
    /// Says that the work has begun. Best effort, like all reports. For work that lives in this process; of any other the start is
    /// [recorded](Self::record_start).
    pub fn started(&self) {
        self.tell(PendingReport::started);
    }

    /// Commits that the attempt starts work outside of this process; to be called when everything is ready and nothing is started yet. From
    /// here on a later process does not take missing records of the attempt for one that was never started. Once it is committed, a
    /// second call does nothing.
    ///
    /// # Errors
    /// The end of the attempt: nothing may be started.
    pub async fn record_start(&self) -> Result<(), End> {
        if self.pending_report().is_begun_told() {
            return Ok(());
        }
        let node = &self.shared.node;
        let started = node.retry_store("recording the start of an attempt", || self.apply(vec![Event::Started]));
        let written = tokio::select! {
            biased;
            written = started => written,
            // A store without room may keep it waiting. If it was written after all, that does no harm: nothing is started.
            reason = self.stopped() => return Err(End::Stopped(reason)),
        };
        match written {
            Ok(task) => {
                self.has_begun();
                node.changed(&task);
                task.stop.map_or(Ok(()), |stop| Err(End::Stopped(stop.reason)))
            }
            Err(error) => Err(End::NeverStarted(error.to_string())),
        }
    }

    /// A line for people, of which 1 KiB is kept: the latest one is shown as the task's status message, at most twice a second. While code is run again through its
    /// journal, it is kept back: only the latest is shown once there is nothing more that was before.
    pub fn status(&self, line: impl Into<Arc<str>>) {
        let line = line.into();
        self.tell(|report| report.status(line));
    }

    /// How far the work has come. A client that waits hears every figure; of a task the latest is kept, at most twice a second. NaN
    /// and infinities are no figures, and are not told. Nor is what code says that is run again, while it comes to what was before.
    pub fn progress(&self, current: f64, total: Option<f64>) {
        self.report(current, total, None);
    }

    /// As [`progress`](Self::progress), with a line for people, which becomes the status message too.
    pub fn report(&self, current: f64, total: Option<f64>, message: Option<&str>) {
        let message: Option<Arc<str>> = message.map(Arc::from);
        let said = ToolMessage::progress(current, total, message.clone());
        self.tell(|report| {
            if let Some(ToolMessage::Progress { current, total, .. }) = said {
                report.progress(Progress { current, total });
            }
            if let Some(line) = message {
                report.status(line);
            }
        });
        if let Some(said) = said
            && self.shared.node.progress_streams.has_subscribers()
            && !self.is_behind()
        {
            self.say(said);
        }
    }

    /// A log message for a client that waits and wants those. Nothing of it is kept. Code that is run again is not heard while it comes to
    /// what was before.
    pub fn log(&self, level: LogLevel, logger: Option<&str>, data: Json) {
        if self.shared.node.progress_streams.has_subscribers() && !self.is_behind() {
            self.say(ToolMessage::Log {
                level,
                logger: logger.map(Arc::from),
                data,
            });
        }
    }

    /// Says that what there was to do on a page is done; `id` is the `elicitationId` of the question that sent a person there. Only clients of
    /// 2025-11-25 are told, and nothing of it is kept.
    pub fn elicitation_complete(&self, id: &Arc<str>) {
        self.say(ToolMessage::ElicitationComplete { id: Arc::clone(id) });
    }

    /// Says that there is nothing to say for a while, so that a legacy stream may be closed until then.
    pub fn quiet(&self) {
        self.say(ToolMessage::Quiet);
    }

    fn say(&self, said: ToolMessage) {
        self.shared.node.progress_streams.publish(&self.shared.header.id, said);
    }

    /// Whether this branch, or one it has forked into, has yet to come to what is in the journal.
    pub(super) fn is_behind(&self) -> bool {
        let journal = self.shared.journal.as_ref();
        journal.is_some_and(|journal| journal.is_behind(&self.path))
    }

    fn is_replayed(&self) -> bool {
        let journal = self.shared.journal.as_ref();
        journal.is_some_and(|journal| journal.is_replayed())
    }

    /// The code has come to something that was before. What it had said on the way is told now, if that was the last.
    pub(crate) fn note_replayed(&self) {
        if !self.is_replayed() {
            self.shared.report_changed.notify_one();
        }
    }

    fn tell(&self, write: impl FnOnce(&mut PendingReport)) {
        write(&mut self.pending_report());
        self.shared.report_changed.notify_one();
    }

    pub(super) fn pending_report(&self) -> MutexGuard<'_, PendingReport> {
        self.shared.pending_report.lock()
    }

    /// Completes when there are reports that were not taken.
    pub(crate) async fn has_report(&self) {
        loop {
            let replayed = self.is_replayed();
            if !self.pending_report().is_empty(replayed) {
                return;
            }
            self.shared.report_changed.notified().await;
        }
    }

    pub(crate) fn take_report(&self) -> PendingReport {
        let replayed = self.is_replayed();
        self.pending_report().take(replayed)
    }

    /// Keeps reports that could not be written for the next try; what was said since counts more.
    pub(crate) fn put_back(&self, older: PendingReport) {
        self.pending_report().fill_from(older);
    }

    /// Notes that it is written that the work has begun.
    pub(crate) fn has_begun(&self) {
        self.pending_report().begun_is_told();
    }
}
