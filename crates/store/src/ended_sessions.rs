//! Legacy sessions that their clients ended.

use longhaul_core::{SessionKey, UnixMillis, store::MAX_ENDED_SESSIONS};
use std::collections::{BTreeSet, HashMap};

/// The ended sessions of a store, with the time until which each is remembered. Every legacy request looks here.
#[derive(Default)]
pub struct EndedSessions {
    until: HashMap<SessionKey, UnixMillis>,
    /// The same by time, so that removing expired ones reads no others.
    by_time: BTreeSet<(UnixMillis, SessionKey)>,
}

impl EndedSessions {
    /// Whether the session has ended.
    pub fn contains(&self, session: &SessionKey) -> bool {
        self.until.contains_key(session)
    }

    /// Whether the limit of ended sessions allows another one.
    pub fn may_add(&self, session: &SessionKey) -> bool {
        self.until.len() < MAX_ENDED_SESSIONS || self.contains(session)
    }

    /// Remembers one until this time. Of several times the latest counts.
    pub fn add(&mut self, session: SessionKey, until: UnixMillis) {
        if let Some(known) = self.until.get(&session).copied() {
            if known >= until {
                return;
            }
            self.by_time.remove(&(known, session.clone()));
        }
        self.until.insert(session.clone(), until);
        self.by_time.insert((until, session));
    }

    /// Removes those whose time is over.
    pub fn remove_expired(&mut self, at: UnixMillis) {
        while self.by_time.first().is_some_and(|(until, _)| *until <= at) {
            if let Some((_, session)) = self.by_time.pop_first() {
                self.until.remove(&session);
            }
        }
    }
}
