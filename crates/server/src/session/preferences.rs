//! What sessions have asked to hear: log messages from a level on (U-08), updates of resources.
//!
//! Kept in memory of this node, and bounded: a restart forgets it, and so does whatever has no room any more. The client then hears what one
//! hears that never asked.

use crate::{interaction::resource_watch::TaskSubscription, session::Session};
use longhaul_core::{LogLevel, SessionKey, UnixMillis};
use parking_lot::{Mutex, MutexGuard};
use std::{collections::HashMap, sync::Arc};

/// From which level on a client hears log messages that has not said (U-08 leaves it to the server).
const LEVEL: LogLevel = LogLevel::Info;
/// How many resources a session may watch.
const WATCHED: usize = 1_000;
/// The longest URI of one, in bytes.
const LONGEST_URI: usize = 2 * 1024;
/// What a watched resource takes beside its URI, in bytes.
const ENTRY: usize = 64;
/// How many sessions' wishes are kept; beyond that the one that ends first is forgotten.
const SESSIONS: usize = 10_000;
/// How many bytes all that is watched may take; beyond that, too. A single session can come to an eighth of it.
const BYTES: usize = 16 << 20;

/// The wishes of sessions.
#[derive(Clone, Default)]
pub(crate) struct Wishes(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    wishes: HashMap<SessionKey, Wish>,
    /// What all that is watched takes.
    bytes: usize,
}

#[derive(Default)]
struct Wish {
    level: Option<LogLevel>,
    watched: HashMap<Arc<str>, Option<TaskSubscription>>,
    /// When the session ends, if its client does not end it before.
    until: UnixMillis,
}

/// Why a resource is not watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unwatchable {
    /// The session watches as many as it may.
    #[error("a session can subscribe to {WATCHED} resources")]
    TooMany,
    /// Its URI is too long.
    #[error("params.uri has {0} bytes, and only a resource with one of at most {LONGEST_URI} can be subscribed to")]
    TooLong(usize),
}

impl Wishes {
    /// From now on the session hears log messages of `level` and above.
    pub(crate) fn set_level(&self, session: &Session, level: LogLevel) {
        let mut table = self.lock();
        table.of(session).level = Some(level);
        table.make_room(&session.key);
    }

    /// From which level on the session hears log messages.
    pub(crate) fn level(&self, session: &SessionKey) -> LogLevel {
        let wished = self.lock().wishes.get(session).and_then(|wish| wish.level);
        wished.unwrap_or(LEVEL)
    }

    /// The session hears when the resource is updated. `held` is kept for as long.
    ///
    /// # Errors
    /// [`Unwatchable`]
    pub(crate) fn watch(
        &self,
        session: &Session,
        uri: &str,
        held: Option<TaskSubscription>,
    ) -> Result<(), Unwatchable> {
        if uri.len() > LONGEST_URI {
            return Err(Unwatchable::TooLong(uri.len()));
        }
        let mut table = self.lock();
        let watched = &mut table.of(session).watched;
        if watched.contains_key(uri) {
            return Ok(());
        }
        if watched.len() >= WATCHED {
            return Err(Unwatchable::TooMany);
        }
        watched.insert(uri.into(), held);
        table.bytes += taken(uri);
        table.make_room(&session.key);
        Ok(())
    }

    /// The session hears of the resource no longer.
    pub(crate) fn unwatch(&self, session: &SessionKey, uri: &str) {
        let mut table = self.lock();
        let wish = table.wishes.get_mut(session);
        if wish.is_some_and(|wish| wish.watched.remove(uri).is_some()) {
            table.bytes -= taken(uri);
        }
    }

    /// Whether the session hears when the resource is updated.
    pub(crate) fn watches(&self, session: &SessionKey, uri: &str) -> bool {
        let table = self.lock();
        table
            .wishes
            .get(session)
            .is_some_and(|wish| wish.watched.contains_key(uri))
    }

    /// All that the session watches.
    pub(crate) fn watched(&self, session: &SessionKey) -> Vec<Arc<str>> {
        let table = self.lock();
        let wish = table.wishes.get(session);
        wish.map(|wish| wish.watched.keys().cloned().collect())
            .unwrap_or_default()
    }

    /// The session has ended.
    pub(crate) fn forget(&self, session: &SessionKey) {
        self.lock().forget(session);
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock()
    }
}

impl Table {
    fn of(&mut self, session: &Session) -> &mut Wish {
        let wish = self.wishes.entry(session.key.clone()).or_default();
        wish.until = session.expires_at;
        wish
    }

    /// Forgets sessions, those that end first before the others, until there is no more than there may be; never `kept`.
    fn make_room(&mut self, kept: &SessionKey) {
        while self.wishes.len() > SESSIONS || self.bytes > BYTES {
            let others = self.wishes.iter().filter(|(key, _)| *key != kept);
            let first = others.min_by_key(|(_, wish)| wish.until).map(|(key, _)| key.clone());
            let Some(first) = first else { return };
            self.forget(&first);
        }
    }

    fn forget(&mut self, session: &SessionKey) {
        if let Some(wish) = self.wishes.remove(session) {
            self.bytes -= wish.bytes();
        }
    }
}

impl Wish {
    fn bytes(&self) -> usize {
        self.watched.keys().map(|uri| taken(uri)).sum()
    }
}

fn taken(uri: &str) -> usize {
    uri.len() + ENTRY
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_core::Principal;
    use longhaul_runtime::Abilities;
    use longhaul_wire::Version;

    fn session(nth: usize) -> Session {
        Session {
            key: SessionKey::named(nth.to_string()),
            version: Version::V2025_11_25,
            abilities: Abilities::default(),
            principal: Principal::local(),
            expires_at: UnixMillis(i64::try_from(nth).unwrap()),
            client: None,
        }
    }

    /// A URI as long as it may be.
    fn uri(nth: usize) -> String {
        format!("{nth:0LONGEST_URI$}")
    }

    fn check(wishes: &Wishes) {
        let table = wishes.lock();
        let counted: usize = table.wishes.values().map(Wish::bytes).sum();
        assert_eq!(table.bytes, counted);
        assert!(counted <= BYTES, "{counted}");
    }

    #[test]
    fn what_sessions_watch_is_bounded_and_the_one_that_ends_first_is_forgotten_first() {
        let wishes = Wishes::default();
        // The first of them ends last.
        let order = [99].into_iter().chain(0..9);
        for nth in order.clone() {
            for resource in 0..WATCHED {
                wishes.watch(&session(nth), &uri(resource), None).unwrap();
            }
            wishes.watch(&session(nth), &uri(0), None).unwrap();
            assert_eq!(
                wishes.watch(&session(nth), &uri(WATCHED), None),
                Err(Unwatchable::TooMany)
            );
            check(&wishes);
        }
        let kept: Vec<usize> = order
            .filter(|nth| !wishes.watched(&session(*nth).key).is_empty())
            .collect();
        assert_eq!(kept, [99, 3, 4, 5, 6, 7, 8], "whole sessions, not parts of them");

        wishes.unwatch(&session(8).key, &uri(0));
        wishes.unwatch(&session(8).key, &uri(0));
        wishes.forget(&session(7).key);
        wishes.forget(&session(7).key);
        check(&wishes);
        assert!(!wishes.watches(&session(8).key, &uri(0)) && wishes.watches(&session(8).key, &uri(1)));
        wishes.watch(&session(8), &uri(0), None).unwrap();
        check(&wishes);
    }

    #[test]
    fn a_uri_that_is_too_long_is_not_watched() {
        let wishes = Wishes::default();
        let long = "u".repeat(LONGEST_URI + 1);
        assert_eq!(
            wishes.watch(&session(1), &long, None),
            Err(Unwatchable::TooLong(long.len()))
        );
        assert!(wishes.lock().wishes.is_empty());
    }

    #[test]
    fn so_many_sessions_have_wishes() {
        let wishes = Wishes::default();
        for nth in 0..SESSIONS + 2 {
            wishes.set_level(&session(nth), LogLevel::Error);
        }
        let levels = [0, 1, 2, SESSIONS + 1].map(|nth| wishes.level(&session(nth).key));
        assert_eq!(levels, [LEVEL, LEVEL, LogLevel::Error, LogLevel::Error]);
    }
}
