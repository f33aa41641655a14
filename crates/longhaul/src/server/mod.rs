//! The builder of a server, and how it starts.

mod build_id;
mod low_level;
mod start;
mod storage;

pub use low_level::{CallAnswer, MethodParams, MethodResult, ToolCall};

use crate::{
    Icon, Prompt, Resource, ResourceTemplate, ServeError, ServerHandle, ToAddress, Tool, serving::serve::stop_signal,
};
use longhaul_core::{BoxFuture, EventStore, Quota, Store, store::NewNode};
use longhaul_runtime::{ArgumentCipher, BuildId, Provider, SUSPEND_AFTER, StepObserver};
use longhaul_server::{
    Limits,
    audit::Audit,
    auth::{Authentication, Authenticator},
    http::{HttpOptions, Tls},
};
use low_level::{AuthorFunctions, Method};
use std::{
    io::{self, Write as _},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

/// The default limit of a request body: 32 MiB.
const MAX_BODY: usize = 32 << 20;

/// An MCP server that does not run yet: what it offers, and its settings. Run it with [`serve_http`](Self::serve_http) or
/// [`serve_stdio`](Self::serve_stdio), or [`start`](Self::start) it for a handle that can change what is offered, mount it into an application, or
/// test it.
///
/// **Durability.** Without [`data_dir`](Self::data_dir) or [`store`](Self::store) tasks are kept in memory: they survive their client's
/// connection, and are lost with this process. With one, every acknowledged task is on disk. After a crash its result can still be fetched. If it
/// was running, it resumes if its tool is [durable](Tool::durable); otherwise it is retried as its [`retry`](Tool::retry) policy says, or ends as
/// interrupted. Ended tasks are kept for their [`retention`](Tool::retention).
///
/// ```no_run
/// use longhaul::{Server, Tool};
/// # async fn f() -> Result<(), longhaul::ServeError> {
/// Server::new("hello", "1.0.0")
///     .tool(Tool::new("hello", async || "Hello!").description("Greets"))
///     .data_dir("hello-data")
///     .serve_http("127.0.0.1:8080")
///     .await
/// # }
/// ```
#[must_use = "a server does nothing until it is started"]
pub struct Server {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) title: Option<String>,
    pub(crate) website: Option<String>,
    pub(crate) icons: Vec<Icon>,
    pub(crate) instructions: Option<String>,
    pub(crate) tools: Vec<Tool>,
    pub(crate) prompts: Vec<Prompt>,
    pub(crate) resources: Vec<Resource>,
    pub(crate) templates: Vec<ResourceTemplate>,
    pub(crate) methods: Vec<Method>,
    pub(crate) author: AuthorFunctions,
    pub(crate) storage: Storage,
    pub(crate) node: Option<NewNode>,
    pub(crate) lost_after: Duration,
    pub(crate) providers: Vec<Arc<dyn Provider>>,
    pub(crate) max_running: Option<usize>,
    pub(crate) max_body: usize,
    pub(crate) strict_headers: bool,
    pub(crate) quota: Quota,
    pub(crate) limits: Limits,
    pub(crate) authentication: Authentication,
    pub(crate) http: HttpOptions,
    pub(crate) tls: Option<Tls>,
    pub(crate) events: Option<Arc<dyn EventStore>>,
    pub(crate) audit: Option<Arc<dyn Audit>>,
    #[cfg(feature = "admin")]
    pub(crate) admin: Option<crate::admin::AdminSettings>,
    pub(crate) suspend_after: Duration,
    pub(crate) build: Option<BuildId>,
    pub(crate) step_observer: Option<Arc<dyn StepObserver>>,
    pub(crate) cipher: Option<Arc<dyn ArgumentCipher>>,
    pub(crate) wrap_store: Option<WrapStore>,
    pub(crate) wrap_engine_store: Option<WrapStore>,
    pub(crate) accept_restored: bool,
    pub(crate) background_tasks: Vec<BackgroundTask>,
    pub(crate) print_url: bool,
    pub(crate) drain_timeout: Duration,
}

/// Wraps a store in a layer.
pub(crate) type WrapStore = Box<dyn FnOnce(Arc<dyn Store>) -> Arc<dyn Store> + Send>;

/// Starts a background task of a server.
pub(crate) type BackgroundTask = Box<dyn FnOnce(ServerHandle) -> BoxFuture<'static, ()> + Send>;

/// Where tasks are stored.
pub(crate) enum Storage {
    Memory,
    Directory(PathBuf),
    Store(Arc<dyn Store>),
}

impl Server {
    /// A server with this name and version, which clients see. It offers nothing yet.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version: version.into(),
            title: None,
            website: None,
            icons: Vec::new(),
            instructions: None,
            tools: Vec::new(),
            prompts: Vec::new(),
            resources: Vec::new(),
            templates: Vec::new(),
            methods: Vec::new(),
            author: AuthorFunctions::default(),
            storage: Storage::Memory,
            node: None,
            lost_after: Duration::from_millis(longhaul_runtime::HOST_LOST_AFTER),
            providers: Vec::new(),
            max_running: None,
            max_body: MAX_BODY,
            strict_headers: false,
            quota: Quota::default(),
            limits: Limits::default(),
            authentication: Authentication::default(),
            http: HttpOptions::default(),
            tls: None,
            events: None,
            audit: None,
            #[cfg(feature = "admin")]
            admin: None,
            suspend_after: SUSPEND_AFTER,
            build: None,
            step_observer: None,
            cipher: None,
            wrap_store: None,
            wrap_engine_store: None,
            accept_restored: false,
            background_tasks: Vec::new(),
            print_url: true,
            drain_timeout: Duration::ZERO,
        }
    }

    /// The display name.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// The URL of a page about the server.
    pub fn website(mut self, url: impl Into<String>) -> Self {
        self.website = Some(url.into());
        self
    }

    /// An icon; may be called several times.
    pub fn icon(mut self, icon: Icon) -> Self {
        self.icons.push(icon);
        self
    }

    /// Instructions for models on how to use the server.
    pub fn instructions(mut self, text: impl Into<String>) -> Self {
        self.instructions = Some(text.into());
        self
    }

    /// Offers a tool.
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Offers tools.
    pub fn tools(mut self, tools: impl IntoIterator<Item = Tool>) -> Self {
        self.tools.extend(tools);
        self
    }

    /// Offers a prompt.
    pub fn prompt(mut self, prompt: Prompt) -> Self {
        self.prompts.push(prompt);
        self
    }

    /// Offers prompts.
    pub fn prompts(mut self, prompts: impl IntoIterator<Item = Prompt>) -> Self {
        self.prompts.extend(prompts);
        self
    }

    /// Offers a resource.
    pub fn resource(mut self, resource: Resource) -> Self {
        self.resources.push(resource);
        self
    }

    /// Offers resources.
    pub fn resources(mut self, resources: impl IntoIterator<Item = Resource>) -> Self {
        self.resources.extend(resources);
        self
    }

    /// Offers a resource template: a family of resources.
    pub fn template(mut self, template: ResourceTemplate) -> Self {
        self.templates.push(template);
        self
    }

    /// Makes executors for the tasks of tools that were changed or removed; only for tools of [`Tool::executor`].
    pub fn provider(mut self, provider: Arc<dyn Provider>) -> Self {
        self.providers.push(provider);
        self
    }

    /// How many calls may run at once, of all tools together; more wait in the queue. By default there is no limit.
    pub fn max_running(mut self, limit: usize) -> Self {
        self.max_running = Some(limit.max(1));
        self
    }

    /// The largest request accepted, in bytes; by default 32 MiB.
    pub fn max_body(mut self, bytes: usize) -> Self {
        self.max_body = bytes;
        self
    }

    /// Whether to refuse requests about tasks without the header `Mcp-Name`, as the protocol demands. By default they are accepted, because some
    /// clients omit it.
    pub fn strict_headers(mut self, strict: bool) -> Self {
        self.strict_headers = strict;
        self
    }

    /// Quotas of live tasks and stored bytes, for each principal and for all together; by default there are none.
    ///
    /// ```
    /// use longhaul::{Limits, Quota, Server};
    /// let server = Server::new("hello", "1.0.0")
    ///     .max_running(8)
    ///     .quota(Quota { live_per_principal: Some(100), bytes_in_all: Some(10 << 30), ..Quota::default() })
    ///     .limits(Limits { streams: 64, ..Limits::default() });
    /// ```
    pub fn quota(mut self, quota: Quota) -> Self {
        self.quota = quota;
        self
    }

    /// Limits on requests, connections and streams, for each client and for all together.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Lets this authenticator decide who sends a request over HTTP; may be called several times. Without one, everyone who can connect is served, and all
    /// are the same [`Principal`](crate::Principal). With one, only those are served whom one of them knows; their tasks do not exist for others.
    ///
    /// ```
    /// use longhaul::{Principal, Server, auth::{Authenticator, AuthDecision, Denied, Identity, Permissions, RequestHead}};
    /// use std::sync::Arc;
    ///
    /// /// A proxy in front of this server has verified who it is.
    /// struct ByProxy;
    ///
    /// impl Authenticator for ByProxy {
    ///     fn authenticate<'a>(&'a self, head: &'a RequestHead<'a>) -> AuthDecision<'a> {
    ///         let Some(user) = head.headers.get("x-verified-user") else {
    ///             return AuthDecision::NotMine;
    ///         };
    ///         AuthDecision::Known(match user.to_str() {
    ///             Ok(user) => Ok(Arc::new(Identity::verified(Principal::named(format!("user:{user}")), Permissions::all()))),
    ///             Err(_) => Err(Denied::invalid("the user has no name")),
    ///         })
    ///     }
    /// }
    ///
    /// let server = Server::new("hello", "1.0.0").authenticator(ByProxy);
    /// ```
    pub fn authenticator(mut self, authenticator: impl Authenticator + 'static) -> Self {
        self.authentication.authenticators.push(Arc::new(authenticator));
        self
    }

    /// Whether requests without credentials are served, too, although there are [authenticators](Self::authenticator): anyone may call every tool.
    /// They share a principal of their own, [`ANYONE`](crate::auth::ANYONE). By default they are refused; without an authenticator, everyone on this machine is served as
    /// [`Principal::local`](crate::Principal::local).
    pub fn allow_unauthenticated(mut self, allow: bool) -> Self {
        self.authentication.allow_unauthenticated = allow;
        self
    }

    /// The allowed hosts and origins over HTTP, whether clients of revisions up to 2025-11-25 have sessions, whether answers may be streams, and whether
    /// the endpoints of 2024-11-05 are served.
    ///
    /// ```
    /// use longhaul::{HttpOptions, Server};
    /// # fn f() -> Result<Server, Box<dyn std::error::Error>> {
    /// let server = Server::new("hello", "1.0.0").http(HttpOptions {
    ///     allowed_hosts: vec!["mcp.example.com".parse()?], // a proxy's name, for example
    ///     stateful_mode: false, // no session: any process on the same store may answer the next request
    ///     json_response: true,  // no streams of events
    ///     ..HttpOptions::default()
    /// });
    /// # Ok(server) }
    /// ```
    pub fn http(mut self, options: HttpOptions) -> Self {
        self.http = options;
        self
    }

    /// Serves HTTPS only, with this certificate, which is read again when its files change. Then the server may listen beyond this machine, if it has an
    /// [authenticator](Self::authenticator) or serves [anyone](Self::allow_unauthenticated).
    ///
    /// ```
    /// use longhaul::{HttpOptions, Server, Tls};
    /// # fn f() -> Result<Server, Box<dyn std::error::Error>> {
    /// let server = Server::new("hello", "1.0.0")
    ///     .tls(Tls::from_pem_files("/etc/mcp/fullchain.pem", "/etc/mcp/privkey.pem")?)
    ///     .http(HttpOptions {
    ///         public_url: Some("https://mcp.example.com:7411/mcp".parse()?),
    ///         ..HttpOptions::default()
    ///     });
    /// # Ok(server) }
    /// ```
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Keeps the events of HTTP streams in this store, for clients of revisions up to 2025-11-25 whose connection broke and that come back with
    /// `Last-Event-ID`. Without one, they are kept in memory: 256 of each stream, for five minutes after its end, in this process only.
    ///
    /// With a [`SqliteEventStore`](crate::SqliteEventStore) a client that comes back after a restart of the server gets the events that it missed.
    /// What survives a restart:
    /// - its session, if the server has a [data directory](Self::data_dir); so give it one
    /// - its push stream, which goes on under the same event ids. Subscriptions and the log level do not survive: the client sets them again
    /// - what was sent on the stream of a call, its response included. A plain call that was still running has ended with the process, and then its
    ///   stream has no more than what was sent; a task goes on, and `tasks/result` is answered in any case
    ///
    /// ```no_run
    /// use longhaul::{EventLimits, Server, SqliteEventStore};
    /// use std::{path::Path, sync::Arc};
    /// # fn f() -> Result<Server, Box<dyn std::error::Error>> {
    /// let events = SqliteEventStore::open(Path::new("studio-data/events"), EventLimits::default())?;
    /// let server = Server::new("studio", "1.0.0").data_dir("studio-data").event_store(Arc::new(events));
    /// # Ok(server) }
    /// ```
    pub fn event_store(mut self, store: Arc<dyn EventStore>) -> Self {
        self.events = Some(store);
        self
    }

    /// Records who did what to which task, and who was denied: see [`Audit`](crate::audit::Audit).
    ///
    /// ```
    /// use longhaul::{Server, audit::{Audit, AuditEvent}};
    /// use std::sync::Arc;
    ///
    /// struct ToStderr;
    ///
    /// impl Audit for ToStderr {
    ///     fn record(&self, event: &AuditEvent) {
    ///         eprintln!("{}", event.to_json());
    ///     }
    /// }
    ///
    /// let server = Server::new("hello", "1.0.0").audit(Arc::new(ToStderr));
    /// ```
    pub fn audit(mut self, audit: Arc<dyn Audit>) -> Self {
        self.audit = Some(audit);
        self
    }

    /// Names this build of the program; by default it is a hash of the executable. A blocked task of a [durable](Tool::durable) tool is retried when a
    /// server of another build opens its data directory, so give each deploy a name of its own: a commit, or the digest of an image. Needed
    /// where code is not in the executable, for example in plugins.
    ///
    /// ```
    /// use longhaul::Server;
    /// let server = Server::new("hello", "1.0.0").build_id(option_env!("GIT_COMMIT").unwrap_or("development"));
    /// ```
    pub fn build_id(mut self, name: impl Into<String>) -> Self {
        self.build = Some(BuildId::named(name.into()));
        self
    }

    /// How long a durable tool may wait until it is suspended; by default 30 s. The code of a suspended task is dropped, and replayed when what
    /// it waits for comes. A longer time costs memory, a shorter one more replays. Tests set a short one to see replays at once. At least a
    /// millisecond.
    ///
    /// ```
    /// use longhaul::{Server, time::millis};
    /// let server = Server::new("test", "1.0.0").suspend_after(millis(1));
    /// ```
    pub fn suspend_after(mut self, time: Duration) -> Self {
        self.suspend_after = time;
        self
    }

    /// Encrypts the [secret arguments](Tool::secrets) of tools. All servers that share a store must be able to decrypt what the others have encrypted.
    pub fn argument_cipher(mut self, cipher: Arc<dyn ArgumentCipher>) -> Self {
        self.cipher = Some(cipher);
        self
    }

    /// For tests: calls `step_observer` when a step of a durable tool begins.
    pub fn step_observer(mut self, step_observer: Arc<dyn StepObserver>) -> Self {
        self.step_observer = Some(step_observer);
        self
    }

    /// Lets operators see all tasks and act on them while the server runs: by the socket `admin.sock` in its [data directory](Self::data_dir), with
    /// `longhaul admin tasks DIRECTORY`, and on an address if the settings name one. An operator may tell it to stop, see
    /// [`ServerHandle::drain_requested`].
    ///
    /// ```no_run
    /// use longhaul::{Server, Tool, admin::AdminSettings};
    /// # async fn f() -> Result<(), longhaul::ServeError> {
    /// let admin = AdminSettings { listen: Some(([127, 0, 0, 1], 7412).into()), ..AdminSettings::default() };
    /// Server::new("jobs", "1.0.0")
    ///     .tool(Tool::new("hello", async || "Hello!"))
    ///     .data_dir("jobs-data")
    ///     .admin(admin)
    ///     .serve_http("127.0.0.1:8080")
    ///     .await
    /// # }
    /// ```
    #[cfg(feature = "admin")]
    pub fn admin(mut self, settings: crate::admin::AdminSettings) -> Self {
        self.admin = Some(settings);
        self
    }

    /// Runs a background task beside the server, which may change what is offered. `begin` is called before the first request is read; its future runs
    /// until it ends or the server stops.
    ///
    /// ```
    /// use longhaul::{Resource, Server};
    /// let server = Server::new("files", "1.0.0").resource(Resource::text("files://log", "")).background_task(|server| async move {
    ///     while file_changed().await {
    ///         server.resource_updated("files://log");
    ///     }
    /// });
    /// # async fn file_changed() -> bool { false }
    /// ```
    pub fn background_task<F, W>(mut self, begin: F) -> Self
    where
        F: FnOnce(ServerHandle) -> W + Send + 'static,
        W: Future<Output = ()> + Send + 'static,
    {
        self.background_tasks.push(Box::new(|server| Box::pin(begin(server))));
        self
    }

    /// Whether [`serve_http`](Self::serve_http) prints its URL to standard error; by default it does. The log has it in any case.
    pub fn print_url(mut self, print: bool) -> Self {
        self.print_url = print;
        self
    }

    /// How long what runs may take to end when [`serve_http`](Self::serve_http) is told to stop, by a signal or by an operator; by default it stops at once.
    /// Nothing more begins meanwhile, and a second signal ends the wait.
    pub fn drain_timeout(mut self, timeout: Duration) -> Self {
        self.drain_timeout = timeout;
        self
    }

    /// Serves MCP over HTTP at `/mcp` until SIGTERM or Ctrl-C; then open calls have some seconds to finish. By default the
    /// address must be a loopback address, see [`ServerHandle::listen`]. Prints the URL to standard error, unless [`print_url`](Self::print_url) is off.
    ///
    /// # Errors
    /// [`ServeError`]: a definition is invalid, the data directory cannot be used, the address is taken, or the
    /// [lease was lost](ServerHandle::lease_lost).
    pub async fn serve_http(self, address: impl ToAddress) -> Result<(), ServeError> {
        let (name, print_url, drain_timeout) = (self.name.clone(), self.print_url, self.drain_timeout);
        let server = self.start().await?;
        let listening = server.listen(address).await?;
        tracing::info!(server = name, url = listening.url(), "serving");
        if print_url {
            // A closed standard error is no reason to fail.
            let _ = writeln!(io::stderr(), "`{name}` serves {}", listening.url());
        }
        let (stop, engine) = (stop_signal()?, server.engine());
        let drained = async {
            stop.await;
            if let (false, Some(engine), Ok(again)) = (drain_timeout.is_zero(), engine, stop_signal()) {
                tokio::select! {
                    () = engine.drain(drain_timeout) => {}
                    () = again => {}
                }
            }
        };
        listening.serve_until(drained).await;
        server.stop().await;
        server.check_lease()
    }

    /// Serves MCP over standard input and output until the client closes them, or until SIGTERM or Ctrl-C. The program must print nothing else to
    /// standard output.
    ///
    /// Each client starts a process of its own, and a [data directory](Self::data_dir) belongs to one process. If several clients share one, serve
    /// HTTP.
    ///
    /// # Errors
    /// As for [`serve_http`](Self::serve_http), and if reading or writing fails.
    pub async fn serve_stdio(self) -> Result<(), ServeError> {
        let server = self.start().await?;
        let stop = stop_signal()?;
        let served = tokio::select! {
            served = server.serve_lines(tokio::io::stdin(), tokio::io::stdout()) => served,
            () = stop => Ok(()),
            () = server.drain_requested() => Ok(()),
        };
        server.stop().await;
        server.check_lease()?;
        served.map_err(ServeError::Stdio)
    }

    /// Starts the server without a transport; the handle can serve, change and stop it.
    ///
    /// # Errors
    /// As for [`serve_http`](Self::serve_http), except those about the address.
    pub async fn start(self) -> Result<ServerHandle, ServeError> {
        ServerHandle::start(self).await
    }
}
