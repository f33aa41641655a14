//! The words of the protocol: revisions, methods, errors, ids.

pub(crate) mod error;
pub(crate) mod meta_keys;
pub(crate) mod method;
pub(crate) mod remote_error;
pub(crate) mod request_id;
pub(crate) mod version;
