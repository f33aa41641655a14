//! What sessions have asked to hear: log messages from a level on (U-08), updates of resources.
//!
//! Kept in memory of this node: a restart forgets it, and the client hears what one hears that never asked.

use crate::session::Session;
use longhaul_core::{LogLevel, SessionKey, UnixMillis};
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// From which level on a client hears log messages that has not said (U-08 leaves it to the server).
const LEVEL: LogLevel = LogLevel::Info;
/// How many resources a session may watch.
const WATCHED: usize = 1_000;
/// How many sessions' wishes are kept; beyond that the one that ends first is forgotten.
const SESSIONS: usize = 10_000;

/// The wishes of sessions.
#[derive(Clone, Default)]
pub(crate) struct Wishes(Arc<Mutex<HashMap<SessionKey, Wish>>>);

#[derive(Default)]
struct Wish {
    level: Option<LogLevel>,
    watched: HashSet<Arc<str>>,
    /// When the session ends, if its client does not end it before.
    until: UnixMillis,
}

/// A session watches too much already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a session can subscribe to {WATCHED} resources")]
pub(crate) struct TooMany;

impl Wishes {
    /// From now on the session hears log messages of `level` and above.
    pub(crate) fn set_level(&self, session: &Session, level: LogLevel) {
        self.of(session, |wish| wish.level = Some(level));
    }

    /// From which level on the session hears log messages.
    pub(crate) fn level(&self, session: &SessionKey) -> LogLevel {
        let wished = self.lock().get(session).and_then(|wish| wish.level);
        wished.unwrap_or(LEVEL)
    }

    /// The session hears when the resource is updated.
    ///
    /// # Errors
    /// [`TooMany`].
    pub(crate) fn watch(&self, session: &Session, uri: &str) -> Result<(), TooMany> {
        self.of(session, |wish| {
            if wish.watched.len() >= WATCHED && !wish.watched.contains(uri) {
                return Err(TooMany);
            }
            wish.watched.insert(uri.into());
            Ok(())
        })
    }

    /// The session hears of the resource no longer.
    pub(crate) fn unwatch(&self, session: &SessionKey, uri: &str) {
        if let Some(wish) = self.lock().get_mut(session) {
            wish.watched.remove(uri);
        }
    }

    /// Whether the session hears when the resource is updated.
    pub(crate) fn watches(&self, session: &SessionKey, uri: &str) -> bool {
        self.lock().get(session).is_some_and(|wish| wish.watched.contains(uri))
    }

    /// All that the session watches.
    pub(crate) fn watched(&self, session: &SessionKey) -> Vec<Arc<str>> {
        let wishes = self.lock();
        let watched = wishes.get(session).map(|wish| wish.watched.iter().cloned().collect());
        watched.unwrap_or_default()
    }

    /// The session has ended.
    pub(crate) fn forget(&self, session: &SessionKey) {
        self.lock().remove(session);
    }

    fn of<T>(&self, session: &Session, change: impl FnOnce(&mut Wish) -> T) -> T {
        let mut wishes = self.lock();
        if wishes.len() >= SESSIONS && !wishes.contains_key(&session.key) {
            let first = wishes
                .iter()
                .min_by_key(|(_, wish)| wish.until)
                .map(|(key, _)| key.clone());
            first.and_then(|first| wishes.remove(&first));
        }
        let wish = wishes.entry(session.key.clone()).or_default();
        wish.until = session.expires_at;
        change(wish)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionKey, Wish>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
