//! What the store has of principals, as far as quotas of plain calls need it.

use longhaul_core::{
    Principal, QuotaScope, Store, UnixMillis, Usage,
    store::{NewTask, StoreError},
};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    sync::atomic::{AtomicU64, Ordering},
};

/// How long a principal's usage is cached; other nodes write too. Milliseconds.
const USAGE_CACHE_MS: u64 = 1_000;
/// How many principals' usage is cached.
const MAX_CACHED_PRINCIPALS: usize = 1_024;

/// A cache of the principals' usage in the store.
#[derive(Default)]
pub(super) struct StoredUsage {
    /// How often this process wrote something.
    changes: AtomicU64,
    read: Mutex<HashMap<Principal, ReadUsage>>,
}

#[derive(Clone, Copy)]
struct ReadUsage {
    changes: u64,
    at: UnixMillis,
    /// By the principal, and in all.
    usage: [Usage; 2],
}

/// The usage that a quota is compared with.
pub(super) struct OfQuota {
    pub(super) usage: [Usage; 2],
    /// Whether it is from the cache.
    pub(super) remembered: bool,
}

impl StoredUsage {
    /// Records a write.
    pub(super) fn changed(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) async fn of_quota(&self, store: &dyn Store, new: &NewTask) -> Result<OfQuota, StoreError> {
        match self.known(new) {
            Some(known) => Ok(known),
            None => Ok(OfQuota {
                usage: self.read(store, new).await?,
                remembered: false,
            }),
        }
    }

    /// What need not be read: what was read lately, and nothing for a quota without limits.
    pub(super) fn known(&self, new: &NewTask) -> Option<OfQuota> {
        let limited = [QuotaScope::Principal, QuotaScope::All].map(|scope| new.quota.limits(scope));
        if limited == [false; 2] {
            let usage = [Usage::default(); 2];
            return Some(OfQuota {
                usage,
                remembered: false,
            });
        }
        let changes = self.changes.load(Ordering::SeqCst);
        let read = self.read.lock().get(&new.owner.principal).copied();
        let fresh = |read: &ReadUsage| {
            read.changes == changes && new.created_at >= read.at && new.created_at.since(read.at) < USAGE_CACHE_MS
        };
        read.filter(fresh).map(|read| OfQuota {
            usage: read.usage,
            remembered: true,
        })
    }

    pub(super) async fn read(&self, store: &dyn Store, new: &NewTask) -> Result<[Usage; 2], StoreError> {
        let changes = self.changes.load(Ordering::SeqCst);
        let principal = &new.owner.principal;
        let usage = [store.usage(Some(principal)).await?, store.usage(None).await?];
        let mut read = self.read.lock();
        if read.len() >= MAX_CACHED_PRINCIPALS {
            read.clear();
        }
        let at = new.created_at;
        read.insert(principal.clone(), ReadUsage { changes, at, usage });
        Ok(usage)
    }
}
