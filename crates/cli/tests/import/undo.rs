//! What an undo takes back, and what an import leaves so that it can.

use super::{Host, LONGHAUL, assertions::*, names, read};
use serde_json::{Value, json};
use std::{
    fs,
    process::{Command, Stdio},
};

/// What the host has written meanwhile stays, and what the user has changed in a wrapped server too.
#[test]
fn an_undo_keeps_later_changes() {
    let host = Host::new("cursor");
    host.import();
    let edited = |text: &str| text.replace("Europe/Berlin", "Asia/Tokyo").replace("Bearer", "Basic");
    host.write(&edited(&host.text()));
    host.undo();
    assert_eq!(host.text(), edited(host.sample));
    assert!(host.copy().exists(), "it is not what the file is now");
}

/// Those of a server at a URL, too.
#[test]
fn an_undo_keeps_later_changes_of_a_server_at_a_url() {
    let sample = r#"{"mcpServers": {"jobs": {"url": "https://jobs.example.com/mcp", "headers": {"X": "1"}, "timeout": 5, "old": 1}}}"#;
    let host = Host::with("cursor", sample);
    host.report(&["--header", "X-Team: ops", "--yes", "--json"]);
    let changed = host
        .text()
        .replace("\"timeout\": 5, \"old\": 1", "\"timeout\": 9, \"disabled\": true");
    assert_ne!(changed, host.text());
    host.write(&changed);
    host.undo();
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
        host.write(&marked);
        assert_ne!(host.import(), [""; 0]);
        assert!(host.text().starts_with("\u{feff}") && host.text() != marked);
        host.undo();
        assert_eq!(host.text(), marked);
    }
}

/// What the user has put behind Longhaul stays there, and an entry gets no `args` that it did not have.
#[test]
fn an_undo_leaves_what_ran_behind_longhaul_before() {
    let before = r#"{"mcpServers": {"mine": {"command": "longhaul", "args": ["wrap", "--", "x"]}, "bare": {"command": "node"}}}"#;
    let host = Host::with("cursor", before);
    assert_eq!(host.import(), ["bare"]);
    // A server that came later is put behind Longhaul by another import.
    let more = host
        .text()
        .replace("{\"mine\"", "{\"later\": {\"command\": \"y\"}, \"mine\"");
    host.write(&more);
    assert_eq!(host.import(), ["later"]);
    assert_eq!(host.undo(), ["later", "bare"]);
    let mine = &read(&host.text(), host.name)["mcpServers"]["mine"];
    assert_eq!(mine["command"], "longhaul");

    host.write(before);
    fs::remove_file(host.copy()).unwrap();
    host.import();
    host.undo();
    assert_eq!(host.text(), before);
    assert!(!host.copy().exists());
}

/// Without the copy, too, and whenever the user has put it there.
#[test]
fn an_undo_takes_back_only_what_an_import_has_made() {
    let mine = r#""mine": {"command": "longhaul", "args": ["wrap", "--", "x"]}"#;
    let bare = r#""bare": {"command": "node", "args": []}"#;
    let host = Host::with("cursor", &format!(r#"{{"mcpServers": {{{mine}, {bare}}}}}"#));
    host.import();
    fs::remove_file(host.copy()).unwrap();
    let later = host
        .text()
        .replace("{\"mine\"", &format!("{{{}, \"mine\"", mine.replace("mine", "later")));
    host.write(&later);
    let undone = host.report(&["--undo", "--yes", "--json"]);
    assert_eq!(names(&undone, "changed"), ["bare"]);
    assert_eq!(names(&undone, "left"), ["later", "mine"]);
    let why = undone["left"][1]["why"].as_str().unwrap();
    why.has("no import has put it there");
    host.text().has(mine);
}

/// Also where the copy of the file is gone, so each change is undone by itself.
#[test]
fn comments_in_arrays_stay_to_the_byte() {
    let stays = |name: &str, text: &str| {
        let host = Host::with(name, text);
        assert_eq!(host.import(), ["a"], "{text}");
        fs::remove_file(host.copy()).unwrap();
        assert_eq!(host.undo(), ["a"], "{text}");
        assert_eq!(host.text(), text);
    };
    for array in [
        "[]",
        "[ ]",
        "[ COMMENT ]",
        "[COMMENT \"a\", COMMENT \"b\" COMMENT]",
        "[\"a\", COMMENT ]",
    ] {
        for (name, comment, text) in [
            (
                "cursor",
                "/* c, d */",
                r#"{"mcpServers": {"a": {"command": "x", "args": ARRAY}}}"#,
            ),
            (
                "cursor",
                "// c, d\n",
                r#"{"mcpServers": {"a": {"args": ARRAY, "command": "x"}}}"#,
            ),
            ("codex", "# c, d\n", "[mcp_servers.a]\ncommand = \"x\"\nargs = ARRAY\n"),
        ] {
            stays(name, &text.replace("ARRAY", &array.replace("COMMENT", comment)));
        }
    }
    stays(
        "opencode",
        "{\"mcp\": {\"a\": {\"type\": \"local\", \"command\": [/* b */ \"x\" /* c */, // d\n]}}}",
    );
}

/// A copy is called what it is: after a second import it is older than the file was.
#[test]
fn a_copy_of_an_earlier_import_is_not_called_the_file_as_it_was() {
    let host = Host::new("cursor");
    let said = |options: &[&str]| {
        let output = host.run(options);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(said(&["--yes"]).contains("; as it was: "));
    let servers = r#""mcpServers": {"#;
    host.write(
        &host
            .text()
            .replacen(servers, &format!(r#"{servers}"later": {{"command": "y"}},"#), 1),
    );
    said(&["--yes"]).has("; as it was before the first import: ");
    said(&["--undo", "--yes"]).has("It was changed otherwise, too");
    host.text().has("later");
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
        output.ends(0);
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let changed = names(&run(&[]), "changed");
    let once = host.text();
    once.has("longhaul-0.1.0");
    assert_eq!(names(&run(&[]), "changed"), [""; 0]);
    assert_eq!(host.import(), [""; 0]);
    assert_eq!(host.text(), once);
    assert_eq!(names(&run(&["--undo"]), "changed"), changed);
    assert_eq!(host.text(), host.sample);
}
