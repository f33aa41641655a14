//! How much may be kept, and how much is.

use crate::Principal;

/// The most that a principal, and all together, may have live and stored. `None` is no limit.
///
/// Decided when a task is created, in the same write: a task that was accepted may always write its outcome and its questions, also
/// beyond the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quota {
    /// Live tasks of one principal.
    pub live_per_principal: Option<u64>,
    /// Live tasks of all principals.
    pub live_in_all: Option<u64>,
    /// Stored bytes of one principal, as [`Usage::bytes`] counts them.
    pub bytes_per_principal: Option<u64>,
    /// Stored bytes of all principals.
    pub bytes_in_all: Option<u64>,
}

/// How much a principal, or all together, have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Tasks that are not over.
    pub live: u64,
    /// Bytes of arguments, requestors, outcomes, questions and answers of all tasks not yet deleted.
    pub bytes: u64,
}

impl std::ops::Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            live: self.live.saturating_add(other.live),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}

/// Whose limit it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QuotaScope {
    /// That of the principal who calls.
    Principal,
    /// That of the whole store.
    All,
}

/// A task was not created because too much is kept already. Nothing was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuotaExceeded {
    /// As many tasks are live as may be. There is room when one ends.
    #[error("{scope} may have {limit} live tasks, and no more")]
    TooManyLive {
        /// Whose.
        scope: QuotaScope,
        /// Tasks.
        limit: u64,
    },
    /// The task would not fit. There is room when others are deleted.
    #[error("{scope} may store {limit} bytes, and no more")]
    TooManyBytes {
        /// Whose.
        scope: QuotaScope,
        /// Bytes.
        limit: u64,
    },
}

impl Quota {
    /// Whether any limit of this scope is set: without one, the usage need not be read.
    pub fn limits(&self, scope: QuotaScope) -> bool {
        let (live, bytes) = self.of(scope);
        live.is_some() || bytes.is_some()
    }

    /// Whether `more` fits beside what `scope` has already.
    ///
    /// # Errors
    /// The limit that would be passed.
    ///
    /// ```
    /// use longhaul_core::{Quota, QuotaScope, Usage};
    /// let quota = Quota { live_per_principal: Some(2), ..Quota::default() };
    /// let one = Usage { live: 1, bytes: 10 };
    /// assert!(quota.admit(QuotaScope::Principal, Usage { live: 1, bytes: 0 }, one).is_ok());
    /// assert!(quota.admit(QuotaScope::Principal, Usage { live: 2, bytes: 0 }, one).is_err());
    /// assert!(quota.admit(QuotaScope::All, Usage { live: 2, bytes: 0 }, one).is_ok());
    /// ```
    pub fn admit(&self, scope: QuotaScope, has: Usage, more: Usage) -> Result<(), QuotaExceeded> {
        let passed = |limit: Option<u64>, has: u64, more: u64| {
            limit.filter(|limit| more > 0 && has.saturating_add(more) > *limit)
        };
        let (live, bytes) = self.of(scope);
        if let Some(limit) = passed(live, has.live, more.live) {
            return Err(QuotaExceeded::TooManyLive { scope, limit });
        }
        if let Some(limit) = passed(bytes, has.bytes, more.bytes) {
            return Err(QuotaExceeded::TooManyBytes { scope, limit });
        }
        Ok(())
    }

    /// The limits of this scope: of live tasks, and of bytes.
    pub fn of(&self, scope: QuotaScope) -> (Option<u64>, Option<u64>) {
        match scope {
            QuotaScope::Principal => (self.live_per_principal, self.bytes_per_principal),
            QuotaScope::All => (self.live_in_all, self.bytes_in_all),
        }
    }
}

impl QuotaScope {
    /// Whose usage counts when `caller` calls; `None` for that of all.
    pub fn principal(self, caller: &Principal) -> Option<&Principal> {
        match self {
            Self::Principal => Some(caller),
            Self::All => None,
        }
    }
}

impl std::fmt::Display for QuotaScope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Principal => "a principal",
            Self::All => "all together",
        })
    }
}
