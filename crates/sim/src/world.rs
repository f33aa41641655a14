//! The simulated world: everything that outlives the nodes, such as the disk, randomness and the checker.

use crate::{
    checker::Checker,
    command_folders::CommandFolders,
    deploys::Deploys,
    disk,
    executor::{Executor, Process},
    planted_fault::PlantedFault,
    ports::{self, Skew},
};
use longhaul_core::{HostId, InputKey, Millis, TaskId, store::Counts};
use longhaul_runtime::{Engine, Schedule};
use longhaul_store::MemoryStore;
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    ops::RangeInclusive,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering},
    },
};
use tokio::sync::watch;

/// How long a lease lasts.
const LEASE: Millis = 15_000;

/// One simulated world.
pub(crate) struct World {
    pub(crate) executor: Arc<Executor>,
    pub(crate) disk: Arc<MemoryStore>,
    pub(crate) plant: Option<PlantedFault>,
    pub(crate) deploys: Option<Deploys>,
    pub(crate) schedules: Vec<Schedule>,
    /// How many nodes run side by side.
    pub(crate) node_count: usize,
    /// The retention, in milliseconds: so short that tasks are deleted during the run, or longer than the run.
    pub(crate) retention: u64,
    /// What the hosts' disks keep.
    pub(crate) commands: CommandFolders,
    checker: Mutex<Checker>,
    rng: Mutex<fastrand::Rng>,
    pending: Mutex<PendingOperations>,
    nodes: Mutex<Vec<Node>>,
    processes: AtomicU32,
    /// Which processes cannot renew their leases, and until when.
    cut_off: Mutex<BTreeMap<Process, u64>>,
    calls: AtomicU64,
    /// Set after the last fault.
    faults_are_over: AtomicBool,
    /// The largest skew of any clock, in milliseconds.
    max_skew: AtomicI64,
    /// With [`PlantedFault::ReusedKey`]: the key that clients see in place of another.
    pub(crate) aliases: Mutex<BTreeMap<(TaskId, InputKey), InputKey>>,
}

/// A node that has started.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) process: Process,
    pub(crate) engine: Engine,
    pub(crate) host: HostId,
    pub(crate) skew: Skew,
    /// Set when it has died.
    pub(crate) died: watch::Receiver<bool>,
    pub(crate) die: Arc<watch::Sender<bool>>,
}

/// Operations that have been sent to the disk.
#[derive(Default)]
struct PendingOperations {
    sent: u64,
    under_way: BTreeMap<u64, PendingOperation>,
}

struct PendingOperation {
    process: Process,
    writes: bool,
    execute: Box<dyn FnOnce() + Send>,
}

impl World {
    pub(crate) fn new(
        executor: Arc<Executor>,
        checker: Checker,
        mut rng: fastrand::Rng,
        plant: Option<PlantedFault>,
        deploys: Option<Deploys>,
        schedules: Vec<Schedule>,
    ) -> Arc<Self> {
        Arc::new(Self {
            disk: Arc::new(MemoryStore::of_many_nodes(ports::store_clock(&executor), LEASE)),
            executor,
            plant,
            deploys,
            schedules,
            node_count: rng.usize(1..=4),
            retention: if rng.bool() { 120_000 } else { 86_400_000 },
            commands: CommandFolders::default(),
            checker: Mutex::new(checker),
            rng: Mutex::new(rng),
            pending: Mutex::default(),
            nodes: Mutex::default(),
            processes: AtomicU32::new(0),
            cut_off: Mutex::default(),
            calls: AtomicU64::new(0),
            faults_are_over: AtomicBool::new(false),
            max_skew: AtomicI64::new(0),
            aliases: Mutex::default(),
        })
    }

    // Randomness.

    pub(crate) fn fork_rng(&self) -> fastrand::Rng {
        self.rng.lock().fork()
    }

    /// True once in `times`, on average.
    pub(crate) fn one_in(&self, times: u32) -> bool {
        self.rng.lock().u32(..times) == 0
    }

    pub(crate) fn between(&self, range: RangeInclusive<u64>) -> u64 {
        self.rng.lock().u64(range)
    }

    pub(crate) async fn sleep(&self, millis: u64) {
        self.executor.sleep(std::time::Duration::from_millis(millis)).await;
    }

    pub(crate) fn faults_are_over(&self) -> bool {
        self.faults_are_over.load(Ordering::SeqCst)
    }

    pub(crate) fn end_faults(&self) {
        self.faults_are_over.store(true, Ordering::SeqCst);
    }

    // The checker.

    pub(crate) fn check<T>(&self, check: impl FnOnce(&mut Checker) -> T) -> T {
        check(&mut self.checker.lock())
    }

    /// Writes a line to the log.
    pub(crate) fn note(&self, process: Process, what: impl FnOnce(&Checker) -> String) {
        let at = self.executor.elapsed();
        self.check(|checker| {
            let what = what(checker);
            let who = match process {
                Process::WORLD => "world".to_owned(),
                Process(nth) => format!("n{nth}"),
            };
            checker.log_line(format!("{:>7}.{:03} {who:>5}  {what}", at / 1000, at % 1000));
        });
    }

    /// Writes a line to the log for a client.
    pub(crate) fn note_client(&self, nth: usize, what: impl FnOnce(&Checker) -> String) {
        self.note(Process::WORLD, |checker| format!("client {nth} {}", what(checker)));
    }

    /// By how much a clock is set, in milliseconds.
    pub(crate) fn draw_jump(&self) -> i64 {
        let range = if self.one_in(5) { 86_400_000 } else { 120_000 };
        i64::try_from(self.between(0..=2 * range)).unwrap_or(0) - i64::try_from(range).unwrap_or(0)
    }

    /// Records the skew of a clock, in milliseconds.
    pub(crate) fn record_skew(&self, skew: i64) {
        self.max_skew.fetch_max(skew, Ordering::SeqCst);
    }

    /// The largest skew so far. The last node has it, so that its clock is not behind what the store has seen.
    pub(crate) fn max_skew(&self) -> i64 {
        self.max_skew.load(Ordering::SeqCst)
    }

    /// Whether every task and every attempt has ended.
    pub(crate) fn is_over(&self) -> bool {
        let nodes = self.nodes();
        !nodes.is_empty()
            && nodes
                .iter()
                .all(|node| disk::tombstones(&self.disk, &node.host).is_empty())
            && disk::counts(&self.disk) == Counts::default()
            && self.late_schedule().is_none()
            && nodes.iter().all(|node| node.engine.running() == 0)
    }

    /// Checks that each folder has a task that needs it, or a tombstone by which its host finds it.
    pub(crate) fn check_files(&self) {
        let is_known = |host: &HostId, id: &TaskId| {
            disk::record(&self.disk, id).is_some() || disk::has_tombstone(&self.disk, host, id)
        };
        for (host, task) in self.commands.all() {
            if !is_known(&host, &task) {
                self.check(|checker| checker.folder_left(&task, &host));
            }
        }
    }

    /// A schedule whose time has long come for a node.
    fn late_schedule(&self) -> Option<String> {
        let nodes = self.nodes();
        let clocks = nodes.iter().map(|node| &*node.engine.ports().clock);
        let mut late = clocks.filter_map(|clock| self.check(|checker| checker.late_schedule(clock)));
        late.next()
    }

    /// Describes what has not ended.
    pub(crate) fn live(&self) -> String {
        let counts = disk::counts(&self.disk);
        let running: usize = self.nodes().iter().map(|node| node.engine.running()).sum();
        let live = self.check(|checker| checker.live(&self.disk));
        let late = self.late_schedule().unwrap_or_default();
        format!("{counts:?}, {running} attempts: {live} {late}")
    }

    // Processes and nodes.

    pub(crate) fn last_process(&self) -> u32 {
        self.processes.load(Ordering::SeqCst)
    }

    pub(crate) fn new_process(&self) -> Process {
        Process(self.processes.fetch_add(1, Ordering::SeqCst) + 1)
    }

    /// Numbers a call, so that its arguments differ from those of other calls.
    pub(crate) fn new_call(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn nodes(&self) -> Vec<Node> {
        self.nodes.lock().clone()
    }

    pub(crate) fn add_node(&self, node: Node) {
        self.nodes.lock().push(node);
    }

    /// A random live node.
    pub(crate) fn random_node(&self) -> Option<Node> {
        let nodes = self.nodes();
        let nth = self.between(0..=nodes.len().saturating_sub(1) as u64);
        nodes.into_iter().nth(usize::try_from(nth).unwrap_or(0))
    }

    /// Kills a process between two polls of its futures. Each write it has sent to the disk is executed or lost at random.
    pub(crate) fn crash(self: &Arc<Self>, process: Process) {
        self.note(process, |_| "crashes".to_owned());
        let killed = {
            let mut nodes = self.nodes.lock();
            let killed: Vec<Node> = nodes.iter().filter(|node| node.process == process).cloned().collect();
            nodes.retain(|node| node.process != process);
            killed
        };
        self.executor.kill(process);
        for operation in self.take_pending(process) {
            if operation.writes && self.one_in(2) {
                (operation.execute)();
            }
        }
        for node in &killed {
            node.die.send_replace(true);
        }
    }

    /// After something that may end leases: tells the checker which nodes have none any more. They may run without knowing it.
    pub(crate) fn leases_changed(&self) {
        for node in self.check(|checker| checker.nodes_without_lease(&self.disk)) {
            self.note(Process::WORLD, |_| format!("node {} has lost its lease", node.0));
        }
    }

    /// A host for a new process: one on which none runs.
    pub(crate) fn free_host(&self) -> HostId {
        let used: Vec<HostId> = self.nodes().into_iter().map(|node| node.host).collect();
        let hosts = (1..=self.node_count + 1).map(|nth| HostId(format!("host{nth}").into()));
        let free: Vec<HostId> = hosts.filter(|host| !used.contains(host)).collect();
        let nth = self.between(0..=free.len().saturating_sub(1) as u64);
        (free.into_iter().nth(usize::try_from(nth).unwrap_or(0))).unwrap_or_else(|| HostId("one more".into()))
    }

    /// Whether a process cannot reach the store to renew its lease.
    pub(crate) fn is_cut_off(&self, process: Process) -> bool {
        let cut_off = self.cut_off.lock();
        !self.faults_are_over()
            && cut_off
                .get(&process)
                .is_some_and(|until| *until > self.executor.elapsed())
    }

    /// Keeps a process from renewing its lease for a while.
    pub(crate) fn cut_off(&self, process: Process) {
        let span = self.between(1_000..=60_000);
        self.note(process, |_| format!("cannot renew its lease for {span} ms"));
        self.cut_off.lock().insert(process, self.executor.elapsed() + span);
    }

    /// Drops everything, to break reference cycles.
    pub(crate) fn clear(&self) {
        self.executor.clear();
        let nodes = std::mem::take(&mut *self.nodes.lock());
        drop(nodes);
        let pending = std::mem::take(&mut *self.pending.lock());
        drop(pending);
    }

    // Operations on the disk.

    /// Sends an operation to the disk; [`execute`](Self::execute) executes it.
    pub(crate) fn send(&self, process: Process, writes: bool, execute: Box<dyn FnOnce() + Send>) -> u64 {
        let mut pending = self.pending.lock();
        let id = pending.sent;
        pending.sent += 1;
        pending.under_way.insert(
            id,
            PendingOperation {
                process,
                writes,
                execute,
            },
        );
        id
    }

    /// Executes an operation, unless a crash has removed it.
    pub(crate) fn execute(&self, id: u64) {
        let operation = self.pending.lock().under_way.remove(&id);
        if let Some(operation) = operation {
            (operation.execute)();
        }
    }

    fn take_pending(&self, process: Process) -> Vec<PendingOperation> {
        let mut pending = self.pending.lock();
        let mine: Vec<u64> = (pending
            .under_way
            .iter()
            .filter(|(_, operation)| operation.process == process))
        .map(|(id, _)| *id)
        .collect();
        mine.iter().filter_map(|id| pending.under_way.remove(id)).collect()
    }
}
