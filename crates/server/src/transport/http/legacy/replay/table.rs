//! The replay buffers of each principal, and what makes room for one more.

use super::{
    buffer::ReplayBuffer,
    kept_bytes::{KeptBytes, PrincipalBytes},
};
use crate::{
    admission::limits::{Busy, Full},
    session::Session,
};
use longhaul_core::{Principal, SessionKey, UnixMillis};
use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Weak},
};

/// Streams of one session.
pub(super) const MOST_OF_SESSION: usize = 64;
/// Bytes kept of all of them for readers that resume.
const MOST_BYTES: usize = 64 << 20;

/// All replay buffers.
pub(super) struct Table {
    principals: HashMap<Principal, OfPrincipal>,
    most_of_principal: usize,
    most: usize,
    count: usize,
    kept: Arc<KeptBytes>,
    /// Whether someone removes what was kept long enough.
    pub(super) sweeping: bool,
}

/// The replay buffers of one principal.
struct OfPrincipal {
    sessions: HashMap<SessionKey, Vec<Arc<ReplayBuffer>>>,
    count: usize,
    /// Those that are over, the oldest first, each until when it is kept.
    over: VecDeque<(UnixMillis, SessionKey, Weak<ReplayBuffer>)>,
    bytes: PrincipalBytes,
}

impl Table {
    /// With so many streams of one principal, and in all.
    pub(super) fn new(most_of_principal: usize, most: usize) -> Self {
        Self {
            principals: HashMap::new(),
            most_of_principal,
            most,
            count: 0,
            kept: KeptBytes::new(MOST_BYTES),
            sweeping: false,
        }
    }

    /// The session's stream of this name.
    pub(super) fn find(&self, session: &Session, name: &str) -> Option<Arc<ReplayBuffer>> {
        let buffers = self.principals.get(&session.principal)?.sessions.get(&session.key)?;
        buffers.iter().find(|buffer| buffer.name() == name).cloned()
    }

    /// Adds a stream of a session.
    ///
    /// # Errors
    /// Which limit is reached.
    pub(super) fn add(
        &mut self,
        session: &Session,
        new: impl FnOnce(PrincipalBytes) -> ReplayBuffer,
    ) -> Result<Arc<ReplayBuffer>, Busy> {
        self.make_room(session)?;
        let kept = &self.kept;
        let own = (self.principals.entry(session.principal.clone())).or_insert_with(|| OfPrincipal {
            sessions: HashMap::new(),
            count: 0,
            over: VecDeque::new(),
            bytes: kept.of_principal(),
        });
        let buffer = Arc::new(new(own.bytes.clone()));
        let of_session = own.sessions.entry(session.key.clone()).or_default();
        of_session.push(Arc::clone(&buffer));
        own.count += 1;
        self.count += 1;
        Ok(buffer)
    }

    /// Makes room for one more stream of `session`, if need be by dropping streams without readers: its principal's own ones, or those of the principal that
    /// has most, if that has more. So who uses less than others loses nothing to them.
    fn make_room(&mut self, session: &Session) -> Result<(), Busy> {
        let principal = &session.principal;
        let own = self.principals.get(principal);
        let of_session = own.and_then(|own| own.sessions.get(&session.key)).map_or(0, Vec::len);
        if of_session >= MOST_OF_SESSION && !self.change(principal, |own| own.drop_unread(Some(&session.key))) {
            return Err(Busy::StreamsOfSession(MOST_OF_SESSION));
        }
        let of_principal = self.principals.get(principal).map_or(0, |own| own.count);
        if of_principal >= self.most_of_principal && !self.change(principal, OfPrincipal::drop_one) {
            return Err(Busy::Streams(Full::OfOne(self.most_of_principal)));
        }
        if self.count >= self.most
            && !self.change(principal, OfPrincipal::drop_one)
            && !self.drop_one_of_the_largest(of_principal + 1)
        {
            return Err(Busy::Streams(Full::InAll(self.most)));
        }
        Ok(())
    }

    /// Drops a stream of the principal that has most, if it has more than `than`; returns whether there was one.
    fn drop_one_of_the_largest(&mut self, than: usize) -> bool {
        let larger = self.principals.iter().filter(|(_, own)| own.count > than);
        let largest = larger.max_by_key(|(_, own)| own.count);
        let largest = largest.map(|(principal, _)| principal.clone());
        largest.is_some_and(|largest| self.change(&largest, OfPrincipal::drop_one))
    }

    /// A stream has ended, and is kept for a while, unless it was dropped.
    pub(super) fn ended(&mut self, until: UnixMillis, session: SessionKey, buffer: &Arc<ReplayBuffer>) {
        if let Some(own) = self.principals.get_mut(buffer.principal())
            && (own.sessions.get(&session)).is_some_and(|kept| kept.iter().any(|kept| Arc::ptr_eq(kept, buffer)))
        {
            own.over.push_back((until, session, Arc::downgrade(buffer)));
        }
    }

    /// Drops ended streams of principals that keep more than their share, until what is kept is within bounds.
    pub(super) fn shrink(&mut self) {
        while self.kept.is_exceeded() {
            let mut all = self.principals.iter();
            let over_share = all.find(|(_, own)| own.bytes.exceeds_share() && !own.over.is_empty());
            let Some(principal) = over_share.map(|(principal, _)| principal.clone()) else {
                return;
            };
            self.change(&principal, OfPrincipal::drop_oldest);
        }
    }

    /// Drops what was kept long enough.
    pub(super) fn drop_ended_before(&mut self, now: UnixMillis) {
        let all = self.principals.iter();
        let due = all.filter(|(_, own)| own.over.front().is_some_and(|(until, ..)| *until <= now));
        let due: Vec<Principal> = due.map(|(principal, _)| principal.clone()).collect();
        for principal in due {
            self.change(&principal, |own| {
                while own.over.front().is_some_and(|(until, ..)| *until <= now) {
                    own.drop_oldest();
                }
            });
        }
    }

    /// Until when the stream that ended first is kept.
    pub(super) fn next_until(&self) -> Option<UnixMillis> {
        let all = self.principals.values();
        all.filter_map(|own| Some(own.over.front()?.0)).min()
    }

    /// Removes the streams of a session.
    pub(super) fn remove_session(&mut self, session: &Session) -> Vec<Arc<ReplayBuffer>> {
        self.change(&session.principal, |own| {
            let removed = own.sessions.remove(&session.key).unwrap_or_default();
            own.count -= removed.len();
            removed
        })
    }

    /// Changes what a principal has, and the count of all.
    fn change<T: Default>(&mut self, principal: &Principal, change: impl FnOnce(&mut OfPrincipal) -> T) -> T {
        let Some(own) = self.principals.get_mut(principal) else {
            return T::default();
        };
        let before = own.count;
        let changed = change(own);
        self.count -= before - own.count;
        if own.count == 0 {
            self.principals.remove(principal);
        }
        changed
    }
}

impl OfPrincipal {
    /// Drops a stream: the one that ended first, or else one without a reader; returns whether there was one.
    fn drop_one(&mut self) -> bool {
        self.drop_oldest() || self.drop_unread(None)
    }

    /// Drops the stream that ended first; returns whether there was one.
    fn drop_oldest(&mut self) -> bool {
        while let Some((_, session, buffer)) = self.over.pop_front() {
            if let Some(buffer) = buffer.upgrade()
                && self.remove(&session, &buffer)
            {
                return true;
            }
        }
        false
    }

    /// Drops one stream without a reader, of this session or of any: one that is over before one that is not, the oldest first.
    fn drop_unread(&mut self, session: Option<&SessionKey>) -> bool {
        let candidates: Vec<_> = match session {
            Some(session) => self.sessions.get_key_value(session).into_iter().collect(),
            None => self.sessions.iter().collect(),
        };
        let unread = candidates.into_iter().flat_map(|(session, buffers)| {
            let unread = buffers.iter().filter(|buffer| !buffer.has_reader());
            unread.map(move |buffer| (session, buffer))
        });
        let chosen = unread.min_by_key(|(_, buffer)| !buffer.is_over());
        let Some((session, buffer)) = chosen.map(|(session, buffer)| (session.clone(), Arc::clone(buffer))) else {
            return false;
        };
        buffer.end();
        self.remove(&session, &buffer)
    }

    fn remove(&mut self, session: &SessionKey, buffer: &Arc<ReplayBuffer>) -> bool {
        let Some(buffers) = self.sessions.get_mut(session) else {
            return false;
        };
        let before = buffers.len();
        buffers.retain(|kept| !Arc::ptr_eq(kept, buffer));
        let removed = before - buffers.len();
        if buffers.is_empty() {
            self.sessions.remove(session);
        }
        self.count -= removed;
        removed > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        admission::permissions::Permissions, response::stream, transport::http::legacy::replay::buffer::tests::still,
    };
    use longhaul_core::ClientCapabilities;
    use longhaul_wire::Version;
    use proptest::prelude::*;

    const MOST_OF_ONE: usize = 6;
    const MOST: usize = 10;

    fn session(principal: u8, nth: u8) -> Session {
        Session {
            key: SessionKey::named(format!("{principal}.{nth}")),
            version: Version::V2025_11_25,
            capabilities: ClientCapabilities::default(),
            principal: Principal::named(principal.to_string()),
            expires_at: UnixMillis(0),
            client: None,
            relayed_capabilities: None,
        }
    }

    fn counts(table: &Table) -> [usize; 4] {
        [0u8, 1, 2, 3].map(|nth| {
            let own = table.principals.get(&Principal::named(nth.to_string()));
            let counted = own.map_or(0, |own| own.sessions.values().map(Vec::len).sum());
            assert_eq!(own.map_or(0, |own| own.count), counted);
            counted
        })
    }

    #[derive(Debug, Clone)]
    enum Act {
        Add { is_read: bool },
        End,
        EndSession,
    }

    fn acts() -> impl Strategy<Value = Vec<(u8, u8, Act)>> {
        let act = prop_oneof![
            8 => any::<bool>().prop_map(|is_read| Act::Add { is_read }),
            2 => Just(Act::End),
            1 => Just(Act::EndSession),
        ];
        prop::collection::vec((0u8..4, 0u8..3, act), 0..200)
    }

    proptest! {
        #[test]
        fn s_06_streams_are_bounded_and_none_is_dropped_for_one_who_has_as_many(acts in acts()) {
            let mut table = Table::new(MOST_OF_ONE, MOST);
            let (mut readers, mut all) = (Vec::new(), Vec::<(Session, Arc<ReplayBuffer>)>::new());
            for (principal, nth, act) in acts {
                let (own, before) = (usize::from(principal), counts(&table));
                let session = session(principal, nth);
                match act {
                    Act::Add { is_read } => {
                        let (_, events) = stream::channel();
                        let added = table.add(&session, |bytes| ReplayBuffer::new(
                            ("s".to_owned(), session.principal.clone()),
                            Permissions::all(),
                            0,
                            events.reader_presence(),
                            bytes,
                        ));
                        match added {
                            Ok(buffer) => {
                                readers.extend(is_read.then(|| buffer.read(0, &still()).ok()).flatten());
                                all.push((session, buffer));
                            }
                            Err(Busy::Streams(Full::OfOne(_))) => prop_assert_eq!(before[own], MOST_OF_ONE),
                            Err(Busy::Streams(Full::InAll(_))) => prop_assert_eq!(before.iter().sum::<usize>(), MOST),
                            Err(busy) => prop_assert!(false, "{busy}"),
                        }
                    }
                    Act::End => if let Some((session, buffer)) = all.iter().rfind(|(of, _)| of.key == session.key) {
                        buffer.end();
                        table.ended(UnixMillis(0), session.key.clone(), buffer);
                    }
                    Act::EndSession => {
                        table.remove_session(&session);
                    }
                }
                let after = counts(&table);
                prop_assert_eq!(table.count, after.iter().sum::<usize>());
                prop_assert!(table.count <= MOST && after.iter().all(|count| *count <= MOST_OF_ONE));
                for other in (0..4).filter(|other| *other != own && after[*other] < before[*other]) {
                    prop_assert!(after[other] >= after[own], "{before:?} {after:?}");
                }
            }
        }
    }
}
