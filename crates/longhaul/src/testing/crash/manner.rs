//! How the call of a run is driven.

use crate::Era;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// What runs differ in beside their crashes: each manner has a run without a crash of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manner {
    /// The generation that the client speaks.
    pub(super) era: Era,
    /// Whether code is let go as soon as all of it waits. Else it stays in memory, as for waits that are short.
    pub(super) lets_go: bool,
}

impl Manner {
    const ALL: [Self; 4] = [
        Self::keeping(Era::Modern),
        Self::keeping(Era::Legacy),
        Self::letting_go(Era::Modern),
        Self::letting_go(Era::Legacy),
    ];

    const fn keeping(era: Era) -> Self {
        let lets_go = false;
        Self { era, lets_go }
    }

    const fn letting_go(era: Era) -> Self {
        let lets_go = true;
        Self { era, lets_go }
    }

    /// Those of a test: both ways to wait, in one generation or in one each. How a call is made and answered and how its code waits have little
    /// to do with each other, and each manner costs as much as the first.
    pub(super) fn of(era: Option<Era>) -> [Self; 2] {
        [
            Self::keeping(era.unwrap_or(Era::Modern)),
            Self::letting_go(era.unwrap_or(Era::Legacy)),
        ]
    }

    fn name(self) -> &'static str {
        match (self.era, self.lets_go) {
            (Era::Modern, false) => "modern",
            (Era::Legacy, false) => "legacy",
            (Era::Modern, true) => "modern-let-go",
            (Era::Legacy, true) => "legacy-let-go",
        }
    }

    /// In words, after "the call was made".
    pub(super) fn describe(self) -> &'static str {
        match (self.era, self.lets_go) {
            (Era::Modern, false) => "by a modern client",
            (Era::Legacy, false) => "by a legacy client",
            (Era::Modern, true) => "by a modern client, and let go when it waits",
            (Era::Legacy, true) => "by a legacy client, and let go when it waits",
        }
    }
}

/// As an author gives it back.
impl fmt::Display for Manner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Manner {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|manner| manner.name() == text);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("`{text}` is no way to drive a call; there are {names}")
        })
    }
}
