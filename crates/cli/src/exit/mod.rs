//! How a command ends: its failure, its exit status, and a signal that ends it.

pub(crate) mod failure;
pub(crate) mod interrupt;
pub(crate) mod result;
