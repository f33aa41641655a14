//! How an executor says that an attempt ended.

use longhaul_core::{Outcome, StopReason};

/// How an attempt ended. What follows is decided by the runtime.
#[derive(Debug, Clone, PartialEq)]
pub enum ExecutionEnd {
    /// The tool returned its result.
    Finished(Outcome),
    /// The tool returned an error (`retry.on` calls this `error`). The outcome counts if there is no retry.
    Errored(Outcome),
    /// The same of a command that exited with this code (`retry.on` calls this `error`, and `exit:CODE`).
    Exited(u8, Outcome),
    /// It took longer than the tool's timeout, and was stopped (`retry.on` calls this `timeout`). The outcome counts if there is no retry.
    TimedOut(Outcome),
    /// There is no record of how it ended (`retry.on` calls this `crash`).
    Crashed,
    /// The same, because the supervisor of the work died with it.
    SupervisorKilled,
    /// The same, because the record of how it ended is damaged. The work itself has ended.
    RecordDamaged,
    /// Nobody knows how it ended, and the work may be done twice (`retry.on` calls this `crash`). The outcome, which says what is known, counts if there is no retry.
    OutcomeUnknown(Outcome),
    /// There is no record of how it ended, and what it started may still run. So it is not retried, whatever `retry.on` says. The outcome says
    /// what is known.
    Lost(Outcome),
    /// It was stopped, for this reason.
    Stopped(StopReason),
    /// Nothing was started, and nothing will be: the attempt does not count. The text is for the log.
    NeverStarted(String),
    /// Nothing was started, since it [must not begin](crate::TaskContext::end_unless_it_may_begin) now. It is queued again: the attempt does not count.
    NotBegun,
}
