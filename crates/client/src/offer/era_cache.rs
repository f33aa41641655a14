//! The eras of servers, for later connections.

use crate::ServerDescription;
use longhaul_wire::Generation;
use parking_lot::Mutex;
use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

/// After this time a server is probed again: it may have learnt a new revision, or have other capabilities.
const MAX_AGE: Duration = Duration::from_secs(10 * 60);
/// With more servers than this, all are forgotten.
const MAX_SERVERS: usize = 1_024;

/// The eras of servers. Connections whose options share it probe each HTTP server once in ten minutes, and a child process of 2025-11-25 or before once. Clones share their content, and so do clones of
/// the [`Options`](crate::Options) that it is in.
///
/// ```
/// use longhaul_client::Options;
/// let options = Options::named("example", "1.0");
/// let same_cache = options.clone();
/// ```
#[derive(Clone, Default)]
pub struct EraCache(Arc<Mutex<HashMap<String, Entry>>>);

struct Entry {
    era: CachedEra,
    /// Whether it took long to find out.
    was_slow: bool,
    /// By the clock's monotonic time.
    since: Duration,
}

/// What is known of a server.
#[derive(Clone)]
pub(crate) enum CachedEra {
    Modern(Box<ServerDescription>),
    /// It needs a handshake.
    Legacy,
    /// A child process that exits whatever it is asked first.
    Exits,
}

impl CachedEra {
    fn is_of(&self, generation: Generation) -> bool {
        match self {
            Self::Modern(_) => generation == Generation::Modern,
            Self::Legacy => generation == Generation::Legacy,
            Self::Exits => false,
        }
    }
}

impl EraCache {
    pub(crate) fn get(&self, address: &str, now: Duration) -> Option<CachedEra> {
        let servers = self.0.lock();
        let entry = servers.get(address)?;
        (now.saturating_sub(entry.since) < MAX_AGE).then(|| entry.era.clone())
    }

    /// Whether it is known to need a handshake, however long ago that was seen.
    pub(crate) fn is_legacy(&self, address: &str) -> bool {
        let servers = self.0.lock();
        (servers.get(address)).is_some_and(|entry| matches!(entry.era, CachedEra::Legacy))
    }

    /// Whether a child process was found to exit whatever it is asked first. That is forgotten then.
    pub(crate) fn take_exits(&self, address: &str) -> bool {
        let mut servers = self.0.lock();
        let exits = (servers.get(address)).is_some_and(|entry| matches!(entry.era, CachedEra::Exits));
        exits && servers.remove(address).is_some()
    }

    /// Has a child process with this [address](crate::Connection::address) be asked for a handshake of 2025 first, as one that was found to need it. If it refuses that, its era is
    /// found out as that of any other.
    pub fn expect_legacy(&self, address: &str) {
        self.insert(address, CachedEra::Legacy, false, Duration::ZERO);
    }

    /// Whether a child process with this address was found to need a handshake of 2025 because it left the request of 2026-07-28 unanswered, which takes five seconds. Keep it
    /// for [`expect_legacy`](Self::expect_legacy) in a later process.
    pub fn was_silent(&self, address: &str) -> bool {
        let servers = self.0.lock();
        (servers.get(address)).is_some_and(|entry| entry.was_slow && matches!(entry.era, CachedEra::Legacy))
    }

    pub(crate) fn insert(&self, address: &str, era: CachedEra, was_slow: bool, now: Duration) {
        let mut servers = self.0.lock();
        if servers.len() >= MAX_SERVERS {
            servers.clear();
        }
        servers.insert(
            address.to_owned(),
            Entry {
                era,
                was_slow,
                since: now,
            },
        );
    }

    /// Forgets what has turned out to be wrong.
    pub(crate) fn forget(&self, address: &str, wrong: Generation) {
        let mut servers = self.0.lock();
        if servers.get(address).is_some_and(|entry| entry.era.is_of(wrong)) {
            servers.remove(address);
        }
    }
}

impl fmt::Debug for EraCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EraCache({} servers)", self.0.lock().len())
    }
}
