//! The words of the protocol: revisions, methods, errors, ids.

mod error;
pub(crate) mod meta_keys;
mod method;
mod remote_error;
mod request_id;
mod version;

pub use error::{CONNECTION_LOST, ReservedCode, RpcError};
pub(crate) use error::{write_error_object, write_error_response, write_versions};
pub use method::{Method, NameSource};
pub use remote_error::RemoteError;
pub use request_id::RequestId;
pub use version::{Generation, Version};
