//! What a user reads, as files: `TRYCMD=overwrite` writes them again.

use crate::support::*;
use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Child, Command},
};
use tempfile::TempDir;

/// Checks a file of commands and what they print.
fn check(file: &str, server: Option<&str>, home: &TempDir) {
    let cases = trycmd::TestCases::new();
    cases
        .register_bin("longhaul", std::path::Path::new(env!("CARGO_BIN_EXE_longhaul")))
        .env("COLUMNS", "100")
        .env("LONGHAUL_SERVER", server.unwrap_or_default())
        .env("XDG_CONFIG_HOME", home.path().to_str().unwrap())
        .env("XDG_STATE_HOME", home.path().to_str().unwrap())
        .case(format!("tests/client/snapshots/{file}.trycmd"))
        .run();
}

#[test]
fn the_help_of_every_command() {
    check("help", None, &tempfile::tempdir().unwrap());
    let help = fs::read_to_string("tests/client/snapshots/help.trycmd").unwrap();
    let listed = longhaul(&["--help"], &tempfile::tempdir().unwrap()).output().unwrap();
    let listed = stdout(&listed);
    let mut count = 0;
    let groups = listed.lines().skip(3).take_while(|line| *line != "Examples:");
    for line in groups.filter(|line| line.starts_with("  ")) {
        let command = line.split_whitespace().next().unwrap();
        let is_shown = command == "help" || help.contains(&format!("$ longhaul {command} --help\n"));
        assert!(is_shown, "`{command}` has no snapshot");
        count += 1;
    }
    assert!(count > 10, "{listed}");
}

#[test]
fn the_usual_mistakes() {
    let served = served();
    check("mistakes", Some(&served.url), &served.home);
}

#[test]
fn a_task_that_asks() {
    let served = served();
    check("answering", Some(&served.url), &served.home);
}

/// `longhaul serve`, which ends with this value.
struct Jobs(Child);

impl Drop for Jobs {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn a_session_with_longhaul_serve() {
    const JOBS: &str = r#"
[server]
name = "jobs"

[[tool]]
name = "say"
description = "says it"
command = ["echo", "{words}"]
input = { words = { type = "array", items = { type = "string" }, description = "what to say" } }
task = "never"

[[tool]]
name = "build"
description = "builds until it is cancelled"
command = ["sh", "-c", "while [ -e jobs.toml ]; do sleep 0.05; done"]
task = "always"
"#;
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("jobs.toml");
    fs::write(&file, JOBS).unwrap();
    let data = home.path().join("data");
    let (file, data) = (file.to_str().unwrap(), data.to_str().unwrap());
    let words = ["serve", file, "--listen=127.0.0.1:0", "--json", "--data-dir", data];
    let mut command = longhaul(&words, &home);
    let mut child = command.stderr(std::process::Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    let mut said = BufReader::new(child.stdout.as_mut().unwrap());
    said.read_line(&mut line).unwrap();
    let _jobs = Jobs(child);
    let ready: serde_json::Value = serde_json::from_str(&line).unwrap();
    check("session", ready["url"].as_str(), &home);
}

/// `longhaul 0.1.0 (abc1234, release, x86_64-linux-gnu)`; without git the version alone.
#[test]
fn the_version_names_the_commit_and_the_build() {
    let home = tempfile::tempdir().unwrap();
    let said = exit(&longhaul(&["--version"], &home).output().unwrap(), 0);
    let rest = said
        .trim_end()
        .strip_prefix(concat!("longhaul ", env!("CARGO_PKG_VERSION")))
        .unwrap();
    if !rest.is_empty() {
        let rest = rest.strip_prefix(" (").and_then(|rest| rest.strip_suffix(')')).unwrap();
        let parts: Vec<&str> = rest.split(", ").collect();
        let [commit, profile, target] = parts[..] else {
            panic!("{said}")
        };
        assert!(commit.len() >= 7 && ["debug", "release"].contains(&profile), "{said}");
        assert!(target.starts_with(std::env::consts::ARCH), "{said}");
    }
    let page = exit(&longhaul(&["man"], &home).output().unwrap(), 0);
    page.has(env!("CARGO_PKG_VERSION")).lacks("debug,");
}

/// The generated files have every command in them.
#[test]
fn completions_and_manual_pages_are_generated() {
    let home = tempfile::tempdir().unwrap();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = exit(&longhaul(&["completions", shell], &home).output().unwrap(), 0);
        assert!(script.contains("LONGHAUL_COMPLETE"), "{shell}");
    }
    exit(&longhaul(&["completions", "csh"], &home).output().unwrap(), 2);
    assert!(exit(&longhaul(&["man"], &home).output().unwrap(), 0).contains(".TH longhaul"));
    let pages = home.path().join("man/man1");
    let pages = pages.to_str().unwrap();
    exit(&longhaul(&["man", "--dir", pages], &home).output().unwrap(), 0);
    for page in ["longhaul.1", "longhaul-call.1", "longhaul-serve.1"] {
        let text = fs::read_to_string(format!("{pages}/{page}")).unwrap();
        assert!(text.contains("Exit status") || page == "longhaul.1", "{page}");
    }
    exit(&longhaul(&["man", "--dir", "/dev/null/x"], &home).output().unwrap(), 74);
}

/// What bash shows after TAB, with the script that it is given.
#[test]
fn bash_completes_servers_and_tasks() {
    let served = served();
    let folder = served.home.path().join("longhaul");
    fs::create_dir(&folder).unwrap();
    let servers = "[servers.prod]\nurl = \"http://127.0.0.1:9/mcp\"\n[servers.old]\nurl = \"http://127.0.0.1:9/mcp\"\ndisabled = true\n";
    fs::write(folder.join("servers.toml"), servers).unwrap();
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_longhaul")).parent().unwrap();
    let completed = |words: &[&str]| -> Vec<String> {
        let script = format!(
            "source <(longhaul completions bash)\nCOMP_WORDS=({})\nCOMP_CWORD={}\n_clap_complete_longhaul longhaul '{}' x\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"",
            words.iter().map(|word| format!("'{word}' ")).collect::<String>(),
            words.len() - 1,
            words.last().unwrap(),
        );
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
        let mut bash = Command::new("bash");
        let output = bash
            .args(["-c", &script])
            .env("PATH", path)
            .env("XDG_CONFIG_HOME", served.home.path())
            .env("XDG_STATE_HOME", served.home.path())
            .output()
            .unwrap();
        let lines = exit(&output, 0);
        // Without any letter of a word, options are shown behind what the words may be.
        let is_option = |line: &&str| words.last() == Some(&"") && line.starts_with("--");
        lines
            .lines()
            .filter(|line| !is_option(line))
            .map(str::to_owned)
            .collect()
    };
    // Without a journal, which is not created for it.
    assert_eq!(completed(&["longhaul", "task", ""]), ["prod"]);
    assert!(!folder.join(".client").exists());

    let (done, live, asking) = (served.detach("wait"), served.detach("wait"), served.detach("ship"));
    served.done(&["cancel", &done]);
    exit(&served.run(&["task", &done, "--wait"]), 4);
    served.asks(&asking, 1);
    served.done(&["tasks"]);
    assert_eq!(completed(&["longhaul", "task", "pr"]), ["prod"]);
    assert_eq!(completed(&["longhaul", "task", ""]), ["prod", &asking, &live, &done]);
    assert_eq!(completed(&["longhaul", "task", "prod", ""]), [&*asking, &live, &done]);
    assert_eq!(completed(&["longhaul", "cancel", "prod", ""]), [&*asking, &live]);
    assert_eq!(completed(&["longhaul", "watch", &live, &asking[..30]]), [&*asking]);
    assert_eq!(completed(&["longhaul", "answer", ""]), ["prod", &asking]);
    for command in ["tools", "call", "tasks", "prompts", "login"] {
        assert_eq!(completed(&["longhaul", command, ""]), ["prod"], "{command}");
    }
    assert_eq!(completed(&["longhaul", "call", "-s", ""]), ["prod"]);
    let (file, begin) = (folder.join("servers.toml"), folder.join("serv"));
    for words in [&["longhaul", "admin", "tasks"][..], &["longhaul", "nodes"]] {
        let words = [words, &[begin.to_str().unwrap()]].concat();
        assert_eq!(completed(&words), [file.to_str().unwrap()], "{words:?}");
    }
    assert_eq!(completed(&["longhaul", "cance"]), ["cancel"]);
    assert_eq!(completed(&["longhaul", "task", "--wa"]), ["--wait"]);
}
