//! The leases of nodes, their permits, and the tasks that they take.

pub(crate) mod nodes;
pub(crate) mod permits;
pub(crate) mod take;
