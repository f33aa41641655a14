//! The rounds: start a server, check its tasks, run the load, kill the server.

use super::{
    audit::{self, Interventions},
    journal::History,
    ledger::Ledger,
    load,
    plan::{CLIENTS, Plan, Victim},
    printed::OutputCheck,
    release::Release,
    report::Report,
    site::Site,
    supervisors::{self, Attempt, Supervisor, SuspendedSupervisor},
    violation::Violation,
};
use crate::{
    clock,
    mcp::{Client, Era},
    server::{Server, ServerError},
};
use fastrand::Rng;
use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    panic::resume_unwind,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

/// How many old tasks are checked after each restart.
const OLD: usize = 50;
/// How long a stop may take: it closes streams and leaves commands running.
const STOP: Duration = Duration::from_secs(10);
/// How long to look for a supervisor that has not started its command.
const FIND_STARTING: Duration = Duration::from_millis(60);
/// How long to wait until the attempt of a suspended supervisor is declared void.
const VOID_TIMEOUT: Duration = Duration::from_millis(100);
/// The number of rounds between two lines of progress.
const PROGRESS_EVERY: u32 = 20;

/// Why a run ends early.
pub(super) enum Halt {
    Broken { round: u32, violations: Vec<Violation> },
    Server(ServerError),
    Io(io::Error),
}

impl From<ServerError> for Halt {
    fn from(error: ServerError) -> Self {
        Self::Server(error)
    }
}

impl From<io::Error> for Halt {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A run and its state.
pub(super) struct Run {
    site: Site,
    release: Release,
    rounds: u32,
    ledger: Ledger,
    history: History,
    interventions: Interventions,
    output_check: OutputCheck,
    clients: [Client; CLIENTS],
    auditor: Client,
    /// The attempts that ran when the last server died.
    running: Vec<Attempt>,
    /// A supervisor that is suspended.
    suspended: Option<SuspendedSupervisor>,
    false_starts: u32,
    round: u32,
}

impl Run {
    pub(super) fn at(site: Site, release: Release, rounds: u32) -> io::Result<Self> {
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let eras = [Era::Legacy, Era::Modern];
        Ok(Self {
            history: History::open(&site.journal())?,
            site,
            release,
            rounds,
            ledger: Ledger::default(),
            interventions: Interventions::default(),
            output_check: OutputCheck::default(),
            clients: std::array::from_fn(|nth| Client::new(eras[nth % eras.len()], nowhere)),
            auditor: Client::new(Era::Modern, nowhere),
            running: Vec::new(),
            suspended: None,
            false_starts: 0,
            round: 0,
        })
    }

    /// Runs all rounds, then waits for the end of all tasks with a server that is not killed.
    pub(super) fn all(&mut self, seed: u64) -> Result<Report, Halt> {
        let mut rng = Rng::with_seed(seed);
        let mut found = Vec::new();
        for round in 1..=self.rounds {
            self.round = round;
            let plan = Plan::draw(&mut rng);
            if let Some(after) = plan.false_start {
                self.start_and_kill(after)?;
            }
            let mut server = self.serve()?;
            // The violations of the load are reported together with those of the restart, which matter more.
            found.extend(self.check_tasks(plan.audit));
            found.extend(self.output_check.check(&self.site, &self.ledger));
            self.resume_supervisor();
            self.check(std::mem::take(&mut found))?;
            found = self.load(&plan, &mut server)?;
            self.running = self.running_attempts();
            if round % PROGRESS_EVERY == 0 {
                let (acknowledged, open) = (self.ledger.count(), self.ledger.open());
                eprintln!("crash: round {round}: {acknowledged} acknowledged, {open} open");
            }
        }
        self.finish(found, seed)
    }

    fn finish(&mut self, mut found: Vec<Violation>, seed: u64) -> Result<Report, Halt> {
        let mut server = self.serve()?;
        self.resume_supervisor();
        found.extend(audit::drain(&mut self.auditor, &self.ledger));
        found.extend(audit::tasks(&mut self.auditor, &self.ledger, &self.ledger.tasks()));
        found.extend(audit::supervisors_end(&self.site));
        found.extend(audit::deleted(&mut self.auditor, &self.ledger, &self.site));
        found.extend(self.output_check.check(&self.site, &self.ledger));
        found.extend(self.history.read_new()?);
        let (broken, reattached) = audit::outcomes(&self.ledger, &self.history, &self.interventions);
        found.extend(broken);
        let (broken, voids) = audit::voids(&self.site, &self.history, &self.interventions);
        found.extend(broken);
        self.check(found)?;
        let pid = server.pid();
        server.stop(pid, STOP)?;
        Ok(Report {
            seed,
            rounds: self.rounds,
            acknowledged: self.ledger.count(),
            cancelled: self.ledger.cancelled(),
            deleted: self.ledger.deleted().len(),
            reattached,
            supervisors_killed: self.interventions.killed.len(),
            voided: voids.all,
            late_starters: voids.refused,
            commands: self.history.runs.len(),
            false_starts: self.false_starts,
            printed: self.output_check.commands,
            bytes: self.output_check.bytes,
        })
    }

    /// Starts a server, records which attempts have survived, and gives the clients its address.
    fn serve(&mut self) -> Result<Server, Halt> {
        let mut server = self.start()?;
        let address = server.ready()?;
        let ran = std::mem::take(&mut self.running);
        self.interventions.survived.extend(
            self.running_attempts()
                .into_iter()
                .filter(|attempt| ran.contains(attempt)),
        );
        self.auditor.moved(address);
        self.clients.iter_mut().for_each(|client| client.moved(address));
        Ok(server)
    }

    fn start(&self) -> Result<Server, ServerError> {
        self.site.serve(self.release.of_round(self.round, self.rounds))
    }

    /// Starts a server and kills it after `after`.
    fn start_and_kill(&mut self, after: Duration) -> Result<(), Halt> {
        let mut server = self.start()?;
        clock::pause(after);
        self.false_starts += 1;
        Ok(server.kill()?)
    }

    /// The attempts that are running.
    fn running_attempts(&self) -> Vec<Attempt> {
        let running = supervisors::running(&self.site.attempts()).into_iter();
        running.map(|supervisor| supervisor.attempt).collect()
    }

    fn check_tasks(&mut self, seed: u64) -> Vec<Violation> {
        let due = self.ledger.due(&mut Rng::with_seed(seed), OLD);
        audit::tasks(&mut self.auditor, &self.ledger, &due)
    }

    /// Runs all clients, and kills the server, and perhaps a supervisor, while they work.
    fn load(&mut self, plan: &Plan, server: &mut Server) -> Result<Vec<Violation>, Halt> {
        let stop = AtomicBool::new(false);
        let (ledger, stopped, kinds) = (&self.ledger, &stop, self.site.load());
        std::thread::scope(|scope| {
            let working: Vec<_> = self
                .clients
                .iter_mut()
                .zip(plan.clients)
                .map(|(client, seed)| scope.spawn(move || load::work(client, kinds, seed, ledger, stopped)))
                .collect();
            clock::pause(plan.load);
            let victim = |server_lives: bool| plan.victim.filter(|victim| victim.server_lives == server_lives);
            let killed_early = self.site.kill_supervisor(victim(true));
            self.suspended = plan
                .late_starter
                .then(|| self.site.suspend_starting_supervisor())
                .flatten();
            let killed = server.kill();
            stop.store(true, Ordering::Relaxed);
            self.interventions
                .killed
                .extend(self.site.kill_supervisor(victim(false)));
            let found = working
                .into_iter()
                .map(|client| client.join().unwrap_or_else(|panic| resume_unwind(panic)));
            let mut found: Vec<_> = found.flatten().collect();
            if let Some(attempt) = killed_early {
                if ledger.entry(&attempt.task).is_none() {
                    forgive_interrupted_call(&mut found);
                }
                self.interventions.killed.insert(attempt);
            }
            killed?;
            Ok(found)
        })
    }

    /// Resumes the suspended supervisor once its attempt is void, or after a timeout if it had started its command.
    fn resume_supervisor(&mut self) {
        if let Some(suspended) = self.suspended.take() {
            let void = suspended.attempt().directory(&self.site.attempts()).join(audit::VOID);
            clock::wait_for(VOID_TIMEOUT, || void.exists().then_some(()));
            self.interventions.late.insert(suspended.attempt().clone());
        }
    }

    /// Adds the violations in the journal's new lines; any violation ends the run.
    fn check(&mut self, mut found: Vec<Violation>) -> Result<(), Halt> {
        found.extend(self.history.read_new()?);
        found.retain(|violation| self.site.counts(violation));
        if found.is_empty() {
            return Ok(());
        }
        Err(Halt::Broken {
            round: self.round,
            violations: found,
        })
    }
}

/// Removes the error of the plain call whose supervisor this test killed. It kills one in a round, so only one call may fail.
fn forgive_interrupted_call(found: &mut Vec<Violation>) {
    let interrupted = |violation: &Violation| matches!(violation, Violation::CallInterrupted { .. });
    if let Some(nth) = found.iter().position(interrupted) {
        found.remove(nth);
    }
}

impl Site {
    /// Kills the supervisor that the plan selects, if any is running.
    fn kill_supervisor(&self, victim: Option<Victim>) -> Option<Attempt> {
        let nth = victim?.nth;
        let running = supervisors::running(&self.attempts());
        let supervisor = running.get(nth.checked_rem(running.len())?)?;
        supervisor.kill().then(|| supervisor.attempt.clone())
    }

    /// Suspends a supervisor before it starts its command, if one is found in time.
    fn suspend_starting_supervisor(&self) -> Option<SuspendedSupervisor> {
        let attempts = self.attempts();
        let has_begun = |starter: &Supervisor| starter.attempt.directory(&attempts).join(audit::STARTED).exists();
        let starter = clock::wait_for(FIND_STARTING, || {
            supervisors::running(&attempts)
                .into_iter()
                .find(|starter| !has_begun(starter))
        });
        starter?.suspend()
    }
}
