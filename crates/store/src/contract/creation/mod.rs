//! How tasks are created: definitions, arguments, quotas, parents, repeated calls, and calls that were in memory.

pub mod calls;
pub mod idempotent_creation;
pub mod lineage;
pub mod quotas;
pub mod replacement;
pub mod requestor;
pub mod specs;
pub mod unique;
