//! Serving over HTTP, and the errors of serving.

use crate::DefinitionErrors;
use longhaul_server::{
    ProtocolServer, ProtocolServerError,
    http::{ListenError, Listener},
};
use std::{fmt, io, net::SocketAddr, sync::Arc};
use tokio_util::sync::CancellationToken;

/// A server cannot be served.
///
/// `Debug` prints the same text as `Display`, because a `main` that returns the error prints it by `Debug`.
#[derive(thiserror::Error)]
pub enum ServeError {
    /// A definition is invalid.
    #[error(transparent)]
    Definitions(#[from] DefinitionErrors),
    /// The data directory cannot be used.
    #[error(transparent)]
    Open(#[from] longhaul_store::SqliteOpenError),
    /// The store failed.
    #[error(transparent)]
    Start(#[from] longhaul_runtime::StartError),
    /// The store failed.
    #[error(transparent)]
    ProtocolServer(#[from] ProtocolServerError),
    /// The text is not an address.
    #[error("`{0}` is not an address to listen on; 127.0.0.1:8080 is one, and port 0 takes a free one")]
    Address(String),
    /// The address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The server cannot be operated as its settings say.
    #[cfg(feature = "admin")]
    #[error(transparent)]
    Admin(#[from] longhaul_admin::AdminError),
    /// [`Server::admin`](crate::Server::admin) without a data directory: the keys and the socket are in it.
    #[cfg(feature = "admin")]
    #[error("a server that is operated keeps its keys in its data directory: call `Server::data_dir`, too")]
    AdminWithoutDataDir,
    /// Signal handlers cannot be installed.
    #[error("cannot listen for signals: {0}")]
    Signals(io::Error),
    /// Standard input or output failed.
    #[error("standard input or output failed: {0}")]
    Stdio(io::Error),
    /// The lease of this server in the store was not renewed in time, so other servers take over its tasks.
    #[error(
        "the lease of this server was lost: it did not reach the store in time, and other servers take over its tasks. Start it again"
    )]
    LeaseLost,
    /// The server has stopped already.
    #[error("the server has stopped")]
    Stopped,
}

impl fmt::Debug for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A bound address that is not served yet.
#[must_use = "nothing is served until one of its methods is called"]
pub struct HttpListener {
    listener: Listener,
    protocol: Arc<ProtocolServer>,
    drain: CancellationToken,
}

impl HttpListener {
    pub(crate) fn new(listener: Listener, protocol: Arc<ProtocolServer>, drain: CancellationToken) -> Self {
        Self {
            listener,
            protocol,
            drain,
        }
    }

    /// The address, with the actual port.
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// The URL that clients connect to.
    pub fn url(&self) -> String {
        self.listener.url()
    }

    /// Serves until `stop` completes, or an operator [tells the server to stop](crate::ServerHandle::drain_requested); then open calls have some
    /// seconds to finish. Also returns if the server itself is stopped.
    ///
    /// ```no_run
    /// # async fn serve(server: longhaul::Server, closed: impl Future<Output = ()> + Send) -> Result<(), longhaul::ServeError> {
    /// let running = server.start().await?;
    /// let listener = running.listen("127.0.0.1:8080").await?;
    /// println!("{}", listener.url());
    /// listener.serve_until(closed).await;
    /// running.stop().await;
    /// # Ok(()) }
    /// ```
    pub async fn serve_until(self, stop: impl Future<Output = ()> + Send) {
        let stop = async {
            tokio::select! {
                () = stop => {}
                () = self.drain.cancelled() => {}
            }
        };
        self.listener.serve(self.protocol, stop).await;
    }

    /// Serves until SIGTERM or Ctrl-C.
    ///
    /// # Errors
    /// [`ServeError::Signals`].
    pub async fn serve_until_signal(self) -> Result<(), ServeError> {
        let stop = stop_signal()?;
        self.serve_until(stop).await;
        Ok(())
    }
}

/// Completes at SIGTERM or SIGINT.
pub(crate) fn stop_signal() -> Result<impl Future<Output = ()>, ServeError> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).map_err(ServeError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(ServeError::Signals)?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// An address to listen on: a [`SocketAddr`], or a text such as `127.0.0.1:8080` or `localhost:8080`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an address to listen on",
    note = "it is a text like `\"127.0.0.1:8080\"`, or a `std::net::SocketAddr`"
)]
pub trait ToAddress {
    /// The address.
    ///
    /// # Errors
    /// The text is not an address.
    fn to_address(self) -> Result<SocketAddr, ServeError>;
}

impl ToAddress for SocketAddr {
    fn to_address(self) -> Result<SocketAddr, ServeError> {
        Ok(self)
    }
}

impl ToAddress for &str {
    fn to_address(self) -> Result<SocketAddr, ServeError> {
        let text = match self.strip_prefix("localhost:") {
            Some(port) => format!("127.0.0.1:{port}"),
            None => self.to_owned(),
        };
        text.parse().map_err(|_| ServeError::Address(self.to_owned()))
    }
}

impl ToAddress for String {
    fn to_address(self) -> Result<SocketAddr, ServeError> {
        self.as_str().to_address()
    }
}

impl ToAddress for &String {
    fn to_address(self) -> Result<SocketAddr, ServeError> {
        self.as_str().to_address()
    }
}
