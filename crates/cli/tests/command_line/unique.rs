//! A tool with `unique`, called by clients of both eras, with tasks and without, of two principals, while its server is killed.

use super::{
    auth::{Protected, bearer},
    isolation::{legacy, modern, raw, send, session, task, task_in},
    support::*,
};
use serde_json::{Value, json};
use std::{fs, io::Read, thread};

/// Each run leaves a line in `runs`, and ends when there is a file `gate`.
const DEPLOY: &str = r#"
api_keys = true
same_user = false

[[tool]]
name = "deploy"
description = "deploys a branch"
command = ["sh", "-c", "echo run >> runs; while [ -e jobs.toml ] && [ ! -e gate ]; do sleep 0.02; done; echo \"deployed $1\"", "sh", "{branch}"]
input = { branch = { type = "string" }, force = { type = "boolean" } }
unique = "{branch}"
"#;

fn deploy(force: bool) -> Value {
    json!({"name": "deploy", "arguments": {"branch": "main", "force": force}})
}

fn runs(server: &Protected) -> usize {
    let runs = fs::read_to_string(server.folder.path().join("runs")).unwrap_or_default();
    runs.lines().count()
}

/// A request of a modern client without tasks.
pub(super) fn plain(who: &str, call: Value) -> String {
    let with_tasks = modern(who, "tools/call", call);
    let (head, body) = with_tasks.split_once("\r\n\r\n").unwrap();
    let mut body: Value = serde_json::from_str(body).unwrap();
    body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    let body = body.to_string();
    let head = head.split("Content-Length").next().unwrap();
    format!("{head}Content-Length: {}\r\n\r\n{body}", body.len())
}

pub(super) fn restart(server: &mut Protected) {
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    (server.child, _) = serve(server.folder.path(), &server.address.to_string());
}

/// What `ann` and `bob` are answered while a task of `ann` is live.
fn check_live(server: &Protected, live: &str, ann: &str, bob: &str, session: &str) {
    assert_eq!(task_in(&raw(server, &modern(ann, "tools/call", deploy(false)))), live);
    let mut with_task = deploy(false);
    with_task["task"] = json!({});
    assert_eq!(
        task_in(&raw(server, &legacy(ann, session, "tools/call", with_task))),
        live
    );
    let other = raw(server, &modern(ann, "tools/call", deploy(true)));
    let data = format!(r#""data":{{"reason":"not_unique","taskId":"{live}"}}"#);
    assert!(other.contains(&data) && other.contains("-32602"), "{other}");
    let found = raw(server, &modern(ann, "tasks/get", task(live)));
    assert!(found.contains("\"working\""), "{found}");
    for theirs in [deploy(false), deploy(true)] {
        let refused = raw(server, &modern(bob, "tools/call", theirs));
        assert!(refused.contains(r#""data":{"reason":"not_unique"}"#), "{refused}");
        assert!(!refused.contains(live), "{refused}");
    }
}

#[test]
fn one_call_with_a_unique_value_is_live_and_the_same_ones_join_it() {
    for is_plain in [false, true] {
        let mut server = Protected::start("", DEPLOY, "127.0.0.1:0");
        let [ann, bob] = ["ann", "bob"].map(|name| {
            let key = server.key(&["add", name]);
            server.becomes(&key, 200);
            bearer(&key)
        });
        let session = session(&server, &ann);
        let call = || task_in(&raw(&server, &modern(&ann, "tools/call", deploy(false))));
        let first = match is_plain {
            // Its caller goes, and can come back.
            true => Err(send(&server, &plain(&ann, deploy(false)))),
            false => Ok(call()),
        };
        while runs(&server) == 0 {
            thread::yield_now();
        }
        let live = first.unwrap_or_else(|caller| {
            drop(caller);
            let refused = raw(&server, &modern(&ann, "tools/call", deploy(true)));
            assert!(refused.contains("not_unique"), "{refused}");
            task_in(&refused)
        });
        check_live(&server, &live, &ann, &bob, &session);
        restart(&mut server);
        check_live(&server, &live, &ann, &bob, &session);

        let in_session = legacy(&ann, &session, "tools/call", deploy(false));
        let mut waiting = [plain(&ann, deploy(false)), in_session].map(|call| send(&server, &call));
        check_live(&server, &live, &ann, &bob, &session);
        fs::write(server.folder.path().join("gate"), "").unwrap();
        for waiting in &mut waiting {
            let mut answer = String::new();
            waiting.read_to_string(&mut answer).unwrap();
            assert!(answer.contains("deployed main"), "{answer}");
        }
        assert_eq!(runs(&server), 1, "they have waited for the same work");
        let ended = raw(&server, &modern(&ann, "tasks/get", task(&live)));
        assert!(ended.contains("\"completed\""), "{ended}");
        // The value is free.
        let next = raw(&server, &modern(&bob, "tools/call", deploy(true)));
        assert!(next.contains("deployed main"), "{next}");
        assert_eq!(runs(&server), 2);
    }
}
