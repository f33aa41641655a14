//! The rounds: while clients work, a fault happens and ends; then what was answered and what has had effects is checked.

use super::{
    faults::Fault,
    load::{Shared, Worker},
    nodes::{Cluster, Service},
};
use fastrand::Rng;
use harness::{
    clock,
    commands::{self, CommandJournal, Interventions, check_outcomes},
    durable::steps::{Misstep, Steps},
    mcp::{CallOutcome, ClientEra},
    rounds::report::RunReport,
    rounds::violation::Violation,
    rounds::{Campaign, RunError},
    server::supervisors,
    site::Site,
};
use std::{
    fs::File,
    io::Write,
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
    thread::{self, JoinHandle},
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

/// A run.
pub(super) struct ClusterRun {
    root: PathBuf,
    cluster: Cluster,
    shared: Arc<Shared>,
    clients: Vec<JoinHandle<()>>,
    steps: Steps,
    missteps: Vec<Misstep>,
    began: Instant,
    journal: CommandJournal,
    /// What has happened, and how many lines of effects there were at the time.
    faults: File,
}

impl ClusterRun {
    pub(super) fn start(cluster: Cluster, site: &Site) -> Result<Self, RunError> {
        Ok(Self {
            root: site.root().to_owned(),
            steps: Steps::open(&site.file(super::nodes::EFFECTS))?,
            journal: CommandJournal::open(&site.file(commands::JOURNAL))?,
            faults: File::create(site.file("faults.log"))?,
            cluster,
            shared: Arc::default(),
            clients: Vec::new(),
            missteps: Vec::new(),
            began: clock::now(),
        })
    }

    fn worker(&self, nth: usize, seed: u64) -> Worker {
        let era = [ClientEra::Legacy, ClientEra::Modern][nth % 2];
        let addresses = Service::ALL.map(|service| self.cluster.address(service));
        Worker::new(era, addresses, seed, &self.shared)
    }

    fn start_clients(&mut self, rng: &mut Rng) -> Result<(), RunError> {
        for nth in 0..CLIENTS {
            let mut worker = self.worker(nth, rng.u64(..));
            let thread = thread::Builder::new().name("client".to_owned());
            self.clients.push(thread.spawn(move || worker.work())?);
        }
        Ok(())
    }

    fn note(&mut self, what: &str) -> Result<(), RunError> {
        let missteps = self.steps.read_new(self.cluster.cut_off())?;
        self.missteps.extend(missteps);
        let (lines, since) = (self.steps.lines, self.began.elapsed());
        Ok(writeln!(self.faults, "{lines} lines of effects, {since:?}: {what}")?)
    }

    /// What was found since the last call, after this.
    fn found(&mut self, mut found: Vec<Violation>) -> Result<Vec<Violation>, RunError> {
        found.extend(self.shared.commands.violations());
        found.extend(self.shared.durable.violations());
        let missteps = self.steps.read_new(self.cluster.cut_off())?;
        self.missteps.extend(missteps);
        for Misstep { violation, excused } in std::mem::take(&mut self.missteps) {
            let is_stale = excused.is_some_and(|pid| self.cluster.loses_its_lease(pid));
            found.extend((!is_stale).then_some(violation));
        }
        found.extend(self.journal.read_new()?);
        if !found.is_empty() {
            self.cluster.dump(&self.root);
        }
        Ok(found)
    }

    fn open(&self) -> usize {
        self.shared.commands.open() + self.shared.durable.open()
    }

    fn acknowledged(&self) -> usize {
        self.shared.commands.acknowledged() + self.shared.durable.acknowledged()
    }
}

impl Campaign for ClusterRun {
    fn round(&mut self, round: u32, rng: &mut Rng) -> Result<Vec<Violation>, RunError> {
        if self.clients.is_empty() {
            self.start_clients(rng)?;
        }
        let fault = match self.cluster.is_upgrade() {
            true => {
                // Older and newer servers work side by side for a while.
                clock::pause(BETWEEN_UPGRADES);
                Fault::upgrade(round)
            }
            false => Fault::draw(rng),
        };
        clock::pause(Duration::from_millis(rng.u64(100..700)));
        self.note(&format!("round {round}: {fault:?}"))?;
        let mut found = self.cluster.suffer(&fault)?;
        self.note("over")?;
        clock::pause(Duration::from_millis(rng.u64(100..700)));
        found.extend(self.cluster.tend(None)?);
        self.found(found)
    }

    /// Waits for the end of all tasks, and checks what can be checked only then.
    fn finish(&mut self, report: &mut RunReport) -> Result<Vec<Violation>, RunError> {
        self.shared.stop.store(true, Ordering::Relaxed);
        for client in self.clients.drain(..) {
            client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
        let mut worker = self.worker(1, 0);
        let since = clock::now();
        let mut found = Vec::new();
        while self.open() > 0 && found.is_empty() && since.elapsed() < DRAIN {
            worker.answer_all();
            worker.commands.poll_all(self.shared.commands.open_tasks());
            let tended = self.cluster.tend(None)?;
            found.extend(self.found(tended)?);
            clock::pause(LOOK);
        }
        let drained = since.elapsed();
        // Each once more, on whichever node.
        worker.durable.poll_all(self.shared.durable.tasks());
        worker.commands.poll_all(self.shared.commands.tasks());
        found.extend(self.shared.durable.unended());
        found.extend(self.shared.commands.unended());
        clock::wait_for(DRAIN, || supervisors::running(&self.root).is_empty().then_some(()));
        found = self.found(found)?;
        for task in self.shared.durable.tasks() {
            if let Some(entry) = self.shared.durable.entry(&task)
                && matches!(entry.outcome, Some(CallOutcome::Result { .. }))
            {
                found.extend(self.steps.unfinished(&entry.call.token, entry.call.steps));
            }
        }
        found.extend(check_outcomes(&self.shared.commands, &self.journal, &Interventions::default()).0);
        report.line("network", self.cluster.network());
        for (what, count) in &self.cluster.counts {
            report.line(*what, *count);
        }
        report.needed("acknowledged", self.acknowledged(), "task was acknowledged");
        report.line("answers checked", self.shared.counted("answers checked"));
        report.needed("commands", self.journal.runs.len(), "command was run");
        report.needed("effects of steps", self.steps.count, "step was run");
        report.line("repeated steps", self.steps.repeated);
        report.line("stale steps", self.steps.stale);
        report.line("plain calls", self.shared.counted("plain calls"));
        let answered = self.shared.counted("questions answered");
        report.needed("questions answered", answered, "question was answered");
        report.needed("cancels", self.shared.counted("cancels"), "cancel was acknowledged");
        let repeated = self.shared.counted("calls repeated");
        report.needed("calls repeated", repeated, "call was made again");
        report.line("unanswered", self.shared.counted("unanswered"));
        report.line("last tasks ended after", format!("{:.1} s", drained.as_secs_f64()));
        self.cluster.stop()?;
        Ok(found)
    }

    fn progress(&self) -> String {
        format!(
            "{} acknowledged, {} open, {} answers, {} steps",
            self.acknowledged(),
            self.open(),
            self.shared.counted("answers checked"),
            self.steps.count
        )
    }
}
