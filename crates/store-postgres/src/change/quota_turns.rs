//! Turns near a quota, so that several nodes together do not pass it.
//!
//! The count that a transaction reads lacks what others have not committed yet. So each transaction that creates tasks under a quota holds an advisory lock until it
//! ends: alone where the quota is near, so that it reads what is left, else together with others. Far from the quota all that [`MOST_WRITERS`] nodes create at a time fits.

use crate::statement::{Fault, encode};
use longhaul_core::{Principal, Quota, QuotaScope, Usage};
use parking_lot::Mutex;
use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

/// So many nodes together keep to a quota exactly.
const MOST_WRITERS: u64 = 32;
/// Far from a quota a transaction finds three quarters of it used at most, and uses this part of what is left.
const FAR_SHARE: u64 = 4 * MOST_WRITERS;

/// Takes the turns of all scopes of a transaction, in one order. Names share 256 locks, since a database has room for few.
pub(crate) const TAKE_TURNS: &str = "SELECT CASE WHEN alone THEN pg_advisory_xact_lock(turn) ELSE pg_advisory_xact_lock_shared(turn) END FROM ( \
         SELECT hashtextextended(current_schema()::text, hashtext(name) & 255) AS turn, bool_or(alone) AS alone \
         FROM unnest($1::text[], $2::bool[]) AS scopes (name, alone) GROUP BY turn ORDER BY turn \
     ) AS turns";

/// Whose usage it is; `None` for all together.
type Scope = Option<Principal>;

/// The scopes that were near their quotas when this process last saw them.
#[derive(Default)]
pub(crate) struct NearQuotas(Mutex<BTreeSet<Scope>>);

/// The turns of one transaction.
#[derive(Default)]
pub(crate) struct QuotaTurns(BTreeMap<Scope, Turn>);

struct Turn {
    alone: bool,
    /// Where the usage was found to be.
    distance: Distance,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Distance {
    Far,
    /// Too far to take turns, and too near to end with it: a usage that varies a little changes nothing.
    Between,
    Near,
}

impl NearQuotas {
    /// The turns that creates for these principals must take.
    pub(crate) fn turns<'a>(&self, quotas: impl Iterator<Item = (&'a Principal, Quota)>) -> QuotaTurns {
        let near = self.0.lock();
        let mut turns = QuotaTurns::default();
        for (principal, quota) in quotas {
            let scopes = [(QuotaScope::Principal, Some(principal)), (QuotaScope::All, None)];
            for (_, of) in scopes.into_iter().filter(|(scope, _)| quota.limits(*scope)) {
                let of = of.cloned();
                let turn = Turn {
                    alone: near.contains(&of),
                    distance: Distance::Far,
                };
                turns.0.entry(of).or_insert(turn);
            }
        }
        turns
    }

    /// Remembers what a transaction has found.
    ///
    /// # Errors
    /// A quota is near whose turn was shared: the transaction must begin again.
    pub(crate) fn learn(&self, turns: &QuotaTurns) -> Result<(), Fault> {
        let mut near = self.0.lock();
        let mut begin_again = false;
        for (of, turn) in &turns.0 {
            match (turn.distance, turn.alone) {
                (Distance::Near, false) => {
                    near.insert(of.clone());
                    begin_again = true;
                }
                (Distance::Far, true) => drop(near.remove(of)),
                _ => {}
            }
        }
        match begin_again {
            true => Err(Fault::Conflict("a quota is near".to_owned())),
            false => Ok(()),
        }
    }
}

impl QuotaTurns {
    /// The parameters of [`TAKE_TURNS`].
    pub(crate) fn columns(&self) -> (Vec<Cow<'_, str>>, Vec<bool>) {
        let name = self.0.keys().map(|of| of.as_ref().map_or("", Principal::as_str));
        let alone = self.0.values().map(|turn| turn.alone);
        (name.map(encode).collect(), alone.collect())
    }

    /// A scope with these limits had `found` when the transaction began, and has `with` together with what the transaction creates.
    pub(crate) fn note(
        &mut self,
        of: Option<&Principal>,
        limits: (Option<u64>, Option<u64>),
        found: Usage,
        with: Usage,
    ) {
        let of_live = distance(limits.0, found.live, with.live);
        let of_bytes = distance(limits.1, found.bytes, with.bytes);
        if let Some(turn) = self.0.get_mut(&of.cloned()) {
            turn.distance = turn.distance.max(of_live).max(of_bytes);
        }
    }
}

fn distance(limit: Option<u64>, found: u64, with: u64) -> Distance {
    let Some(limit) = limit else { return Distance::Far };
    let is_small = with.saturating_sub(found) <= limit / FAR_SHARE;
    match () {
        () if is_small && found <= limit / 2 => Distance::Far,
        () if is_small && found <= limit / 4 * 3 => Distance::Between,
        () => Distance::Near,
    }
}
