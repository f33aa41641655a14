//! `call`, `task` and `check`: what they print, and their exit status.

use super::support::*;
use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader, Read},
};

#[test]
fn results_go_to_standard_output_and_say_by_exit_status_what_they_are() {
    let served = Served::start();
    served.open_gate();
    let url = served.url.as_str();

    let echo = run(&["call", url, "echo", "words=a b", "words=c"]);
    assert_eq!((exit(&echo), stdout(&echo), stderr(&echo)), (0, "a b c\n", ""));
    let through = run(&["call", url, "gate", "code=0"]);
    assert_eq!((exit(&through), stdout(&through)), (0, "through\n"));
    run(&["call", url, "gate", "code=3"]).ends(1).prints("code 3");

    let whole = run(&["call", url, "echo", "words:=[\"x\"]", "--json"]);
    assert_eq!(exit(&whole), 0);
    assert_eq!(json(&whole)["content"][0]["text"], "x\n");
}

/// Clients read all that a task may end with; what they could not read is an error of the tool.
#[test]
fn json_output_that_no_client_could_read_is_a_tool_error() {
    let served = Served::start_with(PRINT);
    let url = served.url.as_str();
    let nested = |levels: usize| format!("text={}{}", "[".repeat(levels), "]".repeat(levels));

    let deepest = run(&["call", url, "print", &nested(97), "--json"]);
    assert_eq!(exit(&deepest), 0, "{deepest:?}");
    let structured = json(&deepest)["structuredContent"].to_string();
    assert_eq!(format!("text={structured}"), nested(97));

    for (text, problem) in [
        (nested(98).as_str(), "nested deeper than 97 levels"),
        (r#"text={"a":"x\udc00y"}"#, "surrogate"),
        (r#"text={"a":1e999}"#, "out of range at line 1 column 10"),
    ] {
        run(&["call", url, "print", text]).ends(1).prints(problem);
    }
}

#[test]
fn mistakes_are_told_apart_by_exit_status() {
    let served = Served::start();
    let url = served.url.as_str();
    let nowhere = "http://127.0.0.1:1/mcp";
    let cases: [(&[&str], i32, &str); 8] = [
        (&["call", url, "echo"], 2, "missing `words` (what to say)"),
        (&["call", url, "gate", "code=x"], 2, "`code` takes a whole number"),
        (&["call", "ftp://localhost/mcp", "echo"], 2, "`ftp:` is not supported"),
        (&["call", nowhere, "echo"], 3, "cannot be reached"),
        (&["task", nowhere, "x"], 3, "cannot be reached"),
        (&["task", nowhere, "x", "--wait"], 3, "cannot be reached"),
        (&["task", url, "nosuch"], 5, "Task not found"),
        (&["task", url, "nosuch", "--wait", "--cancel"], 2, "cannot be used with"),
    ];
    for (words, status, message) in cases {
        let output = run(words);
        assert_eq!(exit(&output), status, "{words:?}: {output:?}");
        assert!(stderr(&output).contains(message), "{words:?}: {output:?}");
        assert_eq!(stdout(&output), "", "{words:?}");
    }
    let unknown = run(&["task", url, "nosuch", "--json"]);
    assert_eq!(json(&unknown)["error"]["code"], -32602);
}

#[test]
fn ctrl_c_leaves_the_task_running_and_says_how_to_get_back() {
    let served = Served::start();
    let call = served.begin(&["--json"]);
    let id = call.id.clone();
    call.interrupt();
    let (status, data, notes) = call.finish();
    assert_eq!(status, 130);
    assert_eq!(serde_json::from_str::<Value>(&data).unwrap()["taskId"], id.as_str());
    let way_back = notes.lines().last().unwrap().trim();
    assert_eq!(way_back, format!("longhaul task {} {id} --wait", served.url));

    let shown = run(&["task", &served.url, &id, "--json"]);
    assert_eq!((exit(&shown), &json(&shown)["status"]), (0, &Value::from("working")));
    served.open_gate();
    let words: Vec<&str> = way_back.split(' ').skip(1).collect();
    let waited = run(&words);
    assert_eq!((exit(&waited), stdout(&waited)), (0, "through\n"));
    let shown = run(&["task", &served.url, &id]);
    assert!(stdout(&shown).contains("succeeded"), "{shown:?}");
    let log = run(&["task", &served.url, &id, "--log"]);
    assert_eq!((exit(&log), stdout(&log)), (0, "through\n"));
    let history = run(&["task", &served.url, &id, "--history", "--json"]);
    let attempts = &json(history.ends(0))["entries"];
    assert_eq!(attempts.as_array().map(Vec::len), Some(1), "{attempts}");
    assert_eq!(attempts[0]["exit"], serde_json::json!({"code": 0}));
    let unknown = run(&["task", &served.url, "nobody", "--history"]);
    assert_eq!(exit(&unknown), 5, "{unknown:?}");
}

/// What the command writes is shown while it runs.
#[test]
fn a_log_is_followed_until_the_task_ends() {
    let talk = r#"
[[tool]]
name = "talk"
description = "says one, and two when the gate is open"
command = ["sh", "-c", "echo one; while [ -e jobs.toml ] && [ ! -e gate ]; do sleep 0.02; done; echo two"]
task = "always"
"#;
    let served = Served::start_with(talk);
    let begun = run(&["call", &served.url, "talk", "--detach"]);
    let id = stdout(&begun).trim();
    let mut following = longhaul(&["task", &served.url, id, "--log", "--follow"])
        .spawn()
        .unwrap();
    let mut log = BufReader::new(following.stdout.take().unwrap());
    let mut line = String::new();
    log.read_line(&mut line).unwrap();
    assert_eq!(line, "one\n");
    served.open_gate();
    let mut rest = String::new();
    log.read_to_string(&mut rest).unwrap();
    let ended = following.wait_with_output().unwrap();
    assert_eq!((exit(&ended), rest.as_str()), (0, "two\n"));
    assert_eq!(stderr(&ended), "the task has ended (succeeded)\n");
    let alone = run(&["task", &served.url, id, "--follow"]);
    assert_eq!(exit(&alone), 2, "{alone:?}");
}

#[test]
fn a_wait_outlives_the_killed_server() {
    let mut served = Served::start();
    let mut call = served.begin(&[]);
    served.kill();
    call.line_with("cannot be reached");
    served.restart();
    call.line_with("answers again");
    served.open_gate();
    let (status, data, _) = call.finish();
    assert_eq!((status, data.as_str()), (0, "through\n"));
}

#[test]
fn a_cancelled_task_ends_the_wait() {
    let served = Served::start();
    let call = served.begin(&[]);
    run(&["task", &served.url, &call.id, "--cancel"]).ends(0);
    let (status, data, _) = call.finish();
    assert_eq!((status, data.as_str()), (4, ""));
}

#[test]
fn check_says_what_would_be_served_or_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.toml");
    let path = file.to_str().unwrap();
    fs::write(&file, JOBS).unwrap();
    run(&["check", path]).ends(0).prints("  gate  ends when somebody");
    let good = json(&run(&["check", path, "--json"]));
    assert_eq!(good["ok"], true);
    assert_eq!(good["tools"][0]["name"], "echo");

    fs::write(&file, JOBS.replace("task = \"never\"", "tsk = \"never\"")).unwrap();
    for command in ["check", "serve"] {
        let bad = run(&[command, path]);
        assert_eq!((exit(&bad), stdout(&bad)), (2, ""), "{command}");
        let why = "unknown key `tsk` in [[tool]] `echo`; did you mean `task`?";
        assert_eq!(stderr(&bad), format!("{path}:10: {why}\n"));
    }
    let bad = run(&["check", path, "--json"]);
    assert_eq!((exit(&bad), &json(&bad)["problems"][0]["line"]), (2, &Value::from(10)));
}

/// 5.0 and 5e0 are integers for a schema; programs want 5.
#[test]
fn an_integer_reaches_the_command_without_fraction_and_formats_are_checked() {
    let tools = r#"
[[tool]]
name = "first"
description = "prints its arguments"
command = ["echo", "{n}", "x{n}", "{list}", "{free}"]
input = { n = { type = "integer", minimum = 0 }, list = { type = "array", items = { type = "integer", minimum = 0 } }, free = { type = "number", minimum = 0 } }
task = "never"

[[tool]]
name = "on"
description = "takes a day"
command = ["echo", "{day}"]
input = { day = { type = "string", format = "date" } }
task = "never"
"#;
    let served = Served::start_with(tools);
    let url = served.url.as_str();
    let call = run(&["call", url, "first", "n:=5.0", "list:=[1.0, 2e1, 3]", "free:=1.0"]);
    assert_eq!((exit(&call), stdout(&call)), (0, "5 x5 1 20 3 1.0\n"), "{call:?}");
    assert_eq!(stdout(&run(&["call", url, "on", "day=2026-02-28"])), "2026-02-28\n");
    let refused = run(&["call", url, "on", "day=2026-02-30"]);
    assert_ne!(exit(&refused), 0);
    format!("{refused:?}").has("date");
}

#[test]
fn a_detached_call_is_a_task_also_of_a_tool_that_answers_quickly() {
    let quick = "\n[[tool]]\nname = \"quick\"\ndescription = \"d\"\ncommand = [\"echo\", \"done\"]\n";
    let served = Served::start_with(quick);
    let url = served.url.as_str();
    assert_eq!(stdout(&run(&["call", url, "quick"])), "done\n");
    let detached = run(&["call", url, "quick", "--detach"]);
    let id = stdout(&detached).trim();
    detached.ends(0);
    assert_eq!(stdout(&run(&["task", url, id, "--wait"])), "done\n");
}
