//! What calls: the client of any server.

pub(crate) mod answer;
pub(crate) mod batch;
pub(crate) mod complete;
pub(crate) mod completion;
pub(crate) mod inspect;
pub(crate) mod listings;
pub(crate) mod login;
pub(crate) mod record;
pub(crate) mod shell;
pub(crate) mod task;
pub(crate) mod tasks;
pub(crate) mod tool_call;
pub(crate) mod tool_schema;
pub(crate) mod waiting;
pub(crate) mod watch;
