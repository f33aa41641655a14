//! Operating a server: what all of its tasks do, and actions on them.
//!
//! [`Admin`] is served apart from MCP, on an address or a Unix socket of its own: a page for people, a JSON API for programs and for `longhaul admin`,
//! metrics for Prometheus, and two addresses for health checks. Whoever may use it sees the tasks of all principals.
//!
//! | path | who |
//! | --- | --- |
//! | `/healthz`, `/readyz` | everybody who can connect |
//! | `/metrics` | whoever has the metrics key, or operates the server |
//! | everything else | processes of the server's own user, if [`Access::same_user`] is on, and whoever has the admin key |

mod access;
mod action;
mod admission;
mod api;
mod api_body;
mod api_error;
mod api_query;
mod audit_view;
mod bulk;
mod clock_fault;
mod context;
mod costly_count;
mod denied_requests;
mod details;
mod disk_space;
mod drawn_pages;
mod framework_error;
mod health;
mod key_file;
mod known_problems;
mod listener;
mod live;
mod masking;
mod metered_store;
mod metrics;
mod nodes;
mod page;
mod prepared;
mod principal_counts;
mod principals;
mod problems;
mod query;
mod readiness;
mod recent_ends;
mod serving;
mod start_call;
mod store_metrics;
mod upstream_source;
mod upstreams;
mod view;
mod words;

pub use access::Access;
pub use clock_fault::clock_fault;
pub use disk_space::DiskSpace;
pub use key_file::{AdminKeyFile, AdminKeyFileError};
pub use listener::{AdminListener, AdminSocket};
pub use longhaul_auth::same_user::SameUserUnavailable;
pub use metered_store::MeteredStore;
pub use metrics::{Metrics, MetricsError};
pub use prepared::{ADMIN_KEY, AdminError, AdminSettings, METRICS_KEY, OperatedServer, PreparedAdmin};
pub use query::InvalidQuery;
pub use serving::{Admin, AdminOptions};
pub use upstream_source::{UpstreamReport, UpstreamSource, UpstreamState};
