//! What the loop around a command asks of the operating system; tests put a simulated one in its place.

use super::{
    super::record::Ended,
    child, clock,
    family::{self, Swept},
};
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
    /// For spans of time. It goes on while a call of the loop's waits or takes long, so a value of it is used at once and not kept
    /// for after the next call.
    fn now(&self) -> Instant;

    /// For moments of the world.
    fn wall(&self) -> UnixMillis;

    /// Waits until a descriptor is ready or the time is up.
    fn poll(&self, polled: &mut [PollFd<'_>], timeout: Option<Duration>) -> Result<(), Errno>;

    fn read(&self, pipe: &OwnedFd, chunk: &mut [u8]) -> Result<usize, Errno>;

    /// See [`family::reap_any`].
    fn reap_any(&self) -> Result<Option<(Pid, Ended)>, Errno>;

    /// See [`child::peek`].
    fn peek(&self, pid: Pid) -> Option<Ended>;

    /// See [`family::signal_group`].
    fn signal_group(&self, leader: Pid, signal: Signal);

    /// See [`family::group_lives_on`].
    fn group_lives_on(&self, leader: Pid) -> bool;

    /// See [`family::sweep`].
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

    fn reap_any(&self) -> Result<Option<(Pid, Ended)>, Errno> {
        let ended = |(pid, status): (Pid, WaitStatus)| (pid, child::ended(status));
        family::reap_any().map(|reaped| reaped.map(ended))
    }

    fn peek(&self, pid: Pid) -> Option<Ended> {
        child::peek(pid)
    }

    fn signal_group(&self, leader: Pid, signal: Signal) {
        family::signal_group(leader, signal);
    }

    fn group_lives_on(&self, leader: Pid) -> bool {
        family::group_lives_on(leader)
    }

    fn sweep(&self) -> Swept {
        family::sweep()
    }
}
