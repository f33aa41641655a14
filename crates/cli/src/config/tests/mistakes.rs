//! Bad files, and what is said about each.

use super::{SERVER, TOOL, folder_with, folder_with_server, folder_with_tool, load_in, problems_in};
use std::fs;

/// Each file of `mistakes.txt`, and every line said about it.
#[test]
fn bad_files_are_explained() {
    let mut surprises = String::new();
    for case in include_str!("mistakes.txt").split("\n\n") {
        let lines = case.lines().filter(|line| !line.starts_with("# "));
        let (said, file): (Vec<&str>, Vec<&str>) = lines.partition(|line| line.starts_with("=>"));
        if file.is_empty() {
            continue;
        }
        assert!(!said.is_empty(), "nothing is said about {case}");
        let said: Vec<String> = said.iter().map(|line| line.replacen("=>", "jobs.toml:", 1)).collect();
        let text = complete(&(file.join("\n") + "\n"));
        let folder = folder_with(&text);
        for (name, schema) in [
            ("in.json", r#"{"type":"object"}"#),
            ("bad.env", "A=1\nhunter2"),
            ("array.json", r#"{"type":"array"}"#),
            ("file_ref.json", r#"{"type":"object","$ref":"other.json"}"#),
        ] {
            fs::write(folder.path().join(name), schema).unwrap();
        }
        let found = problems_in(&folder);
        if found != said {
            surprises.push_str(&format!("--- in\n{text}--- expected {said:#?}\n--- found {found:#?}\n"));
        }
    }
    assert!(surprises.is_empty(), "{surprises}");
}

/// `+server` and `+tool` stand for sound sections, `+t` for a tool without its command.
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
fn what_is_no_configuration_is_explained() {
    let nothing = [
        "jobs.toml: the section [server] is missing; it needs at least name = \"...\"",
        "jobs.toml: there is no [[tool]], [[resource]], [[prompt]] or [upstream.NAME], so there is nothing to serve",
    ];
    assert_eq!(problems_in(&folder_with("")), nothing);
    let of_a_host = "\u{feff}// of a host\n{\"mcpServers\": {\"a\": {\"command\": \"x\"}}}";
    let json = "jobs.toml: this is JSON, and a configuration is TOML. `longhaul serve` and `longhaul check` read an `mcpServers` file with --mcp-config; for its server other commands take the data directory, which `longhaul serve` shows when it starts";
    assert_eq!(problems_in(&folder_with(of_a_host)), [json]);
    let missing = "jobs.toml: cannot be read: No such file or directory (os error 2)";
    assert_eq!(problems_in(&tempfile::tempdir().unwrap()), [missing]);
}

/// One mistake of a section hides none of the others.
#[test]
fn all_mistakes_of_a_file_are_reported_at_once_and_in_order() {
    let of_sections = "[server]\nlisten = 1\nnam = \"x\"\n[[tool]]\nname = \"a\"\ntask = \"x\"\n[[tool]]\nname = \"b\"\nconcurrency = 0\n";
    let of_a_tool = format!(
        r#"{SERVER}[[tool]]
name = "a b"
command = [
 "",
 7,
 "{{a}} {{b}}",
 "{{nobody}} {{noone}}",
 "{{",
]
stdin = "{{o}}"
cwd = "nowhere"
allow_leading_dash = ["x"]
optional = ["y"]
task = "never"
handoff = "1x"
time_limit = "1s"
[tool.input]
a = {{ type = "strin" }}
b = {{ type = "string", pattern = "(" }}
c = 5
o = {{ type = "object" }}
"#
    );
    for (text, expected) in [
        (of_sections, "1 2 3 4 4 6 7 7 9"),
        (&of_a_tool, "3 4 6 7 9 9 10 12 14 15 17 17 18 20 21 22"),
    ] {
        let lines = problems_in(&folder_with(text));
        let numbers: Vec<&str> = lines.iter().map(|line| line.split(':').nth(1).unwrap()).collect();
        assert_eq!(numbers.join(" "), expected, "{lines:#?}");
    }
}

#[test]
fn secrets_in_env_are_not_repeated() {
    let folder = folder_with_tool("command = [\"true\"]\nenv = { \"A=\" = \"hunter2\" }\n");
    assert!(!problems_in(&folder).concat().contains("hunter2"));
}

/// Whoever turns the check off means that it is not enough, and not that everyone may come in.
#[test]
fn without_the_check_of_users_something_else_decides() {
    let alone = "`same_user = false` alone leaves nobody who may come in: add `api_keys = true`";
    let open = "same_user = false\nunauthenticated = \"anyone may call every tool\"";
    for (listen, auth, is_fine) in [
        ("", "same_user = false", false),
        ("listen = \"unix:/run/mcp.sock\"", "same_user = false", false),
        ("", "same_user = false\napi_keys = true", true),
        ("", open, true),
        ("", "same_user = true", true),
    ] {
        let loaded = load_in(&folder_with_server(&format!("{listen}\n[server.auth]\n{auth}")));
        let said = loaded.err().map(|error| error.to_string());
        assert_eq!(said.is_none(), is_fine, "{listen} {auth}: {said:?}");
        assert!(said.is_none_or(|said| said.contains(alone)), "{listen} {auth}");
    }
}

#[test]
fn an_audit_log_needs_its_folder() {
    let folder = folder_with_server("[server.audit]\nfile = \"logs/audit.jsonl\"");
    let problems = problems_in(&folder);
    assert!(
        problems.len() == 1 && problems[0].contains("`file`: there is no folder"),
        "{problems:?}"
    );
    fs::create_dir(folder.path().join("logs")).unwrap();
    assert!(load_in(&folder).is_ok());
    // The server makes its data directory before it opens the log.
    let in_data = "data_dir = \"data\"\n[server.audit]\nfile = \"data/audit.jsonl\"";
    assert!(load_in(&folder_with_server(in_data)).is_ok());
}

/// Lines in the database are as bad as a rotation that moves it away.
#[test]
fn an_audit_log_is_no_file_of_longhaul() {
    for (file, why) in [
        ("jobs.toml", "this is the configuration file"),
        ("data/longhaul.db", "is in the data directory"),
        ("data/../data/owner.log", "is in the data directory"),
        ("data/attempts/audit.jsonl", "is in the data directory"),
    ] {
        let folder = folder_with_server(&format!("data_dir = \"data\"\n[server.audit]\nfile = \"{file}\""));
        fs::create_dir_all(folder.path().join("data/attempts")).unwrap();
        let problems = problems_in(&folder);
        assert!(problems.len() == 1 && problems[0].contains(why), "{file}: {problems:?}");
    }
}
