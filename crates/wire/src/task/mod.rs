//! How a task appears in messages.

pub(crate) mod lineage;
mod uri;
mod view;

pub use uri::{InvalidTaskUri, TaskPart, TaskUri};
pub use view::TaskStatus;
pub(crate) use view::{MemberNames, TaskView};
