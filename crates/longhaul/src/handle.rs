//! The handle of a running server.

use crate::{
    DefinitionError, DefinitionErrors, Listening, Prompt, Resource, ResourceTemplate, ServeError, Server, ToAddress,
    Tool, build_id, content::icons_json, method::Method, server::Storage,
};
use longhaul_core::{HostId, Store, store::StoreError};
use longhaul_runtime::{Catalog, Engine, EngineOptions, Ports, Recovered, Snapshot, Spawner, Watch};
use longhaul_server::{FOLLOW_TOOLS, Front, FrontOptions, ServerInfo, http, stdio};
use longhaul_store::{MemoryStore, ReadsOnly, SqliteOptions, SqliteStore};
use parking_lot::RwLock;
use std::{collections::HashSet, fmt, io, sync::Arc, time::Duration};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};

/// How long orphaned calls may take to stop when the server stops.
const SETTLE_PATIENCE: Duration = Duration::from_millis(1500);

/// How long durable tasks may take to be suspended when the server stops.
const RELEASE_PATIENCE: Duration = Duration::from_secs(3);

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
pub struct ServerHandle(Arc<RwLock<Option<Running>>>);

#[derive(Clone)]
struct Running {
    engine: Engine,
    front: Arc<Front>,
    recovered: Recovered,
}

/// A change of what a server offers has failed.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// It cannot be offered as it is.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// The server has stopped.
    #[error("the server has stopped")]
    Stopped,
    /// The definition could not be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ServerHandle {
    pub(crate) async fn start(server: Server) -> Result<Self, ServeError> {
        let handle = Self(Arc::new(RwLock::new(None)));
        let ports = Ports::system();
        let catalog = handle.catalog(
            server.tools,
            server.prompts,
            server.resources,
            server.templates,
            server.methods,
        )?;
        let mut store = open(server.storage, server.accept_restored, &ports).await?;
        if let Some(wrap) = server.wrap_store {
            store = wrap(store);
        }
        let (engine, recovered) = Engine::start(EngineOptions {
            store,
            ports,
            // Whoever owns the data directory may adopt its tasks.
            host: HostId("data-dir".into()),
            catalog,
            providers: server.providers,
            max_running: server.max_running,
            quota: server.quota,
            suspend_after: server.suspend_after,
            build: server.build.unwrap_or_else(build_id::of_executable),
            step_observer: server.step_observer,
        })
        .await?;
        if recovered != Recovered::default() {
            let Recovered {
                attempts,
                orphaned_calls,
                live,
            } = recovered;
            tracing::info!(
                attempts,
                orphaned_calls,
                ?live,
                "recovered the tasks of an earlier process"
            );
        }
        let icons = icons_json(&server.icons).map(|icons| icons.to_string());
        let mut identity = ServerInfo::new(&server.name, &server.version).with_details(
            server.title.as_deref(),
            server.website.as_deref(),
            icons.as_deref(),
        );
        if let Some(instructions) = server.instructions {
            identity = identity.with_instructions(instructions);
        }
        let front = Front::new(FrontOptions {
            engine: engine.clone(),
            identity,
            max_body: server.max_body,
            strict_headers: server.strict_headers,
            limits: server.limits,
            http: server.http,
        });
        let running = Running {
            front: Arc::new(front.await?),
            engine: engine.clone(),
            recovered,
        };
        *handle.0.write() = Some(running);
        for begin in server.alongside {
            engine.spawn(begin(handle.clone()));
        }
        Ok(handle)
    }

    /// The checked catalog, or all mistakes.
    fn catalog(
        &self,
        tools: Vec<Tool>,
        prompts: Vec<Prompt>,
        resources: Vec<Resource>,
        templates: Vec<ResourceTemplate>,
        methods: Vec<Method>,
    ) -> Result<Catalog, DefinitionErrors> {
        let mut mistakes = Mistakes::default();
        mistakes.check_unique("tool", tools.iter().map(Tool::name));
        mistakes.check_unique("prompt", prompts.iter().map(Prompt::name));
        mistakes.check_unique("resource", resources.iter().map(Resource::uri));
        mistakes.check_unique(
            "resource template",
            templates.iter().map(ResourceTemplate::uri_template),
        );
        mistakes.check_unique("method", methods.iter().map(|method| &method.name));
        if tools.iter().any(Tool::hands_off) {
            mistakes
                .0
                .extend(tools.iter().filter_map(|tool| name_conflict(tool.name())));
        }
        let tools = mistakes.collect(tools.into_iter().map(|tool| tool.build(self)));
        let prompts = mistakes.collect(prompts.into_iter().map(|prompt| prompt.build(self)));
        let resources = mistakes.collect(resources.into_iter().map(|resource| resource.build(self)));
        let templates = mistakes.collect(templates.into_iter().map(|template| template.build(self)));
        let methods = mistakes.collect(methods.into_iter().map(|method| method.build(self)));
        if !mistakes.0.is_empty() {
            return Err(DefinitionErrors(mistakes.0));
        }
        let catalog = Catalog::new(tools).map_err(|twice| {
            DefinitionErrors(vec![DefinitionError {
                what: "the tools".to_owned(),
                why: twice.to_string(),
            }])
        })?;
        prompts.into_iter().for_each(|prompt| catalog.put_prompt(prompt));
        resources
            .into_iter()
            .for_each(|resource| catalog.put_resource(resource));
        templates
            .into_iter()
            .for_each(|template| catalog.put_template(template));
        methods.into_iter().for_each(|method| catalog.put_method(method));
        Ok(catalog)
    }

    fn running(&self) -> Option<Running> {
        self.0.read().clone()
    }

    fn change<T>(&self, change: impl FnOnce(&Catalog) -> T) -> Result<T, ChangeError> {
        let running = self.running().ok_or(ChangeError::Stopped)?;
        Ok(change(running.engine.catalog()))
    }

    /// Offers a tool. Replaces one of the same name, whose running calls continue with the old definition.
    ///
    /// # Errors
    /// [`ChangeError`]; then nothing has changed.
    pub async fn put_tool(&self, tool: Tool) -> Result<(), ChangeError> {
        let running = self.running().ok_or(ChangeError::Stopped)?;
        check_follow_tools(&tool, &running.engine.catalog().snapshot())?;
        Ok(running.engine.put_tool(tool.build(self)?).await?)
    }

    /// Removes a tool; returns whether there was one. Its running calls continue.
    pub fn remove_tool(&self, name: &str) -> bool {
        self.running().is_some_and(|running| running.engine.remove_tool(name))
    }

    /// Offers a prompt. Replaces one of the same name.
    ///
    /// # Errors
    /// [`ChangeError`]; then nothing has changed.
    pub fn put_prompt(&self, prompt: Prompt) -> Result<(), ChangeError> {
        let prompt = prompt.build(self)?;
        self.change(|catalog| catalog.put_prompt(prompt))
    }

    /// Removes a prompt; returns whether there was one.
    pub fn remove_prompt(&self, name: &str) -> bool {
        self.change(|catalog| catalog.remove_prompt(name)).unwrap_or(false)
    }

    /// Offers a resource. Replaces one at the same URI.
    ///
    /// # Errors
    /// [`ChangeError`]; then nothing has changed.
    pub fn put_resource(&self, resource: Resource) -> Result<(), ChangeError> {
        let resource = resource.build(self)?;
        self.change(|catalog| catalog.put_resource(resource))
    }

    /// Removes a resource; returns whether there was one.
    pub fn remove_resource(&self, uri: &str) -> bool {
        self.change(|catalog| catalog.remove_resource(uri)).unwrap_or(false)
    }

    /// Offers a resource template. Replaces an equal one.
    ///
    /// # Errors
    /// [`ChangeError`]; then nothing has changed.
    pub fn put_template(&self, template: ResourceTemplate) -> Result<(), ChangeError> {
        let template = template.build(self)?;
        self.change(|catalog| catalog.put_template(template))
    }

    /// Removes a resource template; returns whether there was one.
    pub fn remove_template(&self, uri_template: &str) -> bool {
        self.change(|catalog| catalog.remove_template(uri_template))
            .unwrap_or(false)
    }

    /// Notifies the subscribers of the resource at `uri` that it has changed.
    pub fn resource_updated(&self, uri: impl Into<Arc<str>>) {
        // A stopped server has no subscribers.
        let _ = self.change(|catalog| catalog.resource_updated(uri));
    }

    /// An axum router that serves MCP at `/mcp`, to merge into an application. Requests must name an allowed host in `Host`. The router of a stopped
    /// server is empty.
    pub fn router(&self) -> axum::Router {
        match self.running() {
            Some(running) => http::router(running.front),
            None => axum::Router::new(),
        }
    }

    /// Serves MCP over a byte stream, one message a line, until the client closes it or the server stops. For standard input and output use
    /// [`serve_stdio`](Server::serve_stdio).
    ///
    /// # Errors
    /// If reading or writing fails.
    pub async fn serve_lines(
        &self,
        reader: impl AsyncRead + Send + Unpin,
        writer: impl AsyncWrite + Send + Unpin,
    ) -> io::Result<()> {
        match self.running() {
            Some(running) => stdio::serve(running.front, reader, writer).await,
            None => Ok(()),
        }
    }

    /// Serves a stream in the background; what it runs on is also good for its other end. `None` if the server has stopped.
    pub(crate) fn serve_stream(&self, stream: DuplexStream) -> Option<Arc<dyn Spawner>> {
        let running = self.running()?;
        let spawner = Arc::clone(&running.engine.ports().spawner);
        spawner.spawn(Box::pin(async move {
            let (reader, writer) = tokio::io::split(stream);
            // The client sees the end of the stream.
            let _ = stdio::serve(running.front, reader, writer).await;
        }));
        Some(spawner)
    }

    /// Watches a task for changes; `None` if the server has stopped or this is no id.
    pub(crate) fn watch(&self, task: &str) -> Option<Watch> {
        Some(self.running()?.engine.watch(&task.parse().ok()?))
    }

    /// What this server recovered at its start from earlier processes on the same store; nothing if it has stopped.
    pub fn recovered(&self) -> Recovered {
        self.running().map(|running| running.recovered).unwrap_or_default()
    }

    /// The protocol front, for transports of your own; a [`Listener`](longhaul_server::http::Listener) serves it. `None` if the server has stopped.
    pub fn front(&self) -> Option<Arc<Front>> {
        self.running().map(|running| running.front)
    }

    /// The engine: blocked tasks and their retries, and a catalog for adapters. `None` if the server has stopped.
    pub fn engine(&self) -> Option<Engine> {
        self.running().map(|running| running.engine)
    }

    /// Binds a loopback address; port 0 takes a free one.
    ///
    /// # Errors
    /// [`ServeError`] if the address is none, is taken, or can be reached from other machines.
    pub async fn listen(&self, address: impl ToAddress) -> Result<Listening, ServeError> {
        let listener = http::Listener::bind(address.to_address()?).await?;
        let running = self.running().ok_or(ServeError::Stopped)?;
        Ok(Listening::new(listener, running.front))
    }

    /// Stops the server. Open calls end, and work in this process is dropped. Tasks of durable tools are suspended first, so that the stop costs
    /// them no attempt, and resume at the next start. Returns how many attempts were running; attempts of executors whose work is outside this
    /// process keep running.
    pub async fn stop(&self) -> usize {
        let running = self.0.write().take();
        let Some(Running { engine, front, .. }) = running else {
            return 0;
        };
        front.close();
        engine.settle(SETTLE_PATIENCE).await;
        engine.release(RELEASE_PATIENCE).await;
        engine.stop();
        engine.running()
    }
}

impl fmt::Debug for ServerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.running().is_some() { "running" } else { "stopped" };
        write!(f, "ServerHandle({state})")
    }
}

/// The mistakes found so far.
#[derive(Default)]
struct Mistakes(Vec<DefinitionError>);

impl Mistakes {
    fn check_unique<'a>(&mut self, kind: &str, names: impl Iterator<Item = &'a Arc<str>>) {
        let mut seen = HashSet::new();
        for name in names {
            if !seen.insert(name) {
                self.0.push(DefinitionError {
                    what: format!("{kind} `{name}`"),
                    why: "there are two of this name: rename one".to_owned(),
                });
            }
        }
    }

    fn collect<T>(&mut self, built: impl Iterator<Item = Result<T, DefinitionError>>) -> Vec<T> {
        built
            .filter_map(|built| built.map_err(|error| self.0.push(error)).ok())
            .collect()
    }
}

/// The mistake of a tool with the name of a tool that follows handed-off calls.
fn name_conflict(name: &Arc<str>) -> Option<DefinitionError> {
    FOLLOW_TOOLS.contains(&&**name).then(|| DefinitionError {
        what: format!("tool `{name}`"),
        why: "some tool hands off, and its callers follow the work with a tool of this name: rename this one"
            .to_owned(),
    })
}

/// Checks a new tool against those that are offered.
fn check_follow_tools(tool: &Tool, offered: &Snapshot) -> Result<(), DefinitionError> {
    let others = || {
        offered
            .tools
            .values()
            .map(|other| other.settings())
            .filter(|other| other.name != *tool.name())
    };
    if !tool.hands_off() && others().all(|other| other.handoff.is_none()) {
        return Ok(());
    }
    let mut names = others().map(|other| &other.name).chain([tool.name()]);
    names.find_map(name_conflict).map_or(Ok(()), Err)
}

async fn open(storage: Storage, accept_restored: bool, ports: &Ports) -> Result<Arc<dyn Store>, ServeError> {
    match storage {
        Storage::Store(store) => Ok(store),
        Storage::Memory => {
            tracing::info!("tasks are kept in memory and end with this process; `data_dir` keeps them on disk");
            Ok(Arc::new(MemoryStore::default()))
        }
        Storage::Directory(path) => {
            // Waits up to two seconds for an earlier owner.
            let options = SqliteOptions {
                accept_restored,
                ..SqliteOptions::default()
            };
            let opened = ports.blocking(move || SqliteStore::open(&path, options)).await;
            let store = opened.ok_or(ServeError::Stopped)??;
            if let Some(why) = store.disagreement() {
                tracing::error!(
                    "{why}. Nothing is run, and tasks can only be read, until `Server::accept_restored_database` says to go on with it"
                );
            }
            Ok(ReadsOnly::unless_accepted(Arc::new(store)))
        }
    }
}
