//! Results that could not be written.
#![cfg(target_os = "linux")]

use crate::support::*;
use std::fs::OpenOptions;

/// The command, with a disk without room as its standard output.
fn run_without_room(served: &Served, words: &[&str]) {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = served.command(words).stdout(full).output().unwrap();
    exit(&output, 74);
}

#[test]
fn a_result_that_was_not_written_can_be_fetched_again() {
    let served = served();
    let id = served.detach("book");
    served.asks(&id, 1);
    exit(&served.run(&["answer", &id, "day=2026-11-23"]), 0);
    run_without_room(&served, &["task", &id, "--wait"]);
    // The only task whose result was not fetched.
    assert_eq!(exit(&served.run(&["task", "--wait"]), 0), "booked for 2026-11-23");
    exit(&served.run(&["task", "--wait"]), 2);

    // One without a task is the same call again, under its key.
    run_without_room(&served, &["call", "echo", "text=x"]);
    let again = served.run(&["call", "echo", "text=x"]);
    assert_eq!(exit(&again, 0), "x");
    assert!(stderr(&again).contains("the same call was interrupted"), "{again:?}");
}
