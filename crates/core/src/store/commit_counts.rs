//! How many changes a store commits together.

use std::sync::atomic::{AtomicU64, Ordering};

/// The transactions that a store has committed since it was opened, and the changes in them. What several callers have sent is one transaction: changes
/// divided by commits is the size of a batch.
///
/// ```
/// use longhaul_core::store::{CommitCounter, CommitCounts};
///
/// let counter = CommitCounter::default();
/// counter.committed(3);
/// counter.committed(1);
/// assert_eq!(counter.counts(), CommitCounts { commits: 2, changes: 4 });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CommitCounts {
    /// Transactions.
    pub commits: u64,
    /// Changes in them.
    pub changes: u64,
}

/// Counts for [`CommitCounts`].
#[derive(Debug, Default)]
pub struct CommitCounter {
    commits: AtomicU64,
    changes: AtomicU64,
}

impl CommitCounter {
    /// Counts a transaction with so many changes.
    pub fn committed(&self, changes: usize) {
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.changes.fetch_add(changes as u64, Ordering::Relaxed);
    }

    /// The counts so far.
    pub fn counts(&self) -> CommitCounts {
        CommitCounts {
            commits: self.commits.load(Ordering::Relaxed),
            changes: self.changes.load(Ordering::Relaxed),
        }
    }
}
