//! The locks that show which processes live.

use crate::file::process_lock::ProcessLocks;
use longhaul_private_dir::PrivateDir;
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};

fn names(directory: &tempfile::TempDir) -> Vec<String> {
    let files = fs::read_dir(directory.path()).unwrap();
    let mut names: Vec<String> = files
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn locks(directory: &tempfile::TempDir) -> ProcessLocks {
    ProcessLocks::new(PrivateDir::open(directory.path()).unwrap())
}

#[test]
fn a_process_lives_until_its_lock_is_dropped() {
    let directory = tempfile::tempdir().unwrap();
    let process = locks(&directory).register().unwrap();
    let name = process.name().to_owned();
    assert!(locks(&directory).is_alive(&name));
    // Looking does not end it.
    assert!(locks(&directory).is_alive(&name));
    drop(process);
    assert!(!locks(&directory).is_alive(&name));
    assert!(names(&directory).is_empty());
}

#[test]
fn files_of_ended_processes_are_removed_and_those_of_living_ones_are_not() {
    let directory = tempfile::tempdir().unwrap();
    let first = locks(&directory).register().unwrap();
    // As a process leaves it that is killed.
    File::create(directory.path().join("1-0")).unwrap();
    let second = locks(&directory).register().unwrap();
    let mut living = [first.name(), second.name()];
    living.sort_unstable();
    assert_eq!(names(&directory), living);
    assert!(locks(&directory).is_alive(first.name()));
}

#[test]
fn processes_that_look_at_the_same_time_do_not_take_each_other_for_the_one_they_look_for() {
    let directory = tempfile::tempdir().unwrap();
    let left = File::create(directory.path().join("1-0")).unwrap();
    flock(&left, FlockOperation::NonBlockingLockShared).unwrap();
    assert!(!locks(&directory).is_alive("1-0"));
}

#[test]
fn a_process_of_which_the_system_says_nothing_lives() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("1-0")).unwrap();
    assert!(locks(&directory).is_alive("1-0"));
}
