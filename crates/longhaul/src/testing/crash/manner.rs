//! How the call of a run is driven.

use crate::Era;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// What runs differ in beside their crashes: each manner has a run without a crash of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manner {
    /// The generation that the client speaks.
    pub(super) era: Era,
}

impl Manner {
    const ALL: [Self; 2] = [Self { era: Era::Modern }, Self { era: Era::Legacy }];

    /// All there are for these generations.
    pub(super) fn of(eras: &[Era]) -> Vec<Self> {
        let wanted = |manner: &Self| eras.contains(&manner.era);
        Self::ALL.into_iter().filter(wanted).collect()
    }

    fn name(self) -> &'static str {
        match self.era {
            Era::Modern => "modern",
            Era::Legacy => "legacy",
        }
    }

    /// In words, after "the call was made".
    pub(super) fn describe(self) -> &'static str {
        match self.era {
            Era::Modern => "by a modern client",
            Era::Legacy => "by a legacy client",
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
