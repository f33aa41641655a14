//! What a server prepares before it runs, so that it can be operated then.

use crate::{
    Access, Admin, AdminKeyFile, AdminKeyFileError, AdminListener, AdminOptions, AdminSocket, MeteredStore, Metrics,
    UpstreamSource,
};
use longhaul_auth::same_user::{SameUser, SameUserUnavailable};
use longhaul_core::Store;
use longhaul_runtime::{Engine, Ports};
use longhaul_server::{ProtocolServer, audit::Audit, http::HostName};
use std::{
    collections::BTreeSet,
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// The file of the key that opens everything, in the data directory.
pub const ADMIN_KEY: &str = "admin.key";
/// That of the key for `/metrics`.
pub const METRICS_KEY: &str = "metrics.key";

/// Where a server is operated, besides the socket in its data directory, and by whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminSettings {
    /// An address of this machine for the page, the API and the metrics; `None` for the socket alone.
    pub listen: Option<SocketAddr>,
    /// Whether processes of the server's own user need no key on that address; `None` if that is so where the system can tell.
    pub same_user: Option<bool>,
    /// Whether `/metrics` needs a key.
    pub metrics_key: bool,
    /// Names by which requests may call the address, besides those of this machine.
    pub allowed_hosts: Vec<HostName>,
    /// The names of the labels by which the metrics count ended tasks. The first 50 values of a label are counted each, and all further ones as `other`.
    pub metrics_labels: BTreeSet<String>,
}

impl Default for AdminSettings {
    fn default() -> Self {
        Self {
            listen: None,
            same_user: None,
            metrics_key: true,
            allowed_hosts: Vec::new(),
            metrics_labels: BTreeSet::new(),
        }
    }
}

/// A server cannot be operated as its settings say.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// A file with a key.
    #[error(transparent)]
    Key(#[from] AdminKeyFileError),
    /// The address is taken, or can be reached from other machines.
    #[error("cannot listen on the admin address {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// `same_user` is on, and the system cannot tell to which user a connection belongs.
    #[error("`same_user = true` for the admin address is not possible here: {0}")]
    SameUser(SameUserUnavailable),
}

/// A server that can be operated once it runs. Mistakes in the settings are found before it has begun anything.
pub struct PreparedAdmin {
    access: Access,
    listener: Option<AdminListener>,
    metrics: Arc<Metrics>,
    socket: Option<AdminSocket>,
    protocol: Option<Arc<ProtocolServer>>,
    upstreams: Option<Arc<dyn UpstreamSource>>,
    reads_only: Option<String>,
    drain_timeout: Duration,
    data_dir: PathBuf,
}

impl PreparedAdmin {
    /// Makes the keys where there are none, and binds the address and the socket. This process owns the data directory.
    ///
    /// # Errors
    /// [`AdminError`]. A socket that cannot be bound is only logged: its path may be too long.
    pub async fn new(settings: AdminSettings, data_dir: &Path, ports: &Ports) -> Result<Self, AdminError> {
        let key = |name, prefix| AdminKeyFile::in_data_dir(data_dir, name, prefix, &*ports.entropy);
        let same_user = match (settings.listen, settings.same_user) {
            (None, _) | (_, Some(false)) => None,
            (Some(_), asked) => match SameUser::new() {
                Ok(same_user) => Some(same_user),
                Err(unavailable) if asked.is_some() => return Err(AdminError::SameUser(unavailable)),
                Err(unavailable) => {
                    tracing::warn!(
                        "users of this machine cannot be told apart, so the admin address needs its key: {unavailable}"
                    );
                    None
                }
            },
        };
        let access = Access {
            same_user: same_user.is_some(),
            admin_key: key(ADMIN_KEY, "lha_")?,
            metrics_key: settings.metrics_key.then(|| key(METRICS_KEY, "lhm_")).transpose()?,
            allowed_hosts: settings.allowed_hosts,
        };
        let listener = match settings.listen {
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
            metrics: Arc::new(Metrics::of_labels(settings.metrics_labels)),
            socket,
            protocol: None,
            upstreams: None,
            reads_only: None,
            drain_timeout: Duration::ZERO,
            data_dir: data_dir.to_owned(),
        })
    }

    /// Shows the upstreams of a gateway, too.
    #[must_use]
    pub fn with_upstreams(mut self, upstreams: Arc<dyn UpstreamSource>) -> Self {
        self.upstreams = Some(upstreams);
        self
    }

    /// Says why the server only reads, if it does.
    #[must_use]
    pub fn with_reads_only(mut self, why: Option<String>) -> Self {
        self.reads_only = why;
        self
    }

    /// How long what runs may take to end when an operator stops the server. By default it stops at once.
    #[must_use]
    pub fn with_drain_timeout(mut self, timeout: Duration) -> Self {
        self.drain_timeout = timeout;
        self
    }

    /// Counts what clients have open, and how often they meet limits.
    #[must_use]
    pub fn with_protocol(mut self, protocol: Arc<ProtocolServer>) -> Self {
        self.protocol = Some(protocol);
        self
    }

    /// What puts a layer around the engine's store that counts calls for the metrics.
    pub fn metering(&self, ports: &Ports) -> impl FnOnce(Arc<dyn Store>) -> Arc<dyn Store> + Send + 'static {
        let (metrics, clock) = (Arc::clone(&self.metrics), Arc::clone(&ports.clock));
        move |store| Arc::new(MeteredStore::around(store, metrics, clock))
    }

    /// The URL of the page; `None` without an address.
    pub fn url(&self) -> Option<String> {
        let address = self.listener.as_ref()?.address().ok()?;
        Some(format!("http://{address}/"))
    }

    /// For the server that runs now. An operator can cancel `stop`: a drain.
    pub fn operate(
        self,
        name: String,
        engine: Engine,
        audit: Option<Arc<dyn Audit>>,
        stop: CancellationToken,
    ) -> OperatedServer {
        let admin = Arc::new(Admin::new(AdminOptions {
            name,
            data_dir: Some(self.data_dir),
            engine,
            metrics: self.metrics,
            access: self.access,
            audit,
            protocol: self.protocol,
            upstreams: self.upstreams,
            reads_only: self.reads_only,
            drain_timeout: self.drain_timeout,
            stop: stop.clone(),
        }));
        OperatedServer {
            admin,
            listener: self.listener,
            socket: self.socket,
            stop,
        }
    }
}

/// A server that runs, and that operators reach once it is [served](Self::serve).
pub struct OperatedServer {
    admin: Arc<Admin>,
    listener: Option<AdminListener>,
    socket: Option<AdminSocket>,
    stop: CancellationToken,
}

impl OperatedServer {
    /// What operators see.
    pub fn admin(&self) -> Arc<Admin> {
        Arc::clone(&self.admin)
    }

    /// Serves operators until the server stops.
    pub async fn serve(self) {
        let on_address = async {
            if let Some(listener) = self.listener {
                self.admin.serve(listener, self.stop.clone()).await;
            }
        };
        let on_socket = async {
            if let Some(socket) = self.socket {
                self.admin.serve_socket(socket, self.stop.clone()).await;
            }
        };
        tokio::join!(on_address, on_socket);
    }
}
