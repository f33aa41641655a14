//! `longhaul import`, with files as the hosts have them.
#![cfg(unix)]
#![allow(clippy::unwrap_used, missing_docs)]

use serde_json::{Value, json};
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};
use tempfile::TempDir;

const LONGHAUL: &str = env!("CARGO_BIN_EXE_longhaul");

/// Each host with its file below the home folder (on macOS some are elsewhere), and a sample.
const HOSTS: [(&str, &str); 10] = [
    ("claude-desktop", include_str!("hosts/claude_desktop_config.json")),
    ("claude-code", include_str!("hosts/claude.json")),
    ("cursor", include_str!("hosts/cursor.json")),
    ("vscode", include_str!("hosts/vscode.json")),
    ("zed", include_str!("hosts/zed.json")),
    ("windsurf", include_str!("hosts/windsurf.json")),
    ("gemini-cli", include_str!("hosts/gemini.json")),
    ("codex", include_str!("hosts/codex.toml")),
    ("opencode", include_str!("hosts/opencode.jsonc")),
    ("qwen-code", include_str!("hosts/qwen.json")),
];

/// A folder with a host's file.
struct Host {
    name: &'static str,
    folder: TempDir,
    sample: &'static str,
}

impl Host {
    fn new(name: &str) -> Self {
        let (name, sample) = HOSTS.into_iter().find(|(host, _)| *host == name).unwrap();
        let host = Self {
            name,
            folder: tempfile::tempdir().unwrap(),
            sample,
        };
        fs::write(host.file(), sample).unwrap();
        host
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

    fn import(&self, options: &[&str]) -> Output {
        let mut command = Command::new(LONGHAUL);
        command.args(["import", self.name, "--file"]).arg(self.file());
        command.args(options).stdin(Stdio::null()).output().unwrap()
    }

    /// The report of an import.
    fn report(&self, options: &[&str]) -> Value {
        let output = self.import(options);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

fn names(report: &Value, member: &str) -> Vec<String> {
    let entries = report[member].as_array().unwrap();
    entries
        .iter()
        .map(|entry| entry["name"].as_str().unwrap().to_owned())
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
            let before: Vec<&str> = entry["before"]
                .as_array()
                .unwrap()
                .iter()
                .map(|word| word.as_str().unwrap())
                .collect();
            let mut after = vec![LONGHAUL, "wrap", "--imported", "--handoff", "45s"];
            let given: &[&str] = match &entry["name"] {
                given if given == "github" => &["--env", "GITHUB_PERSONAL_ACCESS_TOKEN"],
                given if given == "database (/home/ada/work)" => &["--env", "MODE"],
                _ => &[],
            };
            let is_known = !given.is_empty();
            after.extend(given);
            after.push("--");
            after.extend(before);
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
        assert_eq!(
            (&again["changed"], &again["written"]),
            (&json!([]), &json!(false)),
            "{name}"
        );
        assert_eq!(host.text(), wrapped);

        let undone = host.report(&["--undo", "--yes", "--json"]);
        assert_eq!(names(&undone, "changed"), names(&report, "changed"), "{name}");
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
    for (host, name, why) in [
        ("cursor", "remote", "it is not started by the host, but at a URL"),
        ("windsurf", "remote", "it is not started by the host, but at a URL"),
        ("gemini-cli", "remote", "it is not started by the host, but at a URL"),
        ("opencode", "remote", "it is not started by the host, but at a URL"),
        ("claude-code", "sentry", "it is not started by the host, but at a URL"),
        ("zed", "mcp-server-context7", "it has no `command`"),
    ] {
        let report = Host::new(host).report(&["--json"]);
        assert_eq!(report["left"], json!([{"name": name, "why": why}]), "{host}");
    }
}

/// Claude Code keeps what `claude mcp add` makes with the project.
#[test]
fn servers_of_projects_are_found() {
    let report = Host::new("claude-code").report(&["--json"]);
    assert_eq!(names(&report, "changed"), ["memory", "database (/home/ada/work)"]);
}

/// What the host has written meanwhile stays, and what the user has changed in a wrapped server too.
#[test]
fn an_undo_keeps_later_changes() {
    let host = Host::new("cursor");
    host.report(&["--yes", "--json"]);
    let changed = host
        .text()
        .replace("Europe/Berlin", "Asia/Tokyo")
        .replace("Bearer", "Basic");
    fs::write(host.file(), changed).unwrap();
    host.report(&["--undo", "--yes", "--json"]);
    let expected = host
        .sample
        .replace("Europe/Berlin", "Asia/Tokyo")
        .replace("Bearer", "Basic");
    assert_eq!(host.text(), expected);
    assert!(host.copy().exists(), "it is not what the file is now");
}

/// Some editors write one.
#[test]
fn a_byte_order_mark_stays() {
    for name in ["cursor", "codex"] {
        let host = Host::new(name);
        let marked = format!("\u{feff}{}", host.sample);
        fs::write(host.file(), &marked).unwrap();
        let report = host.report(&["--yes", "--json"]);
        assert!(!names(&report, "changed").is_empty(), "{report}");
        assert!(host.text().starts_with("\u{feff}") && host.text() != marked);
        host.report(&["--undo", "--yes", "--json"]);
        assert_eq!(host.text(), marked);
    }
}

/// What the user has put behind Longhaul stays there, and an entry gets no `args` that it did not have.
#[test]
fn an_undo_leaves_what_ran_behind_longhaul_before() {
    let host = Host::new("cursor");
    let before = r#"{"mcpServers": {"mine": {"command": "longhaul", "args": ["wrap", "--", "x"]}, "bare": {"command": "node"}}}"#;
    fs::write(host.file(), before).unwrap();
    assert_eq!(names(&host.report(&["--yes", "--json"]), "changed"), ["bare"]);
    // A server that came later is put behind Longhaul by another import.
    let more = host
        .text()
        .replace("{\"mine\"", "{\"later\": {\"command\": \"y\"}, \"mine\"");
    fs::write(host.file(), more).unwrap();
    assert_eq!(names(&host.report(&["--yes", "--json"]), "changed"), ["later"]);
    let undone = host.report(&["--undo", "--yes", "--json"]);
    assert_eq!(names(&undone, "changed"), ["later", "bare"]);
    assert_eq!(
        read(&host.text(), host.name)["mcpServers"]["mine"]["command"],
        "longhaul"
    );

    fs::write(host.file(), before).unwrap();
    fs::remove_file(host.copy()).unwrap();
    host.report(&["--yes", "--json"]);
    host.report(&["--undo", "--yes", "--json"]);
    assert_eq!(host.text(), before);
    assert!(!host.copy().exists());
}

/// Without the copy, too, and whenever the user has put it there.
#[test]
fn an_undo_takes_back_only_what_an_import_has_made() {
    let host = Host::new("cursor");
    let mine = r#""mine": {"command": "longhaul", "args": ["wrap", "--", "x"]}"#;
    fs::write(
        host.file(),
        format!(r#"{{"mcpServers": {{{mine}, "bare": {{"command": "node", "args": []}}}}}}"#),
    )
    .unwrap();
    host.report(&["--yes", "--json"]);
    fs::remove_file(host.copy()).unwrap();
    let later = host
        .text()
        .replace("{\"mine\"", &format!("{{{}, \"mine\"", mine.replace("mine", "later")));
    fs::write(host.file(), later).unwrap();
    let undone = host.report(&["--undo", "--yes", "--json"]);
    assert_eq!(names(&undone, "changed"), ["bare"]);
    assert_eq!(names(&undone, "left"), ["later", "mine"]);
    let why = undone["left"][1]["why"].as_str().unwrap();
    assert!(why.contains("no import has put it there"), "{why}");
    assert!(host.text().contains(mine), "{}", host.text());
}

/// Those of the user stay, and without `--handoff` all do.
#[test]
fn another_import_changes_the_hand_off_of_what_an_import_has_made() {
    for name in HOSTS.map(|(name, _)| name) {
        let host = Host::new(name);
        let imported = names(&host.report(&["--yes", "--json"]), "changed");
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
        assert!(!host.text().contains("--handoff"), "{}", host.text());
        assert!(names(&again(&["--handoff", "0s"]), "changed").is_empty());
        let report = again(&["--handoff", "1m"]);
        let after = report["changed"][0]["after"].as_array().unwrap();
        assert!(after.iter().any(|word| word == "1m"), "{report}");
        host.report(&["--undo", "--yes", "--json"]);
        assert_eq!(host.text(), host.sample, "{name}");
    }
    let host = Host::new("cursor");
    let mine = r#"{"mcpServers": {"mine": {"command": "longhaul", "args": ["wrap", "--", "x"]}}}"#;
    fs::write(host.file(), mine).unwrap();
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
    let output = host.import(&[]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("use --yes"),
        "{output:?}"
    );
    let report = host.report(&["--json"]);
    assert_eq!(report["written"], false);
    assert_eq!(names(&report, "changed"), ["git", "older"]);
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
        let host = Host::new(host);
        fs::write(host.file(), text).unwrap();
        let output = host.import(&["--yes"]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains(expected), "{stderr}");
        assert!(stderr.contains("config"), "{stderr}");
        assert_eq!(host.text(), text);
    }
    let home = tempfile::tempdir().unwrap();
    let output = Command::new(LONGHAUL)
        .args(["import", "cursor", "--yes"])
        .env("HOME", home.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.contains(".cursor/mcp.json") && stderr.contains("--file"),
        "{stderr}"
    );
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
    host.report(&["--yes", "--json"]);
    assert!(fs::symlink_metadata(host.file()).unwrap().is_symlink());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&real), 0o640);
    assert_eq!(mode(&elsewhere.join("settings.json.before-longhaul")), 0o640);
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 2, "no draft is left");
}

#[test]
fn a_hand_off_can_be_left_out() {
    let host = Host::new("windsurf");
    let report = host.report(&["--handoff", "0s", "--yes", "--json"]);
    let after = &report["changed"][0]["after"];
    assert_eq!(after[3], "--", "{after}");
    assert_eq!(after[4], "npx");
    host.report(&["--undo", "--yes", "--json"]);
    assert_eq!(host.text(), host.sample);
}
