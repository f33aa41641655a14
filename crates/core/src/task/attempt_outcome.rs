//! How an attempt has ended.

use crate::AttemptEnd;

/// How an attempt has ended, without what it has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// [`AttemptEnd::Finished`]
    Finished,
    /// [`AttemptEnd::Failed`]
    Failed,
    /// [`AttemptEnd::Stopped`]
    Stopped,
    /// [`AttemptEnd::NeverStarted`]
    NeverStarted,
    /// [`AttemptEnd::Suspended`]
    Suspended,
    /// [`AttemptEnd::Blocked`]
    Blocked,
}

impl AttemptOutcome {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::Finished,
        Self::Failed,
        Self::Stopped,
        Self::NeverStarted,
        Self::Suspended,
        Self::Blocked,
    ];

    /// The word for it in metrics and traces.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
            Self::NeverStarted => "never_started",
            Self::Suspended => "suspended",
            Self::Blocked => "blocked",
        }
    }
}

impl From<&AttemptEnd> for AttemptOutcome {
    fn from(end: &AttemptEnd) -> Self {
        match end {
            AttemptEnd::Finished(_) => Self::Finished,
            AttemptEnd::Failed { .. } => Self::Failed,
            AttemptEnd::Stopped(_) => Self::Stopped,
            AttemptEnd::NeverStarted { .. } => Self::NeverStarted,
            AttemptEnd::Suspended { .. } => Self::Suspended,
            AttemptEnd::Blocked(_) => Self::Blocked,
        }
    }
}
