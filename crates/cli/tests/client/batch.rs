//! Many calls of one file.

use crate::{
    batch_without_answer::with_keys,
    scripted::{Received, Reply, asks, created, form, scripted, scripted_legacy, task},
    support::*,
    terminal::{Keys, Terminal},
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Map, Value, json};
use std::{
    io::{BufRead, BufReader},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

pub(crate) fn lines(output: &std::process::Output) -> Vec<Value> {
    let text = stdout(output);
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn all_calls_of_a_file_are_made() {
    let served = served();
    let calls: String = (1..=300).map(|n| format!("{{\"text\": \"{n}\"}}\n\n")).collect();
    // Some editors write a byte order mark before it.
    let file = served.batch_file(&format!("\u{feff}{calls}"));
    let run = served.run(&["call", "echo", "--batch", &file, "--concurrency", "8"]);
    let text = |line: &Value| line["result"]["content"][0]["text"].as_str().unwrap().to_owned();
    let results = lines(&run);
    let mut results: Vec<_> = results
        .iter()
        .map(|line| (line["line"].as_u64().unwrap(), text(line)))
        .collect();
    results.sort();
    let expected: Vec<_> = (1..=300u64).map(|n| (n * 2 - 1, n.to_string())).collect();
    assert_eq!(results, expected);
    run.ends(0).says("(300 of 300)");
    stderr(&run).finishes_with("300 calls: 300 completed");
}

/// The status is that of the first line that has not succeeded, whichever ended first.
#[test]
fn each_line_ends_in_its_own_way() {
    let served = served();
    let file = served.batch_file(
        r#"{"tool": "echo", "arguments": {"text": "one"}}
{"tool": "book"}
{"tool": "fail", "idempotencyKey": "a"}
{"tool": "echo", "arguments": {"text": "two"}, "idempotencyKey": "b"}
"#,
    );
    let run = served.run(&["call", "--batch", &file]);
    exit(&run, 7);
    let expected = [0, 7, 1, 0];
    assert_eq!([1, 2, 3, 4].map(|number| of(&run, number)["exit"].clone()), expected);
    let asking = of(&run, 2);
    assert_eq!(asking["asks"], true);
    // Its question.
    assert_eq!(asking["inputRequests"].as_object().map(Map::len), Some(1));
    let id = asking["taskId"].as_str().unwrap().to_owned();
    run.says("4 calls: 2 completed, 1 failed with an error of the tool, 1 asking");
    run.says("longhaul tasks");
    // The task is recorded, and goes on.
    served.done(&["answer", &id, "day=2026-11-23"]);
    assert_eq!(served.done(&["task", &id, "--wait"]), "booked for 2026-11-23");
}

#[test]
fn a_mistake_in_any_line_keeps_all_from_being_sent() {
    let served = served();
    let sound = r#"{"tool": "wait", "idempotencyKey": "k"}"#;
    for (text, problem) in [
        (r#"{"tool": "ecco"}"#, "there is no tool `ecco`; did you mean `echo`?"),
        (
            r#"{"tool": "echo", "arguments": {}}"#,
            "\"text\" is a required property",
        ),
        (
            r#"{"tool": "echo", "arguments": {"text": 5}}"#,
            "`text`: 5 is not of type \"string\"",
        ),
        (r#"{"tool": "echo", "argument": {}}"#, "it must be {\"tool\": "),
        ("[]", "it must be {\"tool\": "),
        (r#"["echo", {}]"#, "it must be {\"tool\": "),
        (sound, "another line has the idempotency key `k`"),
    ] {
        let file = served.batch_file(&format!("{sound}\n{text}\n"));
        let run = served.run(&["call", "--batch", &file]);
        assert_eq!(exit(&run, 2), "", "{run:?}");
        run.says(&format!(":2: {problem}"));
        stderr(&run).finishes_with("nothing was called");
    }
    assert_eq!(stderr(&served.run(&["tasks"])), "no calls are recorded");
    let file = served.batch_file("\n");
    exit(&served.run(&["call", "--batch", &file]), 2);
    exit(&served.run(&["call", "echo", "text=x", "--batch", &file]), 2);
    exit(&served.run(&["call", "--batch", "/dev/null"]), 2);
}

#[test]
fn ctrl_c_leaves_the_tasks_running() {
    let served = served();
    let file = served.batch_file(&"{}\n".repeat(20));
    let words = ["call", "wait", "--batch", &file, "--concurrency", "3"];
    let running = served.command(&words).spawn().unwrap();
    let is_live = |call: &&Value| call["state"] == "working" && call["taskId"].is_string();
    let live = || served.listed(&[]).iter().filter(is_live).count();
    while live() < 3 {
        std::thread::yield_now();
    }
    kill_process(Pid::from_child(&running), Signal::INT).unwrap();
    let ended = running.wait_with_output().unwrap();
    exit(&ended, 130);
    ended.says("20 calls: 20 not ended or not sent").says("longhaul tasks");
    assert_eq!(live(), 3, "no more than so many at once");
}

/// What is sent is recorded, and nothing more is sent to a server that is gone.
#[test]
fn a_server_that_is_gone_ends_the_batch() {
    let served = served();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    // A server that lists its tool and closes every connection on which it is called.
    let serving = std::thread::Builder::new().spawn(move || {
        use std::io::{Read, Write};
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut line, mut length) = (String::new(), 0);
            while reader.read_line(&mut line).unwrap_or(0) > 2 {
                if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            if length == 0 || reader.read_exact(&mut body).is_err() {
                continue;
            }
            let request: Value = serde_json::from_slice(&body).unwrap();
            let result = match request["method"].as_str().unwrap() {
                "server/discover" => serde_json::json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {}}),
                "tools/list" => serde_json::json!({"resultType": "complete", "tools": [{"name": "hang", "inputSchema": {"type": "object"}}]}),
                _ => continue,
            };
            let answer = serde_json::json!({"jsonrpc": "2.0", "id": request["id"], "result": result}).to_string();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", answer.len());
            stream.write_all((head + &answer).as_bytes()).unwrap();
        }
    });
    serving.unwrap();
    let file = served.batch_file(&"{}\n".repeat(50));
    let run = served.run(&["call", &url, "hang", "--batch", &file, "--concurrency=1"]);
    exit(&run, 3);
    assert_eq!(lines(&run).len(), 1, "{run:?}");
    run.says("50 calls: 1 of unknown outcome, 49 not ended or not sent");
    let calls = served.listed(&[&url, "--offline"]);
    assert_eq!(calls.len(), 1, "{calls:?}");
    calls[0]["state"].as_str().unwrap().begins_with("outcome unknown");
}

/// A call that was refused because the server is busy has not run. It waits, and so do the others.
#[test]
fn a_busy_server_is_waited_for() {
    let calls = AtomicUsize::new(0);
    let served = scripted(move |seen| match calls.fetch_add(1, Ordering::SeqCst) {
        0 => seen.error(429, 429).header("retry-after", "1"),
        1 => seen.error(503, -32603),
        // A server that fails is there, and may take the next call.
        3 => seen.error(500, -32603),
        _ => seen.result(json!({"resultType": "complete", "content": []})),
    });
    let file = served.batch_file("{}\n{}\n{}\n");
    let run = served.run(&["call", "t", "--batch", &file, "--concurrency", "1"]);
    let exits: Vec<Value> = lines(&run).iter().map(|line| line["exit"].clone()).collect();
    assert_eq!(exits, [0, 3, 0], "{run:?}");
    let sent = served.calls_of("tools/call");
    assert_eq!(sent.len(), 5);
    assert!(sent[1].at - sent[0].at >= Duration::from_secs(1));
}

/// Of several tasks none is answered by chance: what asks is read from the servers, and named.
#[test]
fn an_answer_without_an_id_is_for_the_only_task_that_asks_now() {
    let asking = Arc::new(Mutex::new(vec!["task-2"]));
    let (now_asking, made) = (Arc::clone(&asking), AtomicUsize::new(0));
    let question = json!({"q": form("Who?", json!({"name": {"type": "string"}}))});
    let served = scripted(move |seen| {
        let id = seen.body["params"]["taskId"].as_str().unwrap_or_default();
        match seen.method() {
            "tools/call" => {
                let id = format!("task-{}", made.fetch_add(1, Ordering::SeqCst) + 1);
                seen.result(created(&id))
            }
            "tasks/get" if now_asking.lock().unwrap().contains(&id) => seen.result(asks(id, question.clone())),
            "tasks/get" => seen.result(task(id, "working", json!({}))),
            _ => seen.result(json!({"resultType": "complete"})),
        }
    });
    for _ in 0..3 {
        served.done(&["call", "t", "--detach"]);
    }
    // The journal learns of one that asks, and then another one does.
    served.done(&["task", "task-2"]);
    *asking.lock().unwrap() = vec!["task-3"];
    served.done(&["answer", "name=x"]);
    let updates = served.calls_of("tasks/update");
    assert_eq!(updates.len(), 1);
    assert_eq!(updates[0].body["params"]["taskId"], "task-3");
    *asking.lock().unwrap() = vec!["task-1", "task-3"];
    let refused = served.run(&["answer", "name=x"]);
    refused.ends(2).says("task-1").says("task-3").says_no("task-2");
    asking.lock().unwrap().clear();
    exit(&served.run(&["answer", "name=x"]), 5);
    assert_eq!(served.calls_of("tasks/update").len(), 1);
}

/// Without a terminal each question of a task is shown with its key, and a part of a long key names it.
#[test]
fn all_questions_are_shown_with_their_keys() {
    let question = |text: &str| form(text, json!({"name": {"type": "string"}}));
    let questions = json!({"question-first": question("Who?"), "question-second": question("Where?")});
    let served = scripted(move |seen| match seen.method() {
        "tools/call" => seen.result(created("task-1")),
        "tasks/get" => seen.result(asks("task-1", questions.clone())),
        _ => seen.result(json!({"resultType": "complete"})),
    });
    let called = served.run(&["call", "t"]);
    exit(&called, 7);
    let said = stderr(&called);
    for (text, key) in [("Who?", "question-first"), ("Where?", "question-second")] {
        assert!(said.contains(&format!("the task asks: {text} [{key}]")), "{said}");
        assert!(said.contains(&format!("--question {key}")), "{said}");
    }
    let several = served.run(&["answer", "task-1", "--question", "question", "name=x"]);
    several.ends(2).says("is a part of several keys");
    exit(&served.run(&["answer", "task-1", "--question", "first", "name=x"]), 2);
    served.done(&["answer", "task-1", "--question", "ion-first", "name=x"]);
    let updates = served.calls_of("tasks/update");
    assert_eq!(updates.len(), 1);
    assert!(updates[0].body["params"]["inputResponses"]["question-first"].is_object());
}

/// `nohup` starts a command with SIGHUP ignored.
#[cfg(target_os = "linux")]
#[test]
fn a_hangup_that_was_ignored_from_the_start_ends_nothing() {
    let served = served();
    let id = served.detach("wait");
    let inner = served.command(&["task", &id, "--wait"]);
    let mut command = std::process::Command::new("sh");
    command
        .args(["-c", "trap '' HUP; exec \"$0\" \"$@\""])
        .arg(inner.get_program())
        .args(inner.get_args());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let mut running = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(running.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("running") {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0);
    }
    kill_process(Pid::from_child(&running), Signal::HUP).unwrap();
    served.done(&["cancel", &id]);
    assert_eq!(running.wait().unwrap().code(), Some(4));
}

/// No user has seen the question, so the server gets no answer, not even `cancel`.
#[test]
fn a_call_that_asks_before_there_is_a_task_ends_its_line() {
    let question = || {
        let schema = json!({"type": "object", "properties": {"n": {"type": "string"}}});
        json!({"method": "elicitation/create", "params": {"mode": "form", "message": "which?", "requestedSchema": schema}})
    };
    let done = || json!({"resultType": "complete", "content": []});
    let modern = scripted(move |seen| match seen.body["params"]["arguments"]["asks"] == true {
        true if seen.body["params"]["inputResponses"].is_null() => seen
            .result(json!({"resultType": "input_required", "inputRequests": {"q": question()}, "requestState": "s"})),
        _ => seen.result(done()),
    });
    let legacy = scripted_legacy(move |seen| match (seen.method(), seen.verb.as_str()) {
        ("tools/call", _) if seen.body["params"]["arguments"]["asks"] == true => {
            let mut question = question();
            question["jsonrpc"] = "2.0".into();
            question["id"] = 7.into();
            Reply::stream(&question)
        }
        ("tools/call", _) => seen.result(done()),
        ("", "GET") => Reply::empty(405),
        _ => Reply::empty(202),
    });
    for served in [modern, legacy] {
        let file = served.batch_file("{\"asks\": true}\n{\"asks\": false}\n");
        let run = served.run(&["call", "t", "--batch", &file]);
        exit(&run, 5);
        assert_eq!([1, 2].map(|number| of(&run, number)["exit"].clone()), [5, 0], "{run:?}");
        let error = of(&run, 1)["error"].clone();
        let why = error["message"].as_str().unwrap();
        let expected = "the tool asks before there is a task, which only a call on a terminal, without --batch, can answer; the call is cancelled: which?";
        assert_eq!(why, expected);
        assert_eq!(error["mayHaveRun"], true, "as far as to its question");
        let answers =
            |seen: &Received| !seen.body["params"]["inputResponses"].is_null() || !seen.body["result"].is_null();
        assert!(!served.messages().iter().any(answers), "{:?}", served.messages());
        let calls = served.listed(&["--offline"]);
        assert!(calls.iter().any(|call| call["state"] == "cancelled"), "{calls:?}");
    }
}

fn of(output: &std::process::Output, number: u64) -> Value {
    let ended = lines(output).into_iter().find(|line| line["line"] == number);
    ended.unwrap_or_else(|| panic!("no line {number}: {output:?}"))
}

/// A run is continued until each of its calls has an outcome. The server takes idempotency keys, so all results are printed again.
#[test]
fn the_same_batch_again_continues_what_has_not_ended() {
    let served = served();
    let file = served.batch_file(
        "{\"tool\": \"echo\", \"arguments\": {\"text\": \"one\"}}\n{\"tool\": \"book\"}\n{\"tool\": \"fail\"}\n{\"tool\": \"fail\"}\n",
    );
    let words = ["call", "--batch", &file];
    let first = served.run(&words);
    first.ends(7).says("the same command continues this run");
    let tasks = || served.listed(&[]).len();
    let before = tasks();
    let id = of(&first, 2)["taskId"].as_str().unwrap().to_owned();
    // What was interrupted is still open.
    let second = served.run(&words);
    exit(&second, 7);
    assert_eq!(of(&second, 2)["taskId"], id.as_str());
    assert!(stderr(&second).contains("this continues the run of "), "{second:?}");
    served.done(&["answer", &id, "day=2026-11-23"]);
    let third = served.run(&words);
    exit(&third, 1);
    assert_eq!(of(&third, 1)["result"]["content"][0]["text"], "one");
    assert_eq!(of(&third, 2)["result"]["content"][0]["text"], "booked for 2026-11-23");
    assert_eq!((&of(&third, 3)["exit"], &of(&third, 4)["exit"]), (&1.into(), &1.into()));
    assert_eq!(tasks(), before, "nothing was called again");
    // All calls have an outcome, so this is another run.
    let fourth = served.run(&words);
    exit(&fourth, 7);
    assert_ne!(of(&fourth, 2)["taskId"], id.as_str());
    // So is one that the user wants.
    let fifth = served.run(&[&words[..], &["--repeat", "all"]].concat());
    exit(&fifth, 7);
    assert_ne!(of(&fifth, 2)["taskId"], of(&fourth, 2)["taskId"]);
}

/// It is known by its key, whatever else changes in the file.
#[test]
fn a_line_with_a_key_of_its_own_is_continued_by_it() {
    let served = with_keys(true, |seen| {
        match seen.body["params"]["_meta"]["dev.longhaul/idempotency-key"] == "k" {
            true => seen.result(json!({"resultType": "input_required", "requestState": "s", "inputRequests": {
                "q": {"method": "elicitation/create", "params": {"mode": "form", "message": "which?", "requestedSchema": {"type": "object", "properties": {}}}},
            }})),
            false => seen.error(200, -32602),
        }
    });
    let file = served.batch_file("");
    let words = ["call", "--batch", &file, "--concurrency", "1"];
    for lines in [
        "{\"tool\": \"t\", \"idempotencyKey\": \"k\"}\n{\"tool\": \"t\"}\n",
        "{\"tool\": \"t\", \"idempotencyKey\": \"l\"}\n{\"tool\": \"t\", \"idempotencyKey\": \"k\"}\n",
    ] {
        served.batch_file(lines);
        let run = served.run(&words);
        exit(&run, 5);
        run.says("2 calls: 1 unanswered, 1 refused").says("continues this run");
    }
    let sent = served.calls_of("tools/call");
    let key = |seen: &&Received| seen.body["params"]["_meta"]["dev.longhaul/idempotency-key"] == "k";
    assert_eq!((sent.len(), sent.iter().filter(key).count()), (3, 1));
}

/// Without idempotency keys a call that may have run is not made again, and the user is told which one it is.
#[test]
fn a_call_of_a_batch_that_may_have_run_is_not_repeated_by_itself() {
    let hangs = Arc::new(Mutex::new(true));
    let is_hanging = Arc::clone(&hangs);
    let served = scripted(move |seen| {
        let done = json!({"resultType": "complete", "content": []});
        match seen.body["params"]["arguments"]["n"] == 2 && *is_hanging.lock().unwrap() {
            // No answer comes on the stream.
            true => Reply::stream(&json!({"jsonrpc": "2.0", "method": "notifications/none"})),
            false => seen.result(done),
        }
    });
    let file = served.batch_file("{\"n\": 1}\n{\"n\": 2}\n{\"n\": 3}\n");
    let words = ["call", "t", "--batch", &file, "--concurrency", "1"];
    let calls = || served.calls_of("tools/call").len();
    let mut first = served.command(&words).spawn().unwrap();
    while calls() < 2 {
        std::thread::yield_now();
    }
    first.kill().unwrap();
    first.wait().unwrap();
    *hangs.lock().unwrap() = false;
    for sent in [3, 3] {
        let again = served.run(&words);
        exit(&again, 3);
        assert_eq!(calls(), sent);
        assert_eq!(of(&again, 1)["endedBefore"], "completed");
        let unclear = of(&again, 2);
        unclear["error"].has_members(json!({"kind": "outcome_unknown", "mayHaveRun": true}));
        assert_eq!(of(&again, 3)["exit"], 0);
        again.says("may have run, and not made again by itself: line 2.");
        assert!(stderr(&again).contains("--repeat unknown"), "{again:?}");
        again.says("3 calls: 2 completed, 1 of unknown outcome");
    }
    let repeated = served.run(&[&words[..], &["--repeat", "unknown"]].concat());
    repeated.ends(0).says("3 calls: 3 completed");
    assert_eq!(calls(), 4);
    // The run is over.
    served.done(&words);
    assert_eq!(calls(), 7);
}

/// Each line counts once, however its call ends, and in a run that is continued, too.
#[test]
fn the_bar_counts_each_line_once() {
    let served = served();
    let file = served.batch_file(
        "{\"tool\": \"echo\", \"arguments\": {\"text\": \"one\"}}\n{\"tool\": \"fail\"}\n{\"tool\": \"fail\"}\n{\"tool\": \"book\"}\n{\"tool\": \"wait\"}\n",
    );
    let mut terminal = Terminal::wide(&served, "bar", 120);
    for _ in 0..2 {
        terminal.clear();
        let mut run = terminal.begin(&["call", "--batch", &file, "--concurrency", "5"]);
        run.until("4 of 5 lines done: 2 failed with an error of the tool, 1 asking");
        run.press(&Keys::ctrl('c'));
        run.ends(130);
    }
}

/// Whatever its exit status, each line is in the last message.
#[test]
fn the_summary_counts_every_line() {
    let calls = AtomicUsize::new(0);
    let served = scripted(move |seen| match calls.fetch_add(1, Ordering::SeqCst) {
        0 => seen.result(json!({"resultType": "complete", "content": []})),
        1 => seen.error(200, -32021),
        2 => Reply::empty(403),
        3 => seen.result(json!({"resultType": "unheard of"})),
        _ => seen.result(json!({"resultType": "complete", "content": [], "isError": true})),
    });
    let file = served.batch_file("{}\n{}\n{}\n{}\n{}\n");
    let run = served.run(&["call", "t", "--batch", &file, "--concurrency", "1"]);
    let said = stderr(&run);
    let summary = said.lines().find_map(|line| line.strip_prefix("5 calls: ")).unwrap();
    let counts =
        "1 completed, 1 failed with an error of the tool, 2 refused or failed without a result, 1 of unknown outcome";
    assert_eq!(summary, counts);
    said.has("line 4: of unknown outcome (4 of 5)");
}

/// The others go on, each to its own end, and what is said of the next run is true of it.
#[test]
fn a_line_that_the_server_refuses_changes_no_other() {
    let is_refused = Arc::new(Mutex::new(false));
    let refused = Arc::clone(&is_refused);
    let served = scripted(move |seen| {
        let n = || seen.body["params"]["arguments"]["n"].as_u64().unwrap();
        let id = seen.body["params"]["taskId"].as_str().unwrap_or_default();
        match seen.method() {
            "tools/call" if n() == 5 => {
                *refused.lock().unwrap() = true;
                seen.error(200, -32021)
            }
            "tools/call" => seen.result(task(&format!("task-{}", n()), "working", json!({"resultType": "task"}))),
            "tasks/get" if !*refused.lock().unwrap() => seen.result(task(id, "working", json!({}))),
            "tasks/get" if id == "task-4" => seen.result(task(id, "cancelled", json!({}))),
            "tasks/get" => seen.result(task(id, "completed", json!({"result": {"content": []}}))),
            _ => Reply::empty(404),
        }
    });
    let calls: String = (1..=6).map(|n| format!("{{\"n\": {n}}}\n")).collect();
    let file = served.batch_file(&calls);
    let run = served.run(&["call", "t", "--batch", &file, "--concurrency", "6", "--repeat", "all"]);
    exit(&run, 4);
    let ends: Vec<_> = (1..=6).map(|number| of(&run, number)["exit"].clone()).collect();
    assert_eq!(ends, [0, 0, 0, 4, 5, 0]);
    assert_eq!(lines(&run).len(), 6, "each line ends once");
    assert!(served.calls_of("tasks/cancel").is_empty());
    let said = stderr(&run);
    said.has("6 calls: 4 completed, 1 cancelled, 1 refused or failed without a result");
    // The same command would begin a new run.
    said.has("the same command without --repeat continues this run");
}
