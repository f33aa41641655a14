//! Durable tasks in front of MCP servers of others (upstreams), in any language and of either era.
//!
//! A [`Gateway`] connects to upstreams with `longhaul-client`, offers their tools in the catalog of an engine, and runs calls of them as attempts of an
//! [`Executor`](longhaul_runtime::Executor). So a call of an upstream's tool is a task like any other: it has a record, it survives its client, and where the
//! upstream has tasks of its own, it survives the gateway.
//!
//! What the gateway does not understand passes through unchanged: tools, results and lists are text whose bytes stay (`longhaul_wire::relayed`).

mod catalog;
mod config;
mod executor;
mod gateway;
mod http_job;
mod job;
mod lists;
mod question;
mod raw_json;
mod relay;
mod remote_job;
mod supervision;
mod upstream;

pub use config::{
    job_tools::JobTools,
    names::InvalidNames,
    options::{PrincipalTokens, Target, ToolRule, ToolSelection, UpstreamOptions, UpstreamTokens},
};
pub use gateway::{
    Gateway, GatewayError, PresentUpstream, Reloaded, Unseen,
    check::{ReportedTool, UpstreamCheck, check},
};
pub use http_job::{
    definition::{HttpJob, HttpJobDefinition, HttpJobMistake},
    provider::{HTTP_JOB_KIND, HttpJobs},
};
pub use remote_job::states::JobStates;
pub use supervision::KEPT_WHILE_DOWN;
pub use upstream::{KIND, status::UpstreamStatus};
