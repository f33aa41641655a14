//! A running server: its handle, and serving over HTTP.

pub(crate) mod handle;
pub(crate) mod serve;
