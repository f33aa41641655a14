//! What nodes do with tasks: queues, claims, leases, permits and recovery.

pub mod claims;
pub mod groups;
pub mod leases;
pub mod permits;
pub mod queues;
pub mod recovery;
