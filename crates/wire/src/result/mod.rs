//! Results, and parts of them, that both generations have.

pub(crate) mod cache;
pub mod completion;
pub(crate) mod list;
pub(crate) mod resource;
pub(crate) mod server_info;
pub(crate) mod tool;
