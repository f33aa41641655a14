//! The isolation matrix: each request that names something of a principal × each sender who is not that principal, with real keys and tokens over HTTP.
//!
//! To another principal nothing exists: the answer is that for a name that was never given out, byte for byte but for the name. Who is not known gets one
//! answer, whatever is asked for. Rounds of questions (`requestState`) and the old pair of endpoints are in the matrix of the server's own tests.

use super::{
    auth::{Protected, bearer},
    issuers::Issuer,
    support::*,
};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
};

const PUBLIC_URL: &str = "https://jobs.example/mcp";
const EVERYTHING: &str = "tools:* tasks:write resources:read";
/// An id that was never announced, as long as all are.
const NOBODYS: &str = "0123456789abcdefghjkmnpqrstvwxyz0123";

/// What a principal has, by the names under which others could ask for it.
#[derive(Clone)]
struct Names {
    running: String,
    done: String,
    session: String,
    /// Of the session's push stream.
    event: String,
    /// The idempotency key of the call of `running`.
    key: String,
}

/// A request for something of these names: of a modern client, of a legacy one in a session of its own, or another one.
enum Ask {
    Modern(&'static str, fn(&Names) -> Value),
    Legacy(&'static str, fn(&Names) -> Value),
    Other(fn(credentials: &str, names: &Names, session: &str) -> String),
}

use Ask::{Legacy, Modern, Other};

impl Ask {
    /// With these headers of credentials. The session is the sender's own, if it has one.
    fn request(&self, who: &str, names: &Names, session: &str) -> String {
        match self {
            Modern(method, params) => modern(who, method, params(names)),
            Legacy(method, params) => legacy(who, session, method, params(names)),
            Other(request) => request(who, names, session),
        }
    }
}

/// Requests that change nothing, also if they were granted.
const READS: &[(&str, Ask)] = &[
    ("tasks/get", Modern("tasks/get", running)),
    ("listen to a task", Modern("subscriptions/listen", listen_to_task)),
    ("listen to a resource", Modern("subscriptions/listen", listen_to_log)),
    ("log", Modern("resources/read", log)),
    ("output", Modern("resources/read", output)),
    ("history", Modern("resources/read", history)),
    ("artifacts", Modern("resources/read", artifacts)),
    ("artifact", Modern("resources/read", artifact)),
    ("task_wait", Modern("tools/call", wait)),
    ("task_status", Modern("tools/call", look)),
    ("legacy tasks/get", Legacy("tasks/get", running)),
    ("legacy tasks/result", Legacy("tasks/result", done)),
    ("legacy log", Legacy("resources/read", log)),
    ("legacy output", Legacy("resources/read", output)),
    ("legacy history", Legacy("resources/read", history)),
    ("legacy artifact", Legacy("resources/read", artifact)),
    ("legacy resources/subscribe", Legacy("resources/subscribe", log)),
    ("legacy task_wait", Legacy("tools/call", wait)),
    (
        "session",
        Other(|who, names, _| legacy(who, &names.session, "ping", json!({}))),
    ),
];

/// Requests whose answer would be a stream without end if they were granted.
const STREAMS: &[(&str, Ask)] = &[
    (
        "GET of a session",
        Other(|who, names, _| get_stream(who, &names.session, "")),
    ),
    ("Last-Event-ID", Other(resume)),
];

/// Requests that change something if they are granted.
const WRITES: &[(&str, Ask)] = &[
    ("tasks/update", Modern("tasks/update", decline)),
    ("delete", Modern("dev.longhaul/tasks/delete", done)),
    ("legacy delete", Legacy("dev.longhaul/tasks/delete", done)),
    ("task_cancel", Modern("tools/call", cancel)),
    ("legacy task_cancel", Legacy("tools/call", cancel)),
    ("tasks/cancel", Modern("tasks/cancel", running)),
    ("legacy tasks/cancel", Legacy("tasks/cancel", running)),
    ("DELETE of a session", Other(delete_session)),
];

/// Requests that name nothing and find what is the sender's.
const LISTS: &[(&str, Ask)] = &[
    ("tasks/list", Legacy("tasks/list", |_| json!({}))),
    ("idempotency key", Modern("tools/call", |names| keyed_call(&names.key))),
];

fn running(names: &Names) -> Value {
    task(&names.running)
}

fn done(names: &Names) -> Value {
    task(&names.done)
}

fn log(names: &Names) -> Value {
    part(&names.running, "log")
}

fn output(names: &Names) -> Value {
    part(&names.running, "output")
}

fn history(names: &Names) -> Value {
    part(&names.running, "history")
}

fn artifacts(names: &Names) -> Value {
    part(&names.done, "artifacts")
}

fn artifact(names: &Names) -> Value {
    part(&names.done, "artifacts/x?offset=1")
}

fn listen_to_task(names: &Names) -> Value {
    json!({"notifications": {"taskIds": [names.done]}})
}

fn listen_to_log(names: &Names) -> Value {
    json!({"notifications": {"resourceSubscriptions": [log(names)["uri"]]}})
}

fn wait(names: &Names) -> Value {
    follow("task_wait", &names.done)
}

fn look(names: &Names) -> Value {
    follow("task_status", &names.running)
}

fn cancel(names: &Names) -> Value {
    follow("task_cancel", &names.running)
}

fn decline(names: &Names) -> Value {
    json!({"taskId": names.running, "inputResponses": {"a": {"action": "decline"}}})
}

fn resume(who: &str, names: &Names, session: &str) -> String {
    get_stream(who, session, &format!("Last-Event-ID: {}\r\n", names.event))
}

fn delete_session(who: &str, names: &Names, _: &str) -> String {
    let session = &names.session;
    format!("DELETE /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nMcp-Session-Id: {session}\r\n{who}\r\n")
}

pub(super) fn task(id: &str) -> Value {
    json!({"taskId": id})
}

fn part(id: &str, part: &str) -> Value {
    json!({"uri": format!("longhaul://task/{id}/{part}")})
}

fn follow(tool: &str, id: &str) -> Value {
    json!({"name": tool, "arguments": {"task": id}})
}

fn keyed_call(key: &str) -> Value {
    json!({"name": "gate", "arguments": {"code": 0}, "_meta": {"dev.longhaul/idempotency-key": key}})
}

pub(super) fn modern(who: &str, method: &str, mut params: Value) -> String {
    let name = ["name", "taskId", "uri"].iter().find_map(|name| params[*name].as_str());
    let name = name.map(|name| format!("Mcp-Name: {name}\r\n")).unwrap_or_default();
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
        json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let headers = format!("{who}{name}MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n");
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    post(&headers, &body)
}

pub(super) fn legacy(who: &str, session: &str, method: &str, params: Value) -> String {
    let headers = format!("{who}Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: 2025-11-25\r\n");
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    post(&headers, &body)
}

fn post(headers: &str, body: &Value) -> String {
    let body = body.to_string();
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn get_stream(who: &str, session: &str, headers: &str) -> String {
    format!(
        "GET /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAccept: text/event-stream\r\n\
         Mcp-Session-Id: {session}\r\n{who}{headers}\r\n"
    )
}

pub(super) fn send(server: &Protected, request: &str) -> TcpStream {
    let mut connection = TcpStream::connect(server.address).unwrap();
    connection.write_all(request.as_bytes()).unwrap();
    connection
}

/// The whole response, without its date. Of a push stream, or a subscription of a resource, only the beginning: it has no end.
pub(super) fn raw(server: &Protected, request: &str) -> String {
    // Only what is granted is named in the acknowledgement of a subscription.
    let is_endless = |text: &str| {
        let is_stream = text.contains("content-type: text/event-stream");
        is_stream && (request.starts_with("GET ") || text.contains("resourceSubscriptions"))
    };
    let (mut answer, mut connection) = (String::new(), send(server, request));
    while !is_endless(&answer) {
        let mut read = [0; 4096];
        match connection.read(&mut read).unwrap() {
            0 => break,
            length => answer.push_str(std::str::from_utf8(&read[..length]).unwrap()),
        }
    }
    let lines = answer
        .split("\r\n")
        .filter(|line| !line.to_ascii_lowercase().starts_with("date: "))
        // The name of a push stream that was opened anew is random.
        .map(|line| match line.strip_prefix("id: push-") {
            Some(rest) => rest.trim_start_matches(|character: char| character.is_ascii_hexdigit()),
            None => line,
        });
    lines.collect::<Vec<_>>().join("\r\n")
}

/// The id of the task that a response is about.
pub(super) fn task_in(answer: &str) -> String {
    let (_, rest) = answer.split_once("\"taskId\":\"").unwrap_or_else(|| panic!("{answer}"));
    rest.split('"').next().unwrap().to_owned()
}

/// A new legacy session.
pub(super) fn session(server: &Protected, who: &str) -> String {
    let client =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client});
    let answer = raw(server, &post(who, &initialize));
    let headers = answer.lines().filter_map(|line| line.split_once(": "));
    let mut ids = headers.filter(|(name, _)| name.eq_ignore_ascii_case("mcp-session-id"));
    let id = ids.next().unwrap_or_else(|| panic!("{answer}")).1.trim().to_owned();
    let headers = format!("{who}Mcp-Session-Id: {id}\r\nMCP-Protocol-Version: 2025-11-25\r\n");
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert!(raw(server, &post(&headers, &initialized)).starts_with("HTTP/1.1 202"));
    id
}

impl Names {
    /// What the sender has after it did all that leaves something.
    fn of(server: &Protected, who: &str, key: String) -> Self {
        let gate = server.folder.path().join("gate");
        let create = |call: Value| task_in(&raw(server, &modern(who, "tools/call", call)));
        fs::write(&gate, "").unwrap();
        let done = create(json!({"name": "gate", "arguments": {"code": 0}}));
        while !raw(server, &modern(who, "tasks/get", task(&done))).contains("\"completed\"") {
            std::thread::yield_now();
        }
        fs::remove_file(&gate).unwrap();
        let running = create(keyed_call(&key));
        let session = session(server, who);
        let stream = BufReader::new(send(server, &get_stream(who, &session, "")));
        let mut ids = stream.lines().map_while(|line| {
            line.ok()?
                .strip_prefix("id: ")
                .map(str::to_owned)
                .or(Some(String::new()))
        });
        let event = ids.find(|id| !id.is_empty()).expect("an event with an id");
        Self {
            running,
            done,
            session,
            event,
            key,
        }
    }

    /// The same of nobody.
    fn of_nobody(&self) -> Self {
        // Another character in the middle: no signature fits any more.
        let altered = |text: &str| {
            let at = text.len() / 2;
            let other = if text.as_bytes()[at] == b'0' { '1' } else { '0' };
            format!("{}{other}{}", &text[..at], &text[at + 1..])
        };
        Self {
            running: NOBODYS.to_owned(),
            done: NOBODYS.to_owned(),
            session: altered(&self.session),
            event: altered(&self.event),
            key: self.key.clone(),
        }
    }

    fn all(&self) -> [&String; 4] {
        [&self.running, &self.done, &self.session, &self.event]
    }

    /// A text in which all of these names are the same.
    fn masked(&self, text: &str) -> String {
        self.all()
            .iter()
            .fold(text.to_owned(), |text, name| text.replace(name.as_str(), "NAME"))
    }
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or("none")
}

#[test]
fn invariant_5_what_is_a_principals_exists_for_it_alone() {
    let [home, foreign] = ["https://home.example", "https://foreign.example"].map(Issuer::named);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("home.json"), home.key_set()).unwrap();
    fs::write(folder.path().join("foreign.json"), foreign.key_set()).unwrap();
    let auth = "api_keys = true\nsame_user = false\n\
        [[server.auth.issuer]]\nissuer = \"https://home.example\"\njwks = \"home.json\"\n\
        [[server.auth.issuer]]\nissuer = \"https://foreign.example\"\njwks = \"foreign.json\"\n\
        [server.limits]\nunknown_ids_per_second = 100000\ndenied_per_second = 100000\n\
        [[tool]]\nname = \"handed\"\ndescription = \"brings task_wait and task_cancel\"\ncommand = [\"true\"]\nhandoff = \"10s\"";
    let server = Protected::start_in(folder, &format!("public_url = {PUBLIC_URL:?}"), auth, "127.0.0.1:0");
    let [by_key, other_key, revoked] = ["ann", "bob", "cyd"].map(|name| server.key(&["add", name]));
    server.becomes(&revoked, 200);
    assert_eq!(exit(&server.keys(&["revoke", "cyd"])), 0);
    server.becomes(&revoked, 401);
    let by_token = home.token("ann", EVERYTHING, PUBLIC_URL, 600);
    let owners = [("token", bearer(&by_token)), ("key", bearer(&by_key))];

    let other_subject = home.token("bob", EVERYTHING, PUBLIC_URL, 600);
    let other_issuer = foreign.token("ann", EVERYTHING, PUBLIC_URL, 600);
    let others = [
        ("other subject", bearer(&other_subject)),
        ("other issuer, same subject", bearer(&other_issuer)),
        ("other key", bearer(&other_key)),
    ];
    let others = others.map(|(name, who)| {
        let session = session(&server, &who);
        (name, who, session)
    });
    let of = |issuer: &Issuer, audience: &str, life| bearer(&issuer.token("ann", EVERYTHING, audience, life));
    let nobody = [
        ("expired", of(&home, PUBLIC_URL, -600)),
        ("wrong audience", of(&home, "https://other.example/mcp", 600)),
        ("wrong key", of(&Issuer::named("https://home.example"), PUBLIC_URL, 600)),
        (
            "unknown issuer",
            of(&Issuer::named("https://no.example"), PUBLIC_URL, 600),
        ),
        ("revoked key", bearer(&revoked)),
        ("no token", String::new()),
    ];
    let named = || READS.iter().chain(STREAMS).chain(WRITES);
    for (kind, owner) in &owners {
        let theirs = Names::of(&server, owner, format!("the-key-of-the-{kind}"));
        let nobodys = theirs.of_nobody();
        let same = owners.iter().filter(|(other, _)| other != kind).map(|(_, who)| {
            // A key of the name of a token's subject is somebody else, and so is the token for the key.
            ("same name, other kind", who.clone(), session(&server, who))
        });
        for (name, who, own) in others.iter().cloned().chain(same) {
            for (what, ask) in named() {
                let found = raw(&server, &ask.request(&who, &theirs, &own));
                let unknown = raw(&server, &ask.request(&who, &nobodys, &own));
                println!("{kind}\t{what}\t{name}\t{}", status(&found));
                assert_eq!(theirs.masked(&found), nobodys.masked(&unknown), "{what}, {name}");
                assert!(!found.is_empty(), "{what}, {name}");
            }
            for (what, ask) in LISTS {
                let found = raw(&server, &ask.request(&who, &theirs, &own));
                println!("{kind}\t{what}\t{name}\t{}", status(&found));
                assert_eq!(status(&found), "200", "{what}, {name}: {found}");
                let is_absent = |id: &&String| !found.contains(id.as_str());
                assert!(theirs.all().iter().all(is_absent), "{what}, {name}: {found}");
            }
        }
        for (name, who) in &nobody {
            let mut answers = BTreeSet::new();
            for (what, ask) in named().chain(LISTS) {
                for names in [&theirs, &nobodys] {
                    // The session of the owner, as if it was stolen, and one that there is not.
                    let answer = raw(&server, &ask.request(who, names, &names.session));
                    println!("{kind}\t{what}\t{name}\t{}", status(&answer));
                    answers.insert(answer);
                }
            }
            let statuses: Vec<&str> = answers.iter().map(|answer| status(answer)).collect();
            assert_eq!(statuses, ["401"], "{name}: {answers:?}");
        }
        // All of that changed nothing, and each request asks for something that is there.
        let session = session(&server, owner);
        for (what, ask) in READS.iter().chain(STREAMS) {
            let mine = raw(&server, &ask.request(owner, &theirs, &theirs.session));
            let unknown = raw(&server, &ask.request(owner, &nobodys, &theirs.session));
            println!("{kind}\t{what}\towner\t{}", status(&mine));
            assert_eq!(status(&mine), "200", "{what}: {mine}");
            assert_ne!(theirs.masked(&mine), nobodys.masked(&unknown), "{what}");
        }
        let listed = raw(&server, &LISTS[0].1.request(owner, &theirs, &session));
        listed.has(&theirs.running).has(&theirs.done);
        let again = raw(&server, &LISTS[1].1.request(owner, &theirs, &session));
        assert_eq!(task_in(&again), theirs.running);
        let running = raw(&server, &modern(owner, "tasks/get", task(&theirs.running)));
        assert!(running.contains("\"working\""), "{running}");
        for (what, ask) in WRITES {
            let mine = raw(&server, &ask.request(owner, &theirs, &session));
            let unknown = raw(&server, &ask.request(owner, &nobodys, &session));
            println!("{kind}\t{what}\towner\t{}", status(&mine));
            // What was deleted or cancelled by the request before is there no more, or over.
            let repeated = [
                "legacy delete",
                "legacy task_cancel",
                "tasks/cancel",
                "legacy tasks/cancel",
            ];
            let differs = theirs.masked(&mine) != nobodys.masked(&unknown);
            assert!(differs || repeated.contains(what), "{what}: {mine}");
        }
    }
}

/// The socket in the data directory makes whoever opens it `local`: only the server's own user can.
#[cfg(target_os = "linux")]
#[test]
#[expect(clippy::disallowed_methods, reason = "the user is that of one thread")]
fn the_owners_socket_is_not_for_other_users() {
    use rustix::{
        process::{Gid, Uid},
        thread::{set_thread_res_gid, set_thread_res_uid},
    };
    /// A user that has no processes.
    const OTHER_USER: u32 = 54_321;
    if !rustix::process::geteuid().is_root() {
        eprintln!("not root: the test is left out");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("jobs.toml"), JOBS).unwrap();
    let (file, data) = (folder.path().join("jobs.toml"), folder.path().join("data"));
    let mut owner = longhaul(&["stdio", file.to_str().unwrap(), "--data-dir", data.to_str().unwrap()])
        .stdin(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let socket = data.join("owner.sock");
    while std::os::unix::net::UnixStream::connect(&socket).is_err() {
        assert!(owner.try_wait().unwrap().is_none(), "it has ended");
        std::thread::yield_now();
    }
    // Others may go as far as to the data directory.
    fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let refused = std::thread::spawn(move || {
        // Of this thread alone.
        let (user, group) = (Uid::from_raw(OTHER_USER), Gid::from_raw(OTHER_USER));
        set_thread_res_gid(group, group, group).unwrap();
        set_thread_res_uid(user, user, user).unwrap();
        std::os::unix::net::UnixStream::connect(socket).map(drop)
    });
    let refused = refused.join().unwrap().expect_err("it is not theirs");
    assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
    owner.kill().unwrap();
    owner.wait().unwrap();
}
