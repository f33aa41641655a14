//! Status lines, progress and log messages of running work.

use super::{TaskContext, pending_report::PendingReport};
use crate::{execution_end::ExecutionEnd, node::ToolMessage};
use longhaul_core::{Event, Json, LogLevel, Progress};
use parking_lot::MutexGuard;
use std::{sync::Arc, time::Duration};

impl TaskContext {
    /// Reports that the work has started. Best effort, like all reports. For work inside this process; the start of any other work is
    /// [recorded](Self::record_start).
    pub fn started(&self) {
        self.update_report(PendingReport::started);
    }

    /// Commits that the attempt starts work outside this process. Call it when everything is ready and nothing is started yet: from here on,
    /// a later process does not take an attempt without records for one that never started. A second call does nothing.
    ///
    /// # Errors
    /// The end of the attempt: nothing may be started.
    pub async fn record_start(&self) -> Result<(), ExecutionEnd> {
        if self.pending_report().is_start_written() {
            return Ok(());
        }
        let node = &self.shared.node;
        let recorded = async {
            let mut written = self.shared.written.lock().await;
            let start = self.change_once(&mut written, vec![Event::Started]);
            node.retry_store("recording the start of an attempt", || node.store.apply(start.clone()))
                .await
        };
        let recorded = tokio::select! {
            biased;
            recorded = recorded => recorded,
            // A full store may take long. If the start is written after all, that does no harm: nothing has started.
            reason = self.stopped() => return Err(ExecutionEnd::Stopped(reason)),
        };
        match recorded {
            Ok(task) => {
                self.start_is_written();
                node.changed(&task);
                task.stop.map_or(Ok(()), |stop| Err(ExecutionEnd::Stopped(stop.reason)))
            }
            Err(error) => Err(ExecutionEnd::NeverStarted(error.to_string())),
        }
    }

    /// Work outside this process that began at `began`, by [`Clock::monotonic`](longhaul_core::Clock::monotonic), has started, as far as is known
    /// now. Call it once, for the log: it says so if attempts of the tool could not be started before.
    pub fn confirm_start(&self, began: Duration) {
        let node = &self.shared.node;
        let now = node.ports.clock.monotonic();
        node.failed_starts.is_over(&self.shared.header.tool, began, now);
    }

    /// Sets the task's status message, of which 1 KiB is kept. The latest one is written at most twice a second. During replay none is written;
    /// after it, the latest is.
    pub fn status(&self, line: impl Into<Arc<str>>) {
        let line = line.into();
        self.update_report(|report| report.status(line));
    }

    /// Reports progress. A client that waits is sent every value; for a task the latest is written, at most twice a second. NaN and
    /// infinities are ignored, and so is everything during replay.
    pub fn progress(&self, current: f64, total: Option<f64>) {
        self.report(current, total, None);
    }

    /// As [`progress`](Self::progress), with a message, which becomes the status message too.
    pub fn report(&self, current: f64, total: Option<f64>, message: Option<&str>) {
        let message: Option<Arc<str>> = message.map(Arc::from);
        match ToolMessage::progress(current, total, message.clone()) {
            Some(progress) => self.send(progress),
            None => message.into_iter().for_each(|line| self.status(line)),
        }
    }

    /// Sends a log message to the clients that wait for the task and have asked for such messages. It is not stored. Suppressed during
    /// replay.
    pub fn log(&self, level: LogLevel, logger: Option<&str>, data: Json) {
        self.send(ToolMessage::Log {
            level,
            logger: logger.map(Arc::from),
            data,
            relayed: None,
        });
    }

    /// Reports that the user has finished with a page that a question sent them to; `id` is the question's `elicitationId`. Only clients of
    /// 2025-11-25 are sent this. It is not stored.
    pub fn elicitation_complete(&self, id: &Arc<str>) {
        self.send(ToolMessage::ElicitationComplete { id: Arc::clone(id) });
    }

    /// Says that the work begins only now, for an executor that [prepares](crate::Executor::prepares): the time after which a call becomes a task counts from here.
    pub fn begins(&self) {
        self.send(ToolMessage::Begins);
    }

    /// Says that the work lasts longer: a call that is to become a task after a while ([`TaskPolicy::After`](longhaul_core::TaskPolicy)) does so now. Other calls
    /// stay what they are.
    pub fn becomes_task(&self) {
        self.send(ToolMessage::BecomesTask);
    }

    /// Lets the stream of a legacy client be closed, since nothing will be sent for a while. The client resumes it.
    pub fn close_stream(&self) {
        self.send(ToolMessage::CloseStream);
    }

    /// Sends a message to the clients that follow the task. Progress is reported as by [`report`](Self::report). During replay progress and log messages are
    /// suppressed.
    pub fn send(&self, message: ToolMessage) {
        if let ToolMessage::Progress {
            current,
            total,
            message,
            ..
        } = &message
        {
            let progress = Progress {
                current: *current,
                total: *total,
            };
            self.update_report(|report| {
                report.progress(progress);
                if let Some(line) = message {
                    report.status(Arc::clone(line));
                }
            });
        }
        let is_suppressed = matches!(message, ToolMessage::Progress { .. } | ToolMessage::Log { .. });
        let (node, header) = (&self.shared.node, &self.shared.header);
        // Whoever called may wait at another node.
        let is_remote = header.accepted_by != node.id && node.store.capabilities().many_nodes;
        let is_heard = is_remote || node.progress_streams.has_subscribers();
        if !is_heard || is_suppressed && self.is_branch_replaying() {
            return;
        }
        if is_remote {
            node.messages.pass_on(header.accepted_by, &header.id, &message);
        }
        node.progress_streams.publish(&header.id, message);
    }

    /// Whether this branch, or one forked from it, is being replayed.
    fn is_branch_replaying(&self) -> bool {
        let journal = self.shared.journal.as_ref();
        journal.is_some_and(|journal| journal.is_branch_replaying(&self.path))
    }

    /// Whether any branch is being replayed.
    fn is_replaying(&self) -> bool {
        let journal = self.shared.journal.as_ref();
        journal.is_some_and(|journal| journal.is_replaying())
    }

    /// An entry was replayed. If it was the last one, reports that replay has held back are written now.
    pub(crate) fn entry_replayed(&self) {
        if !self.is_replaying() {
            self.shared.report_changed.notify_one();
        }
    }

    fn update_report(&self, write: impl FnOnce(&mut PendingReport)) {
        write(&mut self.pending_report());
        self.shared.report_changed.notify_one();
    }

    pub(super) fn pending_report(&self) -> MutexGuard<'_, PendingReport> {
        self.shared.pending_report.lock()
    }

    /// Completes when there is a report to write.
    pub(crate) async fn has_report(&self) {
        loop {
            let replaying = self.is_replaying();
            if !self.pending_report().is_empty(replaying) {
                return;
            }
            self.shared.report_changed.notified().await;
        }
    }

    pub(crate) fn take_report(&self) -> PendingReport {
        let replaying = self.is_replaying();
        self.pending_report().take(replaying)
    }

    /// Keeps a report that could not be written for the next try, except for what newer reports replace.
    pub(crate) fn put_back(&self, older: PendingReport) {
        self.pending_report().fill_from(older);
    }

    pub(crate) fn start_is_written(&self) {
        self.pending_report().start_is_written();
    }
}
