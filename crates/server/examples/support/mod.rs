//! What the example servers share: flags, a store, an engine, a protocol server.

use longhaul_command::in_process;
use longhaul_core::{HostId, Json, Store, TaskPolicy};
use longhaul_runtime::{Catalog, Engine, EngineOptions, Executor, Ports, Tool, ToolError, ToolSettings};
use longhaul_server::{ProtocolServer, ProtocolServerOptions, http::Listener};
use longhaul_store::{MemoryStore, PlainCallStore, SqliteOptions, SqliteStore};
use serde_json::{Value, json};
use std::{error::Error, net::SocketAddr, path::PathBuf, sync::Arc};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// A tool's settings: every property required, nothing else allowed.
pub(crate) fn settings(
    name: &str,
    description: &str,
    policy: TaskPolicy,
    properties: Value,
    executor: Arc<dyn Executor>,
) -> ToolSettings {
    let required: Vec<&String> = properties
        .as_object()
        .into_iter()
        .flat_map(|members| members.keys())
        .collect();
    ToolSettings {
        description: description.to_owned(),
        input_schema: json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        }),
        policy,
        ..ToolSettings::new(name, in_process::KIND, Json::trusted("{}"), executor)
    }
}

/// Reads the flags and serves the tools until SIGTERM or Ctrl-C.
pub(crate) fn run(tools: impl FnOnce() -> Result<Vec<Tool>, ToolError>) -> Outcome<()> {
    let flags = Flags::read()?;
    let store = flags.store()?;
    let catalog = Catalog::new(tools()?)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(flags.listen, store, catalog))
}

async fn serve(listen: SocketAddr, store: Arc<dyn Store>, catalog: Catalog) -> Outcome<()> {
    let listener = Listener::bind(listen).await?;
    let (engine, _) = Engine::start(EngineOptions {
        store: Arc::new(PlainCallStore::in_front_of(store)),
        ports: Ports::system(),
        node: HostId("data-dir".into()).into(),
        lost_after: longhaul_runtime::HOST_LOST_AFTER,
        catalog,
        providers: Vec::new(),
        max_running: None,
        quota: longhaul_core::Quota::default(),
        suspend_after: longhaul_runtime::SUSPEND_AFTER,
        build: longhaul_runtime::BuildId::named("test"),
        step_observer: None,
        may_begin: None,
        cipher: None,
    })
    .await?;
    let protocol = ProtocolServer::new(ProtocolServerOptions {
        engine: engine.clone(),
        server_info: longhaul_server::ServerInfo::new(env!("CARGO_CRATE_NAME"), env!("CARGO_PKG_VERSION")),
        max_body: 32 << 20,
        strict_headers: false,
        limits: longhaul_server::Limits::default(),
        authentication: longhaul_server::auth::Authentication::default(),
        http: longhaul_server::http::HttpOptions::default(),
        events: None,
        audit: None,
    });
    let protocol = Arc::new(protocol.await?);
    println!("http://{}/mcp", listener.address());
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    let stop = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    };
    listener.serve(protocol, stop).await;
    engine.stop();
    Ok(())
}

struct Flags {
    listen: SocketAddr,
    data_dir: Option<PathBuf>,
}

impl Flags {
    fn read() -> Outcome<Self> {
        let mut flags = Self {
            listen: ([127, 0, 0, 1], 0).into(),
            data_dir: None,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(flag) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{flag} wants a value"))?;
            match flag.as_str() {
                "--listen" => flags.listen = value.parse()?,
                "--data-dir" => flags.data_dir = Some(value.into()),
                _ => return Err(format!("unknown flag {flag}: there are --listen ADDR and --data-dir DIR").into()),
            }
        }
        Ok(flags)
    }

    fn store(&self) -> Outcome<Arc<dyn Store>> {
        Ok(match &self.data_dir {
            Some(directory) => Arc::new(SqliteStore::open(directory, SqliteOptions::default())?),
            None => Arc::new(MemoryStore::default()),
        })
    }
}
