//! Session preferences: the log level that a client has set, and the resources it has subscribed to.
//!
//! Kept in the memory of this node, and bounded. After a restart, and when the limits are reached, a session has the defaults again.

use super::Session;
use longhaul_core::{LogLevel, Principal, SessionKey, UnixMillis};
use parking_lot::Mutex;
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// The log level of a session that has set none (the revision leaves it to the server).
const LEVEL: LogLevel = LogLevel::Info;
/// Subscriptions of one session.
const MOST_SUBSCRIPTIONS: usize = 1_000;
/// The longest URI of one, in bytes.
const LONGEST_URI: usize = 2 * 1024;
/// What a subscription takes beside its URI, in bytes.
const ENTRY: usize = 160;
/// Sessions whose preferences are kept; beyond that one of the principal that has most is removed.
const SESSIONS: usize = 10_000;
/// Bytes of all subscriptions; beyond that, too, a session of the principal that has most of them is removed.
const BYTES: usize = 16 << 20;

/// Keeps what a subscription needs; dropped when the subscription ends.
pub(crate) type SubscriptionGuard = Arc<dyn Send + Sync>;

/// The preferences of sessions. No guard is dropped under the lock, since that may run an author's code.
#[derive(Clone, Default)]
pub(crate) struct SessionPreferences(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    sessions: HashMap<SessionKey, Preferences>,
    /// The sessions that have subscribed to each resource.
    subscribers: HashMap<Arc<str>, HashSet<SessionKey>>,
    /// What those of each principal take.
    principals: HashMap<Principal, Usage>,
    /// Bytes of all subscriptions.
    bytes: usize,
}

#[derive(Default, Clone, Copy)]
struct Usage {
    sessions: usize,
    bytes: usize,
}

struct Preferences {
    principal: Principal,
    level: Option<LogLevel>,
    subscriptions: HashMap<Arc<str>, Subscription>,
    /// When the session ends, if its client does not end it before.
    until: UnixMillis,
}

struct Subscription {
    /// When its client last asked for it.
    at: UnixMillis,
    _guard: Option<SubscriptionGuard>,
}

/// What was done to make room.
struct Room {
    /// Whether there is room now.
    is_enough: bool,
    removed: Vec<Preferences>,
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
    /// All together have as many as they may, and no principal has more than this one.
    #[error("the server has no room for more subscriptions")]
    NoRoom,
}

impl SessionPreferences {
    /// The session is sent log messages of `level` and above from now on.
    pub(crate) fn set_level(&self, session: &Session, level: LogLevel) {
        let mut table = self.0.lock();
        table.of(session).level = Some(level);
        let room = table.make_room(session);
        drop(table);
        drop(room);
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

    /// Subscribes the session to a resource that it has subscribed to already; `false` if it has not.
    pub(crate) fn subscribe_again(&self, session: &SessionKey, uri: &str, now: UnixMillis) -> bool {
        let mut table = self.0.lock();
        let preferences = table.sessions.get_mut(session);
        let subscription = preferences.and_then(|preferences| preferences.subscriptions.get_mut(uri));
        subscription.map(|subscription| subscription.at = now).is_some()
    }

    /// Subscribes the session to a resource. `guard` is kept for as long.
    ///
    /// # Errors
    /// [`SubscribeError`]
    pub(crate) fn subscribe(
        &self,
        session: &Session,
        uri: &str,
        (guard, now): (Option<SubscriptionGuard>, UnixMillis),
    ) -> Result<(), SubscribeError> {
        if uri.len() > LONGEST_URI {
            return Err(SubscribeError::TooLong(uri.len()));
        }
        let mut table = self.0.lock();
        let subscriptions = &mut table.of(session).subscriptions;
        if let Some(subscription) = subscriptions.get_mut(uri) {
            subscription.at = now;
            return Ok(());
        }
        if subscriptions.len() >= MOST_SUBSCRIPTIONS {
            return Err(SubscribeError::TooMany);
        }
        let (uri, subscription) = (Arc::<str>::from(uri), Subscription { at: now, _guard: guard });
        subscriptions.insert(Arc::clone(&uri), subscription);
        let subscribers = table.subscribers.entry(Arc::clone(&uri)).or_default();
        subscribers.insert(session.key.clone());
        table.add_bytes(&session.principal, size_of(&uri));
        let room = table.make_room(session);
        let refused = (!room.is_enough).then(|| table.unsubscribe(&session.key, &uri));
        drop(table);
        drop(room.removed);
        match refused {
            None => Ok(()),
            Some(_) => Err(SubscribeError::NoRoom),
        }
    }

    /// Ends the subscription to a resource.
    pub(crate) fn unsubscribe(&self, session: &SessionKey, uri: &str) {
        let ended = self.0.lock().unsubscribe(session, uri);
        drop(ended);
    }

    /// Ends the subscription to a resource, unless its client has asked for it again since `at`.
    pub(crate) fn unsubscribe_before(&self, session: &SessionKey, uri: &str, at: UnixMillis) {
        let mut table = self.0.lock();
        let preferences = table.sessions.get(session);
        let subscription = preferences.and_then(|preferences| preferences.subscriptions.get(uri));
        let ended = match subscription {
            Some(subscription) if subscription.at <= at => table.unsubscribe(session, uri),
            _ => None,
        };
        drop(table);
        drop(ended);
    }

    /// The sessions that have subscribed to a resource, with their principals.
    pub(crate) fn subscribers(&self, uri: &str) -> Vec<(SessionKey, Principal)> {
        let table = self.0.lock();
        let subscribers = table.subscribers.get(uri).into_iter().flatten();
        subscribers
            .filter_map(|key| Some((key.clone(), table.sessions.get(key)?.principal.clone())))
            .collect()
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
        let removed = self.0.lock().remove(session);
        drop(removed);
    }
}

impl Table {
    fn of(&mut self, session: &Session) -> &mut Preferences {
        if !self.sessions.contains_key(&session.key) {
            self.principals.entry(session.principal.clone()).or_default().sessions += 1;
        }
        let preferences = (self.sessions.entry(session.key.clone())).or_insert_with(|| Preferences {
            principal: session.principal.clone(),
            level: None,
            subscriptions: HashMap::new(),
            until: session.expires_at,
        });
        preferences.until = session.expires_at;
        preferences
    }

    fn add_bytes(&mut self, principal: &Principal, bytes: usize) {
        self.bytes += bytes;
        if let Some(own) = self.principals.get_mut(principal) {
            own.bytes += bytes;
        }
    }

    /// Returns the subscription, if there was one.
    fn unsubscribe(&mut self, session: &SessionKey, uri: &str) -> Option<Subscription> {
        let preferences = self.sessions.get_mut(session)?;
        let ended = preferences.subscriptions.remove(uri)?;
        self.bytes -= size_of(uri);
        if let Some(own) = self.principals.get_mut(&preferences.principal) {
            own.bytes -= size_of(uri);
        }
        self.remove_subscriber(session, uri);
        Some(ended)
    }

    fn remove_subscriber(&mut self, session: &SessionKey, uri: &str) {
        if let Some(subscribers) = self.subscribers.get_mut(uri) {
            subscribers.remove(session);
            if subscribers.is_empty() {
                self.subscribers.remove(uri);
            }
        }
    }

    /// Removes sessions of whichever principal has most, those that expire first before the others, until all are within the limits. So who has less than
    /// others loses nothing to them. Never `kept`.
    fn make_room(&mut self, kept: &Session) -> Room {
        let mut removed = Vec::new();
        while self.sessions.len() > SESSIONS || self.bytes > BYTES {
            let too_many = self.sessions.len() > SESSIONS;
            let size = |usage: &Usage| if too_many { usage.sessions } else { usage.bytes };
            let own = self.principals.get(&kept.principal).map_or(0, size);
            let most = self.principals.values().map(size).max().unwrap_or_default();
            let is_largest = |principal: &Principal| match own == most {
                true => *principal == kept.principal,
                false => self.principals.get(principal).map_or(0, size) == most,
            };
            let others = self.sessions.iter().filter(|(key, _)| **key != kept.key);
            let of_largest = others.clone().filter(|(_, session)| is_largest(&session.principal));
            let first = of_largest.min_by_key(|(_, session)| session.until);
            // Each principal has one session: a new one takes the place of the one that expires first.
            let first = first.or_else(|| others.filter(|_| too_many).min_by_key(|(_, session)| session.until));
            let Some(first) = first.map(|(key, _)| key.clone()) else {
                let is_enough = false;
                return Room { is_enough, removed };
            };
            removed.extend(self.remove(&first));
        }
        let is_enough = true;
        Room { is_enough, removed }
    }

    fn remove(&mut self, session: &SessionKey) -> Option<Preferences> {
        let preferences = self.sessions.remove(session)?;
        for uri in preferences.subscriptions.keys() {
            self.remove_subscriber(session, uri);
        }
        self.bytes -= preferences.bytes();
        if let Some(own) = self.principals.get_mut(&preferences.principal) {
            own.sessions -= 1;
            own.bytes -= preferences.bytes();
            if own.sessions == 0 {
                self.principals.remove(&preferences.principal);
            }
        }
        Some(preferences)
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
    use longhaul_core::{ClientCapabilities, Principal};
    use longhaul_wire::Version;

    const AT: UnixMillis = UnixMillis(5);

    fn session(nth: usize) -> Session {
        session_of(Principal::local(), nth)
    }

    fn session_of(principal: Principal, nth: usize) -> Session {
        Session {
            key: SessionKey::named(nth.to_string()),
            version: Version::V2025_11_25,
            capabilities: ClientCapabilities::default(),
            principal,
            expires_at: UnixMillis(i64::try_from(nth).unwrap()),
            client: None,
            relayed_capabilities: None,
        }
    }

    /// A URI as long as it may be.
    fn uri(nth: usize) -> String {
        format!("{nth:0LONGEST_URI$}")
    }

    fn subscribe(preferences: &SessionPreferences, session: &Session, resource: usize) -> Result<(), SubscribeError> {
        preferences.subscribe(session, &uri(resource), (None, AT))
    }

    /// Subscribes to as much as a session may.
    fn subscribe_to_most(preferences: &SessionPreferences, session: &Session) {
        for resource in 0..MOST_SUBSCRIPTIONS {
            subscribe(preferences, session, resource).unwrap();
        }
    }

    fn check(preferences: &SessionPreferences) {
        let table = preferences.0.lock();
        let counted: usize = table.sessions.values().map(Preferences::bytes).sum();
        assert_eq!(table.bytes, counted);
        assert!(counted <= BYTES && table.sessions.len() <= SESSIONS, "{counted}");
        let mut usage = HashMap::<Principal, (usize, usize)>::new();
        for session in table.sessions.values() {
            let own = usage.entry(session.principal.clone()).or_default();
            *own = (own.0 + 1, own.1 + session.bytes());
        }
        let subscribed = table.sessions.iter().flat_map(|(key, session)| {
            let uris = session.subscriptions.keys();
            uris.map(move |uri| (uri.clone(), key.clone()))
        });
        let subscribers = table.subscribers.iter();
        let indexed = subscribers.flat_map(|(uri, keys)| keys.iter().map(move |key| (uri.clone(), key.clone())));
        let subscribed: HashSet<_> = subscribed.collect();
        assert_eq!(subscribed, indexed.collect::<HashSet<_>>(), "the index agrees");
        assert!(table.subscribers.values().all(|keys| !keys.is_empty()));
        let kept = table.principals.iter();
        let kept = kept.map(|(principal, own)| (principal.clone(), (own.sessions, own.bytes)));
        assert_eq!(kept.collect::<HashMap<_, _>>(), usage);
    }

    #[test]
    fn subscriptions_are_bounded_and_the_first_session_to_expire_is_removed_first() {
        let preferences = SessionPreferences::default();
        // The first of them ends last.
        let order = [99].into_iter().chain(0..9);
        for nth in order.clone() {
            subscribe_to_most(&preferences, &session(nth));
            subscribe(&preferences, &session(nth), 0).unwrap();
            let one_more = subscribe(&preferences, &session(nth), MOST_SUBSCRIPTIONS);
            assert_eq!(one_more, Err(SubscribeError::TooMany));
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
        let is_subscribed = [0, 1].map(|nth| preferences.is_subscribed(&session(8).key, &uri(nth)));
        assert_eq!(is_subscribed, [false, true]);
        subscribe(&preferences, &session(8), 0).unwrap();
        check(&preferences);
    }

    #[test]
    fn a_subscription_that_is_asked_for_again_outlives_an_earlier_end_of_it() {
        let preferences = SessionPreferences::default();
        let (session, uri) = (session(1), "test://one");
        preferences.subscribe(&session, uri, (None, UnixMillis(5))).unwrap();
        assert!(preferences.subscribe_again(&session.key, uri, UnixMillis(8)));
        preferences.unsubscribe_before(&session.key, uri, UnixMillis(7));
        let subscribers = [(session.key.clone(), session.principal.clone())];
        assert_eq!(preferences.subscribers(uri), subscribers);
        preferences.unsubscribe_before(&session.key, uri, UnixMillis(8));
        assert_eq!(preferences.subscribers(uri), []);
        assert!(!preferences.subscribe_again(&session.key, uri, UnixMillis(9)));
        check(&preferences);
    }

    #[test]
    fn a_uri_that_is_too_long_cannot_be_subscribed_to() {
        let preferences = SessionPreferences::default();
        let long = "u".repeat(LONGEST_URI + 1);
        let refused = preferences.subscribe(&session(1), &long, (None, AT));
        assert_eq!(refused, Err(SubscribeError::TooLong(long.len())));
        assert!(preferences.0.lock().sessions.is_empty());
    }

    #[test]
    fn s_06_one_principal_removes_nothing_of_another() {
        let preferences = SessionPreferences::default();
        let (ann, bob) = (Principal::named("ann"), Principal::named("bob"));
        let hers = session_of(ann, 0);
        preferences.set_level(&hers, LogLevel::Error);
        preferences.subscribe(&hers, "test://one", (None, AT)).unwrap();
        // More sessions, and more bytes, than all together may have, and all of them expire after hers.
        for nth in 1..=SESSIONS + 2 {
            preferences.set_level(&session_of(bob.clone(), nth), LogLevel::Error);
        }
        check(&preferences);
        for nth in SESSIONS..SESSIONS + 10 {
            subscribe_to_most(&preferences, &session_of(bob.clone(), nth));
        }
        check(&preferences);
        assert_eq!(preferences.level(&hers.key), LogLevel::Error);
        assert!(preferences.is_subscribed(&hers.key, "test://one"));
    }

    #[test]
    fn subscriptions_of_many_principals_are_bounded() {
        let preferences = SessionPreferences::default();
        let of = |nth: usize| session_of(Principal::named(nth.to_string()), nth);
        let mut refused = Vec::new();
        for resource in 0..MOST_SUBSCRIPTIONS {
            refused.extend((0..12).filter_map(|nth| subscribe(&preferences, &of(nth), resource).err()));
        }
        check(&preferences);
        assert!(!refused.is_empty());
        assert!(
            refused.iter().all(|error| *error == SubscribeError::NoRoom),
            "{refused:?}"
        );
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
