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
mod api;
mod audit;
mod context;
mod health;
mod metrics;
mod page;
mod prepared;
mod query;
mod serving;
mod upstream_source;
mod view;
mod words;

pub use access::{Access, AdminKeyFile, AdminKeyFileError, AdminListener, AdminSocket};
pub use health::{clock_fault::clock_fault, disk_space::DiskSpace};
pub use longhaul_auth::same_user::SameUserUnavailable;
pub use metrics::{Metrics, MetricsError, metered_store::MeteredStore};
pub use prepared::{ADMIN_KEY, AdminError, AdminSettings, METRICS_KEY, OperatedServer, PreparedAdmin};
pub use query::InvalidQuery;
pub use serving::{Admin, AdminOptions};
pub use upstream_source::{UpstreamReport, UpstreamSource, UpstreamState};
