//! A server with keys, and who is served without one.

use super::support::*;
use serde_json::{Value, json};
use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Child, Output},
    thread,
};
use tempfile::TempDir;

/// A server with these keys of `[server]` and `[server.auth]`.
pub(crate) struct Protected {
    pub(crate) folder: TempDir,
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
}

impl Protected {
    pub(crate) fn start(server: &str, auth: &str, listen: &str) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), server, auth, listen)
    }

    pub(crate) fn start_in(folder: TempDir, server: &str, auth: &str, listen: &str) -> Self {
        // So that `gate` has everything that others must not see.
        let leaves = "echo xyz > $LONGHAUL_ARTIFACTS/x; exit \\\"$1\\\"";
        let jobs = JOBS.replacen("exit \\\"$1\\\"", leaves, 1) + "artifacts = true\n";
        let jobs = jobs.replacen("[server]\n", &format!("[server]\n{server}\n"), 1);
        let jobs = format!("{jobs}\n[server.auth]\n{auth}\n");
        fs::write(folder.path().join("jobs.toml"), jobs).unwrap();
        let (child, address) = serve(folder.path(), listen);
        let address = ([127, 0, 0, 1], address.port()).into();
        Self { folder, child, address }
    }

    pub(crate) fn keys(&self, words: &[&str]) -> Output {
        keys(self.folder.path(), words)
    }

    /// Adds a key, or rotates one.
    pub(crate) fn key(&self, words: &[&str]) -> String {
        let made = self.keys(words);
        assert_eq!(exit(&made), 0, "{made:?}");
        let key = stdout(&made).trim_end().to_owned();
        key.begins_with("lhk_");
        assert!(!key.contains(char::is_whitespace), "{made:?}");
        assert!(!stderr(&made).contains(&key));
        key
    }

    pub(crate) fn post(&self, headers: &str, method: &str, params: Value) -> (u16, Value) {
        post(self.address, headers, method, params)
    }

    /// Status of a request with this key.
    pub(crate) fn status(&self, key: &str) -> u16 {
        self.post(&bearer(key), "tools/list", json!({})).0
    }

    /// Waits until a request with the key has this status: the server looks at the keys more than once a second.
    pub(crate) fn becomes(&self, key: &str, status: u16) {
        while self.status(key) != status {
            thread::yield_now();
        }
    }
}

impl Drop for Protected {
    fn drop(&mut self) {
        fs::write(self.folder.path().join("gate"), "").unwrap();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn keys(folder: &Path, words: &[&str]) -> Output {
    let (file, data) = (folder.join("jobs.toml"), folder.join("data"));
    let (command, rest) = words.split_first().unwrap();
    let mut all = vec!["keys", command, file.to_str().unwrap()];
    all.extend(rest);
    all.extend(["--data-dir", data.to_str().unwrap()]);
    run(&all)
}

pub(crate) fn bearer(key: &str) -> String {
    format!("Authorization: Bearer {key}\r\n")
}

/// Sends a request of a modern client with tasks.
pub(crate) fn send(address: SocketAddr, headers: &str, method: &str, mut params: Value) -> TcpStream {
    let name = ["name", "taskId"].iter().find_map(|member| params[*member].as_str());
    let name = name.map(|name| format!("Mcp-Name: {name}\r\n")).unwrap_or_default();
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
    });
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n{name}{headers}Content-Length: {}\r\n\r\n",
        body.len()
    );
    let mut connection = TcpStream::connect(address).unwrap();
    connection.write_all([head, body].concat().as_bytes()).unwrap();
    connection
}

/// A request of a modern client with tasks: its status and its body.
pub(crate) fn post(address: SocketAddr, headers: &str, method: &str, params: Value) -> (u16, Value) {
    let mut connection = send(address, headers, method, params);
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    (status, serde_json::from_str(body).unwrap_or_default())
}

#[cfg(target_os = "linux")]
#[test]
fn without_keys_only_the_same_user_comes_in_and_nothing_that_was_forwarded() {
    let server = Protected::start("", "", "127.0.0.1:0");
    assert_eq!(server.post("", "tools/list", json!({})).0, 200);
    for forwarded in [
        "X-Forwarded-For: 192.0.2.1",
        "Forwarded: for=192.0.2.1",
        "Via: 1.1 proxy",
    ] {
        let headers = format!("{forwarded}\r\n");
        assert_eq!(server.post(&headers, "tools/list", json!({})).0, 401, "{forwarded}");
    }
    assert_eq!(server.status("lhk_x"), 401, "credentials are never ignored");
}

/// Its clients only see 401.
#[cfg(target_os = "linux")]
#[test]
fn the_log_says_once_why_a_proxy_gets_401() {
    let log = logged("warn", |url, _| {
        let address = url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();
        for _ in 0..3 {
            let headers = "X-Forwarded-For: 192.0.2.1\r\n";
            let (status, _) = post(address.parse().unwrap(), headers, "tools/list", json!({}));
            assert_eq!(status, 401);
        }
    });
    assert_eq!(log.matches("a proxy has forwarded it").count(), 1, "{log}");
    assert!(log.contains("longhaul keys add"), "{log}");
}

/// Forwards connections as `socat` does, with all bytes as they are.
#[cfg(target_os = "linux")]
#[expect(clippy::disallowed_methods, reason = "real connections are forwarded")]
fn relay_to(server: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let server = TcpStream::connect(server).unwrap();
            for (mut from, mut to) in [
                (client.try_clone().unwrap(), server.try_clone().unwrap()),
                (server, client),
            ] {
                thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Write);
                });
            }
        }
    });
    address
}

/// The status of a request to this address, sent by a process of this user, or of another one.
#[cfg(target_os = "linux")]
fn status_for(user: Option<u32>, address: SocketAddr, host: &str) -> String {
    use std::os::unix::process::CommandExt as _;
    const SEND: &str =
        r#"exec 3<>"/dev/tcp/127.0.0.1/$1"; printf '%s' "$2" >&3; read -r -u 3 _ status _; echo "$status""#;
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut command = std::process::Command::new("bash");
    command
        .args(["-c", SEND, "send", &address.port().to_string(), &request])
        .current_dir("/");
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    let sent = command.output().unwrap();
    String::from_utf8(sent.stdout).unwrap().trim().to_owned()
}

/// The connection of a relay is of the user who runs it. What it forwards names the relay's port, so it is nobody's.
#[cfg(target_os = "linux")]
#[test]
fn what_another_user_sends_through_a_relay_of_this_user_is_not_this_users() {
    /// A user that has no processes.
    const OTHER_USER: u32 = 54_321;
    let server = Protected::start("", "", "127.0.0.1:0");
    let direct = server.address;
    let relay = relay_to(direct);
    assert_eq!(status_for(None, direct, &direct.to_string()), "200");
    assert_eq!(status_for(None, relay, &relay.to_string()), "401");
    if !rustix::process::geteuid().is_root() {
        eprintln!("not root: the part with another user is left out");
        return;
    }
    for name in ["127.0.0.1", "localhost"] {
        for address in [direct, relay] {
            let host = format!("{name}:{}", address.port());
            assert_eq!(status_for(Some(OTHER_USER), address, &host), "401", "{host}");
        }
    }
}

/// Whoever comes from the address of a proxy is not taken for the user who runs the server, so that user is not named among those who may come in.
#[test]
fn a_user_whose_programs_are_taken_for_proxies_is_not_announced() {
    const AUDIT: &str = "[server.audit]\nfile = \"audit.jsonl\"";
    let own = "processes of this user";
    let audited = |server: &Protected| fs::read_to_string(server.folder.path().join("audit.jsonl")).unwrap();
    for (auth, who) in [("api_keys = true", "holders of API keys"), ("", "nobody")] {
        let proxies = "trusted_proxies = [\"127.0.0.1\"]";
        let server = Protected::start(proxies, &format!("{auth}\n{AUDIT}"), "127.0.0.1:0");
        assert_eq!(server.post("", "tools/list", json!({})).0, 401);
        audited(&server).has(&format!("access: {who}")).lacks(own);
        let file = server.folder.path().join("jobs.toml");
        let checked = run(&["check", file.to_str().unwrap()]);
        checked.prints(&format!("serve {who}")).prints_no(own);
        let warned = stderr(&checked);
        warned.has("no program of this machine");
        assert_eq!(warned.contains("nobody is served"), auth.is_empty(), "{warned}");
    }
    let elsewhere = "trusted_proxies = [\"10.0.0.1\", \"8.0.0.0/8\"]";
    let server = Protected::start(elsewhere, AUDIT, "127.0.0.1:0");
    assert!(audited(&server).contains(own));
    assert_eq!(server.post("", "tools/list", json!({})).0, 200);
    let checked = run(&["check", server.folder.path().join("jobs.toml").to_str().unwrap()]);
    let warned = stderr(&checked);
    warned.has("8.0.0.0/8 has addresses of strangers").lacks("no program");
}

/// The system tells whose a connection is on loopback only.
#[test]
fn this_user_is_announced_where_connections_come_from_loopback() {
    let checked = |listen: &str, auth: &str| {
        let folder = tempfile::tempdir().unwrap();
        let server = format!(
            "[server]\nlisten = \"{listen}\"\nplain_http = \"others on the network can read tokens and results\"\n"
        );
        let file = folder.path().join("jobs.toml");
        let auth = format!("\n[server.auth]\napi_keys = true\n{auth}\n");
        fs::write(&file, JOBS.replacen("[server]\n", &server, 1) + &auth).unwrap();
        let checked = run(&["check", file.to_str().unwrap()]);
        assert_eq!(exit(&checked), 0, "{checked:?}");
        (stdout(&checked).to_string(), stderr(&checked).to_string())
    };
    for (listen, is_announced) in [
        ("127.0.0.1:7411", true),
        ("0.0.0.0:7411", true),
        ("[::]:7411", true),
        ("192.0.2.1:7411", false),
        ("[2001:db8::1]:7411", false),
    ] {
        let (told, warned) = checked(listen, "");
        let names_user = told.contains("processes of this user");
        assert_eq!(names_user, is_announced, "{listen}: {told}");
        warned.lacks("same_user");
        let (_, warned) = checked(listen, "same_user = true");
        let is_useless = warned.contains("`same_user = true` means nothing");
        assert_eq!(is_useless, !is_announced, "{listen}: {warned}");
    }
}

#[test]
fn a_listener_for_other_machines_needs_keys_and_plain_words() {
    let plain = "plain_http = \"others on the network can read tokens and results\"";
    let server = Protected::start(plain, "api_keys = true", "0.0.0.0:0");
    let key = server.key(&["add", "ci"]);
    server.becomes(&key, 200);
    drop(server);
    let server = Protected::start("trusted_proxies = [\"192.0.2.1\"]", "api_keys = true", "0.0.0.0:0");
    let file = server.folder.path().join("jobs.toml");
    let checked = run(&["check", file.to_str().unwrap()]);
    let told = "addresses as the proxies at 192.0.2.1 tell";
    assert!(exit(&checked) == 0 && stdout(&checked).contains(told), "{checked:?}");
    drop(server);
    let all_proxies = "trusted_proxies = [\"0.0.0.0/1\", \"128.0.0.0/1\"]";
    for (server, auth, why) in [
        ("", "", "nothing says who may call the tools"),
        (plain, "same_user = true", "nothing says who may call the tools"),
        ("", "api_keys = true", "without TLS"),
        (all_proxies, "api_keys = true", "served to everyone"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let server = format!("[server]\nlisten = \"0.0.0.0:0\"\n{server}\n");
        let jobs = JOBS.replacen("[server]\n", &server, 1);
        let file = folder.path().join("jobs.toml");
        fs::write(&file, format!("{jobs}\n[server.auth]\n{auth}\n")).unwrap();
        run(&["check", file.to_str().unwrap()]).ends(2).says(why);
        let data = folder.path().join("data");
        let served = run(&["serve", file.to_str().unwrap(), "--data-dir", data.to_str().unwrap()]);
        served.ends(2).says(why);
    }
}
