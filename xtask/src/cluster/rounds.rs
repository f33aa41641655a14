//! The rounds: while clients work, a fault happens and ends; then what was answered and what has had effects is checked.

use super::{
    ClusterError,
    effects::{Effects, Misstep},
    faults::Fault,
    load::{Shared, Worker},
    nodes::{Cluster, Service},
    report::Report,
    violation::Violation,
};
use crate::{
    clock,
    crash::{self, History},
    mcp::Era,
};
use fastrand::Rng;
use std::{
    fs,
    io::Write,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

/// How many clients work at once, alternately of each era.
const CLIENTS: usize = 6;
/// How long all tasks may take to end after the last fault.
const DRAIN: Duration = Duration::from_secs(120);
/// Between two looks at the tasks that have not ended.
const LOOK: Duration = Duration::from_millis(50);
/// How long servers of two releases share the work, between two upgrades.
const BETWEEN_UPGRADES: Duration = Duration::from_secs(5);
/// The number of rounds between two lines of progress.
const PROGRESS_EVERY: u32 = 10;

/// Why a run ends early.
pub(super) enum Halt {
    Broken { round: u32, violations: Vec<Violation> },
    Error(ClusterError),
}

impl<E: Into<ClusterError>> From<E> for Halt {
    fn from(error: E) -> Self {
        Self::Error(error.into())
    }
}

/// A run.
pub(super) struct Run {
    root: PathBuf,
    cluster: Cluster,
    shared: Shared,
    effects: Effects,
    missteps: Vec<Misstep>,
    began: Instant,
    commands: History,
    round: u32,
}

impl Run {
    pub(super) fn of(cluster: Cluster, root: &Path) -> Result<Self, ClusterError> {
        Ok(Self {
            effects: Effects::open(&Cluster::effects_file(root))?,
            commands: History::open(&Cluster::journal(root))?,
            missteps: Vec::new(),
            began: clock::now(),
            root: root.to_owned(),
            cluster,
            shared: Shared::new(),
            round: 0,
        })
    }

    pub(super) fn all(mut self, rounds: u32, seed: u64) -> Result<Report, Halt> {
        let mut rng = Rng::with_seed(seed);
        let addresses = Service::ALL.map(|service| self.cluster.address(service));
        let seeds: [u64; CLIENTS] = std::array::from_fn(|_| rng.u64(..));
        // The clients' state is apart, so that the rounds can change what is left.
        let shared = std::mem::replace(&mut self.shared, Shared::new());
        thread::scope(|scope| {
            for (nth, seed) in seeds.into_iter().enumerate() {
                let (era, shared) = ([Era::Legacy, Era::Modern][nth % 2], &shared);
                scope.spawn(move || Worker::new(era, addresses, seed, shared).work());
            }
            let done = self.rounds(rounds, &mut rng, &shared);
            shared.stop.store(true, Ordering::Relaxed);
            done
        })?;
        self.finish(seed, addresses, &shared)
    }

    fn rounds(&mut self, rounds: u32, rng: &mut Rng, shared: &Shared) -> Result<(), Halt> {
        let faults = Fault::all(rng, rounds, self.cluster.is_upgrade());
        for (round, fault) in (1..).zip(faults) {
            self.round = round;
            if self.cluster.is_upgrade() {
                // Older and newer servers work side by side for a while.
                clock::pause(BETWEEN_UPGRADES);
            }
            clock::pause(Duration::from_millis(rng.u64(100..700)));
            self.note(&format!("round {round}: {fault:?}"))?;
            let mut found = self.cluster.suffer(&fault)?;
            self.note("over")?;
            clock::pause(Duration::from_millis(rng.u64(100..700)));
            found.extend(self.cluster.tend(None)?);
            self.check(found, shared)?;
            if round % PROGRESS_EVERY == 0 {
                let acknowledged = shared.ledger.count() + shared.calls.count();
                let open = shared.ledger.open() + shared.calls.open();
                eprintln!(
                    "cluster: round {round}: {acknowledged} acknowledged, {open} open, {} answers, {} steps",
                    shared.history.count(),
                    self.effects.steps
                );
            }
        }
        Ok(())
    }

    /// Appends a line to the log of faults, which says how many lines of effects there were at the time.
    fn note(&mut self, what: &str) -> Result<(), ClusterError> {
        let steps = self.effects.read_new(self.cluster.cut_off())?;
        self.missteps.extend(steps);
        let mut log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.root.join("faults.log"))?;
        Ok(writeln!(
            log,
            "{} lines of effects, {:?}: {what}",
            self.effects.lines,
            self.began.elapsed()
        )?)
    }

    fn check(&mut self, mut found: Vec<Violation>, shared: &Shared) -> Result<(), Halt> {
        found.append(&mut shared.violations.lock());
        found.extend(shared.history.check().into_iter().map(Violation::from));
        let steps = self.effects.read_new(self.cluster.cut_off())?;
        self.missteps.extend(steps);
        for misstep in std::mem::take(&mut self.missteps) {
            let is_stale = misstep.pid().is_some_and(|pid| self.cluster.loses_its_lease(pid));
            if !is_stale {
                found.push(misstep.into());
            }
        }
        found.extend(self.commands.read_new()?.into_iter().map(Violation::from));
        match found.is_empty() {
            true => Ok(()),
            false => {
                self.cluster.dump();
                Err(Halt::Broken {
                    round: self.round,
                    violations: found,
                })
            }
        }
    }

    /// Waits for the end of all tasks, and checks what can be checked only then.
    fn finish(mut self, seed: u64, addresses: [SocketAddr; 2], shared: &Shared) -> Result<Report, Halt> {
        let mut worker = Worker::new(Era::Modern, addresses, seed, shared);
        let since = clock::now();
        while shared.ledger.open() + shared.calls.open() > 0 && since.elapsed() < DRAIN {
            for (task, _) in shared.calls.open_tasks() {
                worker.answer_task(&task);
            }
            for task in shared.ledger.tasks() {
                if shared.ledger.entry(&task).is_some_and(|entry| entry.outcome.is_none()) {
                    worker.poll_task(Service::Commands, &task);
                }
            }
            let found = self.cluster.tend(None)?;
            self.check(found, shared)?;
            clock::pause(LOOK);
        }
        let took = since.elapsed();
        // Each once more, on whichever node.
        for (task, _) in shared.calls.all() {
            worker.poll_task(Service::Durable, &task);
        }
        for task in shared.ledger.tasks() {
            worker.poll_task(Service::Commands, &task);
        }
        let mut found = Vec::new();
        for (task, call) in shared.calls.open_tasks() {
            let token = call.token;
            found.push(Violation::NeverEnds { task, token });
        }
        for task in shared.ledger.tasks() {
            let Some(entry) = shared.ledger.entry(&task).filter(|entry| entry.outcome.is_none()) else {
                continue;
            };
            let token = entry.token;
            found.push(Violation::NeverEnds { task, token });
        }
        let attempts: Vec<PathBuf> = self.cluster.attempts().collect();
        clock::wait_for(DRAIN, || {
            let left: usize = attempts
                .iter()
                .map(|attempts| crash::running_supervisors(attempts))
                .sum();
            (left == 0).then_some(())
        });
        self.check(found, shared)?;
        let mut found = Vec::new();
        for (task, call) in shared.calls.all() {
            if call.has_succeeded() && !self.effects.has_reached(&call.token, call.last()) {
                let token = call.token;
                found.push(Violation::StepMissing { task, token });
            }
        }
        let (commands, _) = crash::outcomes(&shared.ledger, &self.commands, &crash::Interventions::default());
        found.extend(commands.into_iter().map(Violation::from));
        self.check(found, shared)?;
        let report = Report {
            seed,
            network: self.cluster.network(),
            rounds: self.round,
            faults: self.cluster.counts.clone(),
            acknowledged: shared.ledger.count() + shared.calls.count(),
            answers_checked: shared.history.count(),
            commands: self.commands.runs.len(),
            steps: self.effects.steps,
            repeated: self.effects.repeated,
            stale: self.effects.stale,
            plain_calls: shared.counts.plain_calls.load(Ordering::Relaxed),
            questions: shared.counts.answers.load(Ordering::Relaxed),
            cancels: shared.counts.cancels.load(Ordering::Relaxed),
            repeated_calls: shared.counts.repeated.load(Ordering::Relaxed),
            unanswered: shared.counts.unanswered.load(Ordering::Relaxed),
            drained_in: took,
        };
        self.cluster.stop()?;
        Cluster::discard(&self.root)?;
        Ok(report)
    }
}
