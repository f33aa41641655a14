//! The isolation matrix with real keys and tokens: to another principal a task does not exist, and who is not known learns nothing.
//!
//! Everything that can be asked for is in the matrix of the server's own tests; here is who asks.

use super::{
    auth::{Protected, bearer},
    issuers::Issuer,
    support::*,
};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    fs,
    io::{Read, Write},
    net::TcpStream,
};

const PUBLIC_URL: &str = "https://jobs.example/mcp";
const EVERYTHING: &str = "tools:* tasks:write";
/// An id that was never announced, as long as all are.
const NOBODYS: &str = "0123456789abcdefghjkmnpqrstvwxyz0123";

/// Everything that names a task. What changes something is last.
fn requests(task: &str) -> Vec<(&'static str, Value)> {
    let part = |part: &str| json!({"uri": format!("longhaul://task/{task}/{part}")});
    let follow = |tool: &str| json!({"name": tool, "arguments": {"task": task}});
    vec![
        ("tasks/get", json!({"taskId": task})),
        ("subscriptions/listen", json!({"notifications": {"taskIds": [task]}})),
        ("resources/read", part("log")),
        ("resources/read", part("output")),
        ("resources/read", part("history")),
        ("tools/call", follow("task_wait")),
        (
            "tasks/update",
            json!({"taskId": task, "inputResponses": {"a": {"action": "decline"}}}),
        ),
        ("tools/call", follow("task_cancel")),
        ("dev.longhaul/tasks/delete", json!({"taskId": task})),
        ("tasks/cancel", json!({"taskId": task})),
    ]
}

/// The whole response, without its date and with the task's id masked.
fn raw(server: &Protected, token: &str, method: &str, mut params: Value, task: &str) -> String {
    let name = ["name", "taskId", "uri"].iter().find_map(|name| params[*name].as_str());
    let name = name.map(|name| format!("Mcp-Name: {name}\r\n")).unwrap_or_default();
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
    });
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let headers = if token.is_empty() { String::new() } else { bearer(token) };
    let mut connection = TcpStream::connect(server.address).unwrap();
    write!(
        connection,
        "POST /mcp HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n\
         {name}{headers}Content-Length: {}\r\n\r\n{body}",
        server.address,
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    let lines = answer.split("\r\n").filter(|line| !line.starts_with("date: "));
    lines.collect::<Vec<_>>().join("\r\n").replace(task, "TASK")
}

#[test]
fn invariant_5_a_task_exists_for_its_principal_alone() {
    let (home, foreign) = (
        Issuer::named("https://home.example"),
        Issuer::named("https://foreign.example"),
    );
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("home.json"), home.key_set()).unwrap();
    fs::write(folder.path().join("foreign.json"), foreign.key_set()).unwrap();
    let auth = "api_keys = true\nsame_user = false\n\
        [[server.auth.issuer]]\nissuer = \"https://home.example\"\njwks = \"home.json\"\n\
        [[server.auth.issuer]]\nissuer = \"https://foreign.example\"\njwks = \"foreign.json\"\n\
        [server.limits]\nunknown_ids_per_second = 1000";
    let server = Protected::start_in(folder, &format!("public_url = {PUBLIC_URL:?}"), auth, "127.0.0.1:0");
    let key = server.key(&["add", "ann"]);
    let other_key = server.key(&["add", "bob"]);
    let revoked = server.key(&["add", "cyd"]);
    server.becomes(&revoked, 200);
    assert_eq!(exit(&server.keys(&["revoke", "cyd"])), 0);
    server.becomes(&revoked, 401);

    let ann = home.token("ann", EVERYTHING, PUBLIC_URL, 600);
    let create = |token: &str| {
        let call = json!({"name": "gate", "arguments": {"code": 0}});
        let (status, created) = server.post(&bearer(token), "tools/call", call);
        assert_eq!(status, 200, "{created}");
        created["result"]["taskId"].as_str().unwrap().to_owned()
    };
    let [by_token, by_key] = [create(&ann), create(&key)];
    let others = [
        home.token("bob", EVERYTHING, PUBLIC_URL, 600),
        // The same subject of another issuer, and a key of the same name, are somebody else.
        foreign.token("ann", EVERYTHING, PUBLIC_URL, 600),
        other_key,
    ];
    for (task, more) in [(&by_token, &key), (&by_key, &ann)] {
        for other in others.iter().chain([more]) {
            for ((method, theirs), (_, nobodys)) in requests(task).into_iter().zip(requests(NOBODYS)) {
                let found = raw(&server, other, method, theirs, task);
                let unknown = raw(&server, other, method, nobodys, NOBODYS);
                assert_eq!(found, unknown, "{method}");
                assert!(!found.is_empty() && !found.contains(task.as_str()), "{method}: {found}");
            }
        }
    }
    for unknown in [
        home.token("ann", EVERYTHING, "https://other.example/mcp", 600),
        home.token("ann", EVERYTHING, PUBLIC_URL, -600),
        Issuer::named("https://home.example").token("ann", EVERYTHING, PUBLIC_URL, 600),
        Issuer::named("https://unknown.example").token("ann", EVERYTHING, PUBLIC_URL, 600),
        revoked,
        String::new(),
    ] {
        let mut answers = BTreeSet::new();
        for task in [&*by_token, &*by_key, NOBODYS] {
            for (method, params) in requests(task) {
                answers.insert(loop {
                    let answer = raw(&server, &unknown, method, params.clone(), task);
                    // Who is denied too often must wait.
                    if !answer.starts_with("HTTP/1.1 429") {
                        break answer;
                    }
                });
            }
        }
        let answers = Vec::from_iter(answers);
        assert!(
            answers.len() == 1 && answers[0].starts_with("HTTP/1.1 401"),
            "{answers:?}"
        );
    }
    // All of that changed nothing.
    for (token, task) in [(&ann, &by_token), (&key, &by_key)] {
        let (_, got) = server.post(&bearer(token), "tasks/get", json!({"taskId": task}));
        assert_eq!(got["result"]["status"], "working", "{got}");
    }
}
