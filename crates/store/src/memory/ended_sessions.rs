//! Legacy sessions that their clients ended.

use longhaul_core::{
    SessionKey, UnixMillis,
    store::{MAX_ENDED_SESSIONS, StoreError},
};
use std::collections::{BTreeSet, HashMap};

#[derive(Default)]
pub(super) struct EndedSessions {
    until: HashMap<SessionKey, UnixMillis>,
    /// The same by time, so that removing expired ones reads no others.
    by_time: BTreeSet<(UnixMillis, SessionKey)>,
}

impl EndedSessions {
    pub(super) fn contains(&self, session: &SessionKey) -> bool {
        self.until.contains_key(session)
    }

    /// Of several times the latest counts.
    pub(super) fn insert(&mut self, session: &SessionKey, until: UnixMillis) -> Result<(), StoreError> {
        if let Some(known) = self.until.get(session).copied() {
            if known >= until {
                return Ok(());
            }
            self.by_time.remove(&(known, session.clone()));
        } else if self.until.len() >= MAX_ENDED_SESSIONS {
            return Err(StoreError::TooManySessions);
        }
        self.until.insert(session.clone(), until);
        self.by_time.insert((until, session.clone()));
        Ok(())
    }

    /// Removes those whose time is over.
    pub(super) fn remove_expired(&mut self, at: UnixMillis) {
        while self.by_time.first().is_some_and(|(until, _)| *until <= at) {
            if let Some((_, session)) = self.by_time.pop_first() {
                self.until.remove(&session);
            }
        }
    }
}
