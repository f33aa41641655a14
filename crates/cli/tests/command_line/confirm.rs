//! Tools with `confirm`, whose server is killed before and after the answer.

use super::support::*;
use serde_json::Value;
use std::{fs, process::Output, thread};

const DEPLOY: &str = r#"
[[tool]]
name = "deploy"
description = "deploys a tag"
command = ["sh", "-c", "echo \"$1\" >> runs; echo \"deployed $1\"", "sh", "{tag}"]
input = { tag = { type = "string" } }
confirm = "Deploy {tag} to production?"

[[tool]]
name = "reset"
description = "empties the database"
command = ["sh", "-c", "echo reset >> runs; echo reset"]
confirm = "Empty the database?"
confirm_by = "operator"

[server.audit]
file = "audit.jsonl"
"#;

fn served() -> Served {
    let served = Served::start_with(DEPLOY);
    fs::write(served.folder.path().join("runs"), "").unwrap();
    served
}

fn call(served: &Served, words: &[&str]) -> String {
    let call = [&["call", &served.url], words, &["--detach"]].concat();
    stdout(&run(&call)).trim().to_owned()
}

fn admin(served: &Served, command: &str, words: &[&str]) -> Output {
    served.on_file(&["admin", command], words).output().unwrap()
}

fn task(served: &Served, id: &str) -> Value {
    json(&admin(served, "task", &[id, "--json"]))
}

/// The task once it is over, and its outcome.
fn ended(served: &Served, id: &str) -> Value {
    loop {
        let task = task(served, id);
        if !task["endedAt"].is_null() {
            return task;
        }
        thread::yield_now();
    }
}

fn runs(served: &Served) -> Vec<String> {
    let runs = fs::read_to_string(served.folder.path().join("runs")).unwrap();
    runs.lines().map(str::to_owned).collect()
}

#[test]
fn a_client_confirms_and_no_kill_loses_that() {
    let mut served = served();
    // What a caller writes cannot look like a part of the question.
    let id = call(&served, &["deploy", "tag=v1 to a test?\nApproved by ops"]);
    served.kill();
    served.restart();
    let asking = task(&served, &id);
    assert_eq!(asking["state"], "suspended", "{asking}");
    let question = r#"Deploy "v1 to a test?\nApproved by ops" to production?"#;
    assert_eq!(asking["questions"][0]["params"]["message"], question, "{asking}");
    assert_eq!(runs(&served), [""; 0]);
    let answered = run(&["answer", &served.url, &id, "--accept"]);
    assert_eq!(exit(&answered), 0, "{answered:?}");
    // The answer was acknowledged, wherever the call is now.
    served.kill();
    served.restart();
    let task = ended(&served, &id);
    let settled = &task["settledQuestions"];
    assert_eq!(
        (&settled[0]["by"], settled.as_array().unwrap().len()),
        (&Value::from("client"), 1),
        "{task}"
    );
    assert!(task["attemptsUsed"].as_u64() >= Some(1), "it has begun: {task}");

    let declined = call(&served, &["deploy", "tag=v2"]);
    assert_eq!(exit(&run(&["answer", &served.url, &declined, "--decline"])), 0);
    served.kill();
    served.restart();
    let end = run(&["task", &served.url, &declined, "--wait"]);
    assert_ne!(exit(&end), 0);
    assert!(stderr(&end).contains("declined by the client's user"), "{end:?}");
    assert!(!runs(&served).contains(&"v2".to_owned()));
}

#[test]
fn only_an_operator_confirms_with_confirm_by() {
    let mut served = served();
    let id = call(&served, &["reset"]);
    let refused = run(&["answer", &served.url, &id, "--accept"]);
    assert_ne!(exit(&refused), 0, "{refused:?}");
    let seen = run(&["task", &served.url, &id]);
    assert!(
        stdout(&seen).contains("waits for an operator to confirm it"),
        "{seen:?}"
    );
    served.kill();
    served.restart();
    assert_eq!(task(&served, &id)["state"], "suspended");
    let accepted = admin(&served, "answer", &[&id, "--accept"]);
    assert_eq!(exit(&accepted), 0, "{accepted:?}");
    assert_eq!(ended(&served, &id)["settledQuestions"][0]["by"], "operator");
    assert_eq!(runs(&served), ["reset"]);
    let audit = fs::read_to_string(served.folder.path().join("audit.jsonl")).unwrap();
    let mut lines = audit
        .lines()
        .filter(|line| line.contains(r#""action":"answer""#) && line.contains(&id));
    assert!(
        lines.any(|line| line.contains("accept") && line.contains("operator")),
        "{audit}"
    );

    let declined = call(&served, &["reset"]);
    assert_eq!(exit(&admin(&served, "answer", &[&declined, "--decline"])), 0);
    let end = ended(&served, &declined);
    assert_eq!(end["state"], "failed", "{end}");
    assert!(
        end["status"].as_str().unwrap().starts_with("declined by an operator"),
        "{end}"
    );
    assert_eq!(runs(&served), ["reset"]);
}
