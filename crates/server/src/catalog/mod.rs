//! What the server offers, as clients see it: pages of lists, and the resources of tasks.

pub(crate) mod pages;
pub(crate) mod task_resources;
