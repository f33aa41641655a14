//! What the code of a durable task calls, and its journal records.

pub(crate) mod fork;
mod operation;
pub(crate) mod poll;
mod recorded;
pub(crate) mod step;
mod timer;
