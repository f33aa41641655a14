//! What only reads: tasks and what belongs to them, searches, and the state of a database before it is used.

pub(crate) mod inspection;
pub(crate) mod read;
pub(crate) mod search;
