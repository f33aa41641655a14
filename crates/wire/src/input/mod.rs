//! What clients are asked: input requests, and the forms in them.

pub(crate) mod form;
pub(crate) mod request;
