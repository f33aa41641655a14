//! What a failure says, to people and as JSON.

use crate::{
    scripted::{Received, Reply, created, scripted, task},
    support::*,
};
use serde_json::json;
use std::{
    io::{BufRead, BufReader},
    process::Stdio,
};

/// A script must know whether it may call again.
#[test]
fn a_failed_call_says_whether_it_may_have_run() {
    type Script = fn(&Received) -> Reply;
    let other_id = |_: &Received| Reply::json(200, json!({"jsonrpc": "2.0", "id": 12, "result": {}}));
    let both = |seen: &Received| {
        let error = json!({"code": -1, "message": "x"});
        Reply::json(
            200,
            json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": {}, "error": error}),
        )
    };
    let cases: [(&str, Script, bool, bool); 6] = [
        ("refused", |seen| seen.error(200, -32021), false, false),
        // As some servers say also of the result of a tool.
        ("invalid", |seen| seen.error(200, -32602), true, false),
        ("failed", |seen| seen.error(200, -32603), true, false),
        ("wrong id", other_id, true, true),
        ("both", both, true, true),
        ("no MCP", |_| Reply::json(200, json!([1])), true, true),
    ];
    for (name, script, may_have_run, is_said) in cases {
        let served = scripted(script);
        let called = served.run(&["call", "t", "--json"]);
        assert_eq!(json(&called)["error"]["mayHaveRun"], may_have_run, "{name}: {called:?}");
        let says_so = stderr(&called).contains("the call may or may not have run");
        assert_eq!(says_so, is_said, "{name}: {called:?}");
    }
    let served = scripted(|_| Reply::empty(202));
    let wrong = served.run(&["call", "nosuch", "--json"]);
    exit(&wrong, 2);
    assert_eq!(json(&wrong)["error"]["mayHaveRun"], false);
    assert!(served.calls_of("tools/call").is_empty());
}

/// So does the end of a task, with its id.
#[test]
fn a_failed_task_is_named() {
    let error = json!({"code": -32603, "message": "it does not work"});
    let served = scripted(move |seen| match seen.method() {
        "tools/call" => seen.result(created("t-1")),
        _ => seen.result(task("t-1", "failed", json!({"error": error}))),
    });
    for words in [&["call", "t", "--json"][..], &["task", "t-1", "--wait", "--json"]] {
        let failed = served.run(words);
        exit(&failed, 5);
        let error = &json(&failed)["error"];
        let expected = ["failed", "t-1"];
        assert_eq!([&error["kind"], &error["taskId"]], expected, "{words:?}: {failed:?}");
    }
}

/// Each line of a batch says it, too.
#[test]
fn each_failed_line_of_a_batch_says_whether_it_may_have_run() {
    let served = scripted(|seen| {
        let how = seen.body["params"]["arguments"]["how"].as_str().unwrap_or_default();
        match (seen.method(), how) {
            ("tools/call", "refused") => seen.error(200, -32021),
            ("tools/call", "failed") => seen.error(200, -32603),
            ("tools/call", "nonsense") => Reply::json(200, json!({"jsonrpc": "2.0", "id": 12, "result": {}})),
            ("tools/call", how) => seen.result(created(how)),
            ("tasks/get", _) if seen.body["params"]["taskId"] == "broken" => seen.error(200, -32603),
            ("tasks/get", _) => {
                let error = json!({"code": -32603, "message": "it does not work"});
                seen.result(task("ended", "failed", json!({"error": error})))
            }
            _ => seen.error(404, -32601),
        }
    });
    let hows = ["refused", "failed", "nonsense", "broken", "ended"];
    let file = served.home.path().join("calls.jsonl");
    let lines = hows.map(|how| format!("{}\n", json!({"how": how})));
    std::fs::write(&file, lines.concat()).unwrap();
    let run = served.run(&["call", "t", "--batch", file.to_str().unwrap(), "--concurrency=1"]);
    let ended: Vec<serde_json::Value> = (stdout(&run).lines())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(ended.len(), hows.len(), "{run:?}");
    for (line, may_have_run) in ended.iter().zip([false, true, true, true, true]) {
        assert_eq!(line["error"]["mayHaveRun"], may_have_run, "{line}");
        assert!(line["error"]["kind"].is_string() && line["exit"] != 0, "{line}");
    }
    assert_eq!(ended[4]["error"]["kind"], "failed", "{ended:?}");
}

#[test]
fn a_wrong_command_line_is_an_error_in_json() {
    let served = scripted(|_| Reply::empty(202));
    let wrong = served.run(&["call", "t", "--json", "--bogus"]);
    exit(&wrong, 2);
    let error = &json(&wrong)["error"];
    assert_eq!((&error["kind"], &error["mayHaveRun"]), (&json!("usage"), &json!(false)));
    assert!(error["message"].as_str().unwrap().contains("'--bogus'"), "{error}");
    // The words behind `--` are those of another command.
    let other = served.run(&["call", "t", "--bogus", "--", "server", "--json"]);
    assert_eq!(exit(&other, 2), "");
    served.run(&["tools", "--"]).ends(2).says("no command behind `--`");
}

#[test]
fn a_call_that_is_terminated_says_how_to_go_on() {
    let served = scripted(|seen| match seen.method() {
        "tools/call" => seen.result(created("t-1")),
        _ => seen.result(task("t-1", "working", json!({}))),
    });
    for signal in [rustix::process::Signal::TERM, rustix::process::Signal::HUP] {
        let mut running = served.command(&["call", "t", "--json"]);
        let mut running = running.stdout(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(running.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("running") {
            line.clear();
            assert!(said.read_line(&mut line).unwrap() > 0);
        }
        let pid = rustix::process::Pid::from_child(&running);
        rustix::process::kill_process(pid, signal).unwrap();
        let ended = running.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(143));
        let shown = json(&ended);
        assert_eq!((&shown["taskId"], &shown["interrupted"]), (&json!("t-1"), &json!(true)));
        let mut more = String::new();
        std::io::Read::read_to_string(&mut said, &mut more).unwrap();
        assert!(more.contains("longhaul task t-1 --wait"), "{more}");
    }
}

#[test]
fn a_list_without_end_is_given_up_and_time_may_be_limited() {
    let served = crate::peer::Peer::start(|seen| match seen.method() {
        "server/discover" => seen.result(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
        })),
        // Nothing is sent.
        _ => crate::peer::event_stream({
            let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
            std::mem::forget(sender);
            receiver
        }),
    });
    let home = tempfile::tempdir().unwrap();
    let url = served.url();
    for words in [
        &["tools", &url, "--timeout=100ms", "--json"][..],
        &["resources", &url, "--timeout=100ms", "--json"],
        &["prompts", &url, "--timeout=100ms", "--json"],
        &["call", &url, "--timeout=100ms", "--json"],
        &["call", &url, "t", "--timeout=100ms", "--json"],
    ] {
        let listed = longhaul(words, &home).output().unwrap();
        exit(&listed, 124);
        assert_eq!(json(&listed)["error"]["kind"], "timed_out", "{listed:?}");
    }
}

/// A word that is no recorded task is asked for at the server of the environment, and the error says so.
#[test]
fn a_mistyped_task_names_the_server_that_was_asked() {
    let served = scripted(|seen| match seen.method() {
        "tasks/get" | "tasks/cancel" => seen.error(200, -32602),
        _ => seen.error(404, -32601),
    });
    for words in [
        &["task", "TYPO"][..],
        &["task", "TYPO", "--wait"],
        &["cancel", "TYPO"],
        &["answer", "TYPO", "a=b"],
        &["watch", "TYPO"],
    ] {
        let asked = served.run(words);
        exit(&asked, 5);
        let said = [stdout(&asked), stderr(&asked)].concat();
        let why = format!("no recorded task has the id `TYPO`, so {} was asked", served.url);
        assert!(said.contains(&why), "{words:?}: {said}");
    }
}

#[test]
fn a_server_whose_folder_is_missing_names_it() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("longhaul")).unwrap();
    let missing = home.path().join("missing");
    let servers = format!("[servers.jobs]\ncommand = \"cat\"\ncwd = {missing:?}\n");
    std::fs::write(home.path().join("longhaul/servers.toml"), servers).unwrap();
    for words in [
        &["tools", "jobs"][..],
        &["call", "jobs", "t"],
        &["task", "jobs", "some-task"],
    ] {
        let failed = longhaul(words, &home).output().unwrap();
        exit(&failed, 3);
        let why = format!(
            "`cat` could not be started: its folder {} does not exist",
            missing.display()
        );
        assert!(stderr(&failed).contains(&why), "{words:?}: {failed:?}");
    }
}

#[test]
fn a_name_that_is_neither_a_task_nor_a_server_is_a_wrong_word() {
    let home = tempfile::tempdir().unwrap();
    let mut command = longhaul(&["tasks", "--offline"], &home);
    let listed = command.env("LONGHAUL_SERVER", "nosuch").output().unwrap();
    listed.ends(2).says("there is no server `nosuch`");
}

/// A command line that is not UTF-8 is refused like any other mistake.
#[test]
fn words_that_are_not_utf_8_are_refused() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};
    let home = tempfile::tempdir().unwrap();
    let strange = OsStr::from_bytes(b"\xff\xfe");
    for (words, status) in [
        (&["task"][..], 2),
        (&["tools"], 2),
        (&["call", "http://127.0.0.1:1", "echo"], 2),
    ] {
        let refused = longhaul(words, &home).arg(strange).output().unwrap();
        let text = exit(&refused, status);
        assert!(!text.contains("panicked"), "{words:?}: {text}");
    }
}

/// To MCP both have completed.
#[test]
fn a_task_that_is_watched_says_whether_its_tool_has_failed() {
    let served = scripted(|seen| match seen.method() {
        "tasks/get" => {
            let id = seen.body["params"]["taskId"].as_str().unwrap_or_default();
            let result = json!({"content": [], "isError": id == "t-bad"});
            seen.result(task(id, "completed", json!({"result": result})))
        }
        _ => seen.error(404, -32601),
    });
    let watched = served.run(&["watch", &served.url, "t-good", "t-bad", "--json"]);
    exit(&watched, 1);
    let lines = stdout(&watched);
    let mut ended: Vec<_> = (lines.lines())
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|line| (line["taskId"].clone(), line["state"].clone(), line["isError"].clone()))
        .collect();
    ended.sort_by_key(|(id, ..)| id.to_string());
    let line = |id: &str, is_error: bool| (json!(id), json!("completed"), json!(is_error));
    assert_eq!(ended, [line("t-bad", true), line("t-good", false)]);
}
