//! Calls in the journal, from their beginning to their end.

pub(crate) mod abandoned;
pub(crate) mod batches;
pub(crate) mod calls;
pub(crate) mod cancellation;
pub(crate) mod list;
pub(crate) mod sessions;
