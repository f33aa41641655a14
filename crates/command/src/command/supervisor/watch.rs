//! The loop around a running command: its output, its end, its deadline, and those who watch.

use super::{
    artifact_collector::ArtifactCollector,
    boot::BootedSupervisor,
    child::{self, Child, ExitNotifier},
    clients::Clients,
    clock::wall,
    descendants::Swept,
    drain::Drain,
    exit_recorder::{self, Outputs},
    left_open,
    log_writer::LogWriter,
    merged_tail::MergedTail,
    start_error,
    system::{Kernel, System},
    tail::Tail,
};
use crate::command::attempt_dir::record::{
    CommandEnd, EVENT_TAIL, ExitRecord, LaunchSpec, QUOTED, Stopped, SupervisorEvent,
};
use longhaul_core::UnixMillis;
use rustix::{
    event::{PollFd, PollFlags},
    io::{Errno, ioctl_fionread},
    process::{Pid, Signal},
};
use std::{
    os::{fd::OwnedFd, unix::net::UnixListener},
    path::Path,
    time::{Duration, Instant},
};

/// Clients are sent new output at most this often, however many lines that is.
const EVENT_INTERVAL: Duration = Duration::from_millis(200);
/// Between two checks of descendants that are being stopped: at first, and when they take long.
const LOOK_FIRST: Duration = Duration::from_millis(10);
const LOOK_LAST: Duration = Duration::from_millis(160);
/// Raw bytes beyond `max_output`, so that the tail is long enough after the character cut by its front is dropped.
const DECODING_SLACK: u64 = 4;
const CHUNK: usize = 64 * 1024;

/// Runs the command to its end and records that.
pub(super) fn run(booted: BootedSupervisor) {
    let BootedSupervisor {
        dir,
        lock,
        listener,
        spec,
        stdin,
    } = booted;
    let max_output = usize::try_from(spec.max_output.saturating_add(DECODING_SLACK)).unwrap_or(usize::MAX);
    let mut outputs = Outputs {
        stdout: Tail::new(max_output),
        stderr: Tail::new(QUOTED),
        both: MergedTail::new(QUOTED),
        log: LogWriter::new(Path::new("."), spec.max_log, spec.least_free),
        artifacts: None,
    };
    let deadline = spec.deadline_ms.map(UnixMillis);
    if deadline.is_some_and(|deadline| wall() >= deadline) {
        let ended = CommandEnd::NotStarted("its deadline passed while it waited".to_owned());
        let exit = ExitRecord {
            stopped: Some(Stopped::Deadline),
            ..ExitRecord::without_output(ended, wall())
        };
        return exit_recorder::record(&dir, lock, outputs, exit, &spec.success);
    }
    outputs.artifacts = ArtifactCollector::before(&spec);
    let child = match child::start(&spec, stdin) {
        Ok(child) => child,
        // Should it not be possible to give it back, it ends here.
        Err(error) if child::is_shortage(&error) && dir.give_back(&reason(&error)).is_ok() => return drop(lock),
        Err(error) => {
            let exit = ExitRecord::without_output(CommandEnd::NotStarted(start_error::explain(&spec, &error)), wall());
            return exit_recorder::record(&dir, lock, outputs, exit, &spec.success);
        }
    };
    dir.write_pid(child.pid);
    let mut watch = Watch::over(Kernel, child, listener, outputs, &spec);
    let exit = watch.until_the_end();
    let Watch {
        outputs,
        clients,
        stdout,
        stderr,
        ..
    } = watch;
    exit_recorder::record(&dir, lock, outputs, exit, &spec.success);
    // For clients the end of their stream is the end of the attempt, and by then the lock is free.
    drop(clients);
    left_open::discard([stdout, stderr].into_iter().flatten().collect());
}

fn reason(error: &std::io::Error) -> String {
    format!("the command could not be started: {error}")
}

/// The state of the command.
enum Phase {
    /// It runs. Children it orphaned are reaped as they exit; when it exits itself it is reaped too, and no more signals are sent.
    Running,
    /// The stop signal was sent to its group, and SIGKILL will be. From here on it stays unreaped until that was done.
    Stopping { kill_at: Instant },
    /// SIGKILL was sent to the group; other descendants are killed one by one.
    Killing,
    /// It is over; the rest of its output is read.
    Draining(Drain),
}

/// No time is kept in a variable across a wait or a write: each use reads the clock again.
struct Watch<S> {
    system: S,
    pid: Pid,
    exits: ExitNotifier,
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
    listener: UnixListener,
    clients: Clients,
    outputs: Outputs,
    newest: OutputTail,
    phase: Phase,
    /// Until the next check of descendants that are being stopped.
    look: Duration,
    stopped: Option<Stopped>,
    killed: bool,
    ended: Option<(CommandEnd, UnixMillis)>,
    /// When it is stopped, and why.
    limit: Option<(Instant, Stopped)>,
    stop_signal: Signal,
    kill_grace: Duration,
}

/// The newest output of each stream, sent when it has changed, and at limited intervals.
struct OutputTail {
    tails: [Tail; 2],
    /// Which was written to last.
    latest: usize,
    fresh: bool,
    not_before: Instant,
}

/// What `poll` saw.
struct Ready {
    exits: bool,
    listener_ready: bool,
    stdout: bool,
    stderr: bool,
    clients: bool,
}

/// When a deadline passes. What is left of it is measured by monotonic time, so that setting the system's clock does not change it.
fn left(system: &impl System, deadline: i64) -> Option<Instant> {
    let left = UnixMillis(deadline).since(system.wall());
    system.now().checked_add(Duration::from_millis(left))
}

/// What ends the command first: its deadline, or the timeout of this attempt, which begins now.
fn limit(system: &impl System, spec: &LaunchSpec) -> Option<(Instant, Stopped)> {
    let deadline = spec.deadline_ms.and_then(|deadline| left(system, deadline));
    let timeout = spec.timeout_ms.map(Duration::from_millis);
    let timeout = timeout.and_then(|timeout| system.now().checked_add(timeout));
    let limits = [(deadline, Stopped::Deadline), (timeout, Stopped::Timeout)];
    let set = limits.into_iter().filter_map(|(at, reason)| Some((at?, reason)));
    set.min_by_key(|(at, _)| *at)
}

impl<S: System> Watch<S> {
    fn over(system: S, child: Child, listener: UnixListener, outputs: Outputs, spec: &LaunchSpec) -> Self {
        Self {
            pid: child.pid,
            exits: child.exits,
            stdout: Some(child.stdout),
            stderr: Some(child.stderr),
            listener,
            clients: Clients::default(),
            outputs,
            newest: OutputTail {
                tails: [Tail::new(EVENT_TAIL), Tail::new(EVENT_TAIL)],
                latest: 0,
                fresh: false,
                not_before: system.now(),
            },
            phase: Phase::Running,
            look: LOOK_FIRST,
            stopped: None,
            killed: false,
            ended: None,
            limit: limit(&system, spec),
            stop_signal: spec.stop_signal.to_signal(),
            kill_grace: Duration::from_millis(spec.kill_grace_ms),
            system,
        }
    }

    fn until_the_end(&mut self) -> ExitRecord {
        let mut chunk = vec![0; CHUNK];
        loop {
            self.advance();
            if self.is_over() {
                break;
            }
            self.send_event();
            let Ok(ready) = self.wait() else { continue };
            if ready.exits {
                self.exits.drain();
                self.reap_exited();
            }
            self.read_outputs(&ready, &mut chunk);
            if ready.listener_ready && self.clients.accept(&self.listener) {
                self.newest.fresh = self.newest.tails.iter().any(|tail| tail.total() > 0);
                self.newest.not_before = self.system.now();
            }
            if ready.clients
                && let Some(reason) = self.clients.attend()
            {
                self.stop(reason);
            }
        }
        let (ended, ended_at) = self
            .ended
            .take()
            .unwrap_or_else(|| (CommandEnd::Signal(0), self.system.wall()));
        ExitRecord {
            stopped: self.stopped,
            killed: self.killed,
            stdout_left_open: self.stdout.is_some(),
            stderr_left_open: self.stderr.is_some(),
            ..ExitRecord::without_output(ended, ended_at)
        }
    }

    /// Changes the phase when a time has come or processes have ended.
    fn advance(&mut self) {
        match self.phase {
            Phase::Running => {
                if let Some((at, reason)) = self.limit
                    && self.system.now() >= at
                {
                    self.stop(reason);
                }
            }
            Phase::Stopping { kill_at } => {
                let gone = self.has_ended() && !self.system.group_is_alive(self.pid);
                if gone || self.system.now() >= kill_at {
                    self.killed = !gone;
                    self.system.signal_group(self.pid, Signal::KILL);
                    self.phase = Phase::Killing;
                    self.look = LOOK_FIRST;
                } else {
                    self.look = (self.look * 2).min(LOOK_LAST);
                }
            }
            Phase::Killing => {
                if self.has_ended() {
                    match self.system.sweep() {
                        Swept::Clean | Swept::OutOfReach => self.drain(),
                        Swept::Progress => self.look = LOOK_FIRST,
                        Swept::Waiting => self.look = (self.look * 2).min(LOOK_LAST),
                    }
                }
            }
            Phase::Draining(_) => {}
        }
    }

    fn is_over(&self) -> bool {
        match &self.phase {
            Phase::Draining(drain) => drain.is_over() || (self.stdout.is_none() && self.stderr.is_none()),
            _ => false,
        }
    }

    /// Asks the command to end. The first reason counts; one that comes after its end comes too late.
    fn stop(&mut self, reason: Stopped) {
        if matches!(self.phase, Phase::Running) {
            self.reap_exited();
        }
        if matches!(self.phase, Phase::Running) {
            self.stopped = Some(reason);
            self.system.signal_group(self.pid, self.stop_signal);
            // A suspended process could not act on it.
            self.system.signal_group(self.pid, Signal::CONT);
            self.phase = Phase::Stopping {
                kill_at: self.system.now() + self.kill_grace,
            };
        }
    }

    /// Reaps while the command runs, the command itself included: then it is over.
    fn reap_exited(&mut self) {
        if !matches!(self.phase, Phase::Running) {
            return;
        }
        loop {
            match self.system.reap_any() {
                Ok(Some((pid, ended))) if pid == self.pid => {
                    self.ended = Some((ended, self.system.wall()));
                    return self.drain();
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) | Err(_) => break,
            }
        }
        self.exits.rearm();
    }

    /// The command has ended: reads the rest of its output.
    fn drain(&mut self) {
        let outputs = self.stdout.iter().chain(&self.stderr);
        let buffered = outputs.map(|output| ioctl_fionread(output).unwrap_or(0)).sum();
        self.phase = Phase::Draining(Drain::begin(buffered));
    }

    /// Whether the command has exited, which leaves it unreaped.
    fn has_ended(&mut self) -> bool {
        if self.ended.is_none() {
            self.ended = self.system.peek(self.pid).map(|ended| (ended, self.system.wall()));
        }
        self.ended.is_some()
    }

    fn read_outputs(&mut self, ready: &Ready, chunk: &mut [u8]) {
        if let Phase::Draining(drain) = &mut self.phase {
            match ready.stdout || ready.stderr {
                true => drain.found_something(self.system.now()),
                false => drain.found_nothing(self.system.now()),
            }
        }
        let outputs = [
            (0, ready.stdout, &mut self.stdout, &mut self.outputs.stdout),
            (1, ready.stderr, &mut self.stderr, &mut self.outputs.stderr),
        ];
        for (stream, _, pipe, tail) in outputs.into_iter().filter(|(_, ready, ..)| *ready) {
            let Some(read) = read_some(&self.system, pipe, chunk) else {
                continue;
            };
            tail.push(read);
            self.outputs.both.push(stream, read);
            self.newest.note(stream, read);
            // Both streams, as they come, make the log.
            self.outputs.log.append(read);
            if let Phase::Draining(drain) = &mut self.phase {
                drain.read(read.len() as u64);
            }
        }
    }

    fn send_event(&mut self) {
        if self.newest.fresh && !self.clients.is_empty() && self.system.now() >= self.newest.not_before {
            self.clients.send_all(&SupervisorEvent {
                tail: self.newest.tails[self.newest.latest].to_text(),
                other: self.newest.tails[1 - self.newest.latest].to_text(),
                is_stderr: Some(self.newest.latest == 1),
            });
            self.newest.fresh = false;
            self.newest.not_before = self.system.now() + EVENT_INTERVAL;
        }
    }

    /// How long nothing needs doing unless a descriptor says so.
    fn timeout(&self) -> Option<Duration> {
        let now = self.system.now();
        let event = (self.newest.fresh && !self.clients.is_empty())
            .then(|| self.newest.not_before.saturating_duration_since(now));
        let phase = match &self.phase {
            Phase::Running => self.limit.map(|(at, _)| at.saturating_duration_since(now)),
            Phase::Stopping { kill_at } => Some(kill_at.saturating_duration_since(now).min(self.look)),
            Phase::Killing => Some(self.look),
            Phase::Draining(drain) => Some(drain.next_look(now)),
        };
        event.into_iter().chain(phase).min()
    }

    /// # Errors
    /// When nothing was seen, because a signal came.
    fn wait(&self) -> Result<Ready, Errno> {
        // Exits are notified only while the command runs: later they are polled for, or do not matter.
        let exits = matches!(self.phase, Phase::Running).then_some(&self.exits.pipe);
        let mut polled = vec![PollFd::new(&self.listener, PollFlags::IN)];
        for descriptor in [exits, self.stdout.as_ref(), self.stderr.as_ref()]
            .into_iter()
            .flatten()
        {
            polled.push(PollFd::new(descriptor, PollFlags::IN));
        }
        for client in self.clients.iter() {
            let flags = if client.wants_to_send() {
                PollFlags::IN | PollFlags::OUT
            } else {
                PollFlags::IN
            };
            polled.push(PollFd::new(&client.stream, flags));
        }
        self.system.poll(&mut polled, self.timeout())?;
        let mut seen = polled.iter().map(|polled| !polled.revents().is_empty());
        let mut next = |there: bool| there && seen.next().unwrap_or(false);
        let (listener_ready, exits) = (next(true), next(exits.is_some()));
        let (stdout, stderr) = (next(self.stdout.is_some()), next(self.stderr.is_some()));
        Ok(Ready {
            exits,
            listener_ready,
            stdout,
            stderr,
            clients: seen.any(|ready| ready),
        })
    }
}

impl OutputTail {
    fn note(&mut self, stream: usize, read: &[u8]) {
        self.tails[stream].push(read);
        self.latest = stream;
        self.fresh = true;
    }
}

/// Reads what is available. At the end of the output, or on an error, the pipe is closed.
fn read_some<'a>(system: &impl System, pipe: &mut Option<OwnedFd>, chunk: &'a mut [u8]) -> Option<&'a [u8]> {
    match system.read(pipe.as_ref()?, chunk) {
        Ok(read) if read > 0 => Some(&chunk[..read]),
        Err(Errno::AGAIN | Errno::INTR) => None,
        Ok(_) | Err(_) => {
            *pipe = None;
            None
        }
    }
}

#[cfg(test)]
mod simulated;
