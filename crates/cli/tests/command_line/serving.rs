//! `serve`: its log, its limits, and how it stops.

use super::support::*;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpListener,
    sync::mpsc,
    thread,
    time::Duration,
};

/// The life of each task is told at `info`, requests and plain calls at `debug`, and at no level a whole id or an argument.
#[test]
fn the_log_tells_of_each_task_and_keeps_its_id() {
    let mut ids = Vec::new();
    let mut work = |url: &str| {
        for code in ["0", "3"] {
            let call = run(&["call", url, "gate", &format!("code={code}")]);
            let id = stderr(&call).split_whitespace().nth(1).unwrap().to_owned();
            assert!(run(&["task", url, &id, "--log"]).status.success());
            ids.push(id);
        }
        assert_eq!(exit(&run(&["call", url, "echo", "words=s3cret"])), 0);
    };
    let trace = logged("trace", |url, _| work(url));
    let info = logged("info", |url, _| work(url));
    let warn = logged("", |url, _| work(url));
    let about = |log: &str, id: &str| -> Vec<String> {
        let lines = log
            .lines()
            .filter(|line| line.contains(&id[..14]) && line.contains(" INFO "));
        lines.map(str::to_owned).collect()
    };
    for (log, ids) in [(&trace, &ids[..2]), (&info, &ids[2..4])] {
        for (id, outcome) in ids.iter().zip(["succeeded", "tool error"]) {
            let lines = about(log, id);
            let told = ["created", "attempt started", "ended"];
            assert_eq!(lines.len(), told.len(), "{lines:#?}");
            for (line, told) in lines.iter().zip(told) {
                line.has(told).has("gate").has("principal");
            }
            lines[2].has(outcome).has("duration_ms");
        }
    }
    assert!(trace.contains("request") && trace.contains("tools/call") && trace.contains("echo"));
    assert!(!info.contains("tools/call") && !info.contains("echo"), "{info}");
    assert!(!warn.contains(" INFO ") && !warn.contains("gate"), "{warn}");
    for log in [&trace, &info, &warn] {
        assert!(ids.iter().all(|id| !log.contains(&**id)), "a whole id: {log}");
        assert!(!log.contains("s3cret"), "{log}");
    }
}

/// Each line is an object with the members that collectors look for: those of the log, and what the command says itself.
#[test]
fn a_log_in_json_is_one_object_a_line() {
    let log = logged_as("json", "info", |url, _| {
        assert_eq!(exit(&run(&["call", url, "gate", "code=0"])), 0);
    });
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).expect(line))
        .collect();
    for line in &lines {
        for member in ["timestamp", "level", "message", "target"] {
            assert!(line[member].is_string(), "{member}: {line}");
        }
    }
    let created = lines.iter().find(|line| line["message"] == "created");
    assert_eq!(created.unwrap_or_else(|| panic!("{log}"))["tool"], "gate");
    let last = lines.last().unwrap()["message"].as_str().unwrap();
    assert!(last.starts_with("longhaul: stopped"), "{last}");
}

/// Also why it does not start.
#[test]
fn a_server_that_does_not_start_says_why_in_json() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("jobs.toml"), JOBS).unwrap();
    let wrong = JOBS.replace("[server]", "[server]\nlistne = 1");
    fs::write(folder.path().join("keys.toml"), wrong).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap().to_string();
    for (file, filter, status, told) in [
        ("none.toml", "", 2, "none.toml: cannot be read"),
        ("keys.toml", "", 2, "unknown key `listne`"),
        ("jobs.toml", "no=such=filter", 2, "LONGHAUL_LOG is not a log filter"),
        ("jobs.toml", "", 1, "in use"),
    ] {
        let failed = longhaul(&["serve", file, "--log", "json", "--listen", &taken])
            .current_dir(folder.path())
            .env("LONGHAUL_LOG", filter)
            .output()
            .unwrap();
        let said = stderr(&failed);
        let last: Value = serde_json::from_str(said.lines().last().unwrap()).expect(said);
        let message = last["message"].as_str().unwrap();
        assert!(exit(&failed) == status && message.contains(told), "{file}: {said}");
        assert_eq!(last["level"], "ERROR", "{said}");
    }
    let away = JOBS.replace("[\"echo\"", "[\"no-such-program\"");
    fs::write(folder.path().join("away.toml"), away).unwrap();
    let warned = longhaul(&["serve", "away.toml", "--log", "json", "--listen", &taken])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let first: Value = serde_json::from_str(stderr(&warned).lines().next().unwrap()).unwrap();
    assert_eq!(first["level"], "WARN", "{first}");
    first["message"].as_str().unwrap().has("no-such-program");
}

/// The spans of a task are posted to the collector of the configuration.
#[test]
fn a_collector_is_sent_the_trace_of_a_task() {
    let collector = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", collector.local_addr().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let jobs = JOBS.replace("[server]", &format!("[server]\notlp = \"{url}\""));
    fs::write(folder.path().join("jobs.toml"), jobs).unwrap();
    fs::write(folder.path().join("gate"), "").unwrap();
    let (mut server, address) = serve(folder.path(), "127.0.0.1:0");
    let called = run(&["call", &format!("http://{address}/mcp"), "gate", "code=0"]);
    assert_eq!(exit(&called), 0, "{called:?}");
    let mut sent = String::new();
    while !sent.contains("tools/call gate") {
        let (mut connection, _) = collector.accept().unwrap();
        let mut request = vec![0; 64 << 10];
        let mut length = 0;
        // The head and the small body come in one or two parts.
        while length == 0 || !String::from_utf8_lossy(&request[..length]).contains("longhaul.task") {
            match connection.read(&mut request[length..]).unwrap() {
                0 => break,
                read => length += read,
            }
        }
        sent = String::from_utf8_lossy(&request[..length]).into_owned();
        assert!(sent.starts_with("POST /v1/traces HTTP/1.1"), "{sent}");
        let _ = connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    }
    sent.has("application/x-protobuf").has("longhaul.task.state");
    server.kill().unwrap();
    server.wait().unwrap();
}

/// A command keeps no journal: its history is its attempts, and how each has ended.
#[test]
fn the_history_of_a_command_is_its_attempts() {
    let retried = r#"
[[tool]]
name = "third_time"
description = "succeeds when it is run for the third time"
command = ["sh", "-c", "echo x >> tries; case $(wc -l < tries) in *1) exit 7;; *2) kill -9 $$;; esac"]
task = "always"
retry = { attempts = 3, backoff = "1ms", on = ["crash", "error"] }
"#;
    let served = Served::start_with(retried);
    let call = run(&["call", &served.url, "third_time"]);
    assert_eq!(exit(&call), 0, "{}", stderr(&call));
    let id = stderr(&call).split_whitespace().nth(1).unwrap().to_owned();
    let shown = run(&["task", &served.url, &id, "--history"]);
    let text = stdout(&shown);
    text.has("attempt 1  failed in").has("exit code 7");
    text.has("attempt 2  failed in").has("killed by signal");
    text.has("attempt 3  done in");
    let entries = json(&run(&["task", &served.url, &id, "--history", "--json"]))["entries"].clone();
    assert_eq!(entries[0]["exit"], serde_json::json!({"code": 7}));
    assert_eq!(entries[2]["exit"], serde_json::json!({"code": 0}));
    assert_eq!(entries.as_array().unwrap().len(), 3);
}

#[test]
fn a_log_filter_that_is_none_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.toml");
    fs::write(&file, JOBS).unwrap();
    for command in ["serve", "stdio"] {
        let mut started = longhaul(&[command, file.to_str().unwrap(), "--data-dir=data"]);
        started.current_dir(folder.path()).env("LONGHAUL_LOG", "inof");
        let refused = started.output().unwrap();
        assert_eq!(exit(&refused), 2, "{command}");
        refused.says("LONGHAUL_LOG is not a log filter: `inof` is not a level; did you mean `info`?");
        assert!(!folder.path().join("data").exists());
    }
}

#[test]
fn a_hangup_ends_no_server() {
    let log = logged("warn", |url, server| {
        kill_process(Pid::from_child(server), Signal::HUP).unwrap();
        assert_eq!(exit(&run(&["call", url, "echo", "words=still"])), 0);
    });
    log.has("was read again: what it offers is as before");
}

/// What the file says holds in the engine, which counts tasks, and in the front, which counts the rest.
#[test]
fn the_limits_of_the_file_are_kept() {
    let served = Served::start_with("[server.limits]\nlive_tasks = 1\nconnections = 2\n");
    let waiting = served.begin(&[]);
    let (_connection, refused) = served.post_echo();
    refused.begins_with("HTTP/1.1 429 ").has("retry-after: 10");
    // Both connections are taken now, this one's and the one that waits for the task.
    let (_, refused) = served.post_echo();
    refused.begins_with("HTTP/1.1 429 ").has("retry-after: 5");
    served.open_gate();
    assert_eq!(waiting.finish().0, 0);
    assert_eq!(exit(&run(&["call", &served.url, "echo", "words=x"])), 0);
}

/// A limit on file sizes stands for a full disk: the server's own files cannot grow any more.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_refuses_calls_and_loses_no_task() {
    let served = Served::start();
    let waiting = served.begin(&[]);
    let words = format!("words={}", "x".repeat(64 * 1024));
    let call = || run(&["call", &served.url, "echo", &words]);
    assert_eq!(exit(&call()), 0);

    let unlimited = served.limit_file_size(Some(fs::metadata(served.database()).unwrap().len() + (1 << 20)));
    thread::scope(|scope| {
        // A call that was written and whose end finds no room waits for it, so each has a thread of its own; the next one is refused.
        let (done, calls) = mpsc::channel();
        let refused = loop {
            let done = done.clone();
            scope.spawn(move || done.send(call()));
            match calls.recv_timeout(Duration::from_secs(2)) {
                Ok(call) if exit(&call) != 0 => break call,
                _ => {}
            }
        };
        refused.ends(3).says("no room to write").says_no("may");
        let look = run(&["task", &served.url, &waiting.id]);
        assert!(stdout(&look).contains("running"), "reading goes on: {look:?}");

        served.open_gate();
        served.limit_file_size(unlimited);
    });
    let (code, data, _) = waiting.finish();
    // The outcome was kept until there was room.
    assert_eq!((code, data.as_str()), (0, "through\n"));
    assert_eq!(exit(&call()), 0);
}

#[test]
fn a_call_that_is_open_when_the_server_is_asked_to_stop_may_end() {
    let served = Served::start_with(HELD);
    let call = served.hold();
    served.ask_to_stop();
    served.open_gate();
    let call = call.wait_with_output().unwrap();
    assert_eq!((exit(&call), stdout(&call)), (0, "through\n"));
}

/// Nobody could ask for its result any more.
#[test]
fn the_command_of_a_call_that_does_not_end_in_time_is_told_before_the_server_goes() {
    let mut served = Served::start_with(HELD);
    let call = served.hold_unrecorded();
    served.ask_to_stop();
    let call = call.wait_with_output().unwrap();
    assert_eq!(exit(&call), 3, "{call:?}");
    served.child.wait().unwrap();
    // Told while the server was there, it may still be busy with following.
    served.sees("told");
}
