//! The audit log: what is in it, who reads it, and two processes that write it.

use super::{
    auth::{Protected, bearer, send},
    support::*,
};
use serde_json::{Value, json};
use std::{
    collections::HashSet,
    fs, iter,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

/// By the command and by the server, which writes each line before its answer leaves. No key is in it.
#[test]
fn s_07_who_did_what_is_in_the_audit_log() {
    let audited = "api_keys = true\nsame_user = false\n[server.audit]\nfile = \"audit.jsonl\"";
    let server = Protected::start("", audited, "127.0.0.1:0");
    assert_eq!(server.status("lhk_nobodys"), 401);
    let key = server.key(&["add", "ci"]);
    server.becomes(&key, 200);
    let unknown = json!({"taskId": "0123456789abcdefghjkmnpqrstvwxyz0123"});
    assert_eq!(server.post(&bearer(&key), "tasks/get", unknown).0, 200);
    let text = fs::read_to_string(server.folder.path().join("audit.jsonl")).unwrap();
    assert!(!text.contains(&key) && !text.contains("lhk_"), "{text}");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |action: &str| lines.iter().filter(|line| line["action"] == action).collect::<Vec<_>>();
    let [started] = of("configuration")[..] else {
        panic!("{text}")
    };
    assert_eq!(started["outcome"], "ok");
    let detail = started["detail"].as_str().unwrap();
    detail.has("access: holders of API keys").has("sha256");
    let [by_command, seen] = of("key")[..] else {
        panic!("{text}")
    };
    for line in [by_command, seen] {
        assert_eq!((&line["principal"], &line["outcome"]), (&json!("key:ci"), &json!("ok")));
    }
    assert_eq!(by_command["detail"], "added by longhaul keys");
    assert_eq!(seen["detail"], "added, as the server sees it");
    // Before the server knew the key, requests with it were denied, too.
    let denied = of("denied");
    assert!(denied.iter().all(|line| line["address"] == "127.0.0.1"), "{text}");
    assert_eq!(denied[0]["detail"], "the key is unknown");
    assert_eq!(exit(&server.keys(&["revoke", "ci"])), 0);
    // The first one that is refused may have been admitted a moment before.
    let mut last = Value::Null;
    while last["detail"] != "the key was revoked" {
        server.becomes(&key, 401);
        let text = fs::read_to_string(server.folder.path().join("audit.jsonl")).unwrap();
        last = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        assert_eq!(last["principal"], "key:ci");
    }
    let read = of("read");
    read[0].has_members(json!({"outcome": "unknown", "principal": "key:ci"}));
}

/// Whoever leaves before the answer has called the tool all the same.
#[test]
fn s_07_a_client_that_closes_its_connection_at_once_is_in_the_audit_log() {
    let mark = "[[tool]]\nname = \"mark\"\ndescription = \"writes a line\"\ncommand = [\"sh\", \"-c\", \"echo >> marks\"]\ntask = \"always\"\nconcurrency = 1\n";
    let audited = format!("api_keys = true\n[server.audit]\nfile = \"audit.jsonl\"\n{mark}");
    let server = Protected::start("", &audited, "127.0.0.1:0");
    let key = server.key(&["add", "ci"]);
    server.becomes(&key, 200);
    let call = json!({"name": "mark", "arguments": {}});
    let log = server.folder.path().join("data/longhaul.db-wal");
    let written = || {
        let log = fs::metadata(&log).unwrap();
        (log.len(), log.modified().unwrap())
    };
    for _ in 0..60 {
        let before = written();
        let connection = send(server.address, &bearer(&key), "tools/call", call.clone());
        // The server commits, as far as can be seen from outside.
        while written() == before {
            thread::yield_now();
        }
        drop(connection);
    }
    let (_, last) = server.post(&bearer(&key), "tools/call", call);
    let last = json!({"taskId": last["result"]["taskId"]});
    while server.post(&bearer(&key), "tasks/get", last.clone()).1["result"]["status"] != "completed" {
        thread::yield_now();
    }
    let lines = |file: &str, of: &str| {
        let text = fs::read_to_string(server.folder.path().join(file)).unwrap();
        text.lines().filter(|line| line.contains(of)).count()
    };
    // The tasks before the last one have run before it.
    let run = lines("marks", "");
    assert!(run > 1, "no call was made for a client that had left");
    while lines("audit.jsonl", r#""action":"create""#) < run {
        thread::yield_now();
    }
}

/// An operator reads the log from a shell.
#[test]
fn s_07_the_latest_lines_are_printed() {
    let audited = "api_keys = true\n[server.audit]\nfile = \"audit.jsonl\"";
    let server = Protected::start_in(tempfile::tempdir().unwrap(), "", audited, "127.0.0.1:0");
    let (file, data) = (
        server.folder.path().join("jobs.toml"),
        server.folder.path().join("data"),
    );
    let printed = |words: &[&str]| {
        let (file, data) = (file.to_str().unwrap(), data.to_str().unwrap());
        run(&[&["admin", "audit", file, "--data-dir", data], words].concat())
    };
    server.post(&bearer("lhk_wrong"), "tools/list", json!({}));
    let denied = printed(&["--outcome", "denied", "--json"]);
    let lines = json(&denied);
    assert_eq!(lines["lines"][0]["action"], "denied", "{lines}");
    assert_eq!(lines["lines"].as_array().unwrap().len(), 1, "{lines}");
    let table = printed(&[]);
    let rows: Vec<&str> = stdout(&table).lines().collect();
    assert!(rows[0].starts_with("TIME") && rows[1].contains("denied"), "{rows:?}");
    // The start comes last.
    rows.last().unwrap().has("configuration");
}

/// A server and `longhaul keys` append to one file, and either rotates it. Each line is there once, in a file that was the current one when it was written.
#[test]
fn s_07_a_server_and_longhaul_keys_write_one_audit_log() {
    const KEYS: usize = 40;
    // Long ones, so that a line of the server may fit into a file that was rotated because one of these did not.
    let name = |nth: usize| format!("key-{nth:060}");
    const MAX_SIZE: u64 = 1 << 10;
    let audited = "api_keys = true\nsame_user = false\n[server.limits]\ncalls_per_second = 100000\n\
                   [server.audit]\nfile = \"audit.jsonl\"\nmax_size = \"1KiB\"\nkeep = 9000";
    let server = Protected::start_in(tempfile::tempdir().unwrap(), "", audited, "127.0.0.1:0");
    let key = server.key(&["add", "c"]);
    server.becomes(&key, 200);
    let are_added = AtomicBool::new(false);
    // Nothing is started for it: its arguments are wrong.
    let call = |tool: &str| {
        let params = json!({"name": tool, "arguments": {"words": 1}});
        server.post(&bearer(&key), "tools/call", params).0
    };
    let calls = thread::scope(|scope| {
        let caller = scope.spawn(|| {
            iter::repeat_with(|| call("echo"))
                .take_while(|status| *status == 200 && !are_added.load(Ordering::Relaxed))
                .count()
        });
        for nth in 0..KEYS {
            server.key(&["add", &name(nth)]);
            // There is no such tool. It is recorded after the key.
            call(&format!("a-{nth}"));
        }
        are_added.store(true, Ordering::Relaxed);
        // The last answer ended it and is not counted.
        caller.join().unwrap() + 1
    });
    let last = name(KEYS - 1);
    let files = || {
        let files = fs::read_dir(server.folder.path()).unwrap();
        let names = files.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let number = |name: String| match name.strip_prefix("audit.jsonl")? {
            "" => Some(0),
            number => number.strip_prefix('.')?.parse::<u32>().ok(),
        };
        let mut numbers: Vec<u32> = names.filter_map(number).collect();
        numbers.sort_unstable();
        // The oldest one first.
        let names = numbers.iter().rev().map(|number| match number {
            0 => "audit.jsonl".to_owned(),
            number => format!("audit.jsonl.{number}"),
        });
        // None of them, if one was renamed meanwhile.
        let read = |name| fs::read_to_string(server.folder.path().join(name)).ok();
        names.map(read).collect::<Option<Vec<String>>>().unwrap_or_default()
    };
    let seen = format!("\"principal\":\"key:{last}\",\"detail\":\"added, as the server sees it\"");
    while !files().iter().any(|text| text.contains(&seen)) {
        thread::yield_now();
    }
    let texts = files();
    assert!(texts.len() > 10, "{}", texts.len());
    for text in &texts {
        assert!(text.len() as u64 <= MAX_SIZE, "written after it was full: {text}");
    }
    let events: Vec<Value> = (texts.iter().flat_map(|text| text.lines()))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(events.iter().all(|event| event["lost"].is_null()), "{events:?}");
    let of_calls = events.iter().filter(|event| event["tool"] == "echo").count();
    assert_eq!(of_calls, calls);
    for writer in ["added by longhaul keys", "added, as the server sees it"] {
        let names = events.iter().filter(|event| event["detail"] == writer);
        let names: HashSet<&str> = names.map(|event| event["principal"].as_str().unwrap()).collect();
        assert_eq!(names.len(), KEYS + 1, "{writer}: {names:?}");
    }
    let by_both = events.iter().filter_map(|event| match event["tool"].as_str() {
        Some(tool) => tool.strip_prefix("a-").and_then(|nth| nth.parse().ok()),
        None => (event["principal"].as_str())
            .filter(|_| event["detail"] == "added by longhaul keys")
            .and_then(|name| name.strip_prefix("key:key-")?.parse().ok()),
    });
    // Otherwise one was written into a file that had been rotated.
    let expected: Vec<usize> = (0..KEYS).flat_map(|nth| [nth, nth]).collect();
    assert_eq!(by_both.collect::<Vec<usize>>(), expected);
}

/// The change is made all the same, so its line in the log must not be missed silently.
#[test]
#[cfg(target_os = "linux")]
fn s_07_longhaul_keys_says_when_the_audit_log_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let (file, data) = (folder.path().join("jobs.toml"), folder.path().join("data"));
    let audited = "[server.auth]\napi_keys = true\n[server.audit]\nfile = \"/dev/full\"";
    fs::write(&file, format!("{JOBS}\n{audited}\n")).unwrap();
    let (file, data) = (file.to_str().unwrap(), data.to_str().unwrap());
    let added = run(&["keys", "add", file, "ci", "--data-dir", data]);
    let warning =
        "warning: the change is not in the audit log: cannot write the audit log /dev/full: No space left on device";
    added.ends(0).says(warning);
}
