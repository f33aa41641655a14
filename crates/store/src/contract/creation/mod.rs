//! How tasks are created: definitions, arguments, quotas, parents, repeated calls, confirmations, and calls that were in memory.

pub mod calls;
pub mod confirmation;
pub mod idempotent_creation;
pub mod lineage;
pub mod quotas;
pub mod replacement;
pub mod requestor;
pub mod specs;
pub mod unique;
