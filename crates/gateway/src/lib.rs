//! Durable tasks in front of MCP servers of others (upstreams), in any language and of either era.
//!
//! A [`Gateway`] connects to upstreams with `longhaul-client`, offers their tools in the catalog of an engine, and runs calls of them as attempts of an
//! [`Executor`](longhaul_runtime::Executor). So a call of an upstream's tool is a task like any other: it has a record, it survives its client, and where the
//! upstream has tasks of its own, it survives the gateway.
//!
//! What the gateway does not understand passes through unchanged: tools, results and lists are text whose bytes stay (`longhaul_wire::relayed`).

mod askers;
mod cancelled_calls;
mod catalog;
mod check;
mod checkpoint;
mod claims;
mod client_lists;
mod client_tools;
mod connections;
mod definition;
mod executor;
mod followed;
mod follower;
mod gateway;
mod instructions;
mod job;
mod job_cancel;
mod job_tools;
mod list_changes;
mod listed;
mod loops;
mod methods;
mod names;
mod offering;
mod open_questions;
mod options;
mod progress;
mod provider;
mod public_error;
mod question;
mod raw_json;
mod sign_of_life;
mod silent_calls;
mod silent_children;
mod sound_entry;
mod status;
mod supervision;
mod unavailable;
mod unused_names;
mod upstream;
mod upstreams;

pub use check::{ReportedTool, UpstreamCheck, check};
pub use definition::KIND;
pub use gateway::{Gateway, GatewayError, PresentUpstream, Reloaded, Unseen};
pub use job_tools::JobTools;
pub use names::InvalidNames;
pub use options::{PrincipalTokens, Target, ToolRule, ToolSelection, UpstreamOptions, UpstreamTokens};
pub use status::UpstreamStatus;
pub use supervision::KEPT_WHILE_DOWN;
