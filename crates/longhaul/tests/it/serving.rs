//! Serving over HTTP, in a process of its own.

use longhaul::{Server, Tool};
use std::{
    io::{BufRead, BufReader, Read},
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
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
