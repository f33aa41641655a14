//! The process between the server and a command: it outlives the server, and records how the command ended.
//!
//! A supervisor is the host program itself, started with a private first argument. It is one thread around `poll`, without tokio:
//! it must be small, start at once, and run for weeks while servers stop and start.

mod artifact_collector;
mod boot;
mod child;
mod clients;
mod clock;
mod descendants;
mod drain;
mod exit_recorder;
mod left_open;
mod log_writer;
mod merged_tail;
mod start_error;
mod system;
mod tail;
mod watch;

pub(super) use descendants::read_stat;

use super::attempt_dir::AttemptDir;
use std::{ffi::OsStr, path::PathBuf};

/// The first argument that makes a host program a supervisor.
pub(super) const SUPERVISOR_WORD: &str = "__longhaul-supervisor";
/// What a supervisor says on its standard output once its attempt is started; anything else is the reason why it is not.
pub(super) const READY: &str = "ready";

/// Turns this process into the supervisor of one command if that is what it was started for, and then never returns.
///
/// A program that runs commands calls this first in `main`, before it opens a file or starts a thread: a supervisor closes every
/// descriptor it inherited but the standard ones, and forks.
///
/// ```no_run
/// longhaul_command::become_supervisor_if_asked();
/// // … the program proper
/// ```
pub fn become_supervisor_if_asked() {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().as_deref() != Some(OsStr::new(SUPERVISOR_WORD)) {
        return;
    }
    let code = match arguments.next() {
        Some(dir) => supervise(AttemptDir::at(PathBuf::from(dir))),
        None => 2,
    };
    std::process::exit(code)
}

fn supervise(dir: AttemptDir) -> i32 {
    match boot::boot(dir) {
        Ok(booted) => {
            boot::say(READY);
            watch::run(booted);
            0
        }
        Err(refusal) => {
            boot::say(&refusal.to_string());
            1
        }
    }
}
