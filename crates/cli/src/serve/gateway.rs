//! The upstreams of a configuration.

use crate::machine::upstream_logins::UpstreamError;
use longhaul_admin::{UpstreamReport, UpstreamSource, UpstreamState};
use longhaul_command::child_supervisor::ChildSupervisors;
use longhaul_core::BoxFuture;
use longhaul_gateway::{Gateway, GatewayError, PresentUpstream, UpstreamOptions, UpstreamStatus};
use longhaul_private_dir::PrivateDir;
use longhaul_runtime::Ports;
use std::{path::Path, sync::Arc};

/// The folder of the last known lists, in the data directory.
const FOLDER: &str = "upstreams";

/// The gateway to these upstreams. There may be none: they may be configured while the server runs.
pub(super) fn prepare(
    upstreams: Vec<UpstreamOptions>,
    prefix: bool,
    data_dir: &Path,
    ports: &Ports,
) -> Result<Gateway, UpstreamError> {
    // Before a call of theirs is made again.
    match ChildSupervisors::of(data_dir).map(|supervisors| supervisors.end_left()) {
        Ok(0) => {}
        Ok(processes) => tracing::warn!(processes, "ended what an earlier server has left of its upstreams"),
        Err(error) => tracing::warn!(%error, "could not look for what an earlier server has left of its upstreams"),
    }
    let folder = PrivateDir::create(&data_dir.join(FOLDER)).map_err(GatewayError::from)?;
    let gateway = Gateway::new(upstreams, prefix, env!("CARGO_PKG_VERSION"), Some(folder), ports);
    Ok(gateway?)
}

/// The gateway as operators see it.
pub(super) struct GatewayUpstreams(pub(super) Arc<Gateway>);

impl UpstreamSource for GatewayUpstreams {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn upstreams(&self) -> BoxFuture<'_, Vec<UpstreamReport>> {
        Box::pin(async {
            let report = |upstream: PresentUpstream| UpstreamReport {
                name: upstream.name,
                state: match upstream.status {
                    UpstreamStatus::Starting => UpstreamState::Starting,
                    UpstreamStatus::Up { .. } => match upstream.silence {
                        Some(silence) => UpstreamState::Silent(silence),
                        None => UpstreamState::Up,
                    },
                    UpstreamStatus::Down { reason } => UpstreamState::Down(reason),
                },
                tools: upstream.tools,
                left_out: upstream.left_out,
                waiting: upstream.waiting,
                concurrency: upstream.concurrency,
            };
            self.0.present().await.into_iter().map(report).collect()
        })
    }
}
