//! What the server offers, as clients see it: declared capabilities, pages of lists, resources and those of tasks.

pub(crate) mod features;
pub(crate) mod pages;
pub(crate) mod resources;
pub(crate) mod task_resources;
