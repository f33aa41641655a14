//! Results that could not be written.
#![cfg(target_os = "linux")]

use crate::support::*;
use std::{fs::OpenOptions, process::Command};

/// The command, with a disk without room as its standard output, a pipe that nobody reads, or none.
fn run_unwritten(served: &Served, words: &[&str]) {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = served.command(words).stdout(full).output().unwrap();
    exit(&output, 74);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = served.command(words).stdout(writer).output().unwrap();
    exit(&output, 74);
    let mut closed = Command::new("sh");
    closed
        .args(["-c", "exec \"$@\" >&-", "sh", env!("CARGO_BIN_EXE_longhaul")])
        .args(words);
    let as_always = served.command(words);
    for (name, value) in as_always.get_envs() {
        closed.env(name, value.unwrap_or_default());
    }
    let output = closed.output().unwrap();
    output.ends(74).says("cannot be written: it is closed");
}

#[test]
fn a_result_that_was_not_written_can_be_fetched_again() {
    let served = served();
    let id = served.detach("book");
    served.asks(&id, 1);
    served.done(&["answer", &id, "day=2026-11-23"]);
    run_unwritten(&served, &["task", &id, "--wait"]);
    // The only task whose result was not fetched.
    assert_eq!(served.done(&["task", "--wait"]), "booked for 2026-11-23");
    exit(&served.run(&["task", "--wait"]), 2);

    // One without a task is the same call again, under its key.
    run_unwritten(&served, &["call", "echo", "text=x"]);
    let again = served.run(&["call", "echo", "text=x"]);
    assert_eq!(exit(&again, 0), "x");
    assert!(stderr(&again).contains("the same call was interrupted"), "{again:?}");
}

/// A list whose reader has seen enough is no error.
#[test]
fn a_list_may_be_read_in_part() {
    let served = served();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    served.command(&["tools"]).stdout(writer).output().unwrap().ends(0);
}
