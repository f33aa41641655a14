//! What all requests need.

use crate::{
    access::{Access, Denials, LoginSessions},
    counted_tasks::CountedTasks,
    drawn_pages::DrawnPages,
    known_problems::Problems,
    live::Live,
    metrics::Metrics,
    readiness::Readiness,
    upstream_source::UpstreamSource,
};
use longhaul_core::UnixMillis;
use longhaul_runtime::Engine;
use longhaul_server::{Front, audit::Audit};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The server that is operated, and what its operators share.
pub(crate) struct AdminContext {
    pub(crate) name: String,
    pub(crate) engine: Engine,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) access: Access,
    pub(crate) audit: Option<Arc<dyn Audit>>,
    pub(crate) front: Option<Arc<Front>>,
    pub(crate) upstreams: Option<Arc<dyn UpstreamSource>>,
    /// Why the server only reads, if it does.
    pub(crate) reads_only: Option<String>,
    pub(crate) stop: CancellationToken,
    pub(crate) logins: LoginSessions,
    pub(crate) live: Live,
    pub(crate) drawn: DrawnPages,
    pub(crate) readiness: Readiness,
    pub(crate) counted: CountedTasks,
    pub(crate) problems: Problems,
    pub(crate) denials: Denials,
}

impl AdminContext {
    pub(crate) fn now(&self) -> UnixMillis {
        self.engine.ports().clock.now()
    }
}
