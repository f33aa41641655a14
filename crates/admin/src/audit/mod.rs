//! The audit log: its entries as operators see them, and those of requests that are refused.

pub(crate) mod denied_requests;
pub(crate) mod view;
