//! Changes of tasks: the writer thread, the operations that it makes in transactions, what they write, and what takes effect with a commit.

pub(super) mod commit_effects;
pub(super) mod ended;
pub(super) mod groups;
pub(super) mod ledger;
pub(super) mod operation;
pub(super) mod refused_writes;
pub(super) mod schedules;
pub(super) mod transaction;
pub(super) mod write;
pub(super) mod writer;

pub(super) use self::{operation::Needs, transaction::Tx};
