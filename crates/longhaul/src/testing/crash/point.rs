//! Where a process is killed.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// A moment in a run at which its process is killed: of a write, counted from 1, before its commit, or around its acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Point {
    pub(super) write: u32,
    pub(super) at: At,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum At {
    /// What is to be written has happened, and is not written.
    BeforeCommit,
    /// It is written, and whoever wrote it does not know.
    BeforeAcknowledgement,
    /// It is known to be written, and the work goes on.
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

    /// In words; `what` is written.
    pub(super) fn describe(self, what: &str) -> String {
        match self {
            Self::BeforeCommit => format!("before the commit of {what}"),
            Self::BeforeAcknowledgement => format!("after the commit of {what}, before its acknowledgement"),
            Self::AfterAcknowledgement => format!("after the acknowledgement of {what}"),
        }
    }
}

/// As an author gives it back: `3:before-commit`.
impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.write, self.at.name())
    }
}

impl FromStr for Point {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            let names = At::ALL.map(At::name).join(", ");
            format!("`{text}` is no point: it is the number of a write, a colon, and one of {names}")
        };
        let (write, at) = text.split_once(':').ok_or_else(wrong)?;
        let at = At::ALL.into_iter().find(|one| one.name() == at).ok_or_else(wrong)?;
        let write = write.parse().map_err(|_| wrong())?;
        Ok(Self { write, at })
    }
}

#[cfg(test)]
mod tests {
    use super::{At, Point};

    #[test]
    fn a_point_is_read_as_it_is_shown() {
        for at in At::ALL {
            let point = Point { write: 7, at };
            assert_eq!(point.to_string().parse(), Ok(point));
        }
        assert!("7:after".parse::<Point>().unwrap_err().contains("before-commit"));
    }
}
