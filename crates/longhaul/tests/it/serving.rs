//! Serving over HTTP, in a process of its own.

use longhaul::{ServeError, Server, ServerHandle, Tool};
use longhaul_core::{
    BoxFuture, NodeId, Store, StoreLayer,
    store::{Renewal, StoreError},
};
use longhaul_runtime::Ports;
use longhaul_store::MemoryStore;
use std::{
    io::{BufRead, BufReader, Read, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
    time::Duration,
};
use tokio::sync::watch;

/// Set in the process that serves: its address, and whether to print no URL.
const ADDRESS: &str = "LONGHAUL_TEST_ADDRESS";
const NO_URL: &str = "LONGHAUL_TEST_NO_URL";
const DRAIN_ADDRESS: &str = "LONGHAUL_TEST_DRAIN_ADDRESS";

#[tokio::test]
async fn serves_if_asked() {
    let Ok(address) = std::env::var(ADDRESS) else { return };
    let server = Server::new("echoes", "1.0.0").tool(Tool::new("echo", async || "echo"));
    let server = server.print_url(std::env::var_os(NO_URL).is_none());
    server.serve_http(address).await.unwrap();
}

/// A server whose tool has its own process told to stop, and ends once the server drains.
#[tokio::test]
async fn serves_a_call_that_ends_in_a_drain_if_asked() {
    let Ok(address) = std::env::var(DRAIN_ADDRESS) else {
        return;
    };
    let (told, tells) = watch::channel(None::<ServerHandle>);
    let stops = Tool::new("stops", move || {
        let engine = tells.borrow().as_ref().and_then(ServerHandle::engine).unwrap();
        async move {
            let pid = std::process::id().to_string();
            Command::new("kill").arg(pid).status().unwrap();
            engine.drain_begun().await;
            "ended in the drain"
        }
    });
    let server = Server::new("drains", "1.0.0").tool(stops).print_url(false);
    let server = server.background_task(move |handle| async move { drop(told.send_replace(Some(handle))) });
    let server = server.drain_timeout(Duration::from_secs(3_600));
    server.serve_http(address).await.unwrap();
}

/// A call of `stops`, which declares nothing.
const STOPS: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"stops","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;

#[test]
fn what_runs_ends_before_the_server_stops() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "serving::serves_a_call_that_ends_in_a_drain_if_asked",
            "--nocapture",
        ])
        .env(DRAIN_ADDRESS, free.to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut client = loop {
        match TcpStream::connect(free) {
            Ok(client) => break client,
            Err(_) => assert!(child.try_wait().unwrap().is_none(), "it has ended"),
        }
        thread::yield_now();
    };
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {free}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: stops\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        STOPS.len()
    );
    client.write_all((head + STOPS).as_bytes()).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("ended in the drain"), "{answer}");
    assert!(child.wait().unwrap().success());
}

fn serving(address: &str, quiet: bool) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "serving::serves_if_asked", "--nocapture"]);
    command
        .env(ADDRESS, address)
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    if quiet {
        command.env(NO_URL, "");
    }
    command.spawn().unwrap()
}

#[test]
fn a_server_prints_its_url() {
    let mut child = serving("127.0.0.1:0", false);
    let mut line = String::new();
    BufReader::new(child.stderr.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    let url = line.trim_end().strip_prefix("`echoes` serves ").unwrap();
    let address = url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();
    let reached = TcpStream::connect(address.parse::<SocketAddr>().unwrap());
    child.kill().unwrap();
    child.wait().unwrap();
    reached.unwrap();
}

#[test]
fn a_server_can_be_kept_from_printing_its_url() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut child = serving(&free.to_string(), true);
    while TcpStream::connect(free).is_err() {
        assert!(child.try_wait().unwrap().is_none(), "it has ended");
        thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let mut printed = String::new();
    child.stderr.take().unwrap().read_to_string(&mut printed).unwrap();
    assert_eq!(printed, "");
}

/// A store of many nodes that has given up each node by its first renewal.
struct LosesLeases(MemoryStore);

impl LosesLeases {
    fn new() -> Arc<Self> {
        let lease = 300;
        Arc::new(Self(MemoryStore::of_many_nodes(Ports::system().clock, lease)))
    }
}

impl StoreLayer for LosesLeases {
    fn inner(&self) -> &dyn Store {
        &self.0
    }

    fn renew(&self, _: NodeId) -> BoxFuture<'_, Result<Renewal, StoreError>> {
        Box::pin(async { Err(StoreError::LeaseLost) })
    }
}

/// So that what has started the process starts it anew.
#[tokio::test]
async fn a_server_that_has_lost_its_lease_ends_with_an_error() {
    let server = Server::new("lost", "1.0.0").store(LosesLeases::new()).print_url(false);
    let served = server.serve_http("127.0.0.1:0").await;
    assert!(matches!(served, Err(ServeError::LeaseLost)), "{served:?}");
}

#[tokio::test]
async fn an_application_learns_that_its_server_has_lost_its_lease() {
    let server = Server::new("lost", "1.0.0").store(LosesLeases::new());
    let server = server.start().await.unwrap();
    server.check_lease().unwrap();
    let listener = server.listen("127.0.0.1:0").await.unwrap();
    listener.serve_until(std::future::pending()).await;
    server.lease_lost().await;
    assert!(server.check_lease().is_err());
}
