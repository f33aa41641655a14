//! What is configured of upstreams: where they are, how their tools are called, and which of them are jobs.

pub(crate) mod job_tools;
pub(crate) mod names;
pub(crate) mod options;
pub(crate) mod unused_names;
