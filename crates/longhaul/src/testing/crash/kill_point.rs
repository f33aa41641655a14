//! The points at which a process is killed.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// Where a process is killed: at which write, counted from 1, and at which moment of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KillPoint {
    pub(super) write: u32,
    pub(super) at: At,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum At {
    /// What is to be written has happened and is not written.
    BeforeCommit,
    /// It is written, and the writer does not know.
    BeforeAcknowledgement,
    /// The writer knows that it is written, and continues.
    AfterAcknowledgement,
}

impl At {
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

    /// For people; `what` is being written.
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
        write!(f, "{}:{}", self.write, self.at.name())
    }
}

impl FromStr for KillPoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            let names = At::ALL.map(At::name).join(", ");
            format!("`{text}` is no point: a point is the number of a write, a colon, and one of {names}")
        };
        let (write, at) = text.split_once(':').ok_or_else(wrong)?;
        let at = At::ALL.into_iter().find(|one| one.name() == at).ok_or_else(wrong)?;
        let write = write.parse().map_err(|_| wrong())?;
        Ok(Self { write, at })
    }
}

#[cfg(test)]
mod tests {
    use super::{At, KillPoint};

    #[test]
    fn a_point_is_read_as_it_is_shown() {
        for at in At::ALL {
            let point = KillPoint { write: 7, at };
            assert_eq!(point.to_string().parse(), Ok(point));
        }
        assert!("7:after".parse::<KillPoint>().unwrap_err().contains("before-commit"));
    }
}
