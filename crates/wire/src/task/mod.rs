//! How a task appears in messages.

pub(crate) mod lineage;
pub(crate) mod uri;
pub(crate) mod view;
