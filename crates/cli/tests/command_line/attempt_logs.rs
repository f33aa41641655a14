//! The logs of attempts: that of the latest one, and those of the attempts before it.

use super::support::*;
use serde_json::Value;

const FLAKY: &str = r#"
[[tool]]
name = "flaky"
description = "fails once"
command = ["sh", "-c", "[ -e failed ] && echo fine && exit; touch failed; echo the first reason >&2; exit 4"]
retry = { attempts = 2, backoff = "10ms", on = ["error"] }
task = "always"
"#;

#[test]
fn the_log_of_an_earlier_attempt_is_read_by_its_number() {
    let served = Served::start_with(FLAKY);
    let url = served.url.as_str();
    let started = run(&["call", url, "flaky", "--detach"]);
    let id = stdout(&started).trim().to_owned();
    let ended = run(&["task", url, &id, "--wait"]);
    assert_eq!((exit(&ended), stdout(&ended)), (0, "fine\n"), "{ended:?}");

    let data = served.folder.path().join("data");
    let data = data.to_str().unwrap();
    let readers: [&[&str]; 2] = [&["task", url, &id, "--log"], &["admin", "log", data, &id]];
    for reader in readers {
        let read = |attempt: &[&str]| run(&[reader, attempt].concat());
        assert_eq!(stdout(&read(&[])), "fine\n");
        assert_eq!(stdout(&read(&["--attempt", "1"])), "the first reason\n", "{reader:?}");
        assert_eq!(stdout(&read(&["--attempt", "2"])), "fine\n");
        read(&["--attempt", "3"]).fails().says("no log of an attempt 3");
        assert_eq!(exit(&read(&["--attempt", "0"])), 2);
    }
    let history = run(&["task", url, &id, "--history"]);
    history.prints("exit code 4: the first reason");
    let shown = run(&["admin", "task", data, &id, "--json"]);
    let shown: Value = serde_json::from_str(stdout(&shown)).unwrap();
    assert_eq!(shown["attempts"][0]["lastLine"], "the first reason", "{shown}");
}

/// More than a server gives at once, and a line at its end that is not complete.
#[test]
fn a_log_is_printed_from_its_beginning_while_its_task_runs() {
    let long = r#"
[[tool]]
name = "long"
description = "asks after many lines"
command = ["sh", "-c", "seq 1 400000; printf 'go on? '; while [ ! -e gate ]; do sleep 0.02; done; echo yes"]
task = "always"
"#;
    let served = Served::start_with(long);
    let url = served.url.as_str();
    let started = run(&["call", url, "long", "--detach"]);
    let id = stdout(&started).trim().to_owned();
    let log = |options: &[&str]| run(&[&["task", url, &id, "--log"], options].concat());
    while !stdout(&log(&["--tail"])).ends_with("go on? \n") {}
    let all: String = (1..=400_000).map(|line| format!("{line}\n")).collect();
    let read = log(&[]);
    assert_eq!(exit(&read), 0, "{}", stderr(&read));
    let is_whole = stdout(&read) == format!("{all}go on? \n");
    assert!(is_whole, "{} bytes of {}", read.stdout.len(), all.len() + 8);
    let tail = log(&["--tail"]);
    assert!(tail.stdout.len() <= 64 * 1024 + 1, "{}", tail.stdout.len());
    served.open_gate();
    run(&["task", url, &id, "--wait"]).ends(0);
    let read: Value = serde_json::from_str(stdout(&log(&["--json"]))).unwrap();
    assert!(read["log"] == format!("{all}go on? yes\n"), "{}", stderr(&log(&[])));
    assert_eq!(read["taskId"], id);
}
