//! `longhaul import`, with files as the hosts have them.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
mod assertions;

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
                // Another file is another account.
                given if given == "time" && name == "cursor" => &["--name", "${workspaceFolder}/.env"],
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
        let host = Host::new(name);
        let sample = sample.replace("MEMBER", member).replace("URL", url);
        fs::write(host.file(), &sample).unwrap();
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
        host.report(&["--undo", "--yes", "--json"]);
        assert_eq!(host.text(), sample, "{name}");
    }
}

#[test]
fn a_server_stays_whose_variables_cannot_be_named() {
    let host = Host::new("cursor");
    let named = |name: &str| json!({"command": "uvx", "env": {"A": "1", name: "2"}});
    let servers = json!({"empty": named(""), "option": named("--y"), "pair": named("B=C"), "sound": named("É_2")});
    fs::write(host.file(), json!({"mcpServers": servers}).to_string()).unwrap();
    let report = host.report(&["--json"]);
    assert_eq!(names(&report, "changed"), ["sound"]);
    let left =
        ["", "--y", "B=C"].map(|name| format!("`--env` cannot name the variable {name:?} that the file gives it"));
    let why = report["left"]
        .as_array()
        .unwrap()
        .iter()
        .map(|left| left["why"].as_str().unwrap());
    assert_eq!(why.collect::<Vec<_>>(), left);
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

/// Those of a server at a URL, too.
#[test]
fn an_undo_keeps_later_changes_of_a_server_at_a_url() {
    let host = Host::new("cursor");
    let sample = r#"{"mcpServers": {"jobs": {"url": "https://jobs.example.com/mcp", "headers": {"X": "1"}, "timeout": 5, "old": 1}}}"#;
    fs::write(host.file(), sample).unwrap();
    host.report(&["--header", "X-Team: ops", "--yes", "--json"]);
    let changed = host
        .text()
        .replace("\"timeout\": 5, \"old\": 1", "\"timeout\": 9, \"disabled\": true");
    assert_ne!(changed, host.text());
    fs::write(host.file(), changed).unwrap();
    host.report(&["--undo", "--yes", "--json"]);
    let expected =
        json!({"url": "https://jobs.example.com/mcp", "headers": {"X": "1"}, "timeout": 9, "disabled": true});
    assert_eq!(read(&host.text(), "cursor")["mcpServers"]["jobs"], expected);
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
        assert_eq!(host.text(), first.replace("45s", "0s"));
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
    output.says("use --yes");
    let report = host.report(&["--json"]);
    assert_eq!(report["written"], false);
    assert_eq!(names(&report, "changed"), ["git", "older"]);
    assert_eq!(host.text(), host.sample);
    assert!(!host.copy().exists());
    assert_eq!(host.report(&["--dry-run", "--json"]), report);
    let output = host.import(&["--dry-run"]);
    assert!(output.status.success(), "{output:?}");
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.contains("- git: ") && shown.contains("+ git: "), "{shown}");
    assert_eq!(host.text(), host.sample);
    assert!(!host.copy().exists());
}

/// Also where the copy of the file is gone, so each change is undone by itself.
#[test]
fn comments_in_arrays_stay_to_the_byte() {
    let arrays = [
        "[]",
        "[ ]",
        "[ COMMENT ]",
        "[COMMENT \"a\", COMMENT \"b\" COMMENT]",
        "[\"a\", COMMENT ]",
    ];
    for array in arrays {
        for (name, comment, before, after) in [
            (
                "cursor",
                "/* c, d */",
                r#"{"mcpServers": {"a": {"command": "x", "args": "#,
                "}}}",
            ),
            (
                "cursor",
                "// c, d\n",
                r#"{"mcpServers": {"a": {"args": "#,
                r#", "command": "x"}}}"#,
            ),
            ("codex", "# c, d\n", "[mcp_servers.a]\ncommand = \"x\"\nargs = ", "\n"),
        ] {
            let host = Host::new(name);
            let text = format!("{before}{}{after}", array.replace("COMMENT", comment));
            fs::write(host.file(), &text).unwrap();
            assert_eq!(names(&host.report(&["--yes", "--json"]), "changed"), ["a"], "{text}");
            fs::remove_file(host.copy()).unwrap();
            assert_eq!(
                names(&host.report(&["--undo", "--yes", "--json"]), "changed"),
                ["a"],
                "{text}"
            );
            assert_eq!(host.text(), text);
        }
    }
    let words = "{\"mcp\": {\"a\": {\"type\": \"local\", \"command\": [/* b */ \"x\" /* c */, // d\n]}}}";
    let host = Host::new("opencode");
    fs::write(host.file(), words).unwrap();
    host.report(&["--yes", "--json"]);
    fs::remove_file(host.copy()).unwrap();
    host.report(&["--undo", "--yes", "--json"]);
    assert_eq!(host.text(), words);
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
        let output = host.import(&["--json"]);
        let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(printed["error"]["kind"], "usage", "{printed}");
        assert!(printed["error"]["message"].to_string().contains("config"), "{printed}");
    }
    let home = tempfile::tempdir().unwrap();
    let output = Command::new(LONGHAUL)
        .args(["import", "cursor", "--yes"])
        .env("HOME", home.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&output.stderr);
    stderr.has(".cursor/mcp.json").has("--file");
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
    host.report(&["--yes", "--json"]);
    assert_eq!(owner(&host.file()), (4711, 4712, 0o640));
    assert_eq!(owner(&host.copy()), (4711, 4712, 0o640));
    host.report(&["--undo", "--yes", "--json"]);
    assert_eq!(owner(&host.file()), (4711, 4712, 0o640));
}

/// A copy is called what it is: after a second import it is older than the file was.
#[test]
fn a_copy_of_an_earlier_import_is_not_called_the_file_as_it_was() {
    let host = Host::new("cursor");
    let said = |options: &[&str]| {
        let output = host.import(options);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(said(&["--yes"]).contains("; as it was: "));
    let later = host.text().replacen(
        "\"mcpServers\": {",
        "\"mcpServers\": {\"later\": {\"command\": \"y\"},",
        1,
    );
    fs::write(host.file(), later).unwrap();
    let second = said(&["--yes"]);
    assert!(second.contains("; as it was before the first import: "), "{second}");
    let undone = said(&["--undo", "--yes"]);
    assert!(undone.contains("It was changed otherwise, too"), "{undone}");
    assert!(host.text().contains("later"));
}

/// A line break in a name or a command must not look like another line of the change.
#[test]
fn what_is_shown_of_a_server_stays_on_its_line() {
    let host = Host::new("cursor");
    let servers = json!({"a\n+ b: rm": {"command": "x\n+ c: y", "args": ["1\n2"]}, "d\ne": {"url": "https://h/mcp"}});
    fs::write(host.file(), json!({"mcpServers": servers}).to_string()).unwrap();
    let output = host.import(&["--dry-run"]);
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
        let host = Host::new(name);
        fs::write(host.file(), text).unwrap();
        let report = host.report(&["--yes", "--json"]);
        assert_eq!(names(&report, "left"), ["a"], "{report}");
        let said = report["left"][0]["why"].as_str().unwrap();
        assert!(said.contains(why), "{said}");
        assert_eq!(host.text(), text);
    }
    // A program may have a space in its name.
    let host = Host::new("cursor");
    let program = host.folder.path().join("my server");
    fs::write(&program, "").unwrap();
    let servers = json!({"a": {"command": program}, "b": {"command": "${workspaceFolder}/my server"}});
    fs::write(host.file(), json!({"mcpServers": servers}).to_string()).unwrap();
    assert_eq!(names(&host.report(&["--json"]), "changed"), ["a", "b"]);
}

#[test]
fn a_hand_off_can_be_switched_off() {
    let host = Host::new("windsurf");
    let report = host.report(&["--handoff", "0s", "--yes", "--json"]);
    let after = &report["changed"][0]["after"];
    assert_eq!((&after[3], &after[4]), (&json!("--handoff"), &json!("0s")), "{after}");
    assert_eq!((&after[5], &after[6]), (&json!("--"), &json!("npx")), "{after}");
    host.report(&["--undo", "--yes", "--json"]);
    assert_eq!(host.text(), host.sample);
}

/// The file of a version, for example.
#[test]
fn what_was_imported_under_another_name_of_the_program_is_known_again() {
    let host = Host::new("cursor");
    let program = host.folder.path().join("longhaul-0.1.0");
    fs::copy(LONGHAUL, &program).unwrap();
    let run = |options: &[&str]| -> Value {
        let mut command = Command::new(&program);
        command.args(["import", "cursor", "--json", "--yes", "--file"]);
        let output = command
            .arg(host.file())
            .args(options)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let changed = names(&run(&[]), "changed");
    let once = host.text();
    assert!(once.contains("longhaul-0.1.0"), "{once}");
    assert_eq!(names(&run(&[]), "changed"), [""; 0]);
    assert_eq!(names(&host.report(&["--yes", "--json"]), "changed"), [""; 0]);
    assert_eq!(host.text(), once);
    assert_eq!(names(&run(&["--undo"]), "changed"), changed);
    assert_eq!(host.text(), host.sample);
}
