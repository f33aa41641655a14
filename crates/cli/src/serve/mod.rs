//! `longhaul serve`: wires configuration, store, runtime, commands and front together.

mod port_owner;
mod report;
mod tools;

use crate::{
    args,
    config::{self, Config, Surroundings},
    output,
};
use longhaul_core::{HostId, Store};
use longhaul_runtime::{Engine, EngineOptions, Ports, Provider};
use longhaul_server::{
    Front, FrontOptions,
    http::{ListenError, Listener},
};
use longhaul_store::{SqliteOptions, SqliteStore};
use longhaul_upstream::command::{Attempts, CommandProvider, Launcher, hazards};
use rustix::process::Signal;
use std::{io, process::ExitCode, sync::Arc, time::Duration};
use tokio::signal::unix::{SignalKind, signal};

/// A configuration that cannot be served.
const INVALID: u8 = 2;
/// How long commands whose callers have gone may take to hear of it.
const SETTLE_PATIENCE: Duration = Duration::from_millis(1500);
/// How long work that is still under way in threads may take once the server has stopped.
const LAST_PATIENCE: Duration = Duration::from_secs(1);

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
enum ServeError {
    #[error(transparent)]
    Open(#[from] longhaul_store::OpenError),
    #[error("{error}{owner}")]
    Listen { error: ListenError, owner: String },
    #[error("cannot use {path}: {source}")]
    Attempts { path: String, source: io::Error },
    #[error("cannot find this program's own file, which supervises the commands: {0}")]
    Launcher(io::Error),
    #[error(transparent)]
    Tools(#[from] tools::ToolsError),
    #[error(transparent)]
    Engine(#[from] longhaul_runtime::StartError),
    #[error(transparent)]
    Front(#[from] longhaul_server::FrontError),
    #[error("cannot listen for signals: {0}")]
    Signals(io::Error),
}

/// Serves until a signal.
pub(crate) fn run(serve: &args::Serve) -> ExitCode {
    let mut config = match config::load(&serve.file, &Surroundings::of_this_process()) {
        Ok(config) => config,
        Err(error) => {
            output::note(&error.to_string());
            return ExitCode::from(INVALID);
        }
    };
    config.server.listen = serve.listen.unwrap_or(config.server.listen);
    if let Some(data_dir) = &serve.data_dir {
        config.server.data_dir = std::path::absolute(data_dir).unwrap_or_else(|_| data_dir.clone());
    }
    log_to_stderr();
    match start(config, serve.json) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::note(&format!("longhaul: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// `LONGHAUL_LOG` chooses what is logged, as `info` or `longhaul_runtime=debug`.
fn log_to_stderr() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("LONGHAUL_LOG");
    tracing_subscriber::fmt()
        .with_env_filter(filter.unwrap_or_else(|_| "warn,longhaul=info".into()))
        .with_writer(io::stderr)
        .with_ansi(io::IsTerminal::is_terminal(&io::stderr()))
        .init();
}

/// The store is opened first and let go of last: whoever holds it owns the directory.
fn start(config: Config, json: bool) -> Result<(), ServeError> {
    raise_descriptor_limit();
    let store = Arc::new(SqliteStore::open(&config.server.data_dir, store_options())?);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(ServeError::Signals)?;
    let served = runtime.block_on(serve(config, Arc::clone(&store), json));
    runtime.shutdown_timeout(LAST_PATIENCE);
    served
}

async fn serve(config: Config, store: Arc<SqliteStore>, json: bool) -> Result<(), ServeError> {
    // A limit on file sizes shall be an error where something is written, and not the end of the process.
    let _too_large = signal(SignalKind::from_raw(Signal::XFSZ.as_raw())).map_err(ServeError::Signals)?;
    let ports = Ports::system();
    let Config { server, tools, .. } = config;
    let listener = listen(server.listen).await?;
    let url = format!("http://{}{}", listener.address(), longhaul_server::http::PATH);
    if let Err(error) = store.describe_owner(&url) {
        tracing::warn!(%error, "the lock file does not name this process");
    }
    let path = server.data_dir.join("attempts");
    let attempts = Attempts::open(&path).map_err(|source| ServeError::Attempts {
        path: path.display().to_string(),
        source,
    })?;
    let launcher = Launcher::this_program().map_err(ServeError::Launcher)?;
    let commands = Arc::new(CommandProvider::new(attempts, launcher, ports.clone()));
    let catalog = tools::catalog(tools, server.queue_timeout, &commands)?;
    let tool_names = catalog.iter().map(|tool| tool.name().to_string()).collect();
    let (engine, recovered) = Engine::start(EngineOptions {
        store: Arc::clone(&store) as Arc<dyn Store>,
        ports,
        // The attempts are in the data directory, and whoever owns that may take them up: no other host can be meant.
        host: HostId("data-dir".into()),
        catalog,
        providers: vec![Arc::clone(&commands) as Arc<dyn Provider>],
        max_running: Some(server.max_running as usize),
    })
    .await?;
    let front = Arc::new(front(&engine, &server).await?);
    let report = report::Report {
        name: server.name,
        url,
        data_dir: server.data_dir,
        tools: tool_names,
        recovered,
        bytes_held: commands.bytes_held().await.ok(),
        hazards: hazards().iter().map(ToString::to_string).collect(),
    };
    report.print(json);
    let stop = stop_signal()?;
    listener.serve(front, stop).await;
    engine.settle(SETTLE_PATIENCE).await;
    engine.stop();
    output::note(&format!("longhaul: stopped; {} commands run on", engine.running()));
    Ok(())
}

async fn front(engine: &Engine, server: &config::ServerConfig) -> Result<Front, longhaul_server::FrontError> {
    Front::new(FrontOptions {
        engine: engine.clone(),
        name: server.name.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        instructions: Some("Slow tools run as tasks, which survive this server and your connection to it.".to_owned()),
        max_body: usize::try_from(server.max_body).unwrap_or(usize::MAX),
        strict_headers: server.strict_headers,
    })
    .await
}

async fn listen(address: std::net::SocketAddr) -> Result<Listener, ServeError> {
    Listener::bind(address).await.map_err(|error| {
        let in_use = matches!(&error, ListenError::Bind { source, .. } if source.kind() == io::ErrorKind::AddrInUse);
        let owner = if in_use {
            port_owner::describe(address.port())
        } else {
            String::new()
        };
        ServeError::Listen { error, owner }
    })
}

/// Completes at the first SIGTERM or SIGINT; the second ends the process as it would any other.
fn stop_signal() -> Result<impl Future<Output = ()>, ServeError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(ServeError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(ServeError::Signals)?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        output::note("longhaul: stopping; open calls have 5 seconds, tasks run on");
        Ports::system().spawner.spawn(Box::pin(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            std::process::exit(1);
        }));
    })
}

/// Thousands of connections need thousands of descriptors; the usual soft limit is 1024.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::debug!(%error, "the limit on open files was not raised");
    }
}

#[cfg(not(debug_assertions))]
fn store_options() -> SqliteOptions {
    SqliteOptions::default()
}

/// Debug builds can be given a fault, so that the proofs which should find it can be seen to (`LONGHAUL_PLANT`).
#[cfg(debug_assertions)]
fn store_options() -> SqliteOptions {
    use longhaul_store::sqlite::Plant;
    let plant = match std::env::var("LONGHAUL_PLANT").as_deref() {
        Ok("lose-ack") => Some(Plant::AcknowledgeBeforeCommit),
        Ok("synchronous-off") => Some(Plant::SynchronousOff),
        _ => None,
    };
    SqliteOptions {
        plant,
        ..SqliteOptions::default()
    }
}
