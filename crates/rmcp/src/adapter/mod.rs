//! An rmcp handler behind Longhaul.

mod caller;
mod catalog;
mod change_watcher;
mod changes;
mod connection;
mod exchange;
mod request;
mod standing_connection;
mod tool;

use catalog::Offer;
use connection::TypedHandler;
use exchange::HostedHandler;
use longhaul::{Server, Tool};
use longhaul_core::BoxFuture;
use rmcp::{ServerHandler, model::Implementation};
use standing_connection::StandingConnection;
use std::{future::IntoFuture, sync::Arc};
use tool::{ExecutorProvider, ToolOverrides};

/// A handler cannot be put behind Longhaul.
#[derive(Debug, thiserror::Error)]
pub enum AdapterError {
    /// The handler refused `initialize`.
    #[error("the handler could not be initialized: {0}")]
    Initialize(String),
    /// One of the handler's lists cannot be read.
    #[error("the handler's {method} could not be read: {why}")]
    List {
        /// Which list.
        method: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// A tool is configured that the handler does not have.
    #[error("there is no tool `{name}` to configure; the handler has {}", list(.tools))]
    NoSuchTool {
        /// The name.
        name: String,
        /// The handler's tools.
        tools: Vec<String>,
    },
}

fn list(names: &[String]) -> String {
    match names {
        [] => "none".to_owned(),
        names => names.join(", "),
    }
}

/// Makes a Longhaul [`Server`] of an rmcp handler: await what it returns.
///
/// ```no_run
/// # #[derive(Clone)] struct Studio;
/// # impl rmcp::ServerHandler for Studio {}
/// use longhaul::time::seconds;
/// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
/// longhaul_rmcp::server(Studio)
///     .tool("render", |tool| tool.concurrency(2).handoff(seconds(45)))
///     .await?
///     .data_dir("studio-data")
///     .serve_http("127.0.0.1:8080")
///     .await?;
/// # Ok(()) }
/// ```
pub fn server<H: ServerHandler>(handler: H) -> ServerBuilder<H> {
    ServerBuilder {
        handler: TypedHandler(Arc::new(handler)),
        overrides: ToolOverrides::default(),
    }
}

/// A handler that is not behind Longhaul yet; made by [`server`]. Awaiting it returns the [`Server`], which is configured and served like any other.
#[must_use = "nothing is served until it is awaited"]
pub struct ServerBuilder<H> {
    handler: TypedHandler<H>,
    overrides: ToolOverrides,
}

impl<H: ServerHandler> ServerBuilder<H> {
    /// Configures the tool of this name: which of its calls become [tasks](Tool::task), its [`deadline`](Tool::deadline),
    /// [`retention`](Tool::retention), [`retry`](Tool::retry), [`handoff`](Tool::handoff), [`concurrency`](Tool::concurrency). `configure` is
    /// called again whenever the handler changes the tool.
    pub fn tool(mut self, name: impl Into<String>, configure: impl Fn(Tool) -> Tool + Send + Sync + 'static) -> Self {
        self.overrides.0.insert(name.into(), Box::new(configure));
        self
    }

    async fn into_server(self) -> Result<Server, AdapterError> {
        let connection = StandingConnection::open(&self.handler).await?;
        let (changes, changed) = changes::Changes::channel();
        let handler = Arc::new(HostedHandler::new(self.handler, changes));
        let overrides = Arc::new(self.overrides);
        let offered = Offer::read(&handler, connection.features()).await?;
        if let Some(name) = overrides.0.keys().find(|name| !offered.tools.contains_key(*name)) {
            return Err(AdapterError::NoSuchTool {
                name: name.clone(),
                tools: offered.tools.keys().cloned().collect(),
            });
        }
        let tools = offered
            .tools
            .iter()
            .map(|(name, definition)| overrides.tool(name, definition, &handler));
        let server = server_of(
            &connection.initialize_result().server_info,
            connection.initialize_result().instructions.as_deref(),
        )
        .tools(tools)
        .provider(Arc::new(ExecutorProvider(Arc::clone(&handler))));
        Ok(server.background_task(move |server| {
            if let Some(engine) = server.engine() {
                offered.put(engine.catalog(), &handler);
            }
            change_watcher::follow(server, handler, overrides, connection, changed, offered)
        }))
    }
}

impl<H: ServerHandler> IntoFuture for ServerBuilder<H> {
    type Output = Result<Server, AdapterError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.into_server())
    }
}

/// A server with the handler's name, version, title, website, icons and instructions.
fn server_of(info: &Implementation, instructions: Option<&str>) -> Server {
    let mut server = Server::new(&info.name, &info.version);
    if let Some(title) = &info.title {
        server = server.title(title);
    }
    if let Some(url) = &info.website_url {
        server = server.website(url);
    }
    for icon in info.icons.iter().flatten() {
        if let Some(icon) = serde_json::to_value(icon)
            .ok()
            .and_then(|icon| serde_json::from_value(icon).ok())
        {
            server = server.icon(icon);
        }
    }
    match instructions {
        Some(text) => server.instructions(text),
        None => server,
    }
}
