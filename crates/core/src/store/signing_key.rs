//! Keys that sign what clients carry, and when they are replaced.

use crate::UnixMillis;
use std::fmt;

/// A newer key is made when the newest is this old, in days.
const REPLACED_AFTER: u32 = 30;
/// How long a key that was replaced is still accepted, in days. What it has signed is not used for as long: states of rounds live for minutes, and the
/// sessions of clients for days.
const ACCEPTED_FOR: u32 = 90;
const DAY_MILLIS: i64 = 24 * 60 * 60 * 1000;

/// A key that signs what is given away and comes back: cursors, sessions.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningKey {
    /// Names the key inside what it signed: the day it was made, counted from 1970. The first key of older stores is 1.
    pub id: u32,
    /// 32 secret bytes.
    pub secret: [u8; 32],
}

impl SigningKey {
    /// A key that is made now.
    pub fn made_at(now: UnixMillis, secret: [u8; 32]) -> Self {
        let id = u32::try_from(now.0.div_euclid(DAY_MILLIS)).unwrap_or_default();
        Self { id, secret }
    }

    /// The keys of one purpose, newest first, on the day that `fresh` was made. It becomes the newest if there is none or if the newest is 30 days old.
    /// Those that were replaced 90 days ago are forgotten.
    ///
    /// ```
    /// use longhaul_core::store::SigningKey;
    ///
    /// let key = |day| SigningKey { id: day, secret: [0; 32] };
    /// let ids = |keys: Vec<SigningKey>| keys.iter().map(|key| key.id).collect::<Vec<_>>();
    /// assert_eq!(ids(SigningKey::rotate(vec![], key(100))), [100]);
    /// assert_eq!(ids(SigningKey::rotate(vec![key(100)], key(129))), [100]);
    /// assert_eq!(ids(SigningKey::rotate(vec![key(100)], key(130))), [130, 100]);
    /// assert_eq!(ids(SigningKey::rotate(vec![key(130), key(100)], key(220))), [220, 130]);
    /// ```
    pub fn rotate(mut known: Vec<Self>, fresh: Self) -> Vec<Self> {
        let today = fresh.id;
        let is_due = |newest: &Self| newest.id.saturating_add(REPLACED_AFTER) <= today;
        if known.first().is_none_or(is_due) {
            known.insert(0, fresh);
        }
        let was_replaced_lately = |newer: &Self| newer.id.saturating_add(ACCEPTED_FOR) > today;
        let earlier = known.iter().take_while(|newer| was_replaced_lately(newer)).count();
        known.truncate(earlier + 1);
        known
    }
}

/// Shows nothing of the secret.
impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.id)
    }
}
