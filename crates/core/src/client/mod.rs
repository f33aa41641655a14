//! Clients: who they are, what they can do, and how much they may keep.

pub(crate) mod capability;
pub(crate) mod principal;
pub(crate) mod quota;
