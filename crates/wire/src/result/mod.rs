//! Results, and parts of them, that both generations have.

mod cache;
pub mod completion;
mod list;
pub(crate) mod resource;
mod server_info;
mod tool;

pub use cache::{CacheHints, CacheScope};
pub use list::ListKind;
pub(crate) use list::push_next_cursor;
pub use resource::{ContentBody, ContentPage, LogPage, OutputPage, ResourceContent};
pub use server_info::ServerInfo;
pub use tool::{OutputSchema, ToolEntry};
