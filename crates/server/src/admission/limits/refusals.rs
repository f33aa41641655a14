//! How often a limit was reached.

use std::sync::atomic::{AtomicU64, Ordering};

/// A limit that requests are refused by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// [`Limits::requests_per_second`](super::Limits::requests_per_second), of one principal or of all.
    Requests,
    /// [`Limits::calls_per_second`](super::Limits::calls_per_second).
    Calls,
    /// [`Limits::reads_per_second`](super::Limits::reads_per_second).
    Reads,
    /// [`Limits::unknown_ids_per_second`](super::Limits::unknown_ids_per_second).
    UnknownIds,
    /// [`Limits::denied_per_second`](super::Limits::denied_per_second).
    Denied,
    /// [`Limits::connections`](super::Limits::connections), of one address or of all.
    Connections,
    /// [`Limits::streams`](super::Limits::streams), of one principal or of all.
    Streams,
    /// [`Limits::memory`](super::Limits::memory).
    Memory,
}

impl Limit {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Requests,
        Self::Calls,
        Self::Reads,
        Self::UnknownIds,
        Self::Denied,
        Self::Connections,
        Self::Streams,
        Self::Memory,
    ];

    /// Its name in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Calls => "calls",
            Self::Reads => "reads",
            Self::UnknownIds => "unknown_ids",
            Self::Denied => "denied",
            Self::Connections => "connections",
            Self::Streams => "streams",
            Self::Memory => "memory",
        }
    }
}

/// How often each limit was reached, since the start of the process.
#[derive(Debug, Default)]
pub struct Refusals([AtomicU64; Limit::ALL.len()]);

impl Refusals {
    /// Counts `checked` if it is a refusal.
    pub(crate) fn note<T, E>(&self, limit: Limit, checked: Result<T, E>) -> Result<T, E> {
        if checked.is_err() {
            self.count(limit);
        }
        checked
    }

    /// Counts a refusal.
    pub(crate) fn count(&self, limit: Limit) {
        self.0[limit as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How often this one was.
    pub fn of(&self, limit: Limit) -> u64 {
        self.0[limit as usize].load(Ordering::Relaxed)
    }
}
