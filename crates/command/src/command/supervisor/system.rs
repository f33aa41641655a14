//! What the loop around a command asks of the operating system; tests put a simulated one in its place.

use super::{
    child, clock,
    descendants::{self, Swept},
};
use crate::command::attempt_dir::record::CommandEnd;
use longhaul_core::UnixMillis;
use rustix::{
    event::{PollFd, Timespec, poll},
    io::Errno,
    process::{Pid, Signal, WaitStatus},
};
use std::{
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

pub(super) trait System {
    /// For durations. Time passes while a call waits or takes long, so a value is used at once and not kept past the next call.
    fn now(&self) -> Instant;

    /// For dates.
    fn wall(&self) -> UnixMillis;

    /// Waits until a descriptor is ready or the time is up.
    fn poll(&self, polled: &mut [PollFd<'_>], timeout: Option<Duration>) -> Result<(), Errno>;

    fn read(&self, pipe: &OwnedFd, chunk: &mut [u8]) -> Result<usize, Errno>;

    /// See [`descendants::reap_any`].
    fn reap_any(&self) -> Result<Option<(Pid, CommandEnd)>, Errno>;

    /// See [`child::peek`].
    fn peek(&self, pid: Pid) -> Option<CommandEnd>;

    /// See [`descendants::signal_group`].
    fn signal_group(&self, leader: Pid, signal: Signal);

    /// See [`descendants::group_is_alive`].
    fn group_is_alive(&self, leader: Pid) -> bool;

    /// See [`descendants::sweep`].
    fn sweep(&self) -> Swept;
}

/// The real one.
pub(super) struct Kernel;

impl System for Kernel {
    fn now(&self) -> Instant {
        clock::monotonic()
    }

    fn wall(&self) -> UnixMillis {
        clock::wall()
    }

    fn poll(&self, polled: &mut [PollFd<'_>], timeout: Option<Duration>) -> Result<(), Errno> {
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(timeout.subsec_nanos()),
        });
        poll(polled, timeout.as_ref()).map(drop)
    }

    fn read(&self, pipe: &OwnedFd, chunk: &mut [u8]) -> Result<usize, Errno> {
        rustix::io::read(pipe, chunk)
    }

    fn reap_any(&self) -> Result<Option<(Pid, CommandEnd)>, Errno> {
        let ended = |(pid, status): (Pid, WaitStatus)| (pid, child::ended(status));
        descendants::reap_any().map(|reaped| reaped.map(ended))
    }

    fn peek(&self, pid: Pid) -> Option<CommandEnd> {
        child::peek(pid)
    }

    fn signal_group(&self, leader: Pid, signal: Signal) {
        descendants::signal_group(leader, signal);
    }

    fn group_is_alive(&self, leader: Pid) -> bool {
        descendants::group_is_alive(leader)
    }

    fn sweep(&self) -> Swept {
        descendants::sweep()
    }
}
