//! How much each principal has, counted as it changes.
//!
//! The counts are rows, changed in the same transaction as what they count. So they are right after every crash, and are never computed
//! from what is stored. A transaction of many changes writes each count once, at its end.

use crate::{sqlite::query::read, usage::UsageChange};
use longhaul_core::{Principal, Usage};
use rusqlite::{Connection, Result, params};
use std::collections::HashMap;

const ADD_USAGE: &str = "INSERT INTO usage (principal, live, bytes) VALUES (?1, ?2, ?3) \
     ON CONFLICT DO UPDATE SET live = live + excluded.live, bytes = bytes + excluded.bytes";
pub(crate) const ADD_TOTAL_USAGE: &str = "UPDATE usage_in_all SET live = live + ?1, bytes = bytes + ?2 WHERE one = 1";
/// A principal without tasks has no row.
pub(crate) const DELETE_EMPTY_USAGE: &str = "DELETE FROM usage WHERE principal = ?1 AND live = 0 AND bytes = 0";

/// Changes of usage that the transaction has not written yet.
#[derive(Default)]
pub(crate) struct Ledger {
    by_principal: HashMap<Principal, UsageChange>,
    in_all: UsageChange,
}

impl Ledger {
    pub(crate) fn add(&mut self, principal: &Principal, change: UsageChange) {
        if change == UsageChange::default() {
            return;
        }
        self.in_all.add(change);
        match self.by_principal.get_mut(principal) {
            Some(sum) => sum.add(change),
            None => {
                self.by_principal.insert(principal.clone(), change);
            }
        }
    }

    /// The usage as the transaction sees it.
    pub(crate) fn usage(&self, connection: &Connection, of: Option<&Principal>) -> Result<Usage> {
        let change = match of {
            Some(principal) => self.by_principal.get(principal).copied().unwrap_or_default(),
            None => self.in_all,
        };
        Ok(change.of(read::usage(connection, of)?))
    }

    /// Writes the collected differences, before the commit.
    pub(crate) fn write(&self, connection: &Connection) -> Result<()> {
        if self.by_principal.is_empty() {
            return Ok(());
        }
        for (principal, change) in &self.by_principal {
            let principal = principal.as_str();
            connection
                .prepare_cached(ADD_USAGE)?
                .execute(params![principal, change.live, change.bytes])?;
            if change.bytes < 0 {
                connection.prepare_cached(DELETE_EMPTY_USAGE)?.execute([principal])?;
            }
        }
        connection
            .prepare_cached(ADD_TOTAL_USAGE)?
            .execute(params![self.in_all.live, self.in_all.bytes])?;
        Ok(())
    }
}
