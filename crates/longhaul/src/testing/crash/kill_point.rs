//! The points at which a process is killed.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// Where a process is killed: at which write, counted from 1, and in which phase of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KillPoint {
    pub(super) write: u32,
    pub(super) phase: WritePhase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum WritePhase {
    /// What is to be written has happened, and the write has not.
    BeforeCommit,
    /// The store has committed, and the writer has no acknowledgement yet.
    BeforeAcknowledgement,
    /// The writer has the acknowledgement and continues.
    AfterAcknowledgement,
}

impl WritePhase {
    pub(super) const ALL: [Self; 3] = [
        Self::BeforeCommit,
        Self::BeforeAcknowledgement,
        Self::AfterAcknowledgement,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::BeforeCommit => "before-commit",
            Self::BeforeAcknowledgement => "before-acknowledgement",
            Self::AfterAcknowledgement => "after-acknowledgement",
        }
    }

    /// For messages; `what` is the name of the write.
    pub(super) fn describe(self, what: &str) -> String {
        match self {
            Self::BeforeCommit => format!("before the commit of {what}"),
            Self::BeforeAcknowledgement => format!("after the commit of {what}, before its acknowledgement"),
            Self::AfterAcknowledgement => format!("after the acknowledgement of {what}"),
        }
    }
}

/// As in `LONGHAUL_CRASH_ONLY`: `3:before-commit`.
impl fmt::Display for KillPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.write, self.phase.name())
    }
}

impl FromStr for KillPoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            let names = WritePhase::ALL.map(WritePhase::name).join(", ");
            format!("`{text}` is not a kill point: it is the number of a write, a colon, and one of {names}")
        };
        let (write, phase) = text.split_once(':').ok_or_else(wrong)?;
        let phase = WritePhase::ALL
            .into_iter()
            .find(|one| one.name() == phase)
            .ok_or_else(wrong)?;
        let write = write.parse().map_err(|_| wrong())?;
        Ok(Self { write, phase })
    }
}

#[cfg(test)]
mod tests {
    use super::{KillPoint, WritePhase};

    #[test]
    fn a_kill_point_is_parsed_from_its_text() {
        for phase in WritePhase::ALL {
            let point = KillPoint { write: 7, phase };
            assert_eq!(point.to_string().parse(), Ok(point));
        }
        assert!("7:after".parse::<KillPoint>().unwrap_err().contains("before-commit"));
    }
}
