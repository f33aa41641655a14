//! The modes in which a call is made.

use crate::Era;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// How a run makes its call. Each mode has a run without a crash, which its other runs are compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RunMode {
    /// The era of the client.
    pub(super) era: Era,
    /// Whether the task is suspended whenever it waits. If not, its code stays in memory.
    pub(super) suspends: bool,
}

impl RunMode {
    const ALL: [Self; 4] = [
        Self::in_memory(Era::Modern),
        Self::in_memory(Era::Legacy),
        Self::suspending(Era::Modern),
        Self::suspending(Era::Legacy),
    ];

    const fn in_memory(era: Era) -> Self {
        let suspends = false;
        Self { era, suspends }
    }

    const fn suspending(era: Era) -> Self {
        let suspends = true;
        Self { era, suspends }
    }

    /// The modes of a test: both ways to wait, in one era or in one each. All four combinations would take twice as long and find little more:
    /// how a call is answered does not depend on how its code waits.
    pub(super) fn of(era: Option<Era>) -> [Self; 2] {
        [
            Self::in_memory(era.unwrap_or(Era::Modern)),
            Self::suspending(era.unwrap_or(Era::Legacy)),
        ]
    }

    fn name(self) -> &'static str {
        match (self.era, self.suspends) {
            (Era::Modern, false) => "modern",
            (Era::Legacy, false) => "legacy",
            (Era::Modern, true) => "modern-suspended",
            (Era::Legacy, true) => "legacy-suspended",
        }
    }

    /// For messages, after "called".
    pub(super) fn describe(self) -> &'static str {
        match (self.era, self.suspends) {
            (Era::Modern, false) => "by a modern client",
            (Era::Legacy, false) => "by a legacy client",
            (Era::Modern, true) => "by a modern client, suspended at each wait",
            (Era::Legacy, true) => "by a legacy client, suspended at each wait",
        }
    }
}

/// As in `LONGHAUL_CRASH_ONLY`.
impl fmt::Display for RunMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for RunMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|mode| mode.name() == text);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("`{text}` is not a mode; the modes are {names}")
        })
    }
}
