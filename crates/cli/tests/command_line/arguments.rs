//! What becomes of a call's arguments: a real command shows all that it got.

use super::support::*;
use serde_json::json;
use std::{fs, os::unix::fs::PermissionsExt};

/// Shows its arguments, its standard input, and the file that is its last argument.
const SHOW: &str = r#"
[[tool]]
name = "show"
description = "shows what it got"
command = [
    "sh", "-c", "printf '<%s>' \"$@\"; echo; cat; for last; do :; done; cat \"$last\"; echo \"$last\" > path", "sh",
    ["--tag", "{tag}"], ["--exclude={exclude}"], { if = "verbose", then = ["-v"], else = ["-q"] },
    "--spec={spec:json}", "-n{n}", "{report:file}",
]
stdin = "json"
optional = ["tag", "verbose", "exclude"]
task = "always"
[tool.input]
tag = { type = "string" }
exclude = { type = "array", items = { type = "string" } }
verbose = { type = "boolean", default = true }
spec = { type = "object", default = { replicas = 2.0 } }
n = { type = "integer", minimum = 0, default = 5.0 }
report = { type = "string" }
"#;

#[test]
fn lists_switches_json_and_files_reach_the_command_with_defaults() {
    let served = Served::start_with(SHOW);
    let url = served.url.as_str();
    let call = |arguments: &[&str]| {
        let output = run(&[&["call", url, "show"], arguments].concat());
        assert_eq!(exit(&output), 0, "{output:?}");
        let file = fs::read_to_string(served.folder.path().join("path")).unwrap();
        (stdout(&output).replace(file.trim_end(), "FILE"), file)
    };

    let (shown, file) = call(&["report=a b"]);
    let stdin = json!({"n": 5, "report": "a b", "spec": {"replicas": 2}, "verbose": true});
    assert_eq!(
        shown,
        format!("<-v><--spec={{\"replicas\":2}}><-n5><FILE>\n{stdin}\na b\n")
    );
    let mode = fs::metadata(file.trim_end()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let given = [
        "tag=",
        "exclude:=[\"*.o\", \"-x\"]",
        "verbose:=false",
        "spec:={\"a\": [1e2, null]}",
        "n:=1e2",
        "report=-rf",
    ];
    let (shown, again) = call(&given);
    let line = "<--tag><><--exclude=*.o><--exclude=-x><-q><--spec={\"a\":[100,null]}><-n100><FILE>\n";
    assert!(shown.starts_with(line) && shown.ends_with("\n-rf\n"), "{shown}");
    assert_ne!(file, again, "each attempt has a file of its own");

    let (shown, _) = call(&["verbose:=null", "report="]);
    assert!(
        shown.starts_with("<--spec={") && shown.contains("\"verbose\":null"),
        "{shown}"
    );
    let schema = run(&["tools", url, "--json"]);
    assert!(stdout(&schema).contains("\"required\":[\"report\"]"), "{schema:?}");
}

#[test]
fn each_attempt_gets_its_file_anew() {
    let tool = r#"
[[tool]]
name = "flaky"
description = "fails once"
command = ["sh", "-c", "echo \"$1\" >> paths; cat \"$1\"; [ -e again ] || {{ echo > again; rm \"$1\"; exit 1; }}", "sh", "{report:file}"]
input = { report = { type = "string" } }
retry = { attempts = 2, backoff = "0s", on = ["error"] }
task = "always"
"#;
    let served = Served::start_with(tool);
    let output = run(&["call", &served.url, "flaky", "report=text"]);
    assert_eq!((exit(&output), stdout(&output)), (0, "text\n"), "{output:?}");
    let paths = fs::read_to_string(served.folder.path().join("paths")).unwrap();
    let paths: Vec<&str> = paths.lines().collect();
    assert_eq!(paths.len(), 2);
    assert_ne!(paths[0], paths[1]);
    assert!(!fs::exists(paths[0]).unwrap() && fs::exists(paths[1]).unwrap());
}
