//! How much each principal has, counted as it changes, in the transaction that changes it.

use crate::statement::{Execute, Fault, Param, encode, row};
use longhaul_core::{Principal, Usage};
use longhaul_store::usage::UsageChange;
use std::{borrow::Cow, collections::BTreeMap};

/// In so many rows a count is kept: see the table `usage`.
const PARTS: i16 = 16;

const ADD: &str = "INSERT INTO usage (principal, part, live, bytes) \
     SELECT principal, $4, live, bytes FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS new (principal, live, bytes) \
     ON CONFLICT (principal, part) DO UPDATE SET live = usage.live + excluded.live, bytes = usage.bytes + excluded.bytes";
const ADD_IN_ALL: &str = "INSERT INTO usage_in_all (part, live, bytes) VALUES ($1, $2, $3) \
     ON CONFLICT (part) DO UPDATE SET live = usage_in_all.live + excluded.live, bytes = usage_in_all.bytes + excluded.bytes";
/// A principal without tasks has no row. What one store has counted and another one has taken away stays, as two rows whose sum is nothing.
const DELETE_EMPTY: &str =
    "DELETE FROM usage WHERE principal = ANY($1::text[]) AND part = $2 AND live = 0 AND bytes = 0";
const READ: &str = "SELECT principal, sum(live)::bigint, sum(bytes)::bigint FROM usage WHERE principal = ANY($1::text[]) GROUP BY principal";
const READ_IN_ALL: &str = "SELECT coalesce(sum(live), 0)::bigint, coalesce(sum(bytes), 0)::bigint FROM usage_in_all";

/// The usage as a transaction found it, as far as it was read, and what the transaction changes.
#[derive(Default)]
pub(crate) struct Ledger {
    found: BTreeMap<Principal, Usage>,
    found_in_all: Usage,
    changes: BTreeMap<Principal, UsageChange>,
    in_all: UsageChange,
}

impl Ledger {
    /// Reads the usage of these principals, and of all together.
    pub(crate) async fn read(tx: &impl Execute, principals: &[&Principal]) -> Result<Self, Fault> {
        let mut ledger = Self::default();
        if principals.is_empty() {
            return Ok(ledger);
        }
        let names: Vec<Cow<'_, str>> = principals.iter().map(|one| encode(one.as_str())).collect();
        let names: Param<'_> = &names;
        let by_principal = [names];
        let (of_each, in_all) = tokio::try_join!(tx.rows(READ, &by_principal), in_all(tx))?;
        for found in of_each {
            let principal = Principal::named(row::text(&found, 0)?);
            ledger.found.insert(principal, usage(&found, 1)?);
        }
        ledger.found_in_all = in_all;
        Ok(ledger)
    }

    pub(crate) fn add(&mut self, principal: &Principal, change: UsageChange) {
        if change == UsageChange::default() {
            return;
        }
        self.in_all.add(change);
        self.changes.entry(principal.clone()).or_default().add(change);
    }

    /// The usage as it was read: of a principal, or of all.
    pub(crate) fn found(&self, of: Option<&Principal>) -> Usage {
        match of {
            Some(principal) => self.found.get(principal).copied().unwrap_or_default(),
            None => self.found_in_all,
        }
    }

    /// The usage as the transaction sees it: of a principal that was read, or of all.
    pub(crate) fn usage(&self, of: Option<&Principal>) -> Usage {
        match of {
            Some(principal) => {
                let changes = self.changes.get(principal).copied().unwrap_or_default();
                changes.of(self.found(of))
            }
            None => self.in_all.of(self.found_in_all),
        }
    }

    /// What is to be written.
    pub(crate) fn changes(&self, part: Part) -> Changes<'_> {
        let changes = || {
            self.changes
                .iter()
                .filter(|(_, entry)| **entry != UsageChange::default())
        };
        Changes {
            principals: changes().map(|(one, _)| encode(one.as_str())).collect(),
            live: changes().map(|(_, entry)| entry.live).collect(),
            bytes: changes().map(|(_, entry)| entry.bytes).collect(),
            in_all: self.in_all,
            part: part.0,
        }
    }
}

/// Changes of usage as columns. They are in one order, so that two transactions do not wait for each other.
pub(crate) struct Changes<'a> {
    principals: Vec<Cow<'a, str>>,
    live: Vec<i64>,
    bytes: Vec<i64>,
    in_all: UsageChange,
    part: i16,
}

impl Changes<'_> {
    /// Adds the statements that write them. They are the last ones before the commit, since other transactions wait for these rows.
    pub(crate) fn add_to<'s>(&'s self, statements: &mut Vec<(&'s str, Vec<Param<'s>>)>) {
        if self.principals.is_empty() {
            return;
        }
        statements.push((ADD, vec![&self.principals, &self.live, &self.bytes, &self.part]));
        if self.bytes.iter().any(|bytes| *bytes < 0) {
            statements.push((DELETE_EMPTY, vec![&self.principals, &self.part]));
        }
        statements.push((ADD_IN_ALL, vec![&self.part, &self.in_all.live, &self.in_all.bytes]));
    }
}

/// Which of the rows of a count a store writes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part(i16);

impl Part {
    pub(crate) fn any() -> Self {
        Self(fastrand::i16(0..PARTS))
    }
}

/// How much one principal has, or all together.
pub(crate) async fn read(on: &impl Execute, of: Option<&Principal>) -> Result<Usage, Fault> {
    match of {
        Some(principal) => Ok(Ledger::read(on, &[principal]).await?.usage(of)),
        None => in_all(on).await,
    }
}

async fn in_all(on: &impl Execute) -> Result<Usage, Fault> {
    match on.row(READ_IN_ALL, &[]).await? {
        Some(found) => usage(&found, 0),
        None => Ok(Usage::default()),
    }
}

fn usage(found: &tokio_postgres::Row, at: usize) -> Result<Usage, Fault> {
    Ok(Usage {
        live: u64::try_from(row::number(found, at)?).unwrap_or_default(),
        bytes: u64::try_from(row::number(found, at + 1)?).unwrap_or_default(),
    })
}
