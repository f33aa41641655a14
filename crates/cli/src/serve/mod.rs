//! `longhaul serve`: a server whose tools are the commands of a configuration file.

mod access;
mod content;
mod descriptors;
mod gateway;
mod listener;
pub(crate) mod log;
mod orphans;
mod reload;
mod report;
#[cfg(unix)]
pub(crate) mod stdio;
mod stop;
mod store;
mod telemetry;
mod tools;
#[cfg(unix)]
pub(crate) mod wrap;

use crate::{
    args,
    config::{self, Config, ServerConfig, SharedStore},
    machine::{
        audit::{AuditError, AuditLog},
        secret_keys::{SecretKeys, SecretKeysError},
        served_file::ServedFile,
        upstream_logins::{UpstreamError, UpstreamLogins},
    },
    mcp_servers::generated_config,
    output::{self, amounts::count},
};
use listener::BoundListener;
use longhaul::{
    ServerHandle,
    audit::{Audit, AuditAction, AuditEvent, AuditOutcome},
};
use longhaul_admin::{DiskSpace, PreparedAdmin};
use longhaul_command::{Attempts, CommandProvider, Launcher, hazards};
use longhaul_core::store::{NewNode, NodeRole};
use longhaul_gateway::{Gateway, GatewayError};
use longhaul_runtime::{Engine, Ports, Provider};
use longhaul_server::{
    ProtocolServer,
    http::{ListenError, TlsError, UnixSocketError},
    stdio::OwnerSocket,
};
use longhaul_store::{SqliteOpenError, SqliteOptions, SqliteStore};
use orphans::Orphans;
use report::Report;
use rustix::process::Signal as SignalNumber;
use std::{io, process::ExitCode, sync::Arc, time::Duration};
use store::{OpenedStore, SharedStoreError};
use telemetry::Telemetry;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tools::ToolProviders;

/// Exit status for `longhaul stdio` when another process owns the data directory.
pub(crate) const IN_USE: u8 = 75;
/// What the model is told if the configuration has no `instructions`.
const USUAL_INSTRUCTIONS: &str = "Slow tools run as tasks, which survive this server and your connection to it.";
/// How long blocking work may take after the server has stopped.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// The server cannot start.
#[derive(Debug, thiserror::Error)]
enum ServeError {
    #[error(transparent)]
    Open(#[from] longhaul_store::SqliteOpenError),
    #[error("{error}{owner}")]
    Listen { error: ListenError, owner: String },
    #[error(transparent)]
    UnixSocket(#[from] UnixSocketError),
    #[error("cannot listen in {path}: {source}")]
    Socket { path: String, source: io::Error },
    #[error("cannot use {path}: {source}")]
    Attempts { path: String, source: io::Error },
    #[error("cannot find this program's executable, which also supervises commands: {0}")]
    Launcher(io::Error),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Access(#[from] access::AccessError),
    #[error(transparent)]
    Admin(#[from] longhaul_admin::AdminError),
    #[error(transparent)]
    SharedStore(#[from] SharedStoreError),
    #[error(transparent)]
    Audit(#[from] AuditError),
    #[error(transparent)]
    Telemetry(#[from] telemetry::CollectorError),
    #[error(transparent)]
    Tool(#[from] tools::UnusableTool),
    #[error(transparent)]
    Secrets(#[from] SecretKeysError),
    #[error(transparent)]
    Upstreams(#[from] UpstreamError),
    #[error(transparent)]
    Server(#[from] longhaul::ServeError),
    #[error("{0}; nothing was started")]
    Machine(String),
    #[error("the schedules cannot be stored: {0}")]
    Schedules(#[from] longhaul_core::store::StoreError),
    #[error("cannot listen for signals: {0}")]
    Signals(io::Error),
    #[error(transparent)]
    Descriptors(#[from] descriptors::TooFew),
}

/// Serves until a signal or until `idle_exit`.
pub(crate) fn run(serve: &args::Serve) -> ExitCode {
    if serve.log == args::LogFormat::Json {
        output::notes_as_json();
    }
    output::drop_unread_notes();
    let mut config = match generated_config::load(&serve.source) {
        Ok(config) => config,
        Err(error) => {
            output::failure(&error.to_string());
            return ExitCode::from(config::EXIT_INVALID);
        }
    };
    crate::check::warn(&serve.source.path().display().to_string(), &config.warnings);
    // The address in the file was checked with it.
    if let Some(listen) = &serve.listen {
        config.server.listen = match listen {
            config::Listen::Unix(path) => {
                config::Listen::Unix(std::path::absolute(path).unwrap_or_else(|_| path.clone()))
            }
            address => address.clone(),
        };
        let server = &config.server;
        match config::check_exposure(&server.listen, &server.auth, config::Way::of(server)) {
            Ok(warnings) => warnings
                .iter()
                .for_each(|warning| output::note(&format!("warning: --listen: {warning}"))),
            Err(error) => {
                output::failure(&format!("longhaul: --listen: {error}"));
                return ExitCode::from(config::EXIT_INVALID);
            }
        }
    }
    if let Some(data_dir) = &serve.data_dir {
        config.server.data_dir = std::path::absolute(data_dir).unwrap_or_else(|_| data_dir.clone());
    }
    match log::filter() {
        Ok(filter) => log::to_stderr(filter, serve.log),
        Err(error) => {
            output::failure(&format!("longhaul: {error}"));
            return ExitCode::from(config::EXIT_INVALID);
        }
    }
    if serve.detach {
        // It fails only if this process leads a session already, which is as good.
        let _ = rustix::process::setsid();
    }
    match start(config, serve) {
        Ok(()) => ExitCode::SUCCESS,
        // Another one was started at the same time, and the process that started this one finds that one.
        Err(ServeError::Open(SqliteOpenError::InUse { .. })) if serve.detach => ExitCode::from(IN_USE),
        Err(error) => {
            output::failure(&format!("longhaul: {error}"));
            match error {
                ServeError::Upstreams(UpstreamError::Gateway(GatewayError::Collisions(_))) => {
                    ExitCode::from(config::EXIT_INVALID)
                }
                _ => ExitCode::FAILURE,
            }
        }
    }
}

/// Opens the store first and closes it last, since its lock is what owns the data directory.
fn start(config: Config, serve: &args::Serve) -> Result<(), ServeError> {
    descriptors::raise_limit();
    descriptors::check_limit(descriptors::OPENED_AT_START)?;
    check_machine(&config.server)?;
    if let Some(user) = crate::check::machine::owner_of_folder(&config.server.data_dir) {
        output::note(&format!(
            "warning: {} is made for root in a folder of the user {user}, who cannot use it then, and commands run as root; to serve as that user: `runuser -u {user} -- longhaul serve …`",
            config.server.data_dir.display()
        ));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(ServeError::Signals)?;
    let _file_too_large = {
        let _context = runtime.enter();
        // Without a handler, a write beyond the file size limit would kill the process; with one, the write fails. Unlike an ignored signal,
        // a handler is not inherited by supervisors.
        signal(SignalKind::from_raw(SignalNumber::XFSZ.as_raw())).map_err(ServeError::Signals)?
    };
    let options = SqliteOptions {
        accept_restored: serve.accept_restored_database,
        accept_relocated: config.server.shared_store.is_some(),
        reserve_bytes: config.server.disk_reserve,
        ..store::store_options()
    };
    let store = Arc::new(SqliteStore::open(&config.server.data_dir, options)?);
    let served = runtime.block_on(self::serve(config, Arc::clone(&store), serve));
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    served
}

/// Whether the clock, the disk and the data directory are such that tasks can be stored.
fn check_machine(server: &ServerConfig) -> Result<(), ServeError> {
    if let Some(space) = DiskSpace::of(&server.data_dir).filter(DiskSpace::has_few_inodes) {
        tracing::warn!("{space}");
    }
    if let Some(why) = crate::check::machine::reserve_doubt(&server.data_dir, server.disk_reserve) {
        tracing::warn!("{why}");
    }
    let fault = crate::check::machine::clock_or_disk_fault(server);
    match fault.or_else(|| crate::check::machine::foreign_data_dir(&server.data_dir)) {
        Some(why) => Err(ServeError::Machine(why)),
        None => Ok(()),
    }
}

async fn serve(config: Config, store: Arc<SqliteStore>, asked: &args::Serve) -> Result<(), ServeError> {
    // From here on it does not end the process.
    let hangup = signal(SignalKind::hangup()).map_err(ServeError::Signals)?;
    let mut offered = reload::Present::new(&config.tools);
    let parts = ServerParts::open(config.server, store, asked).await?;
    let listener = listener::bind(&parts.server, parts.role, asked).await?;
    let url = listener.as_ref().map(BoundListener::url);
    let address = url.as_deref().unwrap_or(match parts.role {
        NodeRole::Worker => "a worker, which accepts no requests",
        NodeRole::Both | NodeRole::Front => "only for longhaul stdio",
    });
    let background = match asked.detach {
        true => {
            "; it was started in the background and ends a while after its last client: use it, or end it with `kill`"
        }
        false => "",
    };
    if let Err(error) = parts.store.describe_owner(&format!("{address}{background}")) {
        tracing::warn!(%error, "could not write this process to the lock file");
    }
    let digests = (config.digest.clone(), config.settings);
    let served_file = ServedFile::begin(&parts.server.data_dir, asked.source.path(), digests, asked.detach);
    let providers = ToolProviders::new(parts.commands()?, &parts.ports);
    let secret_keys = Arc::new(SecretKeys::open(&parts.server.data_dir, &parts.ports)?);
    let have_secrets = config.tools.iter().any(|tool| !tool.secrets.is_empty());
    secret_keys.prepare(have_secrets, &*parts.tasks.store).await?;
    let tools = tools::build_all(config.tools, parts.server.queue_timeout, &providers)?;
    let logins = UpstreamLogins::new(&parts.server.data_dir);
    let upstreams = logins.apply(config.upstreams)?;
    let gateway = Arc::new(gateway::prepare(
        upstreams,
        config.prefix,
        &parts.server.data_dir,
        &parts.ports,
    )?);
    gateway.refuse_collisions().await.map_err(UpstreamError::from)?;
    let audit = match &parts.server.audit {
        None => None,
        Some(config) => Some(Arc::new(AuditLog::open(config, &parts.ports.clock)?) as Arc<dyn Audit>),
    };
    let admin = longhaul_admin::PreparedAdmin::new(config.admin, &parts.server.data_dir, &parts.ports)
        .await?
        .with_upstreams(Arc::new(gateway::GatewayUpstreams(Arc::clone(&gateway))));
    let building = parts
        .builder(tools, url.as_deref())
        .argument_cipher(Arc::clone(&secret_keys) as _)
        .provider(Arc::clone(&providers.commands) as Arc<dyn Provider>)
        .provider(Arc::clone(&providers.http_jobs) as Arc<dyn Provider>);
    let (mut building, who) = access::apply(building, &parts.server, &parts.ports, audit.as_ref())?;
    if let Some(audit) = &audit {
        building = building.audit(Arc::clone(audit));
    }
    let telemetry = Telemetry::new(parts.server.otlp.clone(), &parts.server.name)?;
    let (metering, noting) = (admin.metering(&parts.ports), telemetry.noting());
    building = building
        .provider(gateway.provider())
        .wrap_engine_store(move |store| noting(metering(store)));
    #[cfg(debug_assertions)]
    {
        building = store::plant(building);
    }
    let running = building.start().await?;
    if let Some(audit) = &audit {
        let event = AuditEvent::new(parts.ports.clock.wall(), AuditAction::Configuration, AuditOutcome::Ok);
        audit.record(&event.with_detail(format!(
            "{address}; access: {}; configuration sha256 {}",
            who.join("; "),
            config.digest
        )));
    }
    let engine = running.engine().ok_or(longhaul::ServeError::Stopped)?;
    engine.set_schedules(config.schedules).await?;
    let protocol = running.protocol().ok_or(longhaul::ServeError::Stopped)?;
    (offered.content)
        .update(config.content, engine.catalog(), &parts.ports)
        .await;
    let report = parts
        .report(&running, &providers.commands, url, admin.url(), who, asked)
        .await;
    let server = StartedServer {
        asked,
        running,
        engine,
        protocol,
        gateway,
        logins,
        providers,
        secret_keys,
        audit,
        parts,
    };
    let until_hangup = FileReload {
        hangup,
        offered,
        served_file,
    };
    server.run(listener, admin, telemetry, report, until_hangup).await
}

/// What a server is made of, before it is started.
struct ServerParts {
    server: ServerConfig,
    ports: Ports,
    /// The database of the data directory, which owns it.
    store: Arc<SqliteStore>,
    tasks: OpenedStore,
    role: NodeRole,
    attempts: Attempts,
}

impl ServerParts {
    async fn open(server: ServerConfig, store: Arc<SqliteStore>, asked: &args::Serve) -> Result<Self, ServeError> {
        let accepts = asked.accept_restored_database;
        let tasks = store::open(server.shared_store.as_ref(), &store, &server.data_dir, accepts).await?;
        let path = server.data_dir.join("attempts");
        let attempts = Attempts::open(&path).map_err(|source| ServeError::Attempts {
            path: path.display().to_string(),
            source,
        })?;
        let shared = server.shared_store.as_ref();
        Ok(Self {
            role: shared.map_or(NodeRole::Both, |shared| shared.role),
            ports: Ports::system(),
            server,
            store,
            tasks,
            attempts,
        })
    }

    fn commands(&self) -> Result<Arc<CommandProvider>, ServeError> {
        let launcher = Launcher::this_program().map_err(ServeError::Launcher)?;
        descriptors::check_limit(0)?;
        let commands = CommandProvider::new(self.attempts.clone(), launcher, self.ports.clone());
        // What is released of the reserve is not for logs.
        Ok(Arc::new(commands.with_least_free(self.server.disk_reserve / 2)))
    }

    fn builder(&self, tools: Vec<longhaul::Tool>, url: Option<&str>) -> longhaul::Server {
        let (server, store) = (&self.server, &self.store);
        // Upstreams have instructions of their own.
        let usual = (!tools.is_empty()).then(|| USUAL_INSTRUCTIONS.to_owned());
        let instructions = server.instructions.clone().or(usual);
        let mut building = longhaul::Server::new(server.name.clone(), env!("CARGO_PKG_VERSION"))
            .tools(tools)
            .store(Arc::clone(&self.tasks.store))
            .host(NewNode {
                address: url.map(Into::into),
                directory: store.directory_identity(),
                role: self.role,
                ..store.host_id().clone().into()
            })
            .max_running(server.max_running as usize)
            .quota(server.limits.quota)
            .limits(server.limits.protocol.clone())
            .max_body(usize::try_from(server.max_body).unwrap_or(usize::MAX))
            .strict_headers(server.strict_headers)
            .http(server.http.clone());
        building = content::describe(building, server, instructions);
        if let Some(shared) = &server.shared_store {
            building = building.lost_after(Duration::from_millis(shared.lost_after));
        }
        building
    }

    /// What is printed once it is ready.
    async fn report(
        &self,
        running: &ServerHandle,
        commands: &CommandProvider,
        url: Option<String>,
        admin: Option<String>,
        who: Vec<String>,
        asked: &args::Serve,
    ) -> Report {
        let (server, reads_only) = (&self.server, self.tasks.reads_only.clone());
        // A restored database that is not accepted may lack rows for folders that are still needed.
        let remove = asked.remove_orphaned_attempts && reads_only.is_none();
        Report {
            name: server.name.clone(),
            url,
            role: self.role,
            admin,
            who,
            data_dir: server.data_dir.clone(),
            store: server.shared_store.as_ref().map(SharedStore::shown),
            tools: Vec::new(),
            content: [0; 3],
            recovered: running.recovered(),
            bytes_held: commands.bytes_held().await.ok(),
            hazards: hazards().iter().map(ToString::to_string).collect(),
            orphans: Orphans::find(&self.attempts, &*self.tasks.store, remove).await,
            reads_only,
        }
    }

    /// Where programs of this machine come in, by `longhaul stdio`.
    fn owner_socket(&self) -> Result<Option<OwnerSocket>, ServeError> {
        let bound = match self.role {
            NodeRole::Worker => return Ok(None),
            NodeRole::Both | NodeRole::Front => OwnerSocket::bind(&self.server.data_dir),
        };
        bound.map(Some).map_err(|source| ServeError::Socket {
            path: self.server.data_dir.display().to_string(),
            source,
        })
    }
}

/// What a reload of the file needs: the signal that asks for it, and what was read before.
struct FileReload {
    hangup: Signal,
    offered: reload::Present,
    served_file: ServedFile,
}

/// A server that was started.
struct StartedServer<'a> {
    asked: &'a args::Serve,
    running: ServerHandle,
    engine: Engine,
    protocol: Arc<ProtocolServer>,
    gateway: Arc<Gateway>,
    logins: UpstreamLogins,
    providers: ToolProviders,
    secret_keys: Arc<SecretKeys>,
    audit: Option<Arc<dyn Audit>>,
    parts: ServerParts,
}

impl StartedServer<'_> {
    /// Serves until it is to stop, and stops it.
    async fn run(
        self,
        listener: Option<BoundListener>,
        admin: PreparedAdmin,
        telemetry: Telemetry,
        mut report: Report,
        mut reloading: FileReload,
    ) -> Result<(), ServeError> {
        let (engine, protocol, server) = (&self.engine, &self.protocol, &self.parts.server);
        let socket = self.parts.owner_socket()?;
        let drain_timeout = Duration::from_millis(server.drain_timeout);
        let stop = stop::begin(
            protocol,
            &self.running,
            self.asked.idle_exit,
            (engine.clone(), drain_timeout),
        )?;
        // Before serving: a call of a tool of before must not find it unknown.
        let unseen = self.gateway.start(engine).await;
        // Beside serving: an upstream that does not answer must not keep clients of the others waiting.
        let started = async {
            self.gateway.wait(engine, unseen).await;
            let offered = engine.catalog().snapshot();
            report.tools = offered.tools.keys().map(ToString::to_string).collect();
            report.content = [offered.prompts.len(), offered.resources.len(), offered.templates.len()];
            report.print(self.asked.json);
            let FileReload {
                hangup,
                offered,
                served_file,
            } = &mut reloading;
            self.reload_context().on_hangup(hangup, offered, served_file).await;
        };
        let over_http = async {
            match listener {
                Some(BoundListener::Address(listener)) => listener.serve(Arc::clone(protocol), stop.cancelled()).await,
                Some(BoundListener::Unix(listener)) => listener.serve(Arc::clone(protocol), stop.cancelled()).await,
                None => {}
            }
        };
        let over_stdio = async {
            if let Some(socket) = socket {
                socket.serve(Arc::clone(protocol), stop.cancelled()).await;
            }
        };
        let operated = admin
            .with_protocol(Arc::clone(protocol))
            .with_reads_only(self.parts.tasks.reads_only.clone())
            .with_drain_timeout(drain_timeout)
            .operate(server.name.clone(), engine.clone(), self.audit.clone(), stop.clone());
        let shown = operated.admin();
        let metrics = async || shown.metrics_text().await.map_err(|error| error.to_string());
        // One that is detached writes its log into the file that is made by whoever starts it.
        let kept_short = async {
            if self.asked.detach {
                let keeping = log::owner_log::keep_short(&server.data_dir, &*self.parts.ports.clock);
                stop.run_until_cancelled(keeping).await;
            }
        };
        tokio::join!(
            stop::describe(&stop, engine, &self.parts.store),
            stop.run_until_cancelled(started),
            over_http,
            over_stdio,
            operated.serve(),
            kept_short,
            telemetry.send(engine, metrics, &stop)
        );
        self.gateway.stop().await;
        let mut commands_left = self.running.stop().await;
        let kept_lease = self.running.check_lease();
        if kept_lease.is_err() {
            // The attempts are not this server's any more, but their commands run on until a server of this host takes them back or ends them.
            commands_left = (self.providers.commands.running_outside().await).map_or(0, |running| running.len());
        }
        let left = count(commands_left as u64, "command");
        output::note(&format!("longhaul: stopped; {left} still running"));
        Ok(kept_lease?)
    }

    fn reload_context(&self) -> reload::ReloadContext<'_> {
        reload::ReloadContext {
            asked: self.asked,
            gateway: &self.gateway,
            logins: &self.logins,
            providers: &self.providers,
            secret_keys: (&self.secret_keys, &*self.parts.tasks.store),
            queue_timeout: self.parts.server.queue_timeout,
            running: &self.running,
            engine: &self.engine,
            audit: self.audit.as_ref(),
        }
    }
}
