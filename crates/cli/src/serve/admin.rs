//! Operating the server while it runs: the admin address, and the socket in the data directory.

use crate::config::AdminConfig;
use longhaul::audit::Audit;
use longhaul_admin::{
    Access, Admin, AdminListener, AdminOptions, AdminSocket, KeyFile, KeyFileError, MeteredStore, Metrics,
};
use longhaul_auth::same_user::{SameUser, SameUserUnavailable};
use longhaul_runtime::{Engine, Ports};
use std::{io, net::SocketAddr, path::Path, sync::Arc};
use tokio_util::sync::CancellationToken;

const ADMIN_KEY: &str = "admin.key";
const METRICS_KEY: &str = "metrics.key";

/// The server cannot be operated as it is configured.
#[derive(Debug, thiserror::Error)]
pub(super) enum AdminError {
    #[error(transparent)]
    Key(#[from] KeyFileError),
    #[error("cannot listen on {address}, of [admin]: {source}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("`same_user = true` in [admin] is not possible here: {0}")]
    SameUser(SameUserUnavailable),
}

/// What is prepared before the server runs, so that mistakes end it before it has begun anything.
pub(super) struct PreparedAdmin {
    access: Access,
    listener: Option<AdminListener>,
    metrics: Arc<Metrics>,
    socket: Option<AdminSocket>,
}

impl PreparedAdmin {
    pub(super) async fn new(config: AdminConfig, data_dir: &Path, ports: &Ports) -> Result<Self, AdminError> {
        let key = |name, prefix| KeyFile::in_data_dir(data_dir, name, prefix, &*ports.entropy);
        let same_user = match (config.listen, config.same_user) {
            (None, _) | (_, Some(false)) => None,
            (Some(_), asked) => match SameUser::new() {
                Ok(same_user) => Some(same_user),
                Err(unavailable) if asked.is_some() => return Err(AdminError::SameUser(unavailable)),
                Err(unavailable) => {
                    tracing::warn!(
                        "users of this machine cannot be told apart, so [admin] needs its key: {unavailable}"
                    );
                    None
                }
            },
        };
        let access = Access {
            same_user: same_user.is_some(),
            admin_key: key(ADMIN_KEY, "lha_")?,
            metrics_key: config.metrics_key.then(|| key(METRICS_KEY, "lhm_")).transpose()?,
            allowed_hosts: config.allowed_hosts,
        };
        let listener = match config.listen {
            None => None,
            Some(address) => {
                let bound = AdminListener::bind(address, same_user, &ports.clock).await;
                Some(bound.map_err(|source| AdminError::Listen { address, source })?)
            }
        };
        let socket = match AdminSocket::bind(data_dir, &ports.clock) {
            Ok(socket) => Some(socket),
            // Such as a path that is too long for a socket. The server serves its clients without it.
            Err(error) => {
                tracing::warn!(%error, "`longhaul admin` cannot reach this server in its data directory");
                None
            }
        };
        Ok(Self {
            access,
            listener,
            metrics: Arc::default(),
            socket,
        })
    }

    /// A server whose calls are counted.
    pub(super) fn count_calls(&self, server: longhaul::Server, ports: &Ports) -> longhaul::Server {
        let (metrics, clock) = (Arc::clone(&self.metrics), Arc::clone(&ports.clock));
        server.wrap_engine_store(move |store| Arc::new(MeteredStore::around(store, metrics, clock)))
    }

    /// Its address, for people.
    pub(super) fn url(&self) -> Option<String> {
        let address = self.listener.as_ref()?.address().ok()?;
        Some(format!("http://{address}/"))
    }

    /// Serves until `stop`, which an operator can cancel.
    pub(super) async fn serve(
        self,
        name: String,
        engine: Engine,
        audit: Option<Arc<dyn Audit>>,
        stop: CancellationToken,
    ) {
        let admin = Admin::new(AdminOptions {
            name,
            engine,
            metrics: self.metrics,
            access: self.access,
            audit,
            stop: stop.clone(),
        });
        let on_address = async {
            if let Some(listener) = self.listener {
                admin.serve(listener, stop.clone()).await;
            }
        };
        let on_socket = async {
            if let Some(socket) = self.socket {
                admin.serve_socket(socket, stop.clone()).await;
            }
        };
        tokio::join!(on_address, on_socket);
    }
}
