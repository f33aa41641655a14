//! Faults planted on purpose: a simulation that does not find them proves nothing.

use std::{fmt, str::FromStr};

/// A fault in the store, as the nodes see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plant {
    /// Some writes are acknowledged before they are made, and a crash in between loses them.
    AckBeforeCommit,
    /// A stale worker's change is applied as if its fence were the right one.
    MissingFence,
    /// After a restart, the key of a question that was asked before is given to another one.
    ReusedKey,
}

impl Plant {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::AckBeforeCommit, Self::MissingFence, Self::ReusedKey];

    /// As the command line has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::AckBeforeCommit => "ack-before-commit",
            Self::MissingFence => "missing-fence",
            Self::ReusedKey => "reused-key",
        }
    }
}

impl fmt::Display for Plant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Plant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        (Self::ALL.into_iter().find(|plant| plant.name() == text))
            .ok_or_else(|| "there are ack-before-commit, missing-fence and reused-key".to_owned())
    }
}
