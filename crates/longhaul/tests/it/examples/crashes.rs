//! The durable examples, killed around each of their writes.

use super::process::{Running, first_line, get, program};
use longhaul::testing::crash::{self, CrashTest};
use serde_json::json;
use std::{fs, path::Path, process::Stdio};

#[path = "../../../examples/fan_out.rs"]
#[allow(dead_code, unreachable_pub, reason = "it is also a program")]
mod fan_out;
#[path = "../../../examples/jobs/main.rs"]
#[allow(dead_code, unreachable_pub, reason = "it is also a program")]
mod jobs;
#[path = "../../../examples/release.rs"]
#[allow(dead_code, unreachable_pub, reason = "it is also a program")]
mod release;
#[path = "../../../examples/under_fire.rs"]
#[allow(dead_code, unreachable_pub, reason = "it is also a program")]
mod under_fire;

#[test]
fn a_release_is_published_once() {
    CrashTest::new(|outside| release::server_in(outside))
        .call("release", json!({"rev": "1.4"}))
        .answering(|_| json!({"action": "accept", "content": {"approved": true, "window": "2026-01-01T00:00:00Z"}}))
        .check_effects(|outside| {
            let names = |folder: &str| -> Vec<_> {
                let entries = fs::read_dir(outside.join(folder)).into_iter().flatten().flatten();
                entries.map(|entry| entry.file_name()).collect()
            };
            match (names("builds").len(), &names("published")[..]) {
                (1, [artefact]) if artefact == "1.4.txt" => Ok(()),
                (builds, published) => Err(format!("{builds} builds, and published {published:?}")),
            }
        })
        .run();
}

#[test]
fn a_survey_survives_crashes() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("survey");
    if !crash::is_child_process() {
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("a.txt"), "one two").unwrap();
        fs::write(folder.join("picture.png"), b"\x89PNG").unwrap();
    }
    CrashTest::new(|_| fan_out::server())
        .call("survey", json!({"folder": folder}))
        .answering(|_| json!({"action": "accept", "content": {"leave_out": true}}))
        .same_output()
        .run();
}

#[test]
fn a_job_is_submitted_once() {
    let port = Path::new(env!("CARGO_TARGET_TMPDIR")).join("jobs-service");
    let service = (!crash::is_child_process()).then(|| {
        let mut service = program("jobs");
        service.args(["--service", "127.0.0.1:0"]).stdout(Stdio::piped());
        let mut service = Running(service.spawn().unwrap());
        fs::write(&port, first_line(&mut service.0)).unwrap();
        service
    });
    let url = fs::read_to_string(port).unwrap();
    let submitted = url.clone();
    let report = CrashTest::new(move |_| jobs::server_for(&url))
        .call("render", json!({"scene": "beach", "seconds": 0}))
        .run();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let jobs = runtime.block_on(get(format!("{submitted}/jobs")));
    // Each run has one call and so one job, whether killed or not.
    assert_eq!(jobs, json!({"jobs": report.runs}).to_string());
    drop(service);
}

#[test]
fn a_chain_of_steps_survives_crashes() {
    for tool in ["chain", "family"] {
        CrashTest::new(|outside| under_fire::server(outside.join("effects")))
            .call(tool, json!({"token": "t", "steps": 3, "millis": 0}))
            .same_output()
            .check_effects(|outside| check_order(&fs::read_to_string(outside.join("effects")).unwrap_or_default()))
            .run();
    }
}

/// Checks that each step has left its trace, and that no step ran again after a later one: a step may run twice only if it was killed
/// before its result was recorded. The branches of the fork may run in any order.
fn check_order(effects: &str) -> Result<(), String> {
    let stages = [&["0"][..], &["1"], &["1/0", "1/1", "1/2"], &["2"]];
    let mut now = 0;
    let mut missing = stages[now].to_vec();
    for line in effects.lines() {
        let step = match *line.split(' ').collect::<Vec<_>>() {
            // A run of the tool, which the steps name.
            ["t", "begin", ..] => continue,
            ["t", step, _] => step,
            _ => return Err(format!("a trace of another call: {line}")),
        };
        let stage = stages.iter().position(|stage| stage.contains(&step));
        match stage.ok_or_else(|| format!("no step: {line}"))? {
            stage if stage == now => {}
            stage if stage == now + 1 && missing.is_empty() => {
                now = stage;
                missing = stages[now].to_vec();
            }
            _ => return Err(format!("{step} is out of order:\n{effects}")),
        }
        missing.retain(|one| *one != step);
    }
    match now + 1 == stages.len() && missing.is_empty() {
        true => Ok(()),
        false => Err(format!("a trace is missing:\n{effects}")),
    }
}
