//! `longhaul serve`: a server whose tools are the commands of a configuration file.

mod access;
mod descriptors;
mod gateway;
#[cfg(debug_assertions)]
mod injected_fault;
pub(crate) mod log;
mod orphans;
mod reload;
mod report;
mod shared_store;
mod telemetry;
mod tools;

use crate::{
    amounts::count,
    args,
    audit::{AuditError, AuditLog},
    config::{self, Config, ServerConfig, SharedStore},
    generated_config, output, owner_log, port_owner,
    served_file::ServedFile,
    upstream_logins::{UpstreamError, UpstreamLogins},
};
#[cfg(debug_assertions)]
use injected_fault::store_options;
use longhaul::audit::{Audit, AuditAction, AuditEvent, AuditOutcome};
use longhaul_admin::DiskSpace;
use longhaul_command::{Attempts, CommandProvider, Launcher, hazards};
use longhaul_core::{
    Millis, format_duration,
    store::{NewNode, NodeRole},
    whole_millis,
};
use longhaul_gateway::GatewayError;
use longhaul_runtime::{Engine, Ports, Provider};
use longhaul_server::{
    ProtocolServer,
    http::{Exposure, ListenError, Listener, SocketListener, Tls, TlsError, UnixSocketError},
    stdio::OwnerSocket,
};
use longhaul_store::{SqliteOpenError, SqliteOptions, SqliteStore};
use rustix::process::Signal;
use std::{io, process::ExitCode, sync::Arc, time::Duration};
use telemetry::Telemetry;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

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
    SharedStore(#[from] shared_store::SharedStoreError),
    #[error(transparent)]
    Audit(#[from] AuditError),
    #[error(transparent)]
    Telemetry(#[from] telemetry::CollectorError),
    #[error(transparent)]
    Tool(#[from] tools::UnusableTool),
    #[error(transparent)]
    Upstreams(#[from] UpstreamError),
    #[error(transparent)]
    Server(#[from] longhaul::ServeError),
    #[error("{0}; nothing was started")]
    Machine(String),
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
        signal(SignalKind::from_raw(Signal::XFSZ.as_raw())).map_err(ServeError::Signals)?
    };
    let options = SqliteOptions {
        accept_restored: serve.accept_restored_database,
        accept_relocated: config.server.shared_store.is_some(),
        reserve_bytes: config.server.disk_reserve,
        ..store_options()
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
    let ports = Ports::system();
    let Config {
        server,
        admin,
        tools,
        upstreams,
        prefix,
        digest,
        settings,
        ..
    } = config;
    let mut present = reload::Present::new(&tools);
    let opened = shared_store::open(
        server.shared_store.as_ref(),
        &store,
        &server.data_dir,
        asked.accept_restored_database,
    );
    let shared_store::OpenedStore {
        store: tasks,
        reads_only,
    } = opened.await?;
    let tls = match &server.tls {
        Some(files) => Some(Tls::from_pem_files(&files.cert, &files.key)?),
        None => None,
    };
    let role = server
        .shared_store
        .as_ref()
        .map_or(NodeRole::Both, |shared| shared.role);
    let bound = match role {
        NodeRole::Worker => None,
        NodeRole::Both | NodeRole::Front => Some(listen(&server, tls).await),
    };
    let listener = match bound {
        None => None,
        Some(Err(ServeError::Listen { error, owner })) if asked.idle_exit.is_some() => {
            tracing::warn!("{error}{owner}; serving only longhaul stdio");
            None
        }
        Some(bound) => Some(bound?),
    };
    let url = listener.as_ref().map(BoundListener::url);
    let without_url = match role {
        NodeRole::Worker => "a worker, which accepts no requests",
        NodeRole::Both | NodeRole::Front => "only for longhaul stdio",
    };
    let background = match asked.detach {
        true => {
            "; it was started in the background and ends a while after its last client: use it, or end it with `kill`"
        }
        false => "",
    };
    let owner = format!("{}{background}", url.as_deref().unwrap_or(without_url));
    if let Err(error) = store.describe_owner(&owner) {
        tracing::warn!(%error, "could not write this process to the lock file");
    }
    let mut served = ServedFile::begin(
        &server.data_dir,
        asked.source.path(),
        (digest.clone(), settings),
        asked.detach,
    );
    let path = server.data_dir.join("attempts");
    let attempts = Attempts::open(&path).map_err(|source| ServeError::Attempts {
        path: path.display().to_string(),
        source,
    })?;
    let launcher = Launcher::this_program().map_err(ServeError::Launcher)?;
    descriptors::check_limit(0)?;
    let commands = CommandProvider::new(attempts.clone(), launcher, ports.clone());
    // What is released of the reserve is not for logs.
    let commands = Arc::new(commands.with_least_free(server.disk_reserve / 2));
    let tools = tools::build_all(tools, server.queue_timeout, &commands)?;
    // Upstreams have instructions of their own.
    let usual = (!tools.is_empty()).then(|| USUAL_INSTRUCTIONS.to_owned());
    let instructions = server.instructions.clone().or(usual);
    let logins = UpstreamLogins::new(&server.data_dir);
    let gateway = Arc::new(gateway::prepare(
        logins.apply(upstreams)?,
        prefix,
        &server.data_dir,
        &ports,
    )?);
    gateway.refuse_collisions().await.map_err(UpstreamError::from)?;
    let mut building = longhaul::Server::new(server.name.clone(), env!("CARGO_PKG_VERSION"))
        .tools(tools)
        .provider(Arc::clone(&commands) as Arc<dyn Provider>)
        .store(Arc::clone(&tasks))
        .host(NewNode {
            address: url.as_deref().map(Into::into),
            directory: store.directory_identity(),
            role,
            ..store.host_id().clone().into()
        })
        .max_running(server.max_running as usize)
        .quota(server.limits.quota)
        .limits(server.limits.protocol.clone())
        .max_body(usize::try_from(server.max_body).unwrap_or(usize::MAX))
        .strict_headers(server.strict_headers)
        .http(server.http.clone());
    if let Some(instructions) = instructions {
        building = building.instructions(instructions);
    }
    if let Some(shared) = &server.shared_store {
        building = building.lost_after(Duration::from_millis(shared.lost_after));
    }
    let audit = match &server.audit {
        None => None,
        Some(config) => Some(Arc::new(AuditLog::open(config, &ports.clock)?) as Arc<dyn Audit>),
    };
    let admin = longhaul_admin::PreparedAdmin::new(admin, &server.data_dir, &ports)
        .await?
        .with_upstreams(Arc::new(gateway::GatewayUpstreams(Arc::clone(&gateway))));
    let (mut building, who) = access::apply(building, &server, &ports, audit.as_ref())?;
    if let Some(audit) = &audit {
        building = building.audit(Arc::clone(audit));
    }
    let telemetry = Telemetry::new(server.otlp.clone(), &server.name)?;
    let (metering, noting) = (admin.metering(&ports), telemetry.noting());
    building = building
        .provider(gateway.provider())
        .wrap_engine_store(move |store| noting(metering(store)));
    #[cfg(debug_assertions)]
    {
        building = injected_fault::plant(building);
    }
    let running = building.start().await?;
    let engine = running.engine().ok_or(longhaul::ServeError::Stopped)?;
    if let Some(audit) = &audit {
        let event = AuditEvent::new(ports.clock.wall(), AuditAction::Configuration, AuditOutcome::Ok);
        let url = url.as_deref().unwrap_or(without_url);
        audit.record(&event.with_detail(format!(
            "{url}; access: {}; configuration sha256 {digest}",
            who.join("; ")
        )));
    }
    // A restored database that is not accepted may lack rows for folders that are still needed.
    let remove = asked.remove_orphaned_attempts && reads_only.is_none();
    let orphans = orphans::Orphans::find(&attempts, &*tasks, remove).await;
    let protocol = running.protocol().ok_or(longhaul::ServeError::Stopped)?;
    let socket = match role {
        NodeRole::Worker => None,
        NodeRole::Both | NodeRole::Front => {
            let bound = OwnerSocket::bind(&server.data_dir);
            Some(bound.map_err(|source| ServeError::Socket {
                path: server.data_dir.display().to_string(),
                source,
            })?)
        }
    };
    let queue_timeout = server.queue_timeout;
    let name = server.name.clone();
    let log_in = asked.detach.then(|| server.data_dir.clone());
    let mut report = report::Report {
        name: server.name,
        url,
        role,
        admin: admin.url(),
        who,
        data_dir: server.data_dir,
        store: server.shared_store.as_ref().map(SharedStore::shown),
        tools: Vec::new(),
        recovered: running.recovered(),
        bytes_held: commands.bytes_held().await.ok(),
        hazards: hazards().iter().map(ToString::to_string).collect(),
        orphans,
        reads_only: reads_only.clone(),
    };
    let drain_timeout = Duration::from_millis(server.drain_timeout);
    let stop = stop(&protocol, &running, asked.idle_exit, (engine.clone(), drain_timeout))?;
    // Before serving: a call of a tool of before must not find it unknown.
    let unseen = gateway.start(&engine).await;
    // Beside serving: an upstream that does not answer must not keep clients of the others waiting.
    let starting = async {
        gateway.wait(&engine, unseen).await;
        report.tools = engine
            .catalog()
            .snapshot()
            .tools
            .keys()
            .map(ToString::to_string)
            .collect();
        report.print(asked.json);
    };
    let over_http = async {
        match listener {
            Some(BoundListener::Address(listener)) => listener.serve(Arc::clone(&protocol), stop.cancelled()).await,
            Some(BoundListener::Unix(listener)) => listener.serve(Arc::clone(&protocol), stop.cancelled()).await,
            None => {}
        }
    };
    let over_stdio = async {
        if let Some(socket) = socket {
            socket.serve(Arc::clone(&protocol), stop.cancelled()).await;
        }
    };
    let reloading = reload::ReloadContext {
        asked,
        gateway: &gateway,
        logins: &logins,
        commands: &commands,
        queue_timeout,
        running: &running,
        engine: &engine,
        audit: audit.as_ref(),
    };
    let started = async {
        starting.await;
        reloading.on_hangup(hangup, &mut present, &mut served).await;
    };
    let started = stop.run_until_cancelled(started);
    let operated = admin
        .with_protocol(Arc::clone(&protocol))
        .with_reads_only(reads_only)
        .with_drain_timeout(drain_timeout)
        .operate(name, engine.clone(), audit.clone(), stop.clone());
    let shown = operated.admin();
    let metrics = async || shown.metrics_text().await.map_err(|error| error.to_string());
    // One that is detached writes its log into the file that is made by whoever starts it.
    let kept_short = async {
        if let Some(data_dir) = &log_in {
            stop.run_until_cancelled(owner_log::keep_short(data_dir, &*ports.clock))
                .await;
        }
    };
    let describing_stop = async {
        let told = |written: io::Result<()>| {
            if let Err(error) = written {
                tracing::warn!(%error, "could not write to the lock file that this process stops");
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = engine.drain_begun() => told(store.describe_owner("it drains: it stops when what runs has ended")),
        }
        stop.cancelled().await;
        told(store.describe_stop());
    };
    tokio::join!(
        describing_stop,
        started,
        over_http,
        over_stdio,
        operated.serve(),
        kept_short,
        telemetry.send(&engine, metrics, &stop)
    );
    gateway.stop().await;
    let mut commands_left = running.stop().await;
    let kept_lease = running.check_lease();
    if kept_lease.is_err() {
        // The attempts are not this server's any more, but their commands run on until a server of this host takes them back or ends them.
        commands_left = commands.running_outside().await.map_or(0, |running| running.len());
    }
    let left = count(commands_left as u64, "command");
    output::note(&format!("longhaul: stopped; {left} still running"));
    Ok(kept_lease?)
}

enum BoundListener {
    Address(Listener),
    Unix(SocketListener),
}

impl BoundListener {
    fn url(&self) -> String {
        match self {
            Self::Address(listener) => listener.url(),
            Self::Unix(listener) => config::Listen::Unix(listener.path().to_owned()).url(false),
        }
    }
}

async fn listen(server: &ServerConfig, tls: Option<Tls>) -> Result<BoundListener, ServeError> {
    let address = match &server.listen {
        config::Listen::Address(address) => *address,
        config::Listen::Unix(path) => {
            return Ok(BoundListener::Unix(
                SocketListener::bind(path, server.socket_mode).await?,
            ));
        }
    };
    // What it may listen on was checked with the configuration.
    let listener = Listener::bind_exposed(address, Exposure::unchecked())
        .await
        .map_err(|error| {
            let in_use =
                matches!(&error, ListenError::Bind { source, .. } if source.kind() == io::ErrorKind::AddrInUse);
            let owner = if in_use {
                let owner = port_owner::describe(address.port());
                format!("{owner}; set another address with `listen` in the file, or with --listen")
            } else {
                String::new()
            };
            ServeError::Listen { error, owner }
        })?;
    Ok(BoundListener::Address(match tls {
        Some(tls) => listener.with_tls(tls),
        None => listener,
    }))
}

/// Cancelled when the server is to stop: at a signal, when it has been idle for `idle_exit`, or when it has lost its lease.
fn stop(
    protocol: &Arc<ProtocolServer>,
    running: &longhaul::ServerHandle,
    idle_exit: Option<Millis>,
    (engine, drain_timeout): (Engine, Duration),
) -> Result<CancellationToken, ServeError> {
    let stop = CancellationToken::new();
    let stopping = stop.clone();
    let (signal, protocol, running) = (
        stop_signal(engine, drain_timeout)?,
        Arc::clone(protocol),
        running.clone(),
    );
    Ports::system().spawner.spawn(Box::pin(async move {
        let idle = async {
            match idle_exit {
                Some(millis) => protocol.idle_for(Duration::from_millis(millis)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = signal => {}
            () = running.lease_lost() => {}
            () = idle => output::note("longhaul: idle; stopping"),
        }
        stopping.cancel();
    }));
    Ok(stop)
}

/// Completes at the first SIGTERM or SIGINT, once what runs has ended, or after `drain_timeout`, or at the second signal. The next one ends the process at once.
fn stop_signal(engine: Engine, drain_timeout: Duration) -> Result<impl Future<Output = ()>, ServeError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(ServeError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(ServeError::Signals)?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        if !drain_timeout.is_zero() {
            let timeout = format_duration(whole_millis(drain_timeout));
            output::note(&format!(
                "longhaul: draining: nothing more begins, and what runs has {timeout} to end; a second signal ends that"
            ));
            tokio::select! {
                () = engine.drain(drain_timeout) => {}
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        }
        output::note("longhaul: stopping; calls that run have 5 seconds to finish, tasks resume at the next start");
        Ports::system().spawner.spawn(Box::pin(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            std::process::exit(1);
        }));
    })
}

#[cfg(not(debug_assertions))]
fn store_options() -> SqliteOptions {
    SqliteOptions::default()
}
