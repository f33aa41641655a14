//! What all requests need, and what is remembered between them.

mod costly_count;
mod drawn_pages;
mod known_problems;
pub(crate) mod live;
mod readiness;

pub(crate) use costly_count::CostlyCount;
pub(crate) use drawn_pages::DrawnPages;
pub(crate) use known_problems::Problems;
pub(crate) use live::Live;
pub(crate) use readiness::Readiness;

use crate::{
    access::{Access, Denials, LoginSessions},
    metrics::{Metrics, Present},
    upstream_source::UpstreamSource,
};
use longhaul_admin_api::PrincipalsView;
use longhaul_core::UnixMillis;
use longhaul_runtime::Engine;
use longhaul_server::{ProtocolServer, audit::Audit};
use std::{path::PathBuf, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// The server that is operated, and what its operators share.
pub(crate) struct AdminContext {
    pub(crate) name: String,
    pub(crate) data_dir: Option<PathBuf>,
    pub(crate) engine: Engine,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) access: Access,
    pub(crate) audit: Option<Arc<dyn Audit>>,
    /// Whether its lines can be shown.
    pub(crate) has_audit_file: bool,
    pub(crate) protocol: Option<Arc<ProtocolServer>>,
    pub(crate) upstreams: Option<Arc<dyn UpstreamSource>>,
    /// Why the server only reads, if it does.
    pub(crate) reads_only: Option<String>,
    /// How long what runs may take to end when an operator stops the server.
    pub(crate) drain_timeout: Duration,
    pub(crate) stop: CancellationToken,
    pub(crate) logins: LoginSessions,
    pub(crate) live: Live,
    pub(crate) drawn: DrawnPages,
    pub(crate) readiness: Readiness,
    pub(crate) counted: CostlyCount<Present>,
    pub(crate) counted_principals: CostlyCount<PrincipalsView>,
    pub(crate) problems: Problems,
    pub(crate) denials: Denials,
}

impl AdminContext {
    pub(crate) fn now(&self) -> UnixMillis {
        self.engine.ports().clock.now()
    }
}
