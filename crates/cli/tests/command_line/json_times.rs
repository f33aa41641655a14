//! Times in what commands print as JSON: RFC 3339 in UTC with milliseconds, and spans of time as numbers of milliseconds whose names end in `Ms`.

use super::support::*;
use serde_json::Value;
use std::fs;

/// What was found in the output of one command.
struct Found<'a> {
    command: &'a str,
    times: usize,
}

impl Found<'_> {
    fn look_at(&mut self, path: &str, value: &Value) {
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    let is_other_unit = ["Millis", "MillisAgo", "Seconds", "Secs", "_ms", "_seconds"]
                        .iter()
                        .any(|unit| name.ends_with(unit));
                    assert!(!is_other_unit, "{}: {path}.{name}", self.command);
                    // The schema of a tool is its author's, and the name of a revision of MCP is a date.
                    if name != "inputSchema" && !name.starts_with("protocol") {
                        self.look_at(&format!("{path}.{name}"), value);
                    }
                }
            }
            Value::Array(values) => values.iter().for_each(|value| self.look_at(path, value)),
            Value::String(text) => {
                let starts_as_date = text.len() >= 10
                    && text.bytes().take(10).enumerate().all(|(at, byte)| match at {
                        4 | 7 => byte == b'-',
                        _ => byte.is_ascii_digit(),
                    });
                if starts_as_date {
                    let is_whole = text.len() == "2026-11-29T04:25:00.000Z".len()
                        && text.as_bytes()[10] == b'T'
                        && text.as_bytes()[19] == b'.'
                        && text.ends_with('Z');
                    assert!(is_whole, "{}: {path} is {text:?}", self.command);
                    self.times += 1;
                }
            }
            Value::Number(number) => {
                let number = number.as_f64().unwrap();
                let is_unix_time = (1.5e9..2.5e9).contains(&number) || (1.5e12..2.5e12).contains(&number);
                assert!(!is_unix_time, "{}: {path} is {number}", self.command);
            }
            Value::Bool(_) | Value::Null => {}
        }
    }
}

#[test]
fn times_have_one_form_in_all_json() {
    let served = Served::start();
    let (file, data) = (
        served.folder.path().join("jobs.toml"),
        served.folder.path().join("data"),
    );
    let (file, data) = (file.to_str().unwrap(), data.to_str().unwrap());
    let id = |code: &str| {
        let call = run(&["call", &served.url, "gate", code, "--detach"]);
        stdout(&call).trim().to_owned()
    };
    let (live, failed) = (id("code=0"), id("code=3"));
    run(&["keys", "add", file, "ci", "--expires", "30d", "--data-dir", data]);
    // One has ended.
    run(&["admin", "cancel", file, &failed, "--data-dir", data]);
    let client = |words: &[&str]| -> Vec<String> { words.iter().map(|word| (*word).to_owned()).collect() };
    let below = |name: &str| served.folder.path().join(name).to_str().unwrap().to_owned();
    let [backup, restored, calls, host] = ["backup.tar", "restored", "calls.jsonl", "mcp.json"].map(below);
    fs::write(&calls, "{\"words\": [\"a\"]}\n").unwrap();
    fs::write(&host, r#"{"mcpServers": {"a": {"command": "true"}}}"#).unwrap();
    let mut commands = vec![
        client(&["tools", &served.url, "--json"]),
        client(&["tasks", "--json"]),
        client(&["tasks", &served.url, "--json"]),
        client(&["task", &live, "--json"]),
        client(&["task", &failed, "--json"]),
        client(&["task", &failed, "--history", "--json"]),
        client(&["call", &served.url, "echo", "words=a", "--json"]),
        client(&["call", &served.url, "gate", "code=0", "--detach", "--json"]),
        client(&["resources", &served.url, "--json"]),
        client(&["prompts", &served.url, "--json"]),
        client(&["cancel", &live, "--json"]),
        client(&["check", file, "--json"]),
        client(&["nodes", file, "--data-dir", data, "--json"]),
        client(&["keys", "list", file, "--data-dir", data, "--json"]),
        client(&["backup", file, &backup, "--data-dir", data, "--json"]),
        client(&["restore", &backup, "--data-dir", &restored, "--json"]),
        client(&["watch", &failed, "--json"]),
        client(&["call", &served.url, "echo", "--batch", &calls, "--json"]),
        client(&["import", "cursor", "--file", &host, "--dry-run", "--json"]),
    ];
    for command in ["tasks", "tools", "principals", "upstreams", "stats", "audit", "doctor"] {
        commands.push(client(&["admin", command, file, "--data-dir", data, "--json"]));
    }
    for id in [&live, &failed] {
        let words = ["admin", "task", file, id, "--data-dir", data, "--json"];
        commands.push(client(&words));
    }
    let mut times = 0;
    for command in commands {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let output = run(&words);
        let command = command.join(" ");
        assert_ne!(exit(&output), 2, "{command}: {output:?}");
        let mut found = Found {
            command: &command,
            times: 0,
        };
        for line in stdout(&output).lines() {
            let value: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{command}: {line}"));
            found.look_at("", &value);
        }
        times += found.times;
    }
    assert!(times > 20, "{times} times were seen");
}

/// Every command that needs a server says how to start the one that does not run.
#[test]
fn a_server_that_does_not_run_is_started_so() {
    let mut served = Served::start();
    served.kill();
    let start = format!(
        "start it with `longhaul serve {}/jobs.toml`",
        served.folder.path().display()
    );
    for (command, more) in [
        (&["admin", "tasks"][..], &[][..]),
        (&["admin", "stats"], &[]),
        (&["admin", "drain"], &[]),
        (&["admin", "cancel"], &["8jp8bw"]),
        (&["nodes"], &[]),
        (&["nodes", "cordon"], &["1"]),
    ] {
        let output = served.on_file(command, more).output().unwrap();
        output.ends(3).says("no server runs for").says(&start);
    }
    // Nobody listens there.
    let nowhere = "http://127.0.0.1:1/mcp";
    for words in [
        &["tools", nowhere][..],
        &["call", nowhere, "echo", "words=a"],
        &["tasks", nowhere],
        &["task", nowhere, "x"],
        &["resources", nowhere],
        &["prompts", nowhere],
    ] {
        run(words).ends(3).says("start it with `longhaul serve FILE`");
    }
}
