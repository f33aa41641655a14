//! A tool with `concurrency_key`, called by two principals, with tasks and without, while its server is killed.

use super::{
    auth::{Protected, bearer},
    isolation::{modern, raw, send, task, task_in},
    unique::{plain, restart},
};
use serde_json::{Value, json};
use std::{fs, io::Read, thread};

/// Each run leaves its branch in `runs`, and `twice` if another one of the branch is on; it ends when there is a file `gate`.
const DEPLOY: &str = r#"
api_keys = true
same_user = false

[[tool]]
name = "deploy"
description = "deploys a branch"
command = ["sh", "-c", "mkdir on-$1 || echo $1 >> twice; echo $1 >> runs; while [ -e jobs.toml ] && [ ! -e gate ]; do sleep 0.02; done; rmdir on-$1; echo \"deployed $1\"", "sh", "{branch}"]
input = { branch = { type = "string" } }
concurrency_key = "{branch}"
"#;

fn deploy(branch: &str) -> Value {
    json!({"name": "deploy", "arguments": {"branch": branch}})
}

fn runs(server: &Protected) -> Vec<String> {
    let runs = fs::read_to_string(server.folder.path().join("runs")).unwrap_or_default();
    let mut runs: Vec<String> = runs.lines().map(str::to_owned).collect();
    runs.sort();
    runs
}

#[test]
fn calls_with_one_value_run_one_after_the_other() {
    let mut server = Protected::start("", DEPLOY, "127.0.0.1:0");
    let [ann, bob] = ["ann", "bob"].map(|who| {
        let key = server.key(&["add", who]);
        server.becomes(&key, 200);
        bearer(&key)
    });
    let call =
        |server: &Protected, who: &str, branch: &str| task_in(&raw(server, &modern(who, "tools/call", deploy(branch))));
    let first = call(&server, &ann, "main");
    while runs(&server).is_empty() {
        thread::yield_now();
    }
    let behind = call(&server, &bob, "main");
    let other = call(&server, &bob, "next");
    let last = call(&server, &ann, "main");
    while runs(&server).len() < 2 {
        thread::yield_now();
    }
    restart(&mut server);
    let waits = raw(&server, &modern(&bob, "tasks/get", task(&behind)));
    assert!(waits.contains(r#""statusMessage":"queued""#), "{waits}");
    let mut waiting = send(&server, &plain(&ann, deploy("main")));
    let running = raw(&server, &modern(&ann, "tasks/get", task(&first)));
    assert!(running.contains("\"working\""), "{running}");
    assert_eq!(runs(&server), ["main", "next"]);

    fs::write(server.folder.path().join("gate"), "").unwrap();
    let mut answer = String::new();
    waiting.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("deployed main"), "{answer}");
    for (who, id) in [(&ann, &first), (&bob, &behind), (&bob, &other), (&ann, &last)] {
        while !raw(&server, &modern(who, "tasks/get", task(id))).contains("\"completed\"") {
            thread::yield_now();
        }
    }
    assert_eq!(runs(&server), ["main", "main", "main", "main", "next"]);
    assert!(!server.folder.path().join("twice").exists());
}
