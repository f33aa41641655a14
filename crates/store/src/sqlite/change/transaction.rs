//! The open transaction of the writer.

use super::{commit_effects::CommitEffects, ledger::Ledger};
use crate::usage::UsageChange;
use longhaul_core::{Outcome, Principal, SessionKey, Task, TaskId, UnixMillis, Usage, store::QueuePlace};
use rusqlite::{Connection, Error};
use std::sync::Arc;

/// The transaction that a change runs in.
pub(crate) struct Tx<'c> {
    pub(crate) connection: &'c Connection,
    effects: CommitEffects,
    ledger: Ledger,
}

impl<'c> Tx<'c> {
    pub(crate) fn begin(connection: &'c Connection) -> Result<Self, Error> {
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        Ok(Self {
            connection,
            effects: CommitEffects::default(),
            ledger: Ledger::default(),
        })
    }

    /// Writes the collected usage. The caller commits.
    pub(crate) fn end(self) -> Result<CommitEffects, Error> {
        self.ledger.write(self.connection)?;
        Ok(self.effects)
    }

    /// Changes the usage of `principal`.
    pub(crate) fn add_usage(&mut self, principal: &Principal, change: UsageChange) {
        self.ledger.add(principal, change);
    }

    /// The usage as this transaction sees it: of a principal, or of all.
    pub(crate) fn usage_of(&self, of: Option<&Principal>) -> Result<Usage, Error> {
        self.ledger.usage(self.connection, of)
    }

    pub(crate) fn changed(&mut self, after: &Task, outcome: Option<&Outcome>) {
        self.effects.changed(after, outcome);
    }

    pub(crate) fn queue_ready(&mut self, tool: &Arc<str>, place: QueuePlace) {
        self.effects.queue_ready(tool, place);
    }

    pub(crate) fn deleted(&mut self, id: &TaskId) {
        self.effects.deleted(id);
    }

    /// The log is truncated soon after the commit.
    pub(crate) fn truncates_log(&mut self) {
        self.effects.truncates_log = true;
    }

    pub(crate) fn session_ended(&mut self, session: &SessionKey, until: UnixMillis) {
        self.effects.session_ended(session, until);
    }

    pub(crate) fn sessions_forgotten(&mut self, at: UnixMillis) {
        self.effects.sessions_forgotten(at);
    }
}
