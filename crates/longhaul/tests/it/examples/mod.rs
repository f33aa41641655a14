//! The examples as processes, killed while they run.

mod crashes;
mod known;
mod process;

use process::{Running, Server, first_line, get, program};
use serde_json::json;
use std::{fs, path::Path, process::Stdio};

/// The job runs on in its service while the server is dead; the next server finds it by its id.
#[tokio::test]
async fn a_job_is_submitted_once_and_found_again_after_a_crash() {
    let mut service = program("jobs");
    service.args(["--service", "127.0.0.1:0"]).stdout(Stdio::piped());
    let mut service = Running(service.spawn().unwrap());
    let url = first_line(&mut service.0);
    let submitted = async || get(format!("{url}/jobs")).await;

    let data = tempfile::tempdir().unwrap();
    let server = || {
        let mut jobs = program("jobs");
        jobs.env("JOBS_SERVICE", &url);
        Server::start(jobs, data.path())
    };
    let mut before = server();
    let task = before.call("render", json!({"scene": "beach", "seconds": 2}));
    while submitted().await != r#"{"jobs":1}"# {
        before.until(&task, |state| state["status"] == "working");
    }
    before.kill();

    let result = server().result(&task);
    assert_eq!(result["content"][0]["text"], "beach is in renders/0-beach.png");
    assert_eq!(submitted().await, r#"{"jobs":1}"#);
}

#[test]
fn a_release_resumes_after_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let server = || {
        let mut release = program("release");
        release.env("RELEASE_FOLDER", folder.path());
        Server::start(release, &folder.path().join("data"))
    };
    let mut before = server();
    let task = before.call("release", json!({"rev": "1.4"}));
    before.until(&task, |state| state["status"] == "input_required");
    before.kill();

    // If it were built again, this text would be in it.
    fs::write(folder.path().join("src/greeting.txt"), "Good bye!\n").unwrap();
    let mut after = server();
    after.accept(&task, &json!({"approved": true, "window": "2026-01-01T00:00:00Z"}));
    let result = after.result(&task);
    assert_eq!(result["structuredContent"]["smoke"], json!({"files": 2, "lines": 3}));
    let artefact = result["structuredContent"]["artefact"].as_str().unwrap();
    let artefact = fs::read_to_string(Path::new(artefact)).unwrap();
    assert!(artefact.starts_with(&task) && artefact.contains("Hello!"), "{artefact}");
}

#[test]
fn files_that_cannot_be_counted_are_left_out_if_the_user_agrees() {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in [("a.txt", "one two"), ("b.txt", "three"), ("c.txt", "four five six")] {
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    let picture = folder.path().join("picture.png");
    fs::write(&picture, b"\x89PNG").unwrap();

    let data = tempfile::tempdir().unwrap();
    let mut before = Server::start(program("fan_out"), data.path());
    let task = before.call("survey", json!({"folder": folder.path()}));
    before.until(&task, |state| state["status"] == "input_required");
    before.kill();

    let mut after = Server::start(program("fan_out"), data.path());
    after.accept(&task, &json!({"leave_out": true}));
    let result = after.result(&task);
    assert_eq!(result["structuredContent"], json!({"words": 6, "left_out": [picture]}));
}
