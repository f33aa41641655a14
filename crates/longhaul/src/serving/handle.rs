//! The handle of a running server.

use crate::{ChangeError, HttpListener, ServeError, ToAddress};
use longhaul_core::Principal;
use longhaul_runtime::{Catalog, Engine, EngineStop, Recovered};
#[cfg(feature = "testing")]
use longhaul_runtime::{Spawner, TaskWatch};
use longhaul_server::{ProtocolServer, Transport, http, stdio};
use parking_lot::RwLock;
use std::{fmt, io, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch,
};
use tokio_util::sync::CancellationToken;

/// How long orphaned calls may take to stop when the server stops.
const STOP_TIMEOUT: Duration = Duration::from_millis(1500);

/// How long durable tasks may take to be suspended when the server stops.
const SUSPEND_TIMEOUT: Duration = Duration::from_secs(3);

/// A running server, to serve it, mount it into an application, change what it offers, test it, or stop it. Cheap to clone; handlers get it from
/// [`RequestContext::server`](crate::RequestContext::server).
///
/// The server runs until [`stop`](Self::stop), also without handles.
///
/// ```
/// use longhaul::{Server, Tool};
/// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Server::new("hello", "1.0.0").start().await?;
/// server.put_tool(Tool::new("hello", async || "Hello!")).await?; // subscribed clients are notified
/// let app: axum::Router = server.router(); // MCP at /mcp, to merge into an application
/// server.remove_tool("hello");
/// server.stop().await;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct ServerHandle(Arc<HandleState>);

#[derive(Default)]
struct HandleState {
    running: RwLock<Option<RunningServer>>,
    lease_lost: watch::Sender<bool>,
    /// Cancelled when an operator asks for a stop, and by the stop itself.
    drain: CancellationToken,
}

/// The parts of a running server.
#[derive(Clone)]
pub(crate) struct RunningServer {
    pub(crate) engine: Engine,
    pub(crate) protocol: Arc<ProtocolServer>,
    pub(crate) recovered: Recovered,
    pub(crate) exposure: http::Exposure,
    pub(crate) tls: Option<http::Tls>,
}

impl ServerHandle {
    /// The handle of a server that does not run yet: handlers are built with it.
    pub(crate) fn stopped() -> Self {
        Self(Arc::default())
    }

    pub(crate) fn set_running(&self, running: RunningServer) {
        let (handle, stopped) = (self.clone(), running.engine.stopped());
        running.engine.ports().spawner.spawn(Box::pin(async move {
            if stopped.await == EngineStop::LeaseLost {
                handle.0.lease_lost.send_replace(true);
                handle.stop().await;
            }
        }));
        *self.0.running.write() = Some(running);
    }

    pub(crate) fn running(&self) -> Option<RunningServer> {
        self.0.running.read().clone()
    }

    pub(crate) fn change<T>(&self, change: impl FnOnce(&Catalog) -> T) -> Result<T, ChangeError> {
        let running = self.running().ok_or(ChangeError::Stopped)?;
        Ok(change(running.engine.catalog()))
    }

    /// Removes a tool; returns whether there was one. Its running calls continue.
    pub fn remove_tool(&self, name: &str) -> bool {
        self.running().is_some_and(|running| running.engine.remove_tool(name))
    }

    /// Removes a prompt; returns whether there was one.
    pub fn remove_prompt(&self, name: &str) -> bool {
        self.change(|catalog| catalog.remove_prompt(name)).unwrap_or(false)
    }

    /// Removes a resource; returns whether there was one.
    pub fn remove_resource(&self, uri: &str) -> bool {
        self.change(|catalog| catalog.remove_resource(uri)).unwrap_or(false)
    }

    /// Removes a resource template; returns whether there was one.
    pub fn remove_template(&self, uri_template: &str) -> bool {
        self.change(|catalog| catalog.remove_template(uri_template))
            .unwrap_or(false)
    }

    /// Notifies clients that the list of tools has changed, if you answer [`tools/list`](crate::Server::method). Other changes are known to the server.
    pub fn tool_list_changed(&self) {
        // A stopped server has no clients.
        let _ = self.change(Catalog::tool_list_changed);
    }

    /// Notifies clients that the list of prompts has changed, if you answer [`prompts/list`](crate::Server::method).
    pub fn prompt_list_changed(&self) {
        let _ = self.change(Catalog::prompt_list_changed);
    }

    /// Notifies clients that the list of resources or of resource templates has changed, if you answer [`resources/list`](crate::Server::method)
    /// or `resources/templates/list`.
    pub fn resource_list_changed(&self) {
        let _ = self.change(Catalog::resource_list_changed);
    }

    /// Notifies the subscribers of the resource at `uri` that it has changed; if several servers share a store, those of all of them.
    pub fn resource_updated(&self, uri: impl Into<Arc<str>>) {
        // A stopped server has no subscribers.
        let _ = self.change(|catalog| catalog.resource_updated(uri));
    }

    /// As [`resource_updated`](Self::resource_updated), for the subscribers of one principal only: where the same URI is not the same resource for everyone.
    pub fn resource_updated_for(&self, principal: &Principal, uri: impl Into<Arc<str>>) {
        let _ = self.change(|catalog| catalog.resource_updated_for(principal, uri));
    }

    /// An axum router that serves MCP at `/mcp`, to merge into an application. Requests must name an allowed host in `Host`. The router of a stopped
    /// server is empty.
    pub fn router(&self) -> axum::Router {
        match self.running() {
            Some(running) => http::router(running.protocol),
            None => axum::Router::new(),
        }
    }

    /// Serves MCP over a byte stream of this user, one message a line, until the client closes it or the server stops. For standard input and output use
    /// [`serve_stdio`](crate::Server::serve_stdio), for other connections a [`Transport`].
    ///
    /// ```no_run
    /// # async fn f(handle: longhaul::ServerHandle) -> std::io::Result<()> {
    /// let (stream, _address) = tokio::net::UnixListener::bind("/run/user/1000/tools.sock")?.accept().await?;
    /// let (reader, writer) = stream.into_split();
    /// handle.serve_lines(reader, writer).await
    /// # }
    /// ```
    ///
    /// # Errors
    /// If reading or writing fails.
    pub async fn serve_lines(
        &self,
        reader: impl AsyncRead + Send + Unpin,
        writer: impl AsyncWrite + Send + Unpin,
    ) -> io::Result<()> {
        match self.running() {
            Some(running) => stdio::serve(running.protocol, reader, writer).await,
            None => Ok(()),
        }
    }

    /// Serves one client over a transport of your own, until the client closes it or the server stops. The same server may be served over several
    /// transports at once, each call of this for one client.
    ///
    /// ```
    /// use longhaul::{Received, Server, Tool, Transport};
    /// use std::io;
    /// use tokio::sync::{Mutex, mpsc};
    ///
    /// /// Messages over a pair of channels. A WebSocket has a stream and a sink instead.
    /// struct Channels {
    ///     incoming: Mutex<mpsc::Receiver<String>>,
    ///     outgoing: mpsc::Sender<String>,
    /// }
    ///
    /// impl Transport for Channels {
    ///     async fn receive(&self) -> io::Result<Received> {
    ///         let message = self.incoming.lock().await.recv().await;
    ///         Ok(message.map_or(Received::Closed, |message| Received::Message(message.into())))
    ///     }
    ///
    ///     async fn send(&self, messages: Vec<String>) -> io::Result<()> {
    ///         for message in messages {
    ///             self.outgoing.send(message).await.map_err(|_| io::ErrorKind::BrokenPipe)?;
    ///         }
    ///         Ok(())
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (to_server, incoming) = mpsc::channel(16);
    /// let (outgoing, mut from_server) = mpsc::channel(16);
    /// let server = Server::new("hello", "1.0.0").tool(Tool::new("hello", async || "Hello!")).start().await?;
    /// let channels = Channels { incoming: Mutex::new(incoming), outgoing };
    /// let client = async {
    ///     let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",
    ///         "capabilities":{},"clientInfo":{"name":"client","version":"1"}}}"#;
    ///     to_server.send(initialize.to_owned()).await.unwrap();
    ///     assert!(from_server.recv().await.unwrap().contains(r#""name":"hello""#));
    ///     drop(to_server); // closes the connection
    /// };
    /// let (served, ()) = tokio::join!(server.serve(channels), client);
    /// served?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Those of the transport.
    pub async fn serve(&self, transport: impl Transport) -> io::Result<()> {
        match self.running() {
            Some(running) => longhaul_server::serve(running.protocol, transport).await,
            None => Ok(()),
        }
    }

    /// Serves a stream in the background. Returns the spawner, so that the caller can run the other end on it; `None` if the server has stopped.
    #[cfg(feature = "testing")]
    pub(crate) fn serve_stream(&self, stream: tokio::io::DuplexStream) -> Option<Arc<dyn Spawner>> {
        let running = self.running()?;
        let spawner = Arc::clone(&running.engine.ports().spawner);
        spawner.spawn(Box::pin(async move {
            let (reader, writer) = tokio::io::split(stream);
            // The client sees the end of the stream.
            let _ = stdio::serve(running.protocol, reader, writer).await;
        }));
        Some(spawner)
    }

    /// Watches a task for changes; `None` if the server has stopped or the id is invalid.
    #[cfg(feature = "testing")]
    pub(crate) fn watch(&self, task: &str) -> Option<TaskWatch> {
        Some(self.running()?.engine.watch(&task.parse().ok()?))
    }

    /// What this server recovered at its start from earlier processes on the same store; nothing if it has stopped.
    pub fn recovered(&self) -> Recovered {
        self.running().map(|running| running.recovered).unwrap_or_default()
    }

    /// The protocol layer, to be served by parts of [`longhaul_server`]; a [`Listener`](longhaul_server::http::Listener) serves it. `None` if the server has stopped.
    pub fn protocol(&self) -> Option<Arc<ProtocolServer>> {
        self.running().map(|running| running.protocol)
    }

    /// The engine: blocked tasks and their retries, and a catalog for adapters. `None` if the server has stopped.
    pub fn engine(&self) -> Option<Engine> {
        self.running().map(|running| running.engine)
    }

    /// Binds an address; port 0 takes a free one. It must be a loopback address, unless the server has an
    /// [authenticator](crate::Server::authenticator) or serves [anyone](crate::Server::allow_unauthenticated), and has
    /// [TLS](crate::Server::tls), [proxies](crate::HttpOptions::trusted_proxies) at which TLS ends, or allows [plain HTTP](crate::HttpOptions::plain_http).
    ///
    /// # Errors
    /// [`ServeError`] if the address is invalid, is taken, or can be reached from other machines.
    pub async fn listen(&self, address: impl ToAddress) -> Result<HttpListener, ServeError> {
        let running = self.running().ok_or(ServeError::Stopped)?;
        let listener = http::Listener::bind_exposed(address.to_address()?, running.exposure).await?;
        let listener = match running.tls {
            Some(tls) => listener.with_tls(tls),
            None => listener,
        };
        Ok(HttpListener::new(listener, running.protocol, self.drain()))
    }

    pub(crate) fn drain(&self) -> CancellationToken {
        self.0.drain.clone()
    }

    /// Completes when an operator has told the server to stop, by the page or `longhaul admin drain`, and when it [has stopped](Self::stop). A
    /// [listener](Self::listen) stops by itself then; a program that serves in its own way stops as at SIGTERM.
    pub async fn drain_requested(&self) {
        self.0.drain.cancelled().await;
    }

    /// Completes if the server has lost its lease in a store that several servers share: it did not renew it in time, for example because it was
    /// suspended or could not reach the store. Other servers take over its tasks, and it stops by itself, as after [`stop`](Self::stop). End the process
    /// then, so that it is started anew; [`serve_http`](crate::Server::serve_http) and [`serve_stdio`](crate::Server::serve_stdio) return an error.
    pub async fn lease_lost(&self) {
        // Fails only without the sender, which is part of the handle.
        let _ = self.0.lease_lost.subscribe().wait_for(|lost| *lost).await;
    }

    /// Whether the server has kept its [lease](Self::lease_lost), for the end of a program that serves in its own way.
    ///
    /// # Errors
    /// [`ServeError::LeaseLost`].
    pub fn check_lease(&self) -> Result<(), ServeError> {
        match *self.0.lease_lost.borrow() {
            true => Err(ServeError::LeaseLost),
            false => Ok(()),
        }
    }

    /// Stops the server. Open calls end, and work in this process is dropped. Tasks of durable tools are suspended first, so that the stop costs
    /// them no attempt, and resume at the next start. Returns how many attempts were running; attempts of executors whose work is outside this
    /// process keep running.
    pub async fn stop(&self) -> usize {
        let running = self.0.running.write().take();
        let Some(RunningServer { engine, protocol, .. }) = running else {
            return 0;
        };
        self.0.drain.cancel();
        protocol.close();
        engine.settle(STOP_TIMEOUT).await;
        engine.release(SUSPEND_TIMEOUT).await;
        engine.end().await;
        engine.running()
    }
}

impl fmt::Debug for ServerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.running().is_some() { "running" } else { "stopped" };
        write!(f, "ServerHandle({state})")
    }
}
