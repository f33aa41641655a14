//! Serving over HTTP, in a process of its own.

use longhaul::{ServeError, Server, Tool};
use longhaul_core::{
    BoxFuture, NodeId, Store, StoreLayer,
    store::{Renewal, StoreError},
};
use longhaul_runtime::Ports;
use longhaul_store::MemoryStore;
use std::{
    io::{BufRead, BufReader, Read},
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
};

/// Set in the process that serves: its address, and whether to print no URL.
const ADDRESS: &str = "LONGHAUL_TEST_ADDRESS";
const NO_URL: &str = "LONGHAUL_TEST_NO_URL";

#[tokio::test]
async fn serves_if_asked() {
    let Ok(address) = std::env::var(ADDRESS) else { return };
    let server = Server::new("echoes", "1.0.0").tool(Tool::new("echo", async || "echo"));
    let server = server.print_url(std::env::var_os(NO_URL).is_none());
    server.serve_http(address).await.unwrap();
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
