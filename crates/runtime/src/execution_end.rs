//! How an executor says that an attempt ended.

use longhaul_core::{Outcome, StopReason};

/// How an attempt ended. What follows from it is the runtime's business.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    /// The tool gave its answer.
    Finished(Outcome),
    /// The tool ended and said that it failed (`retry.on` names this `error`); the outcome counts if it is not run again.
    Errored(Outcome),
    /// There is no record of how it ended (`retry.on` names this `crash`).
    Crashed,
    /// The same, because what supervises the work died with it; this process need not have.
    SupervisorKilled,
    /// The same, because the record of how it ended is damaged. The work itself has ended.
    RecordDamaged,
    /// There is no record of how it ended, and what it started may still run: so it is not run again, whatever `retry.on` says. The
    /// outcome says what is known.
    Lost(Outcome),
    /// It was made to stop, for this reason.
    Stopped(StopReason),
    /// It is certain that nothing was started, and that nothing will be: the attempt costs nothing. The text is for the log.
    NeverStarted(String),
}
