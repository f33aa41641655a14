//! Servers whose shell has limited what they may use.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
mod assertions;

use assertions::*;
use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Command, Output, Stdio},
};
use tempfile::TempDir;

/// Runs `longhaul serve` behind `ulimit` with these flags, until it has refused to.
fn refused(limit: &str) -> Output {
    serve(&tempfile::tempdir().unwrap(), limit).output().unwrap()
}

fn serve(folder: &TempDir, limit: &str) -> Command {
    let file = folder.path().join("jobs.toml");
    let jobs = r#"
[server]
name = "test"
listen = "127.0.0.1:0"
data_dir = "data"

[[tool]]
name = "a"
description = "a"
command = ["true"]
"#;
    fs::write(&file, jobs).unwrap();
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("ulimit {limit} && exec \"$0\" serve --json \"$1\"")])
        .arg(env!("CARGO_BIN_EXE_longhaul"))
        .arg(&file)
        .stdin(Stdio::null());
    command
}

#[test]
fn a_server_that_may_open_few_files_does_not_start() {
    let mut least = None;
    // With 24 not even the store can be opened; with 64 it can, and nothing else.
    for files in [24, 64] {
        let output = refused(&format!("-n {files}"));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        said.has(&format!("at most {files} files may be open at once"))
            .has("ulimit -n 1024");
        let needed = said.split("at least ").nth(1).unwrap().split(':').next().unwrap();
        let needed: u64 = needed.parse().unwrap();
        assert_eq!(*least.get_or_insert(needed), needed, "{said}");
    }
    // What was said is enough.
    let folder = tempfile::tempdir().unwrap();
    let mut command = serve(&folder, &format!("-n {}", least.unwrap()));
    let mut server = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(line.contains("\"url\""), "{line}");
}

/// The write fails and is reported; the signal for it does not kill the server.
#[test]
fn a_server_that_may_write_little_says_so() {
    let output = refused("-f 8");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{:?} {said}", output.status);
    assert!(said.contains("longhaul.db: File too large"), "{said}");
}
