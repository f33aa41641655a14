//! Grade 1: an rmcp handler behind Longhaul.

mod caller;
mod catalog;
mod changes;
mod connection;
mod exchange;
mod request;
mod standing_connection;
mod tool;
mod watch;

use catalog::Offered;
use connection::Typed;
use exchange::Hosted;
use longhaul::{Server, Tool};
use longhaul_core::BoxFuture;
use rmcp::{ServerHandler, model::Implementation};
use standing_connection::StandingConnection;
use std::{future::IntoFuture, sync::Arc};
use tool::{Reviving, Settings};

/// A handler cannot be put behind Longhaul.
#[derive(Debug, thiserror::Error)]
pub enum ServedError {
    /// It did not let itself be initialized.
    #[error("the handler could not be initialized: {0}")]
    Initialize(String),
    /// It did not say what it offers.
    #[error("the handler's {method} could not be read: {why}")]
    List {
        /// Which list.
        method: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// Something is set for a tool that it does not have.
    #[error("there is no tool `{name}` to set something for; the handler has {}", list(.there))]
    NoSuchTool {
        /// Which one.
        name: String,
        /// Those there are.
        there: Vec<String>,
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
pub fn server<H: ServerHandler>(handler: H) -> Served<H> {
    Served {
        handler: Typed(Arc::new(handler)),
        settings: Settings::default(),
    }
}

/// A handler on its way behind Longhaul: await it to get the [`Server`], which is then set up and served like any other.
#[must_use = "nothing is served until it is awaited"]
pub struct Served<H> {
    handler: Typed<H>,
    settings: Settings,
}

impl<H: ServerHandler> Served<H> {
    /// Sets something for the tool of this name: which of its calls become [tasks](Tool::task), its [`deadline`](Tool::deadline),
    /// [`retention`](Tool::retention), [`retry`](Tool::retry), [`handoff`](Tool::handoff), [`concurrency`](Tool::concurrency). `set` is
    /// called again whenever the handler changes the tool.
    pub fn tool(mut self, name: impl Into<String>, set: impl Fn(Tool) -> Tool + Send + Sync + 'static) -> Self {
        self.settings.0.insert(name.into(), Box::new(set));
        self
    }

    async fn into_server(self) -> Result<Server, ServedError> {
        let home = StandingConnection::open(&self.handler).await?;
        let (changes, changed) = changes::Changes::channel();
        let hosted = Arc::new(Hosted::new(self.handler, changes));
        let settings = Arc::new(self.settings);
        let offered = Offered::read(&hosted, home.features()).await?;
        if let Some(name) = settings.0.keys().find(|name| !offered.tools.contains_key(*name)) {
            return Err(ServedError::NoSuchTool {
                name: name.clone(),
                there: offered.tools.keys().cloned().collect(),
            });
        }
        let tools = offered
            .tools
            .iter()
            .map(|(name, definition)| settings.tool(name, definition, &hosted));
        let server = introduced(&home.about().server_info, home.about().instructions.as_deref())
            .tools(tools)
            .provider(Arc::new(Reviving(Arc::clone(&hosted))));
        Ok(server.alongside(move |server| {
            if let Some(engine) = server.engine() {
                offered.put(engine.catalog(), &hosted);
            }
            watch::follow(server, hosted, settings, home, changed, offered)
        }))
    }
}

impl<H: ServerHandler> IntoFuture for Served<H> {
    type Output = Result<Server, ServedError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.into_server())
    }
}

/// A server that says of itself what the handler says.
fn introduced(about: &Implementation, instructions: Option<&str>) -> Server {
    let mut server = Server::new(&about.name, &about.version);
    if let Some(title) = &about.title {
        server = server.title(title);
    }
    if let Some(url) = &about.website_url {
        server = server.website(url);
    }
    for icon in about.icons.iter().flatten() {
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
