//! The methods that only revisions up to 2025-11-25 have.

pub(crate) mod initialize;
pub(crate) mod logging_set_level;
pub(crate) mod ping;
pub(crate) mod resources_subscribe;
pub(crate) mod resources_unsubscribe;
pub(crate) mod tasks_list;
pub(crate) mod tasks_result;
