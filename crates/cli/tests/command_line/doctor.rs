//! `longhaul doctor`, before a server has run.

use super::support::*;
use std::{fs, net::TcpListener, process::Output};

fn findings(output: &Output, member: &str) -> Vec<String> {
    let found = &json(output)[member];
    let found = found.as_array().unwrap().iter();
    found.map(|one| one["finding"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn before_the_first_start_it_looks_at_the_machine() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.toml");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let listen = format!("[server]\nlisten = \"{address}\"\ndata_dir = \"data\"");
    fs::write(&file, JOBS.replacen("[server]", &listen, 1)).unwrap();
    let file = file.to_str().unwrap();
    for words in [&["doctor", file, "--json"][..], &["admin", "doctor", file, "--json"]] {
        let output = run(words);
        let found = findings(&output, "findings");
        assert_eq!(exit(&output), 1);
        let in_use = format!("{address} is in use");
        assert!(found.iter().any(|what| what.starts_with(&in_use)), "{found:?}");
        found.last().unwrap().has("no server has run yet");
        let last = &json(&output)["findings"][found.len() - 1];
        last["advice"].as_str().unwrap().has("mend first");
    }
    drop(taken);
    let output = run(&["doctor", file]);
    output
        .prints_no("is in use")
        .prints(&format!("start it: longhaul serve {file}"));
    assert!(!folder.path().join("data").exists());
    // What a package or a volume has prepared.
    fs::create_dir(folder.path().join("data")).unwrap();
    run(&["doctor", file]).ends(1).prints("is empty");
}

#[test]
fn without_a_server_it_says_what_would_be_of_help() {
    let home = tempfile::tempdir().unwrap();
    let doctor = |shell: &str| {
        let mut doctor = longhaul(&["doctor", "--json"]);
        doctor
            .env("HOME", home.path())
            .env("SHELL", shell)
            .env("PATH", "/nowhere");
        doctor.env_remove("XDG_DATA_HOME").output().unwrap()
    };
    let hints = findings(&doctor("/bin/bash"), "hints");
    let is_missing = |hint: &String| hint.contains("no `longhaul` in PATH");
    assert!(hints.iter().any(is_missing), "{hints:?}");
    let completes = |hints: &[String]| !hints.iter().any(|hint| hint.contains("bash does not complete"));
    let is_installed = std::path::Path::new("/usr/share/bash-completion/completions/longhaul").exists();
    assert_eq!(completes(&hints), is_installed, "{hints:?}");
    fs::write(home.path().join(".bashrc"), "source <(longhaul completions bash)\n").unwrap();
    assert!(completes(&findings(&doctor("/bin/bash"), "hints")));
    assert_eq!(exit(&run(&["doctor", "--data-dir", "x"])), 2);
}
