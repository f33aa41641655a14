//! `longhaul import`, with files as the hosts have them.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

#[path = "../assertions/mod.rs"]
#[allow(dead_code)]
mod assertions;
mod undo;

use assertions::*;
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};
use tempfile::TempDir;

const LONGHAUL: &str = env!("CARGO_BIN_EXE_longhaul");

/// Each host with its file below the home folder (on macOS some are elsewhere), and a sample.
const HOSTS: [(&str, &str); 10] = [
    ("claude-desktop", include_str!("../hosts/claude_desktop_config.json")),
    ("claude-code", include_str!("../hosts/claude.json")),
    ("cursor", include_str!("../hosts/cursor.json")),
    ("vscode", include_str!("../hosts/vscode.json")),
    ("zed", include_str!("../hosts/zed.json")),
    ("windsurf", include_str!("../hosts/windsurf.json")),
    ("gemini-cli", include_str!("../hosts/gemini.json")),
    ("codex", include_str!("../hosts/codex.toml")),
    ("opencode", include_str!("../hosts/opencode.jsonc")),
    ("qwen-code", include_str!("../hosts/qwen.json")),
];

/// A folder with a host's file.
struct Host {
    name: &'static str,
    folder: TempDir,
    sample: &'static str,
}

impl Host {
    fn new(name: &str) -> Self {
        let (_, sample) = HOSTS.into_iter().find(|(host, _)| *host == name).unwrap();
        Self::with(name, sample)
    }

    /// With this text in its file.
    fn with(name: &str, text: &str) -> Self {
        let (name, sample) = HOSTS.into_iter().find(|(host, _)| *host == name).unwrap();
        let host = Self {
            name,
            folder: tempfile::tempdir().unwrap(),
            sample,
        };
        host.write(text);
        host
    }

    fn write(&self, text: &str) {
        fs::write(self.file(), text).unwrap();
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("config")
    }

    fn copy(&self) -> PathBuf {
        self.folder.path().join("config.before-longhaul")
    }

    fn text(&self) -> String {
        fs::read_to_string(self.file()).unwrap()
    }

    fn run(&self, options: &[&str]) -> Output {
        let mut command = Command::new(LONGHAUL);
        command.args(["import", self.name, "--file"]).arg(self.file());
        command.args(options).stdin(Stdio::null()).output().unwrap()
    }

    /// The report of an import.
    fn report(&self, options: &[&str]) -> Value {
        let output = self.run(options);
        output.ends(0);
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Imports, and returns the names of the servers that are changed.
    fn import(&self) -> Vec<String> {
        names(&self.report(&["--yes", "--json"]), "changed")
    }

    fn undo(&self) -> Vec<String> {
        names(&self.report(&["--undo", "--yes", "--json"]), "changed")
    }
}

fn names(report: &Value, member: &str) -> Vec<String> {
    members(&report[member], "name")
}

fn members(entries: &Value, member: &str) -> Vec<String> {
    let entries = entries.as_array().unwrap().iter();
    entries
        .map(|entry| entry[member].as_str().unwrap().to_owned())
        .collect()
}

fn read(text: &str, name: &str) -> Value {
    match name {
        "codex" => serde_json::to_value(text.parse::<toml::Table>().unwrap()).unwrap(),
        _ => jsonc_parser::parse_to_serde_value(text, &Default::default()).unwrap(),
    }
}

/// The words without those that name variables.
fn without_variables(words: &Value) -> Value {
    let mut words = words.as_array().unwrap().clone();
    while let Some(at) = words.iter().position(|word| word == "--env") {
        words.drain(at..at + 2);
    }
    words.into()
}

#[test]
fn every_host_is_changed_in_its_commands_alone_and_back_to_the_byte() {
    for (name, sample) in HOSTS {
        let host = Host::new(name);
        let report = host.report(&["--yes", "--json"]);
        assert_eq!(report["written"], true, "{name}: {report}");
        let changed = report["changed"].as_array().unwrap();
        assert!(!changed.is_empty(), "{name}");
        for entry in changed {
            let mut after = [LONGHAUL, "wrap", "--imported", "--handoff", "45s"]
                .map(Value::from)
                .to_vec();
            let given: &[&str] = match &entry["name"] {
                given if given == "github" => &["--env", "GITHUB_PERSONAL_ACCESS_TOKEN"],
                given if given == "database (/home/ada/work)" => &["--env", "MODE"],
                // Another file is another account.
                given if given == "time" && name == "cursor" => &["--name", "${workspaceFolder}/.env"],
                _ => &[],
            };
            let is_known = !given.is_empty();
            after.extend(given.iter().chain(&["--"]).map(|word| Value::from(*word)));
            after.extend_from_slice(entry["before"].as_array().unwrap());
            match is_known {
                true => assert_eq!(entry["after"], json!(after), "{name}"),
                false => assert_eq!(without_variables(&entry["after"]), json!(after), "{name}"),
            }
        }
        // Nothing but commands and arguments differs, and the text still has every comment.
        let (before, after) = (read(sample, name), read(&host.text(), name));
        assert_ne!(before, after, "{name}");
        assert_eq!(without_starts(before), without_starts(after), "{name}");
        let commented = |text: &str| -> Vec<String> {
            let lines = text
                .lines()
                .filter_map(|line| Some(line[line.find("//").or(line.find("/*")).or(line.find('#'))?..].to_owned()));
            lines
                .filter(|comment| !comment.starts_with("//mcp") && !comment.contains("example.com"))
                .collect()
        };
        for comment in commented(sample) {
            let kept = comment.split("*/").next().unwrap();
            assert!(host.text().contains(kept), "{name}: {comment}");
        }
        assert_eq!(fs::read_to_string(host.copy()).unwrap(), sample);

        // A second one finds nothing to do.
        let wrapped = host.text();
        let again = host.report(&["--yes", "--json"]);
        again.has_members(json!({"changed": [], "written": false}));
        assert_eq!(host.text(), wrapped);

        assert_eq!(host.undo(), names(&report, "changed"), "{name}");
        assert_eq!(host.text(), sample, "{name}");
        assert!(!host.copy().exists());
    }
}

/// The document without how its servers are started.
fn without_starts(mut document: Value) -> Value {
    match &mut document {
        Value::Object(members) => {
            let is_server = members.contains_key("command") || members.contains_key("path");
            if is_server && members.get("command").is_none_or(|command| !command.is_object()) {
                members.remove("command");
                members.remove("path");
                members.remove("args");
            }
            for value in members.values_mut() {
                *value = without_starts(value.take());
            }
        }
        Value::Array(elements) => elements
            .iter_mut()
            .for_each(|value| *value = without_starts(value.take())),
        _ => {}
    }
    document
}

#[test]
fn servers_at_a_url_and_those_of_extensions_stay_and_the_reason_is_told() {
    let at_url = "it is not started by the host, but at a URL: --header puts it behind Longhaul, too; or let an entry in its place start `longhaul wrap -- URL`";
    for (host, name, why) in [
        ("cursor", "remote", at_url),
        ("windsurf", "remote", at_url),
        ("gemini-cli", "remote", at_url),
        ("opencode", "remote", at_url),
        ("claude-code", "sentry", at_url),
        ("zed", "mcp-server-context7", "it has no `command`"),
    ] {
        let report = Host::new(host).report(&["--json"]);
        assert_eq!(report["left"], json!([{"name": name, "why": why}]), "{host}");
    }
}

/// With the headers of the file, in each form of a host; and back to the byte.
#[test]
fn servers_at_a_url_are_put_behind_longhaul_with_a_header() {
    let sample = r#"{
  // Comments stay.
  "MEMBER": {"jobs": {
    "type": "http", "URL": "https://jobs.example.com/mcp", /* its key */
    "headers": {"Authorization": "Bearer ${KEY}"}, "timeout": 5000
  }}
}
"#;
    for (name, member, url) in [
        ("claude-code", "mcpServers", "url"),
        ("cursor", "mcpServers", "url"),
        ("vscode", "servers", "url"),
        ("windsurf", "mcpServers", "serverUrl"),
        ("gemini-cli", "mcpServers", "httpUrl"),
        ("zed", "context_servers", "url"),
        ("opencode", "mcp", "url"),
    ] {
        let sample = sample.replace("MEMBER", member).replace("URL", url);
        let host = Host::with(name, &sample);
        let report = host.report(&["--header", "X-Team: ops", "--yes", "--json"]);
        let server = &read(&host.text(), name)[member]["jobs"];
        let (words, kind) = match name {
            "opencode" => (server["command"].as_array().unwrap().clone(), "local"),
            _ => {
                let arguments = server["args"].as_array().unwrap();
                (
                    std::iter::once(&server["command"]).chain(arguments).cloned().collect(),
                    "stdio",
                )
            }
        };
        server.has_members(json!({"type": kind, "timeout": 5000}));
        assert!(server.get("headers").is_none() && server.get(url).is_none(), "{server}");
        assert_eq!(report["changed"][0]["after"], json!(words), "{name}");
        let expected = json!([
            "--header",
            "authorization: Bearer ${KEY}",
            "--header",
            "x-team: ops",
            "--",
            "https://jobs.example.com/mcp"
        ]);
        let lower = |word: &Value| json!(word.as_str().unwrap().replace("Authorization", "authorization"));
        let last: Vec<Value> = words[words.len() - 6..].iter().map(lower).collect();
        assert_eq!(json!(last), expected, "{name}");
        assert!(host.text().contains("// Comments stay."), "{name}");
        // Its name and the text that an undo puts back are no part of what it serves.
        let again = host.report(&["--header", "X-Team: ops", "--yes", "--json"]);
        assert_eq!(again["changed"], json!([]), "{name}");
        host.undo();
        assert_eq!(host.text(), sample, "{name}");
    }
}

#[test]
fn a_server_stays_whose_variables_cannot_be_named() {
    let named = |name: &str| json!({"command": "uvx", "env": {"A": "1", name: "2"}});
    let servers = json!({"empty": named(""), "option": named("--y"), "pair": named("B=C"), "sound": named("É_2")});
    let host = Host::with("cursor", &json!({"mcpServers": servers}).to_string());
    let report = host.report(&["--json"]);
    assert_eq!(names(&report, "changed"), ["sound"]);
    let left =
        ["", "--y", "B=C"].map(|name| format!("`--env` cannot name the variable {name:?} that the file gives it"));
    assert_eq!(members(&report["left"], "why"), left);
}

/// Claude Code keeps what `claude mcp add` makes with the project.
#[test]
fn servers_of_projects_are_found() {
    let report = Host::new("claude-code").report(&["--json"]);
    assert_eq!(names(&report, "changed"), ["memory", "database (/home/ada/work)"]);
}

/// Those of the user stay, and without `--handoff` all do.
#[test]
fn another_import_changes_the_hand_off_of_what_an_import_has_made() {
    for name in HOSTS.map(|(name, _)| name) {
        let host = Host::new(name);
        let imported = host.import();
        let first = host.text();
        let again = |handoff: &[&str]| {
            let report = host.report(&[handoff, &["--yes", "--json"]].concat());
            assert_eq!(report["written"], !names(&report, "changed").is_empty());
            report
        };
        assert_eq!(names(&again(&["--handoff", "10s"]), "changed"), imported, "{name}");
        assert_eq!(host.text(), first.replace("45s", "10s"));
        // What is not asked for stays.
        assert!(names(&again(&[]), "changed").is_empty());
        assert_eq!(host.text(), first.replace("45s", "10s"));
        let without = again(&["--handoff", "0s"]);
        assert_eq!(names(&without, "changed"), imported);
        assert_eq!(host.text(), first.replace("45s", "0s"));
        assert!(names(&again(&["--handoff", "0s"]), "changed").is_empty());
        let report = again(&["--handoff", "1m"]);
        let after = report["changed"][0]["after"].as_array().unwrap();
        assert!(after.iter().any(|word| word == "1m"), "{report}");
        host.undo();
        assert_eq!(host.text(), host.sample, "{name}");
    }
    let mine = r#"{"mcpServers": {"mine": {"command": "longhaul", "args": ["wrap", "--", "x"]}}}"#;
    let host = Host::with("cursor", mine);
    let report = host.report(&["--handoff", "10s", "--yes", "--json"]);
    assert_eq!(names(&report, "left"), ["mine"]);
    assert_eq!(host.text(), mine);
}

/// Where hosts look for their own files.
#[cfg(not(target_os = "macos"))]
#[test]
fn the_file_of_a_host_is_in_the_folder_of_configurations() {
    let home = tempfile::tempdir().unwrap();
    let elsewhere = home.path().join("elsewhere");
    for (name, file) in [
        ("claude-desktop", "Claude/claude_desktop_config.json"),
        ("vscode", "Code/User/mcp.json"),
        ("zed", "zed/settings.json"),
    ] {
        for (variable, folder) in [
            (elsewhere.as_path(), elsewhere.clone()),
            // The XDG Base Directory Specification ignores it.
            (Path::new("relative"), home.path().join(".config")),
        ] {
            let output = Command::new(LONGHAUL)
                .args(["import", name, "--yes"])
                .env("HOME", home.path())
                .env("XDG_CONFIG_HOME", variable)
                .output()
                .unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr);
            let expected = folder.join(file).display().to_string();
            assert!(stderr.contains(&expected), "{stderr} has no {expected}");
        }
    }
}

#[test]
fn nothing_is_changed_without_consent() {
    let host = Host::new("zed");
    host.run(&[]).ends(2).says("use --yes");
    let report = host.report(&["--json"]);
    assert_eq!(report["written"], false);
    assert_eq!(names(&report, "changed"), ["git", "older"]);
    assert_eq!(host.text(), host.sample);
    assert!(!host.copy().exists());
    assert_eq!(host.report(&["--dry-run", "--json"]), report);
    let output = host.run(&["--dry-run"]);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).has("- git: ").has("+ git: ");
    assert_eq!(host.text(), host.sample);
    assert!(!host.copy().exists());
}

#[test]
fn what_is_wrong_with_a_file_is_told_and_it_stays() {
    for (host, text, expected) in [
        ("cursor", "{\"mcpServers\": {", "Unterminated object"),
        (
            "cursor",
            "{}",
            "it has no `mcpServers`, so no server is configured in it",
        ),
        ("codex", "[mcp_servers\n", "TOML parse error"),
        ("vscode", "", "it is empty"),
    ] {
        let host = Host::with(host, text);
        host.run(&["--yes"]).ends(2).says(expected).says("config");
        assert_eq!(host.text(), text);
        let output = host.run(&["--json"]);
        let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(printed["error"]["kind"], "usage", "{printed}");
        printed["error"]["message"].to_string().has("config");
    }
    let home = tempfile::tempdir().unwrap();
    let output = Command::new(LONGHAUL)
        .args(["import", "cursor", "--yes"])
        .env("HOME", home.path())
        .output()
        .unwrap();
    output.ends(2).says(".cursor/mcp.json").says("--file");
}

/// The copy holds the same secrets. A link to a file elsewhere stays a link.
#[test]
fn permissions_and_links_stay() {
    let host = Host::new("gemini-cli");
    let elsewhere = host.folder.path().join("dotfiles");
    fs::create_dir(&elsewhere).unwrap();
    let real = elsewhere.join("settings.json");
    fs::rename(host.file(), &real).unwrap();
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
    symlink(&real, host.file()).unwrap();
    host.import();
    assert!(fs::symlink_metadata(host.file()).unwrap().is_symlink());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&real), 0o640);
    assert_eq!(mode(&elsewhere.join("settings.json.before-longhaul")), 0o640);
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 2, "no draft is left");
}

/// As by `sudo longhaul import`: the host runs as the user.
#[test]
fn the_owner_of_a_file_stays() {
    let host = Host::new("cursor");
    // Only root can give a file away.
    if chown(host.file(), Some(4711), Some(4712)).is_err() {
        return;
    }
    let owner = |path: &Path| {
        let metadata = fs::metadata(path).unwrap();
        (metadata.uid(), metadata.gid(), metadata.mode() & 0o777)
    };
    fs::set_permissions(host.file(), fs::Permissions::from_mode(0o640)).unwrap();
    host.import();
    assert_eq!(owner(&host.file()), (4711, 4712, 0o640));
    assert_eq!(owner(&host.copy()), (4711, 4712, 0o640));
    host.undo();
    assert_eq!(owner(&host.file()), (4711, 4712, 0o640));
}

/// A line break in a name or a command must not look like another line of the change.
#[test]
fn what_is_shown_of_a_server_stays_on_its_line() {
    let servers = json!({"a\n+ b: rm": {"command": "x\n+ c: y", "args": ["1\n2"]}, "d\ne": {"url": "https://h/mcp"}});
    let host = Host::with("cursor", &json!({"mcpServers": servers}).to_string());
    let output = host.run(&["--dry-run"]);
    let shown = String::from_utf8(output.stdout).unwrap();
    assert_eq!(shown.lines().count(), 3, "{shown}");
    shown.has(r"- $'a\x0a+ b: rm': $'x\x0a+ c: y' $'1\x0a2'");
}

#[test]
fn a_server_that_no_host_could_start_stays_and_is_named_with_what_would_be_right() {
    for (name, text, why) in [
        (
            "cursor",
            r#"{"mcpServers": {"a": {"command": "uvx", "env": ["A=1"]}}}"#,
            r#"its `env` must be an object of variables, such as {"NAME": "value"}"#,
        ),
        (
            "cursor",
            r#"{"mcpServers": {"a": {"command": "npx -y foo", "args": ["x"]}}}"#,
            r#"must be the program alone: "command": "npx", "args": ["-y", "foo", "x"]"#,
        ),
        (
            "codex",
            "[mcp_servers.a]\ncommand = \"npx -y foo\"\n",
            r#"must be the program alone: command = "npx", args = ["-y", "foo"]"#,
        ),
        (
            "opencode",
            r#"{"mcp": {"a": {"type": "local", "command": ["npx -y foo"]}}}"#,
            r#"must be the program alone: "command": ["npx", "-y", "foo"]"#,
        ),
    ] {
        let host = Host::with(name, text);
        let report = host.report(&["--yes", "--json"]);
        assert_eq!(names(&report, "left"), ["a"], "{report}");
        report["left"][0]["why"].as_str().unwrap().has(why);
        assert_eq!(host.text(), text);
    }
    // A program may have a space in its name.
    let host = Host::new("cursor");
    let program = host.folder.path().join("my server");
    fs::write(&program, "").unwrap();
    let servers = json!({"a": {"command": program}, "b": {"command": "${workspaceFolder}/my server"}});
    host.write(&json!({"mcpServers": servers}).to_string());
    assert_eq!(names(&host.report(&["--json"]), "changed"), ["a", "b"]);
}

#[test]
fn a_hand_off_can_be_switched_off() {
    let host = Host::new("windsurf");
    let report = host.report(&["--handoff", "0s", "--yes", "--json"]);
    let after = &report["changed"][0]["after"];
    let expected = ["--handoff", "0s", "--", "npx"];
    assert_eq!(after.as_array().unwrap()[3..=6], expected, "{after}");
    host.undo();
    assert_eq!(host.text(), host.sample);
}
