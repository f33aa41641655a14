//! What another user may put at the path of a private file, for the tests of every crate that opens such files.
#![allow(unreachable_pub)]

use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::{
    fs,
    os::unix::{fs::symlink, net::UnixListener},
    path::Path,
};

/// Puts something at the first path. Links lead to the second one, or to a path beside it that does not exist.
pub type PlantedFile = fn(&Path, &Path);

/// Each with what the refusal calls it.
pub const PLANTS: [(&str, PlantedFile); 6] = [
    ("a symbolic link", |at, victim| symlink(victim, at).unwrap()),
    ("a symbolic link", |at, victim| {
        symlink(victim.with_extension("not"), at).unwrap()
    }),
    ("2 names", |at, victim| fs::hard_link(victim, at).unwrap()),
    ("a directory", |at, _| fs::create_dir(at).unwrap()),
    ("a named pipe", |at, _| {
        mknodat(CWD, at, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    }),
    ("a socket", |at, _| drop(UnixListener::bind(at).unwrap())),
];
