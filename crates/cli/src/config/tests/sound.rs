//! What a good file comes to.

use super::{environment, folder_with, folder_with_server, folder_with_tool, load_in, problems_in, warnings_in};
use crate::config::{
    AuditConfig, Display, Environment, Listen, Output, ServerConfig, Stdin, load,
    server::{auth::AuthConfig, limits::LimitsConfig},
    tool::{AttemptSettings, ConfirmConfig},
};
use longhaul_command::{ArtifactSettings, StopSettings, StopSignal, SuccessCodes};
use longhaul_core::{ConfirmBy, Retry, RetryOn, TaskPolicy};
use longhaul_gateway::Target;
use longhaul_runtime::Handoff;
use longhaul_server::{Limits, http::HttpOptions};
use serde_json::json;
use std::{fs, num::NonZeroU32, os::unix::fs::PermissionsExt as _, path::Path};

#[test]
fn the_smallest_file_gets_every_default() {
    let folder = folder_with_tool("command = [\"true\"]\n");
    let config = load_in(&folder).unwrap();
    assert_eq!(
        config.server,
        ServerConfig {
            name: "box".to_owned(),
            display: Display::default(),
            website_url: None,
            instructions: None,
            listen: Listen::Address("127.0.0.1:7411".parse().unwrap()),
            socket_mode: 0o600,
            shared_store: None,
            data_dir: "/home/me/.local/state/longhaul/box".into(),
            max_running: 6,
            max_body: 4 << 20,
            disk_reserve: 32 << 20,
            strict_headers: false,
            drain_timeout: 0,
            queue_timeout: 86_400_000,
            auth: AuthConfig::default(),
            tls: None,
            audit: None,
            otlp: None,
            http: HttpOptions::default(),
            idle_exit: 60_000,
            limits: LimitsConfig::default(),
        }
    );
    let tool = &config.tools[0];
    let expected = json!({"type": "object", "properties": {}, "required": [], "additionalProperties": false});
    assert_eq!(tool.input_schema, expected);
    assert_eq!(
        (tool.cwd.as_path(), &tool.stdin),
        (folder.path(), &Stdin::Template(String::new()))
    );
    let expected = (TaskPolicy::After(5_000), None, 86_400_000);
    assert_eq!((tool.task, tool.deadline, tool.retention), expected);
    let expected = (64 << 10, 256 << 20, None);
    assert_eq!(
        (tool.output.max_output, tool.output.max_log, tool.queue.concurrency),
        expected
    );
    assert_eq!((&tool.output.format, &tool.output.progress), (&Output::Text, &None));
    let attempt = AttemptSettings {
        success: SuccessCodes::default(),
        timeout: None,
        stop: StopSettings::default(),
        retry: Retry::default(),
    };
    assert_eq!((tool.attempt.clone(), &tool.output.artifacts), (attempt, &None));
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
public_url = "https://mcp.example.com/mcp"
plain_http = "others on the network can read tokens and results"
trusted_proxies = ["10.0.0.0/8", "::1"]
legacy_sse = true
stateful_mode = false
json_response = true
otlp = "http://127.0.0.1:4318"
idle_exit = "5m"

[server.limits]
live_tasks = 3
stored = "1GiB"
connections = 20
connections_in_all = 30
streams = 7
streams_in_all = 9
memory = "64MiB"
requests_per_second = 50
requests_per_second_in_all = 60
denied_per_second = 5
calls_per_second = 6
reads_per_second = 8
unknown_ids_per_second = 7
[server.audit]
file = "logs/audit.jsonl"
max_size = "1MiB"
reads = false
[server.auth]
api_keys = true
same_user = false
unauthenticated = "anyone may call every tool"

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
max_retention = "forever"
max_output = "64KiB"
max_log = "1GB"
artifacts = ["out/*.pdf", "report"]
max_artifacts = "2MiB"
concurrency = 2
concurrency_key = "{path}"
priority = 4
start_rate = "10/m"
unique = "{path}"
labels = { where = "{path}", env = "prod" }
success = [0, 3, 255]
timeout = "10m"
stop = { signal = "SIGINT", grace = "1h" }
retry = { attempts = 3, backoff = "0s", on = ["crash", "timeout", "exit:75", "exit:0075"] }
annotations = { title = "Hash", readOnlyHint = true, idempotentHint = true }

[[tool]]
name = "other"
description = "from a file"
command = ["sh", "-c", "{word}"]
allow_placeholders_in_scripts = true
input_schema = "in.json"
artifacts = true
task = "always"
confirm = "Run {word}?"
confirm_by = "operator"

[[tool]]
name = "third"
description = "what is the default"
command = ["true"]
cwd = "."
allow_leading_dash = []
output = "text"
task = "optional"
task_after = "5s"
"#,
    );
    fs::create_dir(folder.path().join("sub")).unwrap();
    fs::create_dir(folder.path().join("logs")).unwrap();
    fs::write(folder.path().join("out.json"), r#"{"type":"array"}"#).unwrap();
    let in_json = r##"{"type":"object","properties":{"word":{"$ref":"#/$defs/w"}},"$defs":{"w":{"type":"string"}}}"##;
    fs::write(folder.path().join("in.json"), in_json).unwrap();

    let config = load_in(&folder).unwrap();
    assert_eq!(config.server.data_dir, Path::new("/home/me/data"));
    assert_eq!(config.server.listen.address(), "[::1]:0".parse().ok());
    let expected = (5_400_000, true);
    assert_eq!((config.server.queue_timeout, config.server.strict_headers), expected);
    let http = HttpOptions {
        allowed_origins: ["https://app.example.com", "http://box:3000"]
            .map(|origin| origin.parse().unwrap())
            .to_vec(),
        allowed_hosts: vec!["mcp.example.com".parse().unwrap()],
        public_url: Some("https://mcp.example.com/mcp".parse().unwrap()),
        plain_http: true,
        trusted_proxies: vec!["10.0.0.0/8".parse().unwrap(), "::1".parse().unwrap()],
        legacy_sse: true,
        stateful_mode: false,
        json_response: true,
    };
    assert_eq!((config.server.http, config.server.idle_exit), (http, 300_000));
    assert_eq!(config.server.otlp.as_deref(), Some("http://127.0.0.1:4318"));
    let auth = AuthConfig {
        api_keys: true,
        same_user: Some(false),
        issuers: Vec::new(),
        scope_patterns: Vec::new(),
        unauthenticated: true,
    };
    assert_eq!(config.server.auth, auth);

    let tool = &config.tools[0];
    assert_eq!(tool.cwd, folder.path().join("sub"));
    assert_eq!(tool.input_schema["required"], json!(["path"]));
    assert_eq!(tool.input_schema["properties"]["path"]["pattern"], "^[/.]");
    assert_eq!(tool.optional.iter().collect::<Vec<_>>(), ["text"]);
    assert_eq!(tool.allow_leading_dash.iter().collect::<Vec<_>>(), ["path"]);
    assert_eq!(tool.output.format, Output::Json(Some(json!({"type": "array"}))));
    let expected = (TaskPolicy::After(2_000), Handoff::After(45_000));
    assert_eq!((tool.task, tool.handoff), expected);
    assert_eq!(tool.immediate_response.as_deref(), Some("Hashing has begun."));
    let limits = Limits {
        requests_per_second: NonZeroU32::new(50),
        requests_per_second_in_all: NonZeroU32::new(60),
        denied_per_second: NonZeroU32::new(5),
        calls_per_second: NonZeroU32::new(6),
        reads_per_second: NonZeroU32::new(8),
        unknown_ids_per_second: NonZeroU32::new(7),
        connections: 20,
        connections_in_all: 30,
        streams: 7,
        streams_in_all: 9,
        memory: 64 << 20,
    };
    assert_eq!(config.server.limits.protocol, limits);
    let audit = AuditConfig {
        file: Some(folder.path().join("logs/audit.jsonl")),
        stderr: false,
        max_size: 1 << 20,
        keep: 8,
        reads: false,
    };
    assert_eq!(config.server.audit, Some(audit));
    assert_eq!((tool.deadline, tool.retention), (Some(3_600_000), 604_800_000));
    assert_eq!(tool.max_retention, Some(u64::MAX));
    assert_eq!(tool.queue.unique.as_deref(), Some("{path}"));
    let confirm = ConfirmConfig {
        question: "Run {word}?".to_owned(),
        by: ConfirmBy::Operator,
    };
    assert_eq!((&tool.confirm, &config.tools[1].confirm), (&None, &Some(confirm)));
    let labels = [("env", "prod"), ("where", "{path}")].map(|(name, text)| (name.to_owned(), text.to_owned()));
    let mut read = tool.labels.clone();
    read.sort();
    assert_eq!(read, labels);
    assert_eq!(tool.queue.concurrency_key.as_deref(), Some("{path}"));
    let expected = (64 << 10, 1_000_000_000, Some(2));
    assert_eq!(
        (tool.output.max_output, tool.output.max_log, tool.queue.concurrency),
        expected
    );
    let artifacts = ArtifactSettings {
        patterns: vec!["out/*.pdf".to_owned(), "report".to_owned()],
        max_bytes: 2 << 20,
    };
    assert_eq!(tool.output.artifacts, Some(artifacts));
    let artifacts = ArtifactSettings {
        patterns: Vec::new(),
        max_bytes: 1 << 30,
    };
    assert_eq!(config.tools[1].output.artifacts, Some(artifacts));
    assert_eq!(tool.queue.priority.get(), 4);
    assert_eq!(tool.queue.start_rate.map(|rate| rate.spacing()), Some(6_000));
    let attempt = AttemptSettings {
        success: [0, 3, 255].into_iter().collect(),
        timeout: Some(600_000),
        stop: StopSettings {
            signal: StopSignal::Int,
            grace_ms: Some(3_600_000),
        },
        retry: Retry {
            attempts: 3,
            backoff: 0,
            on: vec![RetryOn::Crash, RetryOn::Timeout, RetryOn::Exit(75), RetryOn::Exit(75)],
        },
    };
    assert_eq!(tool.attempt, attempt);
    let annotations = json!({"title": "Hash", "readOnlyHint": true, "idempotentHint": true});
    assert_eq!(serde_json::Value::from(tool.annotations.clone()), annotations);
    assert_eq!(config.tools[1].optional.iter().collect::<Vec<_>>(), ["word"]);
    assert_eq!(config.tools[1].task, TaskPolicy::Always);
    assert!(!tool.allow_placeholders_in_scripts && config.tools[1].allow_placeholders_in_scripts);
    assert_eq!(config.tools[2].task, TaskPolicy::Optional);
}

/// A default is what the server gives, so that its property is not required; in a file, too.
#[test]
fn a_property_with_a_default_is_not_required() {
    let input = "[tool.input]\nn = { type = \"integer\", default = 5.0 }\ntags = { type = \"array\", default = [\"a\"] }\nx = { type = \"string\" }\n";
    let inline = folder_with_tool(&format!(
        "command = [\"echo\", \"n={{n}}\", \"{{tags}}\", \"{{x}}\"]\n{input}"
    ));
    let in_file =
        folder_with_tool("command = [\"echo\", \"n={n}\", \"{tags}\", \"{x}\"]\ninput_schema = \"in.json\"\n");
    let schema = r##"{"type":"object","required":["n","tags","x"],"properties":{"n":{"$ref":"#/$defs/n"},"tags":{"type":"array","default":["a"]},"x":{"type":"string"}},"$defs":{"n":{"type":"integer","default":5.0}}}"##;
    fs::write(in_file.path().join("in.json"), schema).unwrap();
    for folder in [inline, in_file] {
        let tool = &load_in(&folder).unwrap().tools[0];
        assert_eq!(tool.input_schema["required"], json!(["x"]));
        assert_eq!(tool.input_schema["properties"]["tags"]["default"], json!(["a"]));
        assert_eq!(json!(tool.defaults), json!({"n": 5.0, "tags": ["a"]}));
        assert_eq!(json!(tool.optional), json!(["n", "tags"]));
        assert_eq!(json!(tool.integers), json!(["n"]));
    }
}

#[test]
fn the_quickstart_is_sound() {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/quickstart.toml"));
    let config = load(path, &environment()).unwrap();
    assert!(config.tools.len() >= 3);
}

#[test]
fn a_unix_socket_has_a_path_and_a_mode() {
    for (mode, expected) in [
        ("", 0o600),
        ("socket_mode = \"0660\"", 0o660),
        ("socket_mode = 0o666", 0o666),
    ] {
        let folder = folder_with_server(&format!("listen = \"unix:run/mcp.sock\"\n{mode}"));
        // A service manager may make it with the server.
        let warned = warnings_in(&folder).remove(0);
        assert!(warned.contains(": `listen`: there is no folder"), "{warned}");
        fs::create_dir(folder.path().join("run")).unwrap();
        let config = load_in(&folder).unwrap();
        assert_eq!(config.server.listen, Listen::Unix(folder.path().join("run/mcp.sock")));
        let found = (config.server.socket_mode, config.warnings.len());
        assert_eq!(found, (expected, 0), "{mode}");
    }
    let with_tls = "listen = \"unix:a\"\ntls = { cert = \"a\", key = \"b\" }";
    for (wrong, why) in [
        ("listen = \"unix:\"", "`listen`:"),
        ("listen = \"unix:a\"\nsocket_mode = 660", "octal digits"),
        ("listen = \"unix:a\"\nsocket_mode = \"0999\"", "octal digits"),
        (with_tls, "a Unix socket has no TLS"),
    ] {
        let problems = problems_in(&folder_with_server(wrong)).concat();
        assert!(problems.contains(why), "{wrong}: {problems}");
    }
}

#[test]
fn the_admin_section_names_an_address_of_this_machine() {
    let section = "[admin]\nlisten = \"localhost:7412\"\nsame_user = false\nmetrics_key = false\nallowed_hosts = [\"ops.example.com\"]";
    let admin = load_in(&folder_with_server(section)).unwrap().admin;
    assert_eq!(admin.listen, Some("127.0.0.1:7412".parse().unwrap()));
    assert_eq!((admin.same_user, admin.metrics_key), (Some(false), false));
    assert_eq!(admin.allowed_hosts, ["ops.example.com".parse().unwrap()]);
    assert!(admin.metrics_labels.is_empty());
}

#[test]
fn placeholders_whose_values_hold_nothing_for_a_shell_may_stand_in_scripts() {
    const LETTERS: &str = r#"{ type = "string", pattern = "^[a-z]+$" }"#;
    const TARGETS: &str = r#"{ enum = ["all", "test"] }"#;
    for (command, schema, is_sound) in [
        (r#"["sh", "-c", "make {x}"]"#, TARGETS, true),
        (r#"["sh", "-c", "make {x}"]"#, LETTERS, true),
        (
            r#"["sh", "-c", "sleep {x}"]"#,
            r#"{ type = "integer", minimum = 0 }"#,
            true,
        ),
        (r#"["ssh", "host", "make", "{x}"]"#, TARGETS, true),
        (r#"["make", "{x}"]"#, LETTERS, true),
        (r#"["sh", "-c", "make {x}"]"#, r#"{ type = "string" }"#, false),
        (r#"["sh", "-c", "{x}"]"#, LETTERS, false),
        (r#"["sh", "-c", "make {x}"]"#, r#"{ enum = ["all; reboot"] }"#, false),
        (r#"["ssh", "host", "{x}"]"#, LETTERS, false),
        (r#"["python3", "-c", "import {x}"]"#, LETTERS, false),
    ] {
        let folder = folder_with_tool(&format!("command = {command}\ninput = {{ x = {schema} }}\n"));
        let said = load_in(&folder).err().map(|error| error.to_string());
        assert_eq!(said.is_none(), is_sound, "{command} {schema}: {said:?}");
    }
}

#[test]
fn every_path_may_name_variables_and_the_home_folder() {
    let environment = Environment {
        variable: |name| (name == "PLACE").then(|| "place".to_owned()),
        ..environment()
    };
    let text = |place: &str| {
        format!(
            r#"
[server]
name = "box"
listen = "unix:{place}/sock"
data_dir = "{place}/data"
[server.audit]
file = "{place}/audit.log"
[[tool]]
name = "t"
description = "d"
command = ["{place}/run.sh"]
cwd = "{place}"
input_schema = "{place}/in.json"
output = "json"
output_schema = "{place}/in.json"
[upstream.u]
command = ["{place}/serve.sh"]
cwd = "{place}"
"#
        )
    };
    let folder = folder_with(&text("${PLACE}"));
    let place = folder.path().join("place");
    fs::create_dir(&place).unwrap();
    fs::write(place.join("in.json"), r#"{"type":"object"}"#).unwrap();
    let config = load(&folder.path().join("jobs.toml"), &environment).unwrap();
    assert_eq!(config.server.listen, Listen::Unix(place.join("sock")));
    assert_eq!(config.server.data_dir, place.join("data"));
    assert_eq!(config.server.audit.unwrap().file, Some(place.join("audit.log")));
    assert_eq!(config.tools[0].cwd, place);
    assert_eq!(config.tools[0].command[0].text(), Some("place/run.sh"));
    let Target::Command(child) = &config.upstreams[0].options.target else {
        panic!("{:?}", config.upstreams[0])
    };
    assert_eq!(child.cwd.as_deref(), Some(&*place));

    let at_home = Environment {
        home: Some(place.clone()),
        ..environment.clone()
    };
    let folder = folder_with(&text("~"));
    let config = load(&folder.path().join("jobs.toml"), &at_home).unwrap();
    assert_eq!(config.server.data_dir, place.join("data"));
    assert_eq!(config.tools[0].cwd, place);
    assert_eq!(config.tools[0].command[0].text(), place.join("run.sh").to_str());

    // Each of them names the variable, also where values of variables are not needed: another path would be meant.
    for needs_variables in [true, false] {
        let environment = Environment {
            needs_variables,
            ..environment.clone()
        };
        let folder = folder_with(&text("${NOWHERE}"));
        let error = load(&folder.path().join("jobs.toml"), &environment).unwrap_err();
        let keys = [
            "listen",
            "data_dir",
            "file",
            "command",
            "cwd",
            "input_schema",
            "output_schema",
            "command",
            "cwd",
        ];
        let said: Vec<_> = error.problems.iter().map(|problem| problem.message.clone()).collect();
        assert_eq!(
            said,
            keys.map(|key| format!("`{key}`: the variable NOWHERE is not set"))
        );
    }
}

#[test]
fn variables_and_the_folder_of_a_tool_are_read() {
    let environment = Environment {
        variable: |name| (name == "SECRET").then(|| "s{3}cret".to_owned()),
        ..environment()
    };
    let folder = folder_with_tool(
        r#"
command = ["true"]
input = { tag = { type = "string" }, mb = { type = "integer" } }
env = { A = "{{x}} ${SECRET}", B = "{tag}${SECRET}", C = "${{tag}}", NODE_OPTIONS = "--max-old-space-size={mb}" }
env_from = ["SECRET"]
env_file = "deploy.env"
cwd = "~/{tag}"
cwd_within = "repos"
output = "raw"
"#,
    );
    fs::create_dir(folder.path().join("repos")).unwrap();
    let file = folder.path().join("deploy.env");
    fs::write(&file, "A=1").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let config = load(&folder.path().join("jobs.toml"), &environment).unwrap();
    let tool = &config.tools[0];
    let pairs = |pairs: &[(&str, &str)]| {
        let pairs = pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        pairs.collect()
    };
    assert_eq!(tool.env, pairs(&[("A", "{x} s{3}cret"), ("C", "${tag}")]));
    let templates = [("B", "{tag}s{{3}}cret"), ("NODE_OPTIONS", "--max-old-space-size={mb}")];
    assert_eq!(tool.env_templates, pairs(&templates));
    assert_eq!(tool.env_from.iter().collect::<Vec<_>>(), ["SECRET"]);
    assert_eq!(tool.env_file, Some(file));
    assert_eq!(tool.cwd, folder.path().join("repos"));
    assert_eq!(tool.cwd_template.as_deref(), Some("/home/me/{tag}"));
    assert_eq!((&tool.output.format, tool.output.max_output), (&Output::Raw, 1 << 20));
    let warnings: Vec<_> = config.warnings.iter().map(|warning| &*warning.message).collect();
    assert!(
        matches!(warnings[..], [one] if one.starts_with("`env_file`: every user of this machine can read")),
        "{warnings:?}"
    );
    // What runs no tool needs no values.
    let without = Environment {
        variable: |_| None,
        needs_variables: false,
        ..environment
    };
    assert!(load(&folder.path().join("jobs.toml"), &without).is_ok());
}

#[test]
fn secret_arguments_are_taken_where_nobody_sees_them() {
    let folder = folder_with_tool(
        r#"command = ["deploy", "{key:file}"]
env = { TOKEN = "{token}" }
stdin = "json"
optional = ["key"]
input = { token = { type = "string", secret = true, minLength = 3 }, key = { type = "string", secret = true } }
"#,
    );
    let tool = &load_in(&folder).unwrap().tools[0];
    assert_eq!(tool.secrets.iter().collect::<Vec<_>>(), ["key", "token"]);
    let properties = &tool.input_schema["properties"];
    assert_eq!(properties["token"], json!({"type": "string", "minLength": 3}));
}
