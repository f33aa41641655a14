//! Faults planted on purpose, to verify that the simulation finds them.

use std::{fmt, str::FromStr};

/// A fault in the store of the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlantedFault {
    /// Some writes are acknowledged before they are executed, and a crash in between loses them.
    AckBeforeCommit,
    /// A change with a stale fence is applied.
    MissingFence,
    /// After a restart, a new input request gets the key of an earlier one.
    ReusedKey,
    /// Nodes are not told of changes, and find no newer versions when they ask for them.
    LostWakeup,
    /// A write whose answer is lost is said to have failed.
    UnknownAsFailed,
    /// A lease that has ended counts as held.
    StaleLease,
}

impl PlantedFault {
    /// All faults.
    pub const ALL: [Self; 6] = [
        Self::AckBeforeCommit,
        Self::MissingFence,
        Self::ReusedKey,
        Self::LostWakeup,
        Self::UnknownAsFailed,
        Self::StaleLease,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::AckBeforeCommit => "ack-before-commit",
            Self::MissingFence => "missing-fence",
            Self::ReusedKey => "reused-key",
            Self::LostWakeup => "lost-wakeup",
            Self::UnknownAsFailed => "unknown-as-failed",
            Self::StaleLease => "stale-lease",
        }
    }
}

impl fmt::Display for PlantedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PlantedFault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        (Self::ALL.into_iter().find(|plant| plant.name() == text)).ok_or_else(|| {
            "expected ack-before-commit, missing-fence, reused-key, lost-wakeup, unknown-as-failed or stale-lease"
                .to_owned()
        })
    }
}
