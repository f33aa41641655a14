//! What a server offers: its tools, its capabilities, and what is kept of its lists.

pub(crate) mod completion;
pub(crate) mod era_cache;
pub(crate) mod output_schema;
pub(crate) mod response_cache;
pub(crate) mod server_change;
pub(crate) mod server_description;
pub(crate) mod tools;
