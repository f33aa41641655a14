//! The crash test of commands, which outlive the server: supervisors are killed and suspended, too.

use super::{InjectedFault, older::Release};
use fastrand::Rng;
use harness::{
    clock,
    commands::{
        self, CommandCall, CommandJournal, CommandKind, CommandLedger, CommandLoad, Interventions, OutputCheck,
        check_outcomes,
    },
    ledger::caller::{Caller, Excuse, Unanswered},
    mcp::{Client, ClientEra},
    rounds::report::RunReport,
    rounds::violation::{Invariant, Violation},
    rounds::{Campaign, RunError},
    server::supervisors::{self, CommandAttempt, RunningSupervisor, SuspendedSupervisor},
    server::{self, Server},
    site::Site,
};
use std::{
    fs, io,
    panic::resume_unwind,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// How many clients run at once, alternately of each era.
const CLIENTS: usize = 4;
/// How many old tasks are checked after each restart.
const OLD: usize = 50;
/// How long the last tasks may take to end, and what belongs to them to go.
const DRAIN: Duration = Duration::from_secs(60);
/// How long a stop may take: it closes streams and leaves commands running.
const STOP: Duration = Duration::from_secs(10);
/// How long to look for a supervisor that has not started its command.
const FIND_STARTING: Duration = Duration::from_millis(60);
/// How long to wait until the attempt of a suspended supervisor is declared void.
const VOID_TIMEOUT: Duration = Duration::from_millis(100);
/// The file that prevents an attempt from starting.
const VOID: &str = "void";
/// The file that says that a command may have been started.
const STARTED: &str = "started";

type CommandCaller = Caller<CommandCall>;

/// The decisions of a round. The same seed gives the same decisions, but not the same timing.
struct Plan {
    /// When to kill a server that is started before the round's, possibly before it has recovered.
    false_start: Option<Duration>,
    /// How long the clients work before the server is killed.
    load: Duration,
    /// Whether a supervisor is killed while the server runs (`true`) or after it, and which: the remainder of any number.
    victim: Option<(bool, usize)>,
    /// Whether to suspend a supervisor that has not started its command until the next server has recovered its attempt.
    late_starter: bool,
    /// The seeds of the clients' decisions.
    clients: [u64; CLIENTS],
    /// The seed for the choice of tasks that are polled after the restart.
    audit: u64,
}

impl Plan {
    fn draw(rng: &mut Rng) -> Self {
        let false_start = rng.u64(0..120);
        Self {
            false_start: (rng.u8(0..5) == 0).then(|| Duration::from_millis(false_start)),
            load: Duration::from_millis(rng.u64(100..400)),
            victim: (rng.u8(0..3) == 0).then(|| (rng.bool(), rng.usize(..))),
            late_starter: rng.u8(0..3) == 0,
            clients: std::array::from_fn(|_| rng.u64(..)),
            audit: rng.u64(..),
        }
    }
}

/// The server of a site, with its configuration and its data directory.
pub(super) struct CommandServer {
    configuration: PathBuf,
    log: PathBuf,
    pub(super) attempts: PathBuf,
}

impl CommandServer {
    pub(super) fn prepare(site: &Site, load: CommandLoad) -> io::Result<Self> {
        let data = site.file("data");
        let configuration = commands::configuration(site, &data, load, "");
        Ok(Self {
            configuration: site.write("crash.toml", configuration)?,
            log: site.file("server.log"),
            attempts: data.join("attempts"),
        })
    }

    pub(super) fn start(&self, program: &Path, plant: Option<InjectedFault>) -> Result<Server, RunError> {
        let mut command = server::serve(program, &self.configuration);
        command.arg("--json");
        command.envs(plant.map(|plant| ("LONGHAUL_PLANT", plant.name())));
        Ok(Server::start(&mut command, &self.log)?)
    }
}

pub(super) struct CommandCrashes {
    server: CommandServer,
    release: Release,
    plant: Option<InjectedFault>,
    load: CommandLoad,
    ledger: Arc<CommandLedger>,
    journal: CommandJournal,
    interventions: Interventions,
    output_check: OutputCheck,
    clients: [CommandCaller; CLIENTS],
    auditor: CommandCaller,
    /// The attempts that ran when the last server died.
    running: Vec<CommandAttempt>,
    /// A supervisor that is suspended.
    suspended: Option<SuspendedSupervisor>,
    false_starts: usize,
    round: u32,
}

impl CommandCrashes {
    pub(super) fn start(
        site: &Site,
        release: Release,
        load: CommandLoad,
        plant: Option<InjectedFault>,
    ) -> Result<Self, RunError> {
        let ledger = Arc::default();
        let eras = [ClientEra::Legacy, ClientEra::Modern];
        let client = |nth: usize| Caller::new(Client::of_nobody(eras[nth % 2]), &ledger, Excuse::Killed);
        Ok(Self {
            journal: commands::prepare(site)?,
            server: CommandServer::prepare(site, load)?,
            release,
            plant,
            load,
            interventions: Interventions::default(),
            output_check: OutputCheck::default(),
            clients: std::array::from_fn(client),
            auditor: Caller::new(Client::of_nobody(ClientEra::Modern), &ledger, Excuse::Nothing),
            ledger,
            running: Vec::new(),
            suspended: None,
            false_starts: 0,
            round: 0,
        })
    }

    fn start_server(&self) -> Result<Server, RunError> {
        self.server
            .start(&self.release.of_round(self.round).longhaul, self.plant)
    }

    /// Starts a server, records which attempts have survived, and gives the clients its address.
    fn serve(&mut self) -> Result<Server, RunError> {
        let mut server = self.start_server()?;
        let address = server.ready()?;
        let ran = std::mem::take(&mut self.running);
        let survived = self
            .running_attempts()
            .into_iter()
            .filter(|attempt| ran.contains(attempt));
        self.interventions.survived.extend(survived);
        self.auditor.moved(address);
        self.clients.iter_mut().for_each(|client| client.moved(address));
        Ok(server)
    }

    /// The attempts that are running.
    fn running_attempts(&self) -> Vec<CommandAttempt> {
        let running = supervisors::running(&self.server.attempts).into_iter();
        running.map(|supervisor| supervisor.attempt).collect()
    }

    /// What was found since the last call.
    fn found(&mut self) -> io::Result<Vec<Violation>> {
        let mut found = self.ledger.violations();
        found.extend(self.output_check.check(&self.server.attempts, &self.ledger));
        found.extend(self.journal.read_new()?);
        Ok(found)
    }

    /// Runs all clients, and kills the server, and perhaps a supervisor, while they work. What they find is reported with what the next server has lost, which
    /// matters more.
    fn load(&mut self, plan: &Plan, server: &mut Server) -> Result<(), RunError> {
        let stop = AtomicBool::new(false);
        let (stopped, load) = (&stop, self.load);
        let attempts = &self.server.attempts;
        let victim = |server_lives| plan.victim.filter(|(lives, _)| *lives == server_lives);
        let (killed, mut interrupted) = std::thread::scope(|scope| {
            let clients = self.clients.iter_mut().zip(plan.clients);
            let working: Vec<_> = clients
                .map(|(client, seed)| scope.spawn(move || work(client, load, seed, stopped)))
                .collect();
            clock::pause(plan.load);
            let killed_early = kill_supervisor(attempts, victim(true));
            self.suspended = plan
                .late_starter
                .then(|| suspend_starting_supervisor(attempts))
                .flatten();
            let killed = server.kill();
            stop.store(true, Ordering::Relaxed);
            self.interventions
                .killed
                .extend(kill_supervisor(attempts, victim(false)));
            let joined = working
                .into_iter()
                .map(|client| client.join().unwrap_or_else(|panic| resume_unwind(panic)));
            let interrupted: Vec<String> = joined.flatten().collect();
            killed.map(|()| (killed_early, interrupted))
        })?;
        if let Some(attempt) = killed {
            // Then it was a plain call's, which may fail.
            if self.ledger.entry(&attempt.task).is_none() {
                interrupted.pop();
            }
            self.interventions.killed.insert(attempt);
        }
        for message in interrupted {
            let what = format!("a plain call was interrupted, and its supervisor was not killed: {message}");
            self.ledger.report(Invariant::SERVED.violated(what));
        }
        Ok(())
    }

    /// Resumes the suspended supervisor once its attempt is void, or after a timeout if it had started its command.
    fn resume_supervisor(&mut self) {
        if let Some(suspended) = self.suspended.take() {
            let void = suspended.attempt().directory(&self.server.attempts).join(VOID);
            clock::wait_for(VOID_TIMEOUT, || void.exists().then_some(()));
            self.interventions.late.insert(suspended.attempt().clone());
        }
    }

    /// What must be gone once all tasks have ended: supervisors, which may outlive their tasks for a while, and all of what was deleted.
    fn left_behind(&mut self) -> Vec<Violation> {
        let attempts = &self.server.attempts;
        clock::wait_for(DRAIN, || supervisors::running(attempts).is_empty().then_some(()));
        let left = supervisors::running(attempts).into_iter();
        let mut found: Vec<_> = left
            .map(|left| {
                Invariant::ENDS.violated(format!(
                    "{} still has a supervisor, and all tasks have ended",
                    left.attempt
                ))
            })
            .collect();
        let deleted = self.ledger.deleted();
        for (task, is_acknowledged) in &deleted {
            self.auditor.check_deleted(task, *is_acknowledged);
        }
        let is_kept = |(task, _): &&(String, bool)| attempts.join(task).exists();
        clock::wait_for(DRAIN, || (!deleted.iter().any(|task| is_kept(&task))).then_some(()));
        found.extend(
            deleted.iter().filter(is_kept).map(|(task, _)| {
                Invariant::FILES_GO.violated(format!("task {task} was deleted, and its folder exists"))
            }),
        );
        found
    }

    /// Checks that no command of a void attempt was started. Counts these attempts, and those whose supervisor started later.
    fn voids(&self) -> (Vec<Violation>, usize, usize) {
        let attempts = &self.server.attempts;
        let is_void = |attempt: &&CommandAttempt| attempt.directory(attempts).join(VOID).exists();
        let started = self.journal.runs.keys().filter(is_void);
        let found = started
            .map(|attempt| {
                Invariant::RUN_ONCE.violated(format!("{attempt} was declared void and its command was started"))
            })
            .collect();
        let folders = |folder: &Path| {
            fs::read_dir(folder)
                .into_iter()
                .flatten()
                .flatten()
                .map(|entry| entry.path())
        };
        let epochs = folders(attempts).flat_map(|task| folders(&task).collect::<Vec<_>>());
        let all = epochs.filter(|epoch| epoch.join(VOID).exists()).count();
        (found, all, self.interventions.late.iter().filter(is_void).count())
    }
}

impl Campaign for CommandCrashes {
    fn round(&mut self, round: u32, rng: &mut Rng) -> Result<Vec<Violation>, RunError> {
        self.round = round;
        let plan = Plan::draw(rng);
        if let Some(after) = plan.false_start {
            let mut server = self.start_server()?;
            clock::pause(after);
            self.false_starts += 1;
            server.kill()?;
        }
        let mut server = self.serve()?;
        self.auditor
            .poll_all(self.ledger.due(&mut Rng::with_seed(plan.audit), OLD));
        self.resume_supervisor();
        let found = self.found()?;
        self.load(&plan, &mut server)?;
        self.running = self.running_attempts();
        Ok(found)
    }

    fn finish(&mut self, report: &mut RunReport) -> Result<Vec<Violation>, RunError> {
        let mut server = self.serve()?;
        self.resume_supervisor();
        let mut found = self.auditor.drain(DRAIN);
        self.auditor.poll_all(self.ledger.tasks());
        found.extend(self.left_behind());
        found.extend(self.found()?);
        let (broken, reattached) = check_outcomes(&self.ledger, &self.journal, &self.interventions);
        found.extend(broken);
        let (broken, voided, late_starters) = self.voids();
        found.extend(broken);
        server.stop(STOP)?;
        report.needed("acknowledged", self.ledger.acknowledged(), "task was acknowledged");
        report.needed("cancels", self.ledger.counted("cancels"), "cancel was acknowledged");
        report.needed("deleted", self.ledger.deleted().len(), "deletion was requested");
        report.needed(
            "re-attached",
            reattached,
            "running command was adopted by a later server",
        );
        report.needed(
            "supervisors killed",
            self.interventions.killed.len(),
            "supervisor was killed",
        );
        report.line("attempts voided", voided);
        report.line("late starters", late_starters);
        report.line("commands", self.journal.runs.len());
        report.line("killed at start", self.false_starts);
        report.needed(
            "outputs whole",
            self.output_check.commands,
            "command printed after a silence",
        );
        report.line("bytes of them", self.output_check.bytes);
        Ok(found)
    }

    fn progress(&self) -> String {
        format!(
            "{} acknowledged, {} open",
            self.ledger.acknowledged(),
            self.ledger.open()
        )
    }
}

/// A client that works until it is stopped or the server is killed. Returns how its plain calls were interrupted.
fn work(client: &mut CommandCaller, load: CommandLoad, seed: u64, stop: &AtomicBool) -> Vec<String> {
    let mut rng = Rng::with_seed(seed);
    let mut interrupted = Vec::new();
    let mut nth = 0;
    while !stop.load(Ordering::Relaxed) {
        nth += 1;
        if act(client, load, &mut rng, format!("t{seed:x}.{nth}"), &mut interrupted).is_err() {
            break;
        }
    }
    interrupted
}

fn act(
    client: &mut CommandCaller,
    load: CommandLoad,
    rng: &mut Rng,
    token: String,
    interrupted: &mut Vec<String>,
) -> Result<(), Unanswered> {
    let decision = rng.u8(0..100);
    let kind = CommandKind::draw(load, rng);
    let task = client.ledger().pick(rng);
    match (decision, client.era(), task) {
        (0..40, ..) if client.ledger().open() < load.max_open() => {
            let (call, arguments) = kind.call(token, load, rng);
            client.create(kind.name(), arguments, call).map(drop)
        }
        // After a crash nothing of it may be left.
        (40..43, ClientEra::Legacy, _) => {
            let (_, arguments) = CommandKind::Quick.call(token, load, rng);
            let ended = client.call(CommandKind::Quick.name(), arguments, None)?;
            interrupted.extend(ended.err());
            Ok(())
        }
        (43..55, _, Some(task)) => client.cancel(&task),
        (55..60, ClientEra::Legacy, Some(task)) => client.result(&task),
        (60..65, _, Some(task)) => client.delete(&task),
        (_, _, Some(task)) => client.poll(&task).map(drop),
        (_, _, None) => Ok(()),
    }
}

/// Kills the supervisor that the plan selects, if any is running.
fn kill_supervisor(attempts: &Path, victim: Option<(bool, usize)>) -> Option<CommandAttempt> {
    let (_, nth) = victim?;
    let running = supervisors::running(attempts);
    let supervisor = running.get(nth.checked_rem(running.len())?)?;
    supervisor.kill().then(|| supervisor.attempt.clone())
}

/// Suspends a supervisor before it starts its command, if one is found in time.
fn suspend_starting_supervisor(attempts: &Path) -> Option<SuspendedSupervisor> {
    let has_begun = |starter: &RunningSupervisor| starter.attempt.directory(attempts).join(STARTED).exists();
    let starter = clock::wait_for(FIND_STARTING, || {
        supervisors::running(attempts)
            .into_iter()
            .find(|starter| !has_begun(starter))
    });
    starter?.suspend()
}
