//! The rounds: start, look, load, kill.

use super::{
    audit::{self, Fates},
    journal::History,
    ledger::Ledger,
    load,
    plan::{CLIENTS, Plan, Victim},
    printed::Account,
    report::Report,
    site::Site,
    supervisors::{self, Attempt, Frozen, Supervisor},
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

/// Ended tasks that are looked at again after each restart, apart from those that ended just before it.
const OLD: usize = 50;
/// A stop closes streams and leaves commands alone (design section 9).
const STOP: Duration = Duration::from_secs(10);
/// How long to look for a supervisor that has not begun.
const STARTER: Duration = Duration::from_millis(60);
/// How long the judgement of an attempt may take before its supervisor goes on all the same.
const JUDGED: Duration = Duration::from_millis(100);
/// Rounds between two lines that say how far it is.
const NEWS_EVERY: u32 = 20;

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

/// A run and all that is known about it.
pub(super) struct Run {
    site: Site,
    ledger: Ledger,
    history: History,
    fates: Fates,
    account: Account,
    clients: [Client; CLIENTS],
    auditor: Client,
    /// The attempts that ran when the last server died.
    running: Vec<Attempt>,
    /// A supervisor that is held back.
    frozen: Option<Frozen>,
    false_starts: u32,
    round: u32,
}

impl Run {
    pub(super) fn at(site: Site) -> io::Result<Self> {
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let eras = [Era::Legacy, Era::Modern];
        Ok(Self {
            history: History::open(&site.journal())?,
            site,
            ledger: Ledger::default(),
            fates: Fates::default(),
            account: Account::default(),
            clients: std::array::from_fn(|nth| Client::new(eras[nth % eras.len()], nowhere)),
            auditor: Client::new(Era::Modern, nowhere),
            running: Vec::new(),
            frozen: None,
            false_starts: 0,
            round: 0,
        })
    }

    /// All rounds, and then the end of all tasks under a server that is left alone.
    pub(super) fn all(&mut self, rounds: u32, seed: u64) -> Result<Report, Halt> {
        let mut rng = Rng::with_seed(seed);
        let mut found = Vec::new();
        for round in 1..=rounds {
            self.round = round;
            let plan = Plan::draw(&mut rng);
            if let Some(after) = plan.false_start {
                self.start_falsely(after)?;
            }
            let mut server = self.serve()?;
            // What the load found waits for what the restart shows: that is what this is about.
            found.extend(self.look_again(plan.audit));
            found.extend(self.account.settle(&self.site, &self.ledger));
            self.thaw();
            self.check(std::mem::take(&mut found))?;
            found = self.load(&plan, &mut server)?;
            self.running = self.living();
            if round % NEWS_EVERY == 0 {
                let (acknowledged, open) = (self.ledger.count(), self.ledger.open());
                eprintln!("crash: round {round}: {acknowledged} acknowledged, {open} open");
            }
        }
        self.finish(found, seed)
    }

    fn finish(&mut self, mut found: Vec<Violation>, seed: u64) -> Result<Report, Halt> {
        let mut server = self.serve()?;
        self.thaw();
        found.extend(audit::drain(&mut self.auditor, &self.ledger));
        found.extend(audit::tasks(&mut self.auditor, &self.ledger, &self.ledger.tasks()));
        found.extend(audit::silence(&self.site));
        found.extend(self.account.settle(&self.site, &self.ledger));
        found.extend(self.history.read_on()?);
        let (broken, reattached) = audit::outcomes(&self.ledger, &self.history, &self.fates);
        found.extend(broken);
        let (broken, voids) = audit::voids(&self.site, &self.history, &self.fates);
        found.extend(broken);
        self.check(found)?;
        let pid = server.pid();
        server.stop(pid, STOP)?;
        Ok(Report {
            seed,
            rounds: self.round,
            acknowledged: self.ledger.count(),
            cancelled: self.ledger.cancelled(),
            reattached,
            supervisors_killed: self.fates.killed.len(),
            voided: voids.all,
            late_starters: voids.refused,
            commands: self.history.runs.len(),
            false_starts: self.false_starts,
            printed: self.account.commands,
            bytes: self.account.bytes,
        })
    }

    /// Starts a server, notes which attempts it has taken over alive, and tells the clients where it is.
    fn serve(&mut self) -> Result<Server, Halt> {
        let mut server = self.site.serve()?;
        let address = server.ready()?;
        let ran = std::mem::take(&mut self.running);
        self.fates
            .survived
            .extend(self.living().into_iter().filter(|attempt| ran.contains(attempt)));
        self.auditor.moved(address);
        self.clients.iter_mut().for_each(|client| client.moved(address));
        Ok(server)
    }

    /// A server that is killed before it is of any use.
    fn start_falsely(&mut self, after: Duration) -> Result<(), Halt> {
        let mut server = self.site.serve()?;
        clock::pause(after);
        self.false_starts += 1;
        Ok(server.kill()?)
    }

    /// The attempts that run at this moment.
    fn living(&self) -> Vec<Attempt> {
        let living = supervisors::living(&self.site.attempts()).into_iter();
        living.map(|supervisor| supervisor.attempt).collect()
    }

    fn look_again(&mut self, seed: u64) -> Vec<Violation> {
        let due = self.ledger.due(&mut Rng::with_seed(seed), OLD);
        audit::tasks(&mut self.auditor, &self.ledger, &due)
    }

    /// Lets all clients loose; kills the server, and perhaps a supervisor, under their hands.
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
            self.fates.killed.extend(self.site.kill_supervisor(victim(true)));
            self.frozen = plan.late_starter.then(|| self.site.freeze_starter()).flatten();
            let killed = server.kill();
            stop.store(true, Ordering::Relaxed);
            self.fates.killed.extend(self.site.kill_supervisor(victim(false)));
            let found = working
                .into_iter()
                .map(|client| client.join().unwrap_or_else(|panic| resume_unwind(panic)));
            let found = found.flatten().collect();
            killed?;
            Ok(found)
        })
    }

    /// Lets the supervisor that was held back go on, once its attempt is judged: void, unless it had got further than it seemed.
    fn thaw(&mut self) {
        if let Some(frozen) = self.frozen.take() {
            let void = frozen.attempt().directory(&self.site.attempts()).join(audit::VOID);
            clock::wait_for(JUDGED, || void.exists().then_some(()));
            self.fates.late.insert(frozen.attempt().clone());
        }
    }

    /// Adds what the commands have said meanwhile; anything at all ends the run.
    fn check(&mut self, mut found: Vec<Violation>) -> Result<(), Halt> {
        found.extend(self.history.read_on()?);
        found.retain(|violation| self.site.looks_for(violation));
        if found.is_empty() {
            return Ok(());
        }
        Err(Halt::Broken {
            round: self.round,
            violations: found,
        })
    }
}

impl Site {
    /// Kills the supervisor that the plan means, if any lives.
    fn kill_supervisor(&self, victim: Option<Victim>) -> Option<Attempt> {
        let nth = victim?.nth;
        let living = supervisors::living(&self.attempts());
        let supervisor = living.get(nth.checked_rem(living.len())?)?;
        supervisor.kill().then(|| supervisor.attempt.clone())
    }

    /// Stops a supervisor before it begins, if one can be caught so early.
    fn freeze_starter(&self) -> Option<Frozen> {
        let attempts = self.attempts();
        let has_begun = |starter: &Supervisor| starter.attempt.directory(&attempts).join(audit::STARTED).exists();
        let starter = clock::wait_for(STARTER, || {
            supervisors::living(&attempts)
                .into_iter()
                .find(|starter| !has_begun(starter))
        });
        starter?.freeze()
    }
}
