//! API keys, and who is served without one.

use super::support::*;
use serde_json::{Value, json};
use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
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
        let jobs = JOBS.replacen("[server]\n", &format!("[server]\n{server}\n"), 1);
        fs::write(
            folder.path().join("jobs.toml"),
            format!("{jobs}\n[server.auth]\n{auth}\n"),
        )
        .unwrap();
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
        assert!(
            key.starts_with("lhk_") && !key.contains(char::is_whitespace),
            "{made:?}"
        );
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

fn keys(folder: &Path, words: &[&str]) -> Output {
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

#[test]
fn keys_say_who_comes_in_and_what_is_whose() {
    let mut server = Protected::start("", "api_keys = true\nsame_user = false", "127.0.0.1:0");
    assert_eq!(server.post("", "tools/list", json!({})), (401, Value::Null));
    assert_eq!(server.status("lhk_wrong"), 401);
    let ann = server.key(&["add", "ann"]);
    let bob = server.key(&["add", "bob", "--tools", "ec*", "--expires", "90d"]);
    server.becomes(&ann, 200);
    server.becomes(&bob, 200);
    let kept = fs::read_to_string(server.folder.path().join("data/keys.json")).unwrap();
    assert!(!kept.contains(&ann[4..]) && !kept.contains(&bob[4..]), "{kept}");

    let call = json!({"name": "gate", "arguments": {"code": 0}});
    let (status, created) = server.post(&bearer(&ann), "tools/call", call.clone());
    assert_eq!(status, 200, "{created}");
    let task = created["result"]["taskId"].as_str().unwrap().to_owned();
    let get =
        |key: &str, task: &str, server: &Protected| server.post(&bearer(key), "tasks/get", json!({"taskId": task}));
    assert_eq!(get(&ann, &task, &server).1["result"]["status"], "working");
    let unknown = get(&bob, "0123456789abcdefghjkmnpqrstvwxyz0123", &server);
    assert_eq!(get(&bob, &task, &server), unknown);
    assert_eq!(server.post(&bearer(&bob), "tools/call", call).0, 403);
    let (_, listed) = server.post(&bearer(&bob), "tools/list", json!({}));
    assert_eq!(listed["result"]["tools"][0]["name"], "echo");
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 1);

    // A crash, a restart and a new secret: her task is still hers.
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let rotated = server.key(&["rotate", "ann"]);
    (server.child, _) = serve(server.folder.path(), &server.address.to_string());
    assert_eq!(server.status(&ann), 401);
    assert_eq!(get(&rotated, &task, &server).1["result"]["status"], "working");
    assert_eq!(get(&bob, &task, &server), unknown);
    let again = server.key(&["rotate", "ann", "--overlap", "1h"]);
    server.becomes(&again, 200);
    assert_eq!(server.status(&rotated), 200, "for an hour");
    let listed = stdout(&server.keys(&["list"])).to_owned();
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines[0], "NAME\tSTATE\tTOOLS\tRESOURCES\tEND");
    assert!(
        lines[1].starts_with("ann\tactive\t*\tyes\tno end; the key before it until "),
        "{listed}"
    );
    assert!(!lines[2].contains("before"), "{listed}");
    fs::write(server.folder.path().join("gate"), "").unwrap();
    loop {
        let (_, got) = get(&again, &task, &server);
        match got["result"]["status"].as_str().unwrap() {
            "completed" => break,
            status => assert_eq!(status, "working", "{got}"),
        }
        thread::yield_now();
    }

    let revoked = server.keys(&["revoke", "ann"]);
    assert_eq!(exit(&revoked), 0, "{revoked:?}");
    server.becomes(&again, 401);
    assert_eq!(server.status(&rotated), 401);
    assert_eq!(server.status(&bob), 200);
    let cyd: Value = serde_json::from_str(stdout(&server.keys(&["add", "cyd", "--json"]))).unwrap();
    assert!(
        cyd["name"] == "cyd" && cyd["key"].as_str().unwrap().starts_with("lhk_"),
        "{cyd}"
    );
    let gone = stdout(&server.keys(&["revoke", "cyd", "--json"])).to_owned();
    assert_eq!(
        serde_json::from_str::<Value>(&gone).unwrap(),
        json!({"name": "cyd", "revoked": true})
    );
    let name = server.keys(&["add", "ann"]);
    assert!(exit(&name) == 1 && stderr(&name).contains("revoked"), "{name:?}");
    let list = server.keys(&["list", "--json"]);
    let states: Vec<Value> = stdout(&list)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    states[0].has_members(json!({"name": "ann", "state": "revoked"}));
    states[1].has_members(json!({"state": "active", "tools": ["ec*"]}));
}

/// A task that waits for a slot when its key is revoked is nobody's.
#[test]
fn a_queued_task_of_a_revoked_key_does_not_begin() {
    let touch = "[[tool]]\nname = \"touch\"\ndescription = \"makes a file\"\ncommand = [\"touch\", \"{file}\"]\ninput = { file = { type = \"string\" } }";
    let server = Protected::start(
        "max_running = 1",
        &format!("api_keys = true\nsame_user = false\n{touch}\ntask = \"optional\""),
        "127.0.0.1:0",
    );
    let (ann, gone) = (server.key(&["add", "ann"]), server.key(&["add", "gone"]));
    server.becomes(&ann, 200);
    server.becomes(&gone, 200);
    let call = |key: &str, name: &str, arguments: Value| {
        let (status, body) = server.post(
            &bearer(key),
            "tools/call",
            json!({"name": name, "arguments": arguments}),
        );
        assert_eq!(status, 200, "{body}");
        body["result"]["taskId"].as_str().unwrap().to_owned()
    };
    call(&ann, "gate", json!({"code": 0}));
    call(&gone, "touch", json!({"file": "theirs"}));
    assert_eq!(exit(&server.keys(&["revoke", "gone"])), 0);
    server.becomes(&gone, 401);
    let last = call(&ann, "touch", json!({"file": "anns"}));
    let file = |name: &str| server.folder.path().join(name);
    fs::write(file("gate"), "").unwrap();
    let get = || server.post(&bearer(&ann), "tasks/get", json!({"taskId": last})).1["result"]["status"].clone();
    while get() != "completed" {
        thread::yield_now();
    }
    assert!(file("anns").exists() && !file("theirs").exists());
}

/// The file has no key, but whoever can write to it can make one.
#[test]
fn a_key_file_that_others_may_read_is_made_private_and_told_of() {
    let folder = TempDir::new().unwrap();
    fs::write(
        folder.path().join("jobs.toml"),
        format!("{JOBS}[server.auth]\napi_keys = true\n"),
    )
    .unwrap();
    assert_eq!(exit(&keys(folder.path(), &["add", "ci"])), 0);
    let file = folder.path().join("data/keys.json");
    let mode = |mode| fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    mode(0o644);
    for told in [true, false] {
        let listed = keys(folder.path(), &["list"]);
        assert_eq!(exit(&listed), 0, "{listed:?}");
        assert_eq!(
            stderr(&listed).contains("(mode 644); its mode is 600 now"),
            told,
            "{listed:?}"
        );
    }
    mode(0o666);
    let refused = keys(folder.path(), &["list"]);
    refused.ends(1).says("keys.json: other users may write to it");
}

/// Names are known from `keys.json`, and if it was lost, from the tasks that there are.
#[test]
fn a_name_that_has_tasks_is_not_used_again() {
    let mut server = Protected::start("", "api_keys = true\nsame_user = false", "127.0.0.1:0");
    let ann = server.key(&["add", "ann"]);
    server.becomes(&ann, 200);
    let call = json!({"name": "gate", "arguments": {"code": 0}});
    assert_eq!(server.post(&bearer(&ann), "tools/call", call).0, 200);
    let file = server.folder.path().join("data/keys.json");
    fs::remove_file(&file).unwrap();
    let refused = |server: &Protected| {
        let added = server.keys(&["add", "ann"]);
        assert!(
            exit(&added) == 1 && stdout(&added).is_empty() && stderr(&added).contains("has tasks of a key ann"),
            "{added:?}"
        );
        assert!(!file.exists());
    };
    refused(&server);
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    refused(&server);
    assert_eq!(exit(&server.keys(&["add", "bob"])), 0);
    (server.child, _) = serve(server.folder.path(), &server.address.to_string());
}

#[test]
fn a_pattern_that_fits_no_tool_is_refused() {
    let folder = TempDir::new().unwrap();
    let tools = ["build", "test"]
        .map(|name| format!("[[tool]]\nname = \"{name}\"\ndescription = \"Runs.\"\ncommand = [\"true\"]\n"))
        .concat();
    let auth = "[server]\nname = \"jobs\"\n[server.auth]\napi_keys = true\n";
    fs::write(folder.path().join("jobs.toml"), [auth, &tools].concat()).unwrap();
    let added = keys(folder.path(), &["add", "ci", "--tools", "bild*", "--tools", "te*"]);
    assert_ne!(exit(&added), 0, "{added:?}");
    let refused = stderr(&added);
    assert!(
        refused.contains("no tool fits `bild*`; did you mean `build`?") && !refused.contains("`te*`"),
        "{added:?}"
    );
    // The name is not used up.
    let added = keys(folder.path(), &["add", "ci", "--tools", "build", "--tools", "te*"]);
    assert_eq!(exit(&added), 0, "{added:?}");
    let upstream = "[upstream.other]\ncommand = [\"true\"]\n";
    fs::write(folder.path().join("jobs.toml"), [auth, &tools, upstream].concat()).unwrap();
    let added = keys(folder.path(), &["add", "cd", "--tools", "bild*"]);
    assert!(exit(&added) == 0 && !stderr(&added).contains("warning"), "{added:?}");
}

/// Whoever revokes a key need not have what the server has in its environment.
#[test]
fn keys_are_changed_without_the_variables_of_upstreams() {
    let folder = TempDir::new().unwrap();
    let jobs = "[server]\nname = \"jobs\"\n[server.auth]\napi_keys = true\n\
        [upstream.child]\ncommand = [\"true\"]\nenv = { TOKEN = \"${NO_SUCH_VARIABLE}\" }\n\
        [upstream.far]\nurl = \"https://example.com/mcp\"\nheaders = { Authorization = \"Bearer ${NO_SUCH_VARIABLE}\" }\n\
        [upstream.client]\nurl = \"https://example.com/mcp\"\nauth = { client_id = \"me\", client_secret = \"${NO_SUCH_VARIABLE}\" }\n";
    fs::write(folder.path().join("jobs.toml"), jobs).unwrap();
    for words in [&["add", "ci"][..], &["list"], &["rotate", "ci"], &["revoke", "ci"]] {
        let changed = keys(folder.path(), words);
        assert_eq!(exit(&changed), 0, "{changed:?}");
    }
    let file = folder.path().join("jobs.toml");
    let checked = run(&["check", file.to_str().unwrap()]);
    assert!(stderr(&checked).contains("NO_SUCH_VARIABLE is not set"), "{checked:?}");
}

/// A key that is known to others must be revoked now, whatever else is wrong with the configuration.
#[test]
fn keys_are_revoked_with_mistakes_elsewhere_in_the_configuration() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("jobs.toml");
    let keys = |words: &[&str]| {
        let (command, rest) = words.split_first().unwrap();
        run(&[&["keys", command, file.to_str().unwrap()], rest].concat())
    };
    let server = "[server]\nname = \"jobs\"\ndata_dir = \"data\"\n";
    let auth = "[server.auth]\napi_keys = true\n[server.audit]\nfile = \"audit.jsonl\"\n";
    let tool = "[[tool]]\nname = \"build\"\ndescription = \"Builds.\"\ncommand = [\"true\"]\n";
    fs::write(&file, [server, auth, tool].concat()).unwrap();
    assert_eq!(exit(&keys(&["add", "ci"])), 0);

    let tls = "[server.tls]\ncert = \"no.pem\"\nkey = \"no.pem\"\n";
    let broken = "public_url = 5\nlisen = \"127.0.0.1:1\"\n";
    fs::write(
        &file,
        [server, broken, auth, tls, "[admin]\nx = 1\n[[tool]]\nname = 3\n"].concat(),
    )
    .unwrap();
    let listed = keys(&["list"]);
    assert!(exit(&listed) == 0 && stdout(&listed).contains("active"), "{listed:?}");
    let revoked = keys(&["revoke", "ci"]);
    assert_eq!(exit(&revoked), 0, "{revoked:?}");
    for mistake in ["no.pem", "lisen", "public_url", "[admin]", "`name`"] {
        let is_warning = |line: &str| line.starts_with("warning: ") && line.contains(mistake);
        assert!(stderr(&revoked).lines().any(is_warning), "{mistake}: {revoked:?}");
    }
    fs::read_to_string(folder.path().join("audit.jsonl"))
        .unwrap()
        .has("revoked by");

    // Nobody knows where the keys are, except whoever says it.
    fs::write(&file, "[server\n").unwrap();
    keys(&["list"]).ends(2).says("--data-dir");
    let data = folder.path().join("data");
    let listed = keys(&["list", "--data-dir", data.to_str().unwrap()]);
    assert!(exit(&listed) == 0 && stdout(&listed).contains("revoked"), "{listed:?}");

    // Nor is the file needed.
    let with_data_dir = |words: &[&str]| keys(&[words, &["--data-dir", data.to_str().unwrap()]].concat());
    assert_eq!(exit(&with_data_dir(&["add", "other"])), 0);
    fs::remove_file(&file).unwrap();
    assert_eq!(exit(&keys(&["revoke", "other"])), 2);
    let revoked = with_data_dir(&["revoke", "other"]);
    revoked.ends(0);
    stderr(&revoked).begins_with("warning: ");
    revoked.says("jobs.toml");
    assert_eq!(exit(&with_data_dir(&["revoke", "nobody"])), 1);
}

/// The connection of the push stream of a revoked key is closed.
#[test]
fn a_revoked_key_ends_its_streams() {
    let server = Protected::start("", "api_keys = true\nsame_user = false", "127.0.0.1:0");
    let key = server.key(&["add", "ci"]);
    server.becomes(&key, 200);
    let listen = json!({"notifications": {"toolsListChanged": true}});
    thread::scope(|scope| {
        let stream = scope.spawn(|| server.post(&bearer(&key), "subscriptions/listen", listen));
        // The stream is open or about to be; when the key is gone it ends in both cases.
        assert_eq!(exit(&server.keys(&["revoke", "ci"])), 0);
        let (status, _) = stream.join().unwrap();
        assert!([200, 401].contains(&status), "{status}");
    });
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
        let told = stdout(&checked);
        assert!(
            told.contains(&format!("serve {who}")) && !told.contains(own),
            "{checked:?}"
        );
        let warned = stderr(&checked);
        assert!(warned.contains("no program of this machine"), "{warned}");
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
        assert_eq!(
            told.contains("processes of this user"),
            is_announced,
            "{listen}: {told}"
        );
        assert!(!warned.contains("same_user"), "{warned}");
        let (_, warned) = checked(listen, "same_user = true");
        assert_eq!(
            warned.contains("`same_user = true` means nothing"),
            !is_announced,
            "{listen}: {warned}"
        );
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
    for (server, auth, why) in [
        ("", "", "nothing says who may call the tools"),
        (plain, "same_user = true", "nothing says who may call the tools"),
        ("", "api_keys = true", "without TLS"),
        (
            "trusted_proxies = [\"0.0.0.0/1\", \"128.0.0.0/1\"]",
            "api_keys = true",
            "served to everyone",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let jobs = JOBS.replacen(
            "[server]\n",
            &format!("[server]\nlisten = \"0.0.0.0:0\"\n{server}\n"),
            1,
        );
        let file = folder.path().join("jobs.toml");
        fs::write(&file, format!("{jobs}\n[server.auth]\n{auth}\n")).unwrap();
        let checked = run(&["check", file.to_str().unwrap()]);
        assert!(exit(&checked) == 2 && stderr(&checked).contains(why), "{checked:?}");
        let data = folder.path().join("data");
        let served = run(&["serve", file.to_str().unwrap(), "--data-dir", data.to_str().unwrap()]);
        assert!(exit(&served) == 2 && stderr(&served).contains(why), "{served:?}");
    }
}
