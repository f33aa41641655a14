//! Session preferences: the log level that a client has set (U-08), and the resources it has subscribed to.
//!
//! Kept in the memory of this node, and bounded. After a restart, and when the limits are reached, a session has the defaults again.

use super::Session;
use longhaul_core::{LogLevel, SessionKey, UnixMillis};
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc};

/// The log level of a session that has set none (U-08 leaves it to the server).
const LEVEL: LogLevel = LogLevel::Info;
/// Subscriptions of one session.
const MOST_SUBSCRIPTIONS: usize = 1_000;
/// The longest URI of one, in bytes.
const LONGEST_URI: usize = 2 * 1024;
/// What a subscription takes beside its URI, in bytes.
const ENTRY: usize = 64;
/// Sessions whose preferences are kept; beyond that the one that expires first is removed.
const SESSIONS: usize = 10_000;
/// Bytes of all subscriptions; beyond that, too, the session that expires first is removed.
const BYTES: usize = 16 << 20;

/// Keeps what a subscription needs; dropped when the subscription ends.
pub(crate) type SubscriptionGuard = Arc<dyn Send + Sync>;

/// The preferences of sessions.
#[derive(Clone, Default)]
pub(crate) struct SessionPreferences(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    sessions: HashMap<SessionKey, Preferences>,
    /// Bytes of all subscriptions.
    bytes: usize,
}

#[derive(Default)]
struct Preferences {
    level: Option<LogLevel>,
    subscriptions: HashMap<Arc<str>, Option<SubscriptionGuard>>,
    /// When the session ends, if its client does not end it before.
    until: UnixMillis,
}

/// Why a session cannot subscribe to a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SubscribeError {
    /// The session has as many subscriptions as it may.
    #[error("a session can subscribe to {MOST_SUBSCRIPTIONS} resources")]
    TooMany,
    /// Its URI is too long.
    #[error("params.uri has {0} bytes, and only a resource with one of at most {LONGEST_URI} can be subscribed to")]
    TooLong(usize),
}

impl SessionPreferences {
    /// The session is sent log messages of `level` and above from now on.
    pub(crate) fn set_level(&self, session: &Session, level: LogLevel) {
        let mut table = self.0.lock();
        table.of(session).level = Some(level);
        table.make_room(&session.key);
    }

    /// The level from which on the session is sent log messages.
    pub(crate) fn level(&self, session: &SessionKey) -> LogLevel {
        let level = self
            .0
            .lock()
            .sessions
            .get(session)
            .and_then(|preferences| preferences.level);
        level.unwrap_or(LEVEL)
    }

    /// Subscribes the session to a resource. `guard` is kept for as long.
    ///
    /// # Errors
    /// [`SubscribeError`]
    pub(crate) fn subscribe(
        &self,
        session: &Session,
        uri: &str,
        guard: Option<SubscriptionGuard>,
    ) -> Result<(), SubscribeError> {
        if uri.len() > LONGEST_URI {
            return Err(SubscribeError::TooLong(uri.len()));
        }
        let mut table = self.0.lock();
        let subscriptions = &mut table.of(session).subscriptions;
        if subscriptions.contains_key(uri) {
            return Ok(());
        }
        if subscriptions.len() >= MOST_SUBSCRIPTIONS {
            return Err(SubscribeError::TooMany);
        }
        subscriptions.insert(uri.into(), guard);
        table.bytes += size_of(uri);
        table.make_room(&session.key);
        Ok(())
    }

    /// Ends the subscription to a resource.
    pub(crate) fn unsubscribe(&self, session: &SessionKey, uri: &str) {
        let mut table = self.0.lock();
        let preferences = table.sessions.get_mut(session);
        if preferences.is_some_and(|preferences| preferences.subscriptions.remove(uri).is_some()) {
            table.bytes -= size_of(uri);
        }
    }

    /// Whether the session has subscribed to the resource.
    pub(crate) fn is_subscribed(&self, session: &SessionKey, uri: &str) -> bool {
        let table = self.0.lock();
        table
            .sessions
            .get(session)
            .is_some_and(|preferences| preferences.subscriptions.contains_key(uri))
    }

    /// All that the session has subscribed to.
    pub(crate) fn subscriptions(&self, session: &SessionKey) -> Vec<Arc<str>> {
        let table = self.0.lock();
        let preferences = table.sessions.get(session);
        preferences
            .map(|preferences| preferences.subscriptions.keys().cloned().collect())
            .unwrap_or_default()
    }

    /// The session has ended.
    pub(crate) fn remove(&self, session: &SessionKey) {
        self.0.lock().remove(session);
    }
}

impl Table {
    fn of(&mut self, session: &Session) -> &mut Preferences {
        let preferences = self.sessions.entry(session.key.clone()).or_default();
        preferences.until = session.expires_at;
        preferences
    }

    /// Removes sessions, those that expire first before the others, until they are within the limits; never `kept`.
    fn make_room(&mut self, kept: &SessionKey) {
        while self.sessions.len() > SESSIONS || self.bytes > BYTES {
            let others = self.sessions.iter().filter(|(key, _)| *key != kept);
            let first = others
                .min_by_key(|(_, preferences)| preferences.until)
                .map(|(key, _)| key.clone());
            let Some(first) = first else { return };
            self.remove(&first);
        }
    }

    fn remove(&mut self, session: &SessionKey) {
        if let Some(preferences) = self.sessions.remove(session) {
            self.bytes -= preferences.bytes();
        }
    }
}

impl Preferences {
    fn bytes(&self) -> usize {
        self.subscriptions.keys().map(|uri| size_of(uri)).sum()
    }
}

fn size_of(uri: &str) -> usize {
    uri.len() + ENTRY
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_core::ClientCapabilities;
    use longhaul_core::Principal;
    use longhaul_wire::Version;

    fn session(nth: usize) -> Session {
        Session {
            key: SessionKey::named(nth.to_string()),
            version: Version::V2025_11_25,
            capabilities: ClientCapabilities::default(),
            principal: Principal::local(),
            expires_at: UnixMillis(i64::try_from(nth).unwrap()),
            client: None,
        }
    }

    /// A URI as long as it may be.
    fn uri(nth: usize) -> String {
        format!("{nth:0LONGEST_URI$}")
    }

    fn check(preferences: &SessionPreferences) {
        let table = preferences.0.lock();
        let counted: usize = table.sessions.values().map(Preferences::bytes).sum();
        assert_eq!(table.bytes, counted);
        assert!(counted <= BYTES, "{counted}");
    }

    #[test]
    fn subscriptions_are_bounded_and_the_first_session_to_expire_is_removed_first() {
        let preferences = SessionPreferences::default();
        // The first of them ends last.
        let order = [99].into_iter().chain(0..9);
        for nth in order.clone() {
            for resource in 0..MOST_SUBSCRIPTIONS {
                preferences.subscribe(&session(nth), &uri(resource), None).unwrap();
            }
            preferences.subscribe(&session(nth), &uri(0), None).unwrap();
            assert_eq!(
                preferences.subscribe(&session(nth), &uri(MOST_SUBSCRIPTIONS), None),
                Err(SubscribeError::TooMany)
            );
            check(&preferences);
        }
        let kept: Vec<usize> = order
            .filter(|nth| !preferences.subscriptions(&session(*nth).key).is_empty())
            .collect();
        assert_eq!(kept, [99, 3, 4, 5, 6, 7, 8], "whole sessions, not parts of them");

        preferences.unsubscribe(&session(8).key, &uri(0));
        preferences.unsubscribe(&session(8).key, &uri(0));
        preferences.remove(&session(7).key);
        preferences.remove(&session(7).key);
        check(&preferences);
        assert!(
            !preferences.is_subscribed(&session(8).key, &uri(0)) && preferences.is_subscribed(&session(8).key, &uri(1))
        );
        preferences.subscribe(&session(8), &uri(0), None).unwrap();
        check(&preferences);
    }

    #[test]
    fn a_uri_that_is_too_long_cannot_be_subscribed_to() {
        let preferences = SessionPreferences::default();
        let long = "u".repeat(LONGEST_URI + 1);
        assert_eq!(
            preferences.subscribe(&session(1), &long, None),
            Err(SubscribeError::TooLong(long.len()))
        );
        assert!(preferences.0.lock().sessions.is_empty());
    }

    #[test]
    fn the_number_of_sessions_with_preferences_is_bounded() {
        let preferences = SessionPreferences::default();
        for nth in 0..SESSIONS + 2 {
            preferences.set_level(&session(nth), LogLevel::Error);
        }
        let levels = [0, 1, 2, SESSIONS + 1].map(|nth| preferences.level(&session(nth).key));
        assert_eq!(levels, [LEVEL, LEVEL, LogLevel::Error, LogLevel::Error]);
    }
}
