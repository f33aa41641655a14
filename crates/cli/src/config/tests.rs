//! Good files, and a table of bad ones with what is said about each.

use super::limits::LimitsConfig;
use super::*;
use longhaul_core::{Retry, RetryOn, TaskPolicy};
use longhaul_server::{Limits, http::HttpOptions};
use serde_json::json;
use std::{fs, num::NonZeroU32};
use tempfile::TempDir;

/// Enough for a file to be sound, to which a test adds what it is about.
const SERVER: &str = "[server]\nname = \"box\"\n";
const TOOL: &str = "[[tool]]\nname = \"t\"\ndescription = \"d\"\n";

fn surroundings() -> Surroundings {
    Surroundings {
        home: Some("/home/me".into()),
        state_home: None,
        cores: 6,
    }
}

fn folder_with(text: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("jobs.toml"), text).unwrap();
    folder
}

/// What is wrong with `text`, one line each, without the folder.
fn problems_in(folder: &TempDir) -> Vec<String> {
    let prefix = format!("{}/", folder.path().display());
    let error = load(&folder.path().join("jobs.toml"), &surroundings())
        .unwrap_err()
        .to_string();
    error.lines().map(|line| line.replace(&prefix, "")).collect()
}

#[test]
fn the_smallest_file_gets_every_default() {
    let folder = folder_with(&format!("{SERVER}{TOOL}command = [\"true\"]\n"));
    let config = load(&folder.path().join("jobs.toml"), &surroundings()).unwrap();
    assert_eq!(
        config.server,
        ServerConfig {
            name: "box".to_owned(),
            listen: "127.0.0.1:7411".parse().unwrap(),
            data_dir: "/home/me/.local/state/longhaul/box".into(),
            max_running: 6,
            max_body: 4 << 20,
            strict_headers: false,
            queue_timeout: 86_400_000,
            http: HttpOptions::default(),
            idle_exit: 60_000,
            limits: LimitsConfig::default(),
        }
    );
    let tool = &config.tools[0];
    assert_eq!(
        tool.input_schema,
        json!({"type": "object", "properties": {}, "required": [], "additionalProperties": false})
    );
    assert_eq!((tool.cwd.as_path(), tool.stdin.as_str()), (folder.path(), ""));
    assert_eq!(
        (tool.task, tool.deadline, tool.retention),
        (TaskPolicy::Optional, None, 86_400_000)
    );
    assert_eq!(
        (tool.max_output, tool.max_log, tool.concurrency),
        (1 << 20, 256 << 20, None)
    );
    assert_eq!(
        (&tool.output, &tool.progress, &tool.retry),
        (&Output::Text, &None, &Retry::default())
    );
    assert!(tool.env.is_empty() && tool.annotations.is_empty() && tool.allow_leading_dash.is_empty());
}

#[test]
fn every_key_can_be_set() {
    let folder = folder_with(
        r#"
[server]
name = "build-box"
listen = "[::1]:0"
data_dir = "~/data"
max_running = 8
max_body = "1MiB"
strict_headers = true
queue_timeout = "1h30m"
allowed_origins = ["https://app.example.com", "http://box:3000"]
allowed_hosts = ["mcp.example.com"]
legacy_sse = true
idle_exit = "5m"

[server.limits]
live_tasks = 3
stored = "1GiB"
connections = 20
connections_in_all = 30
streams = 7
streams_in_all = 9
requests_per_second = 50
requests_per_second_in_all = 60

[[tool]]
name = "hash_tree"
description = "SHA-256 of every file below a folder"
command = ["find", "{path}", "-type", "f", "-exec", "sha256sum", "{{}}", "+"]
env = { LC_ALL = "C" }
cwd = "sub"
stdin = "{text}"
input = { path = { type = "string", pattern = "^[/.]" }, text = { type = "string" } }
optional = ["text"]
allow_leading_dash = ["path"]
output = "json"
output_schema = "out.json"
progress = '(?<current>\d+)/(?<total>\d+)'
task = "after"
task_after = "2s"
immediate_response = "Hashing has begun."
handoff = "45s"
deadline = "1h"
retention = "7d"
max_output = "64KiB"
max_log = "1GB"
concurrency = 2
retry = { attempts = 3, backoff = "0s", on = ["crash", "error"] }
annotations = { title = "Hash", readOnlyHint = true, idempotentHint = true }

[[tool]]
name = "other"
description = "from a file"
command = ["echo", "{word}"]
input_schema = "in.json"
task = "always"
"#,
    );
    fs::create_dir(folder.path().join("sub")).unwrap();
    fs::write(folder.path().join("out.json"), r#"{"type":"array"}"#).unwrap();
    let in_json = r##"{"type":"object","properties":{"word":{"$ref":"#/$defs/w"}},"$defs":{"w":{"type":"string"}}}"##;
    fs::write(folder.path().join("in.json"), in_json).unwrap();

    let config = load(&folder.path().join("jobs.toml"), &surroundings()).unwrap();
    assert_eq!(config.server.data_dir, Path::new("/home/me/data"));
    assert_eq!(config.server.listen, "[::1]:0".parse().unwrap());
    assert_eq!(
        (config.server.queue_timeout, config.server.strict_headers),
        (5_400_000, true)
    );
    let http = HttpOptions {
        allowed_origins: ["https://app.example.com", "http://box:3000"]
            .map(|origin| origin.parse().unwrap())
            .to_vec(),
        allowed_hosts: vec!["mcp.example.com".parse().unwrap()],
        legacy_sse: true,
    };
    assert_eq!((config.server.http, config.server.idle_exit), (http, 300_000));

    let tool = &config.tools[0];
    assert_eq!(tool.cwd, folder.path().join("sub"));
    assert_eq!(tool.input_schema["required"], json!(["path"]));
    assert_eq!(tool.input_schema["properties"]["path"]["pattern"], "^[/.]");
    assert_eq!(tool.optional.iter().collect::<Vec<_>>(), ["text"]);
    assert_eq!(tool.allow_leading_dash.iter().collect::<Vec<_>>(), ["path"]);
    assert_eq!(tool.output, Output::Json(Some(json!({"type": "array"}))));
    assert_eq!((tool.task, tool.handoff), (TaskPolicy::After(2_000), Some(45_000)));
    assert_eq!(tool.immediate_response.as_deref(), Some("Hashing has begun."));
    let limits = Limits {
        requests_per_second: NonZeroU32::new(50),
        requests_per_second_in_all: NonZeroU32::new(60),
        connections: 20,
        connections_in_all: 30,
        streams: 7,
        streams_in_all: 9,
    };
    assert_eq!(config.server.limits.front, limits);
    assert_eq!((tool.deadline, tool.retention), (Some(3_600_000), 604_800_000));
    assert_eq!(
        (tool.max_output, tool.max_log, tool.concurrency),
        (64 << 10, 1_000_000_000, Some(2))
    );
    assert_eq!(
        tool.retry,
        Retry {
            attempts: 3,
            backoff: 0,
            on: vec![RetryOn::Crash, RetryOn::Error]
        }
    );
    let annotations = json!({"title": "Hash", "readOnlyHint": true, "idempotentHint": true});
    assert_eq!(serde_json::Value::from(tool.annotations.clone()), annotations);
    assert_eq!(config.tools[1].optional.iter().collect::<Vec<_>>(), ["word"]);
    assert_eq!(config.tools[1].task, TaskPolicy::Always);
}

/// The block that documents every key, values included that are only there to show their form.
#[test]
fn the_documented_example_is_sound() {
    let folder = folder_with(
        r#"
[server]                         # every key but `name` has a default
name = "build-box"
listen = "127.0.0.1:7411"
data_dir = "~/.local/state/longhaul/build-box"
max_running = 8
max_body = "4MiB"
strict_headers = false
queue_timeout = "24h"

[[tool]]
name = "hash_tree"
description = "SHA-256 of every file below a folder"
command = ["find", "{path}", "-type", "f", "-exec", "sha256sum", "{{}}", "+"]
env = { LC_ALL = "C" }
cwd = "."
stdin = "{text}"
input = { path = { type = "string", pattern = "^[/.]", description = "folder to hash" }, text = { type = "string" } }
optional = ["text"]
allow_leading_dash = []
output = "text"
progress = '(?<current>\d+)/(?<total>\d+)'
task = "optional"
task_after = "5s"
deadline = "1h"
retention = "24h"
max_output = "1MiB"
max_log = "256MiB"
concurrency = 2
retry = { attempts = 3, backoff = "10s", on = ["crash"] }
annotations = { readOnlyHint = true, idempotentHint = true }
"#,
    );
    let config = load(&folder.path().join("jobs.toml"), &surroundings()).unwrap();
    assert_eq!(config.tools[0].task, TaskPolicy::Optional);
}

/// Each file, after `[server]` and `[[tool]]` where it has neither, and every line said about it.
#[test]
fn bad_files_are_explained() {
    let table: &[(&str, &[&str])] = &[
        // The document.
        (
            "",
            &[
                "jobs.toml: the section [server] is missing; it needs at least name = \"...\"",
                "jobs.toml: there is no [[tool]]: nothing would be served",
            ],
        ),
        (
            "[server]\nname = \nlisten = [1,,2]\n",
            &[
                "jobs.toml:2: string values must be quoted, expected literal string",
                "jobs.toml:3: extra comma in array, expected value",
            ],
        ),
        (
            "[sever]\nname = \"x\"\n+tool",
            &[
                "jobs.toml: the section [server] is missing; it needs at least name = \"...\"",
                "jobs.toml:1: unknown key `sever`; did you mean `server`?",
            ],
        ),
        (
            "+server\n[tool]\nname = \"x\"\n",
            &["jobs.toml:3: `tool` must be one or more sections [[tool]] (with two brackets), not a table"],
        ),
        // [server]
        (
            "[server]\nlisten = \"127.0.0.1:80\"\n+tool",
            &["jobs.toml:1: [server] needs the key `name`"],
        ),
        (
            "[server]\nname = \"../x\"\n+tool",
            &[
                "jobs.toml:2: `name` must be 1 to 64 of A-Z a-z 0-9 _ - . and not start with a dot: it names a folder too",
            ],
        ),
        (
            "+server\nlisten = 7411\n+tool",
            &["jobs.toml:3: `listen` must be an address such as \"127.0.0.1:7411\", not 7411"],
        ),
        (
            "+server\nlisten = \"7411\"\n+tool",
            &[
                "jobs.toml:3: `listen`: write an IP address and a port, for example \"127.0.0.1:7411\" or \"[::1]:7411\"",
            ],
        ),
        (
            "+server\nlisten = \"0.0.0.0:7411\"\n+tool",
            &[
                "jobs.toml:3: `listen`: only a loopback address (127.0.0.1, ::1) is served: without authentication everybody who reaches the port could run every tool",
            ],
        ),
        (
            "+server\ndata_dir = \"~you/x\"\n+tool",
            &["jobs.toml:3: `data_dir`: only `~` and `~/...` stand for a home folder; write the path in full"],
        ),
        (
            "+server\nmax_running = 0\n+tool",
            &["jobs.toml:3: `max_running` must be a whole number from 1 to 10000, not 0"],
        ),
        (
            "+server\nmax_body = \"4 megs\"\n+tool",
            &[
                "jobs.toml:3: `max_body`: \"4 megs\" is not a size above 0; write for example \"64KiB\", \"4MiB\" or \"1GB\"",
            ],
        ),
        (
            "+server\nmax_body = 4096\n+tool",
            &["jobs.toml:3: `max_body` must be a size such as \"64KiB\" or \"4MiB\", not 4096"],
        ),
        (
            "+server\nstrict_headers = \"yes\"\n+tool",
            &["jobs.toml:3: `strict_headers` must be true or false, not \"yes\""],
        ),
        (
            "+server\nallowed_origins = [\"*\", \"https://a\", \"b/c\"]\n+tool",
            &[
                "jobs.toml:3: `allowed_origins`: \"*\": an origin is a scheme and a host, for example \"https://app.example.com\": no path, no blanks, no *",
                "jobs.toml:3: `allowed_origins`: \"b/c\": an origin is a scheme and a host, for example \"https://app.example.com\": no path, no blanks, no *",
            ],
        ),
        (
            "+server\nqueue_timeout = \"1 day\"\n+tool",
            &[
                "jobs.toml:3: `queue_timeout`: `1 day` is not a duration; write for example \"500ms\", \"5s\", \"1h30m\" or \"7d\"",
            ],
        ),
        (
            "+server\nqueue_timeout = \"0s\"\n+tool",
            &["jobs.toml:3: `queue_timeout` must be longer than 0"],
        ),
        (
            "+server\nqueue_timout = \"1s\"\n+tool",
            &["jobs.toml:3: unknown key `queue_timout` in [server]; did you mean `queue_timeout`?"],
        ),
        // [[tool]]: what it is
        (
            "+server\n[[tool]]\nname = \"a\"\n",
            &[
                "jobs.toml:3: [[tool]] `a` needs the key `description`",
                "jobs.toml:3: [[tool]] `a` needs the key `command`",
            ],
        ),
        (
            "+server\n[[tool]]\ndescription = \"d\"\ncommand = [\"x\"]\n",
            &["jobs.toml:3: [[tool]] needs the key `name`"],
        ),
        (
            "+server\n[[tool]]\nname = \"a b\"\ndescription = \" \"\ncommand = [\"x\"]\n",
            &[
                "jobs.toml:4: \"a b\" is not a tool name: 1 to 128 of A-Z a-z 0-9 _ - . make one",
                "jobs.toml:5: `description` must not be empty",
            ],
        ),
        (
            "+server\n+tool+tool",
            &["jobs.toml:8: there is a tool `t` already, at line 4"],
        ),
        (
            "+tool\nretntion = \"1h\"\n",
            &["jobs.toml:7: unknown key `retntion` in [[tool]] `t`; did you mean `retention`?"],
        ),
        (
            "+tool\npostgres_url = \"x\"\n",
            &["jobs.toml:7: unknown key `postgres_url` in [[tool]] `t`; the nearest known name is `progress`"],
        ),
        // Commands and templates
        (
            "+t\ncommand = \"ls -l\"\n",
            &["jobs.toml:6: `command` must be an array of strings, not \"ls -l\""],
        ),
        (
            "+t\ncommand = []\n",
            &["jobs.toml:6: `command` must name a program, for example [\"sha256sum\", \"{path}\"]"],
        ),
        (
            "+t\ncommand = [\"\"]\n",
            &["jobs.toml:6: the first element of `command` must be a program"],
        ),
        (
            "+t\ncommand = [\n\"ls\",\n5]\n",
            &["jobs.toml:8: `command` must be an array of strings; an element is 5"],
        ),
        (
            "+t\ncommand = [\"ls\",\n\"{path\",\n\"a } b\"]\n",
            &[
                "jobs.toml:7: `command`: column 1: `{` is never closed; write `{name}` for a property, `{{` for a literal brace",
                "jobs.toml:8: `command`: column 3: `}` closes nothing; write `}}` for a literal brace",
            ],
        ),
        (
            "+t\ncommand = [\"ls\", \"{pth}\"]\ninput = { path = { type = \"string\" } }\n",
            &["jobs.toml:6: `command`: `{pth}` names no property of the input; did you mean `path`?"],
        ),
        (
            "+t\ncommand = [\"ls\", \"{path}\"]\n",
            &[
                "jobs.toml:6: `command`: `{path}` names no property of the input; declare it: input = { path = { type = \"string\" } }",
            ],
        ),
        (
            "+t\ncommand = [\"{path}\"]\ninput = { path = { type = \"string\" } }\n",
            &["jobs.toml:6: the program is taken as it stands, so `{path}` would not be replaced in it"],
        ),
        (
            "+tool\nstdin = \"{}\"\n",
            &[
                "jobs.toml:7: `stdin`: column 1: `{}` names no property; write `{name}` for a property, `{{}}` for literal braces",
            ],
        ),
        (
            "+tool\nenv = { A = 1, \"B=C\" = \"secret\" }\n",
            &[
                "jobs.toml:7: `env.A` must be a string; put it in quotes",
                "jobs.toml:7: \"B=C\" is not a variable: a name has no `=`, and neither name nor value a NUL",
            ],
        ),
        (
            "+tool\ncwd = \"nowhere\"\n",
            &["jobs.toml:7: `cwd`: nowhere is not a folder"],
        ),
        // Input
        (
            "+tool\ninput = { a = { type = \"string\" } }\ninput_schema = \"in.json\"\n",
            &["jobs.toml:8: give either `input` or `input_schema`, not both"],
        ),
        (
            "+tool\noptional = [\"a\"]\ninput_schema = \"in.json\"\n",
            &["jobs.toml:7: `optional` goes with `input`; a schema file says itself what is required"],
        ),
        (
            "+tool\ninput = { path = {}, text = {} }\noptional = [\"txt\", \"path\"]\n",
            &["jobs.toml:8: `optional` names the property `txt`, which the input does not have; did you mean `text`?"],
        ),
        (
            "+tool\nallow_leading_dash = [\"x\"]\n",
            &[
                "jobs.toml:7: `allow_leading_dash` names the property `x`, which the input does not have; the tool has no properties",
            ],
        ),
        (
            "+tool\ninput = { a = \"string\" }\n",
            &["jobs.toml:7: `input.a` must be a JSON Schema such as { type = \"string\" }"],
        ),
        (
            "+tool\n[tool.input]\na = { type = \"string\" }\nb = { type = \"strin\" }\n",
            &[
                "jobs.toml:9: `input` is not a JSON Schema: /properties/b/type: \"strin\" is not valid under any of the schemas listed in the 'anyOf' keyword",
            ],
        ),
        (
            "+tool\ninput = { a = { pattern = \"(\" } }\n",
            &["jobs.toml:7: `input` is not a JSON Schema: /properties/a/pattern: \"(\" is not a \"regex\""],
        ),
        (
            "+tool\ninput = { a = { \"$ref\" = \"https://example.com/s.json\" } }\n",
            &[
                "jobs.toml:7: `input` is not a JSON Schema: /properties/a/$ref refers to \"https://example.com/s.json\"; nothing is fetched from files or networks, so only references within the schema (\"#/$defs/...\") work",
            ],
        ),
        (
            "+tool\ninput = { a = { const = 2026-01-01 } }\n",
            &["jobs.toml:7: `input.a` holds a date (put it in quotes), which JSON does not know"],
        ),
        (
            "+tool\ninput_schema = \"missing.json\"\n",
            &["jobs.toml:7: `input_schema`: missing.json cannot be read: No such file or directory (os error 2)"],
        ),
        (
            "+tool\ninput_schema = \"jobs.toml\"\n",
            &["jobs.toml:7: `input_schema`: jobs.toml is not JSON: expected value at line 1 column 2"],
        ),
        (
            "+tool\ninput_schema = \"array.json\"\n",
            &["jobs.toml:7: `input_schema`: the schema of arguments must say \"type\": \"object\""],
        ),
        (
            "+tool\ninput_schema = \"file_ref.json\"\n",
            &[
                "jobs.toml:7: `input_schema`: file_ref.json is not a JSON Schema: /$ref refers to \"other.json\"; nothing is fetched from files or networks, so only references within the schema (\"#/$defs/...\") work",
            ],
        ),
        // Output
        (
            "+tool\noutput = \"jsn\"\n",
            &["jobs.toml:7: `output` must be one of \"text\", \"json\", not \"jsn\""],
        ),
        (
            "+tool\noutput_schema = \"array.json\"\n",
            &["jobs.toml:7: `output_schema` needs output = \"json\""],
        ),
        (
            "+tool\nprogress = \"(\"\n",
            &["jobs.toml:7: `progress` is not a regular expression: unclosed group"],
        ),
        (
            "+tool\nprogress = '(\\d+)%'\n",
            &[
                "jobs.toml:7: `progress` needs a group `current`, and may have one `total`: '(?<current>\\d+)/(?<total>\\d+)'",
            ],
        ),
        // Running
        (
            "+tool\ntask = \"sometimes\"\n",
            &["jobs.toml:7: `task` must be one of \"never\", \"optional\", \"after\", \"always\", not \"sometimes\""],
        ),
        (
            "+tool\ntask_after = 5\n",
            &["jobs.toml:7: `task_after` must be a duration such as \"500ms\", \"5s\", \"1h\" or \"7d\", not 5"],
        ),
        (
            "+tool\nconcurrency = 0\n",
            &["jobs.toml:7: `concurrency` must be a whole number from 1 to 10000, not 0"],
        ),
        (
            "+tool\nretry = 3\n",
            &[
                "jobs.toml:7: `retry` must be a table such as { attempts = 3, backoff = \"10s\", on = [\"crash\"] }, not 3",
            ],
        ),
        (
            "+tool\nretry = { attempt = 3, on = [\"crsh\"] }\n",
            &[
                "jobs.toml:7: `retry` needs the key `attempts`",
                "jobs.toml:7: `on` must be one of \"crash\", \"error\", not \"crsh\"",
                "jobs.toml:7: unknown key `attempt` in `retry`; did you mean `attempts`?",
            ],
        ),
        (
            "+tool\nretry = { attempts = 2, on = [] }\n",
            &["jobs.toml:7: `on` must name \"crash\", \"error\" or both; leave out `retry` to run nothing again"],
        ),
        (
            "+tool\nannotations = { readonlyHint = true, idempotentHint = 1 }\n",
            &[
                "jobs.toml:7: `idempotentHint` must be true or false, not 1",
                "jobs.toml:7: unknown key `readonlyHint` in `annotations`; did you mean `readOnlyHint`?",
            ],
        ),
    ];
    let mut surprises = String::new();
    for (text, expected) in table {
        let text = complete(text);
        let folder = folder_with(&text);
        fs::write(folder.path().join("in.json"), r#"{"type":"object"}"#).unwrap();
        fs::write(folder.path().join("array.json"), r#"{"type":"array"}"#).unwrap();
        fs::write(
            folder.path().join("file_ref.json"),
            r#"{"type":"object","$ref":"other.json"}"#,
        )
        .unwrap();
        let found = problems_in(&folder);
        if found != *expected {
            surprises.push_str(&format!(
                "--- in\n{text}--- expected {expected:#?}\n--- found {found:#?}\n"
            ));
        }
    }
    assert!(surprises.is_empty(), "{surprises}");
}

/// `+server` and `+tool` stand for sound sections, `+t` for a tool without its command; what has no `+server` and no `[`
/// first gets one.
fn complete(text: &str) -> String {
    let text = if text.starts_with("+t") {
        format!("+server\n{text}")
    } else {
        text.to_owned()
    };
    let text = text
        .replace("+server\n", SERVER)
        .replace("+tool", &format!("{TOOL}command = [\"true\"]\n"));
    text.replace("+t\n", TOOL).replace("]\n\n", "]\n")
}

#[test]
fn all_mistakes_of_a_file_are_reported_at_once_and_in_order() {
    let folder = folder_with(
        "[server]\nlisten = 1\nnam = \"x\"\n[[tool]]\nname = \"a\"\ntask = \"x\"\n[[tool]]\nname = \"b\"\nconcurrency = 0\n",
    );
    let lines: Vec<String> = problems_in(&folder);
    let numbers: Vec<&str> = lines.iter().map(|line| line.split(':').nth(1).unwrap()).collect();
    assert_eq!(numbers, ["1", "2", "3", "4", "4", "6", "7", "7", "9"], "{lines:#?}");
}

#[test]
fn a_file_that_is_not_there_is_said_so() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(
        problems_in(&folder),
        ["jobs.toml: cannot be read: No such file or directory (os error 2)"]
    );
}

#[test]
fn secrets_in_env_are_not_repeated() {
    let folder = folder_with(&format!(
        "{SERVER}{TOOL}command = [\"true\"]\nenv = {{ \"A=\" = \"hunter2\" }}\n"
    ));
    assert!(!problems_in(&folder).concat().contains("hunter2"));
}

#[test]
fn the_quickstart_is_sound() {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/quickstart.toml"));
    let config = load(path, &surroundings()).unwrap();
    assert!(config.tools.len() >= 3);
}
