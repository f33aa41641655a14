//! The gateway is killed while its upstream runs a task.

use crate::support::*;
use std::{
    collections::BTreeSet,
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    sync::{Arc, Mutex},
    thread,
};

/// A gateway in front of `url`, which has a task of the upstream for the call with this id.
fn with_task_of_upstream(folder: &Path, url: &str, era: &str) -> (Server, String) {
    gateway_config(folder, url);
    append(folder, "gateway.toml", &format!("era = {era:?}\n"));
    let gateway = serve(folder, &["gateway.toml"]);
    let id = done(folder, &["call", &gateway.url, "gate", "--detach"]);
    until("the command to start", || starts(folder) == 1);
    // The task of the upstream is recorded before its status is seen through the gateway.
    until("the status of the upstream's task", || {
        done(folder, &["task", &gateway.url, &id, "--json"]).contains("waiting")
    });
    (gateway, id)
}

/// The next gateway follows the task, and the tool has run once.
#[test]
fn a_killed_gateway_goes_on_with_the_task_of_its_upstream() {
    for era in ["legacy", "modern"] {
        let folder = folder();
        let folder = folder.path();
        let upstream = serve(folder, &["upstream.toml"]);
        let (gateway, id) = with_task_of_upstream(folder, &upstream.url, era);
        drop(gateway);
        let gateway = serve(folder, &["gateway.toml"]);
        fs::write(folder.join("gate"), "").unwrap();
        let ended = done(folder, &["task", &gateway.url, &id, "--wait"]);
        assert_eq!(ended, "waiting\nthrough", "{era}");
        assert_eq!(starts(folder), 1, "{era}: nothing runs twice");
    }
}

/// Stands in front of a server, and notes what clients send. The server may move.
struct Tap {
    address: SocketAddr,
    server: Arc<Mutex<String>>,
    sent: Arc<Mutex<Vec<u8>>>,
}

impl Tap {
    fn start(server: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let tap = Self {
            address: listener.local_addr().unwrap(),
            server: Arc::default(),
            sent: Arc::default(),
        };
        tap.moved(server);
        let (address, sent) = (Arc::clone(&tap.server), Arc::clone(&tap.sent));
        let accept = move || {
            for client in listener.incoming() {
                // While the server moves, its clients are refused.
                let Ok(server) = TcpStream::connect(&*address.lock().unwrap()) else {
                    continue;
                };
                let client = client.unwrap();
                let [from_client, from_server] = [&client, &server].map(|stream| stream.try_clone().unwrap());
                let sent = Arc::clone(&sent);
                copies(from_client, server, move |bytes| sent.lock().unwrap().extend(bytes));
                copies(from_server, client, |_| {});
            }
        };
        thread::Builder::new().spawn(accept).unwrap();
        tap
    }

    fn moved(&self, to: &Server) {
        address_of(to).clone_into(&mut self.server.lock().unwrap());
    }

    fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// The sessions that clients have named.
    fn sessions(&self) -> Vec<String> {
        let sent = self.sent.lock().unwrap();
        let sent = String::from_utf8_lossy(&sent);
        let named = sent.lines().filter_map(|line| line.strip_prefix("mcp-session-id: "));
        let sessions: BTreeSet<String> = named.map(str::to_owned).collect();
        sessions.into_iter().collect()
    }
}

/// An upstream that does not ask who its clients are: those behind a [`Tap`] are not the user's own to it.
fn behind_tap(folder: &Path) -> Server {
    let auth = "[server.auth]\nunauthenticated = \"anyone may call every tool\"\n";
    append(folder, "upstream.toml", auth);
    serve(folder, &["upstream.toml"])
}

/// Copies what comes until either end is closed.
fn copies(mut from: TcpStream, mut to: TcpStream, mut noted: impl FnMut(&[u8]) + Send + 'static) {
    let copy = move || {
        let mut buffer = vec![0; 65_536];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            noted(&buffer[..count]);
            if to.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        for stream in [from, to] {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    };
    thread::Builder::new().spawn(copy).unwrap();
}

fn address_of(server: &Server) -> &str {
    server.url.trim_start_matches("http://").trim_end_matches("/mcp")
}

/// Ends a session of the server; it knows it no more.
fn end_session(server: &Server, session: &str) {
    let status = |method: &str| {
        let mut connection = TcpStream::connect(address_of(server)).unwrap();
        let request = format!(
            "{method} /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAccept: text/event-stream\r\nMcp-Session-Id: {session}\r\n\r\n"
        );
        connection.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().to_owned()
    };
    assert!(status("DELETE").starts_with('2'));
    assert_eq!(status("GET"), "404");
}

/// The upstream knows the task, but not the session in which it was made.
#[test]
fn a_task_whose_session_has_ended_is_found_in_a_new_one() {
    let folder = folder();
    let folder = folder.path();
    let upstream = behind_tap(folder);
    let tap = Tap::start(&upstream);
    let (gateway, id) = with_task_of_upstream(folder, &tap.url(), "legacy");
    drop(gateway);
    let sessions = tap.sessions();
    assert!(!sessions.is_empty());
    for session in &sessions {
        end_session(&upstream, session);
    }
    let gateway = serve(folder, &["gateway.toml"]);
    fs::write(folder.join("gate"), "").unwrap();
    let ended = done(folder, &["task", &gateway.url, &id, "--wait"]);
    assert_eq!(ended, "waiting\nthrough");
    assert_eq!(starts(folder), 1, "nothing runs twice");
    assert!(tap.sessions().len() > sessions.len(), "in a new session");
}

/// The upstream knows neither the session nor the task, since its data is gone: the call is not made again, and its client is told what is not known.
#[test]
fn a_task_that_the_upstream_has_lost_with_its_session_is_interrupted() {
    let folder = folder();
    let folder = folder.path();
    let upstream = behind_tap(folder);
    let tap = Tap::start(&upstream);
    let (gateway, id) = with_task_of_upstream(folder, &tap.url(), "legacy");
    drop(gateway);
    drop(upstream);
    fs::remove_dir_all(folder.join("upstream-data")).unwrap();
    let upstream = serve(folder, &["upstream.toml"]);
    tap.moved(&upstream);
    let gateway = serve(folder, &["gateway.toml"]);
    let ended = run(folder, &["task", &gateway.url, &id, "--wait"]);
    ended
        .fails()
        .says("it is not known whether `gate` has run on upstream `up`");
    assert_eq!(starts(folder), 1, "it is not idempotent");
}
