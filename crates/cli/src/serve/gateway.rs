//! The upstreams of a configuration.

use crate::upstream_logins::UpstreamError;
use longhaul_gateway::{Gateway, GatewayError, UpstreamOptions};
use longhaul_private_dir::PrivateDir;
use longhaul_runtime::Ports;
use std::path::Path;

/// The folder of the last known lists, in the data directory.
const FOLDER: &str = "upstreams";

/// The gateway to these upstreams. There may be none: they may be configured while the server runs.
pub(super) fn prepare(
    upstreams: Vec<UpstreamOptions>,
    prefix: bool,
    data_dir: &Path,
    ports: &Ports,
) -> Result<Gateway, UpstreamError> {
    let folder = PrivateDir::create(&data_dir.join(FOLDER)).map_err(GatewayError::from)?;
    let gateway = Gateway::new(upstreams, prefix, env!("CARGO_PKG_VERSION"), Some(folder), ports);
    Ok(gateway?)
}
