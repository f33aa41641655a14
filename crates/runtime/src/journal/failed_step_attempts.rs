//! The failed attempts of a step or a poll, as its entry has them.

use longhaul_core::UnixMillis;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The failed attempts of a step, or the failures of a poll since its last success.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FailedStepAttempts {
    /// How many there were.
    pub tries: u32,
    /// The last 20 of them, oldest first.
    pub last: Vec<FailedStepAttempt>,
}

impl FailedStepAttempts {
    /// How many are kept.
    const KEPT: usize = 20;

    pub(crate) fn is_empty(&self) -> bool {
        self.tries == 0
    }

    pub(crate) fn push(&mut self, at: UnixMillis, why: &str) {
        self.tries = self.tries.saturating_add(1);
        if self.last.len() >= Self::KEPT {
            self.last.remove(0);
        }
        self.last.push(FailedStepAttempt::new(at, why));
    }
}

impl fmt::Display for FailedStepAttempts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.last.last().map_or("it failed", |last| last.why.as_str()))
    }
}

impl std::error::Error for FailedStepAttempts {}

/// An attempt of a step, or a poll, that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedStepAttempt {
    /// When it had failed, in unix milliseconds.
    pub at: i64,
    /// Why; at most 4 KiB of it.
    pub why: String,
}

impl FailedStepAttempt {
    /// The longest reason that is kept, in bytes.
    const LONGEST: usize = 4 << 10;

    fn new(at: UnixMillis, why: &str) -> Self {
        let cut = |(at, _): &(usize, char)| *at < Self::LONGEST;
        Self {
            at: at.0,
            why: why.char_indices().take_while(cut).map(|(_, char)| char).collect(),
        }
    }
}
