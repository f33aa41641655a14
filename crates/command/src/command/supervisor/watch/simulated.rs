//! The loop over real pipes, with a command, its descendants and time that are simulated: thousands of schedules in a moment, with
//! silences of hours, slow writes, and a processor that is busy with other things.

use super::*;
use crate::command::{attempt_dir::signal::StopSignal, supervisor::clock::monotonic};
use proptest::prelude::*;
use rustix::{event::poll, pipe::PipeFlags};
use std::{cell::RefCell, collections::VecDeque, io::Write, os::unix::net::UnixStream};

const GRACE: Duration = Duration::from_secs(10);

/// One thing that a process does.
#[derive(Debug, Clone)]
enum Action {
    Sleep(Duration),
    /// To standard output (0) or standard error (1). It waits while the pipe is full.
    Write(usize, Vec<u8>),
}

/// A process that ends after its last step, or the server that asks for a stop with its last.
struct Actor {
    role: Role,
    steps: VecDeque<Action>,
    /// When its next step begins.
    at: Duration,
    /// A pipe is full.
    blocked: bool,
    pipes: [Option<OwnedFd>; 2],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Command,
    /// It has the outputs open, and lives on when the command has ended.
    Descendant,
    Server,
}

struct World {
    origin: Instant,
    elapsed: Duration,
    set: (Duration, i64),
    actors: Vec<Actor>,
    exit_signal: OwnedFd,
    /// The server's end of its connection.
    server: UnixStream,
    /// What was written to each pipe, and how much of it before the command's end.
    written: [Vec<u8>; 2],
    at_end: Option<[usize; 2]>,
    reaped: bool,
    signals: Vec<(Duration, Signal)>,
    /// What the command does when it gets the stop signal.
    cleanup: Vec<Action>,
    stop_signal: StopSignal,
    /// How long the loop is busy with what it has read: that is written to a slow disk.
    slow_write: Duration,
    /// How long the loop may be kept from the processor between any two things it does.
    most_lag: Duration,
    random: u64,
}

impl World {
    /// Lets time pass, with every step that falls into it.
    fn pass(&mut self, span: Duration) {
        let until = self.elapsed + span;
        while let Some(next) = self.next_step().filter(|at| *at <= until) {
            self.elapsed = self.elapsed.max(next);
            self.step();
        }
        self.elapsed = until;
    }

    fn lag(&mut self) {
        // xorshift
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let nanos = self.most_lag.as_nanos() as u64;
        // Mostly there is none.
        let lag = if self.random.is_multiple_of(4) {
            self.random % (nanos + 1)
        } else {
            0
        };
        self.pass(Duration::from_nanos(lag));
    }

    fn ready(&self) -> impl Iterator<Item = (usize, &Actor)> {
        self.actors.iter().enumerate().filter(|(_, actor)| !actor.blocked)
    }

    fn next_step(&self) -> Option<Duration> {
        self.ready().map(|(_, actor)| actor.at).min()
    }

    fn step(&mut self) {
        let Some((nth, _)) = self.ready().min_by_key(|(_, actor)| actor.at) else {
            return;
        };
        let actor = &mut self.actors[nth];
        match actor.steps.pop_front() {
            Some(Action::Sleep(span)) => actor.at += span,
            Some(Action::Write(stream, bytes)) => {
                let wrote = match &actor.pipes[stream] {
                    Some(pipe) => rustix::io::write(pipe, &bytes).unwrap_or(0),
                    None => bytes.len(),
                };
                self.written[stream].extend(&bytes[..wrote]);
                if wrote < bytes.len() {
                    actor.blocked = true;
                    actor.steps.push_front(Action::Write(stream, bytes[wrote..].to_vec()));
                }
            }
            None => self.end(nth),
        }
    }

    fn end(&mut self, nth: usize) {
        let actor = self.actors.remove(nth);
        match actor.role {
            Role::Command => {
                self.at_end = Some([self.written[0].len(), self.written[1].len()]);
                rustix::io::write(&self.exit_signal, &[0]).unwrap();
            }
            Role::Descendant => {}
            Role::Server => self.server.write_all(b"cancel\n").unwrap(),
        }
    }

    fn kill(&mut self, role: Role) {
        while let Some(nth) = self.actors.iter().position(|actor| actor.role == role) {
            self.end(nth);
        }
    }

    fn ended(&self) -> Option<CommandEnd> {
        self.at_end.map(|_| CommandEnd::Code(0))
    }
}

struct Simulation(RefCell<World>);

impl System for Simulation {
    fn now(&self) -> Instant {
        let mut world = self.0.borrow_mut();
        let now = world.origin + world.elapsed;
        // What is done with it is done later.
        world.lag();
        now
    }

    fn wall(&self) -> UnixMillis {
        let world = self.0.borrow();
        let (at, by) = world.set;
        UnixMillis(world.elapsed.as_millis() as i64 + if world.elapsed >= at { by } else { 0 })
    }

    fn poll(&self, polled: &mut [PollFd<'_>], timeout: Option<Duration>) -> Result<(), Errno> {
        let mut world = self.0.borrow_mut();
        let until = timeout.map(|timeout| world.elapsed + timeout);
        loop {
            let ready = poll(polled, Some(&rustix::event::Timespec::default()))?;
            if ready > 0 || until.is_some_and(|until| world.elapsed >= until) {
                world.lag();
                return Ok(());
            }
            let next = world.next_step().into_iter().chain(until).min();
            let next = next.expect("someone does something, or the loop looks again");
            let span = next.saturating_sub(world.elapsed);
            world.pass(span);
        }
    }

    fn read(&self, pipe: &OwnedFd, chunk: &mut [u8]) -> Result<usize, Errno> {
        let read = rustix::io::read(pipe, chunk)?;
        let mut world = self.0.borrow_mut();
        let now = world.elapsed;
        for actor in world.actors.iter_mut().filter(|actor| actor.blocked) {
            (actor.blocked, actor.at) = (false, now);
        }
        let slow_write = world.slow_write;
        world.pass(slow_write);
        Ok(read)
    }

    fn reap_any(&self) -> Result<Option<(Pid, CommandEnd)>, Errno> {
        let mut world = self.0.borrow_mut();
        let ended = world.ended().filter(|_| !world.reaped);
        world.reaped = ended.is_some();
        Ok(ended.map(|ended| (command_pid(), ended)))
    }

    fn peek(&self, _pid: Pid) -> Option<CommandEnd> {
        self.0.borrow().ended()
    }

    fn signal_group(&self, _leader: Pid, signal: Signal) {
        let mut world = self.0.borrow_mut();
        let at = world.elapsed;
        world.signals.push((at, signal));
        match signal {
            stop if stop == world.stop_signal.to_signal() => {
                let cleanup: VecDeque<_> = world.cleanup.clone().into();
                for actor in world.actors.iter_mut().filter(|actor| actor.role == Role::Command) {
                    (actor.steps, actor.at, actor.blocked) = (cleanup.clone(), at, false);
                }
            }
            Signal::KILL => world.kill(Role::Command),
            _ => {}
        }
    }

    fn group_is_alive(&self, _leader: Pid) -> bool {
        false
    }

    fn sweep(&self) -> Swept {
        self.0.borrow_mut().kill(Role::Descendant);
        Swept::Clean
    }
}

fn command_pid() -> Pid {
    Pid::from_raw(4_000_000).unwrap()
}

/// What happens to a supervisor.
#[derive(Debug, Clone, Default)]
struct Scenario {
    command: Vec<Action>,
    /// What a process does that the command has left behind.
    descendant: Option<Vec<Action>>,
    /// When the server asks for a stop.
    cancel: Option<Duration>,
    deadline: Option<Duration>,
    timeout: Option<Duration>,
    stop_signal: StopSignal,
    /// When the system's clock is set, and by how many milliseconds.
    set: (Duration, i64),
    cleanup: Vec<Action>,
    slow_write: Duration,
    most_lag: Duration,
    random: u64,
}

/// What came of it.
struct Outcome {
    exit: ExitRecord,
    world: World,
    kept: [Vec<u8>; 2],
    logged: u64,
}

impl Outcome {
    fn signalled(&self, wanted: Signal) -> Option<Duration> {
        let mut signals = self.world.signals.iter();
        signals.find(|(_, signal)| *signal == wanted).map(|(at, _)| *at)
    }
}

fn run(scenario: &Scenario) -> Outcome {
    let pipe = || rustix::pipe::pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC).unwrap();
    let ((stdout, stdout_in), (stderr, stderr_in), (exits, exit_signal)) = (pipe(), pipe(), pipe());
    let folder = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(folder.path().join("sock")).unwrap();
    listener.set_nonblocking(true).unwrap();
    let server = UnixStream::connect(folder.path().join("sock")).unwrap();
    let actor = |role, steps: &[Action]| Actor {
        role,
        steps: steps.to_vec().into(),
        at: Duration::ZERO,
        blocked: false,
        pipes: match role {
            Role::Server => [None, None],
            _ => [&stdout_in, &stderr_in].map(|pipe| Some(pipe.try_clone().unwrap())),
        },
    };
    let mut actors = vec![actor(Role::Command, &scenario.command)];
    actors.extend(scenario.descendant.iter().map(|steps| actor(Role::Descendant, steps)));
    actors.extend(
        scenario
            .cancel
            .iter()
            .map(|at| actor(Role::Server, &[Action::Sleep(*at)])),
    );
    drop((stdout_in, stderr_in));
    let world = World {
        origin: monotonic(),
        elapsed: Duration::ZERO,
        set: scenario.set,
        actors,
        exit_signal,
        server,
        written: Default::default(),
        at_end: None,
        reaped: false,
        signals: Vec::new(),
        cleanup: scenario.cleanup.clone(),
        stop_signal: scenario.stop_signal,
        slow_write: scenario.slow_write,
        most_lag: scenario.most_lag,
        random: scenario.random | 1,
    };
    let child = Child {
        pid: command_pid(),
        stdout,
        stderr,
        exits: ExitNotifier::signalled_by_test(exits),
    };
    let outputs = Outputs {
        stdout: Tail::new(usize::MAX),
        stderr: Tail::new(usize::MAX),
        both: MergedTail::new(0),
        log: LogWriter::new(folder.path(), 0, 0),
        artifacts: None,
    };
    let spec = LaunchSpec {
        argv: Vec::new(),
        env: Default::default(),
        env_bytes: Default::default(),
        cwd: folder.path().to_owned(),
        cwd_within: None,
        has_secrets: false,
        max_output: u64::MAX,
        max_log: 0,
        least_free: 0,
        deadline_ms: scenario.deadline.map(|deadline| deadline.as_millis() as i64),
        timeout_ms: scenario.timeout.map(|timeout| timeout.as_millis() as u64),
        stop_signal: scenario.stop_signal,
        kill_grace_ms: GRACE.as_millis() as u64,
        success: Default::default(),
        artifacts: None,
    };
    let simulation = Simulation(RefCell::new(world));
    let mut watch = Watch::over(simulation, child, listener, outputs, &spec);
    let exit = watch.until_the_end();
    let Watch { system, outputs, .. } = watch;
    let kept = [&outputs.stdout, &outputs.stderr].map(|tail| {
        let mut kept = Vec::new();
        tail.write_to(&mut kept).unwrap();
        kept
    });
    Outcome {
        exit,
        world: system.0.into_inner(),
        kept,
        logged: outputs.log.offset(),
    }
}

fn seconds(most: u64) -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::ZERO),
        (0..1_000u64).prop_map(Duration::from_millis),
        (0..=most * 1_000).prop_map(Duration::from_millis),
    ]
}

/// Bytes by which a place in the stream is known.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let length = prop_oneof![Just(0usize), 1..100usize, 1..70_000usize, 60_000..400_000usize];
    (length, any::<u8>()).prop_map(|(length, seed)| (0..length).map(|at| (at / 251 + at) as u8 ^ seed).collect())
}

fn steps(most_seconds: u64) -> impl Strategy<Value = Vec<Action>> {
    let step = prop_oneof![
        seconds(most_seconds).prop_map(Action::Sleep),
        (0..2usize, bytes()).prop_map(|(stream, bytes)| Action::Write(stream, bytes)),
    ];
    proptest::collection::vec(step, 0..6)
}

fn scenario() -> impl Strategy<Value = Scenario> {
    let descendant = proptest::option::of(steps(3));
    (steps(100_000), descendant, seconds(2), seconds(2), any::<u64>()).prop_map(
        |(command, descendant, slow_write, most_lag, random)| Scenario {
            command,
            descendant,
            slow_write,
            most_lag,
            random,
            ..Scenario::default()
        },
    )
}

fn length(steps: &[Action]) -> usize {
    let bytes = steps.iter().map(|step| match step {
        Action::Sleep(_) => 0,
        Action::Write(_, bytes) => bytes.len(),
    });
    bytes.sum()
}

proptest! {
    #[test]
    fn every_byte_that_was_written_is_kept_or_its_loss_is_marked(scenario in scenario()) {
        let outcome = run(&scenario);
        let at_end = outcome.world.at_end.unwrap();
        let open = [outcome.exit.stdout_left_open, outcome.exit.stderr_left_open];
        for stream in 0..2 {
            let (kept, written) = (&outcome.kept[stream], &outcome.world.written[stream]);
            prop_assert!(kept.len() >= at_end[stream], "what was written before the end, {} of {}", kept.len(), at_end[stream]);
            prop_assert!(written.starts_with(kept));
            prop_assert!(open[stream] || kept == written);
        }
        prop_assert_eq!(outcome.logged as usize, outcome.kept[0].len() + outcome.kept[1].len());
        if scenario.descendant.is_none() {
            prop_assert_eq!(open, [false, false]);
            prop_assert_eq!(outcome.logged as usize, length(&scenario.command));
        }
    }

    /// However long it takes to write down what was read.
    #[test]
    fn a_descendant_that_never_pauses_for_long_is_read_to_its_end(
        pauses in proptest::collection::vec(0..300u64, 0..4), said in bytes(), slow_write in 0..300u64,
    ) {
        let step = |pause| [Action::Write(0, said.clone()), Action::Sleep(Duration::from_millis(pause))];
        let outcome = run(&Scenario {
            descendant: Some(pauses.iter().flat_map(|pause| step(*pause)).collect()),
            slow_write: Duration::from_millis(slow_write),
            ..Scenario::default()
        });
        prop_assert!(!outcome.exit.stdout_left_open);
        prop_assert_eq!(outcome.kept[0].len(), pauses.len() * said.len());
    }

    #[test]
    fn the_first_of_deadline_and_timeout_ends_the_command_on_time_however_the_clock_is_set(
        deadline in 1..10_000u64, timeout in proptest::option::of(1..10_000u64), at in 1..10_000u64, by in -3_600_000i64..3_600_000,
        stop_signal in proptest::sample::select(StopSignal::ALL.to_vec()),
    ) {
        let (deadline, timeout) = (Duration::from_secs(deadline), timeout.map(Duration::from_secs));
        let outcome = run(&Scenario {
            command: vec![Action::Sleep(Duration::from_secs(1_000_000))],
            deadline: Some(deadline),
            timeout,
            stop_signal,
            set: (Duration::from_secs(at), by),
            ..Scenario::default()
        });
        let (first, reason) = match timeout.filter(|timeout| *timeout < deadline) {
            Some(timeout) => (timeout, Stopped::Timeout),
            None => (deadline, Stopped::Deadline),
        };
        prop_assert_eq!(outcome.exit.stopped, Some(reason));
        prop_assert_eq!(outcome.world.signals[0], (first, stop_signal.to_signal()));
    }

    /// Neither counts once the command has been told to stop, or has ended.
    #[test]
    fn a_timeout_does_not_change_another_end(silence in 1..100u64, cleanup in 0..8u64, is_cancelled in any::<bool>()) {
        let end = Duration::from_secs(silence);
        let outcome = run(&Scenario {
            command: vec![Action::Sleep(if is_cancelled { end * 1_000 } else { end })],
            descendant: Some(vec![Action::Sleep(end), Action::Write(0, b"on".to_vec()), Action::Sleep(Duration::from_millis(500))]),
            cancel: is_cancelled.then_some(end),
            cleanup: vec![Action::Sleep(Duration::from_secs(cleanup))],
            timeout: Some(end + Duration::from_millis(1)),
            ..Scenario::default()
        });
        prop_assert_eq!(outcome.exit.stopped, is_cancelled.then_some(Stopped::Cancel));
        prop_assert_eq!(outcome.signalled(Signal::TERM), is_cancelled.then_some(end));
    }

    #[test]
    fn the_grace_counts_from_the_signal(
        silence in seconds(100_000), cleanup in seconds(20), said in bytes(), slow_write in seconds(2), most_lag in seconds(2), random in any::<u64>(),
    ) {
        let outcome = run(&Scenario {
            command: vec![Action::Write(0, said), Action::Sleep(Duration::from_secs(1_000_000))],
            cancel: Some(silence),
            cleanup: vec![Action::Sleep(cleanup), Action::Write(0, b"cleaned".to_vec())],
            slow_write,
            most_lag,
            random,
            ..Scenario::default()
        });
        let (term, kill) = (outcome.signalled(Signal::TERM).unwrap(), outcome.signalled(Signal::KILL).unwrap());
        prop_assert_eq!(outcome.exit.stopped, Some(Stopped::Cancel));
        if outcome.exit.killed {
            prop_assert!(kill - term >= GRACE, "killed after {:?}", kill - term);
        }
        if cleanup < GRACE {
            prop_assert!(!outcome.exit.killed, "killed after {:?}", kill - term);
            prop_assert!(outcome.kept[0].ends_with(b"cleaned"));
        }
    }
}

/// One that writes for ever, much or from time to time, does not keep the task from its end.
#[test]
fn a_descendant_that_never_stops_writing_is_left_and_marked() {
    for (bytes, pause) in [(60_000, 0), (10, 300), (10, 7)] {
        let line = [
            Action::Write(0, vec![b'x'; bytes]),
            Action::Sleep(Duration::from_millis(pause)),
        ];
        let outcome = run(&Scenario {
            command: vec![Action::Write(0, b"own".to_vec())],
            descendant: Some((0..400).flat_map(|_| line.clone()).collect()),
            ..Scenario::default()
        });
        assert!(outcome.exit.stdout_left_open && outcome.kept[0].starts_with(b"own"));
        let whole = 400 * bytes;
        assert!(outcome.kept[0].len() < whole, "{} of {whole}", outcome.kept[0].len());
    }
}
