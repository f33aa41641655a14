//! How the attempts of commands end while their server is dead.

use super::support::{Place, until};
use serde_json::{Value, json};

const JOBS: &str = r#"
[server]
name = "test"
listen = "127.0.0.1:0"
data_dir = "data"

[[tool]]
name = "gate"
description = "tidies up at Ctrl-C"
command = ["sh", "-c", "trap 'echo tidied > tidied; exit 3' INT; echo run >> runs; while [ -e jobs.toml ]; do sleep 0.02; done"]
task = "always"
success = [0, 3]
timeout = "2s"
stop = { signal = "SIGINT", grace = "1h" }
retry = { attempts = 3, on = ["crash", "error"] }
"#;

/// Its supervisor ends the command, with the tool's own signal, and the next server says why.
#[test]
fn a_timeout_passes_while_the_server_is_dead() {
    let place = Place::with(JOBS);
    let server = place.serve(&[]);
    let id = server.begin();
    until("the command runs", || place.runs() == 1);
    server.kill();
    until("the command has tidied up", || place.file("tidied").exists());

    let server = place.serve(&[]);
    let shown = server.run(&["task", &id, "--wait"]);
    let said = String::from_utf8_lossy(&shown.stderr).into_owned() + &String::from_utf8_lossy(&shown.stdout);
    assert!(!shown.status.success(), "{said}");
    assert!(said.contains("timeout of 2s passed; sh exited with code 3"), "{said}");
    assert_eq!(place.runs(), 1, "it was not retried");
    let history = server.run(&["task", &id, "--history", "--json"]);
    let history: Value = serde_json::from_slice(&history.stdout).unwrap();
    let attempt = &history["entries"][0];
    assert_eq!(attempt["state"], "failed");
    assert_eq!(attempt["exit"], json!({"code": 3, "timedOut": true}));
}
