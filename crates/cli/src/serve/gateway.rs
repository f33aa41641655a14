//! The upstreams of a configuration.

use longhaul_gateway::{Gateway, GatewayError, UpstreamOptions};
use longhaul_private_dir::PrivateDir;
use longhaul_runtime::Ports;
use std::path::Path;

/// The folder of the last known lists, in the data directory.
const FOLDER: &str = "upstreams";

/// The gateway to these upstreams; `None` if there are none.
///
/// # Errors
/// [`GatewayError`].
pub(super) fn prepare(
    upstreams: Vec<UpstreamOptions>,
    prefix: bool,
    data_dir: &Path,
    ports: &Ports,
) -> Result<Option<Gateway>, GatewayError> {
    if upstreams.is_empty() {
        return Ok(None);
    }
    let folder = PrivateDir::create(&data_dir.join(FOLDER))?;
    Gateway::new(upstreams, prefix, env!("CARGO_PKG_VERSION"), Some(folder), ports).map(Some)
}
