//! What outlives every node: the disk, chance, and the judge who sees it all.

use crate::{
    deploys::Deploys,
    executor::{Executor, Process},
    judge::Judge,
    peek,
    plant::Plant,
    ports::Skew,
};
use longhaul_core::{HostId, InputKey, TaskId, store::Counts};
use longhaul_runtime::Engine;
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

/// One simulated world.
pub(crate) struct World {
    pub(crate) executor: Arc<Executor>,
    pub(crate) disk: Arc<MemoryStore>,
    pub(crate) plant: Option<Plant>,
    pub(crate) deploys: Option<Deploys>,
    pub(crate) host: HostId,
    /// How long tasks are kept, in milliseconds: so short that they are deleted while we look, or so long that nothing happens to those
    /// that wait but what they wait for.
    pub(crate) retention: u64,
    judge: Mutex<Judge>,
    chance: Mutex<fastrand::Rng>,
    flights: Mutex<Flights>,
    nodes: Mutex<Vec<Node>>,
    processes: AtomicU32,
    calls: AtomicU64,
    /// Set once no more harm is done.
    calm: AtomicBool,
    /// The furthest that any clock was ahead, in milliseconds.
    furthest: AtomicI64,
    /// Under [`Plant::ReusedKey`]: the key that clients are shown in the place of another.
    pub(crate) aliases: Mutex<BTreeMap<(TaskId, InputKey), InputKey>>,
}

/// A node that has started.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) process: Process,
    pub(crate) engine: Engine,
    pub(crate) skew: Skew,
    /// Set when it has died.
    pub(crate) died: watch::Receiver<bool>,
    pub(crate) die: Arc<watch::Sender<bool>>,
}

/// Operations on their way to the disk.
#[derive(Default)]
struct Flights {
    begun: u64,
    under_way: BTreeMap<u64, Flight>,
}

struct Flight {
    process: Process,
    writes: bool,
    land: Box<dyn FnOnce() + Send>,
}

impl World {
    pub(crate) fn new(
        executor: Arc<Executor>,
        judge: Judge,
        mut chance: fastrand::Rng,
        plant: Option<Plant>,
        deploys: Option<Deploys>,
    ) -> Arc<Self> {
        Arc::new(Self {
            executor,
            disk: Arc::new(MemoryStore::new()),
            plant,
            deploys,
            host: HostId("here".into()),
            retention: if chance.bool() { 120_000 } else { 86_400_000 },
            judge: Mutex::new(judge),
            chance: Mutex::new(chance),
            flights: Mutex::default(),
            nodes: Mutex::default(),
            processes: AtomicU32::new(0),
            calls: AtomicU64::new(0),
            calm: AtomicBool::new(false),
            furthest: AtomicI64::new(0),
            aliases: Mutex::default(),
        })
    }

    // Chance.

    pub(crate) fn fork_chance(&self) -> fastrand::Rng {
        self.chance.lock().fork()
    }

    /// True once in `times`, on average.
    pub(crate) fn once_in(&self, times: u32) -> bool {
        self.chance.lock().u32(..times) == 0
    }

    pub(crate) fn between(&self, range: RangeInclusive<u64>) -> u64 {
        self.chance.lock().u64(range)
    }

    pub(crate) async fn sleep(&self, millis: u64) {
        self.executor.sleep(std::time::Duration::from_millis(millis)).await;
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.calm.load(Ordering::SeqCst)
    }

    pub(crate) fn be_calm(&self) {
        self.calm.store(true, Ordering::SeqCst);
    }

    // The judge.

    pub(crate) fn judge<T>(&self, see: impl FnOnce(&mut Judge) -> T) -> T {
        see(&mut self.judge.lock())
    }

    /// Writes a line to the log.
    pub(crate) fn note(&self, process: Process, what: impl FnOnce(&Judge) -> String) {
        let at = self.executor.elapsed();
        self.judge(|judge| {
            let what = what(judge);
            let who = match process {
                Process::WORLD => "world".to_owned(),
                Process(nth) => format!("n{nth}"),
            };
            judge.note(format!("{:>7}.{:03} {who:>5}  {what}", at / 1000, at % 1000));
        });
    }

    /// As [`note`](Self::note), for a client.
    pub(crate) fn note_client(&self, nth: usize, what: impl FnOnce(&Judge) -> String) {
        self.note(Process::WORLD, |judge| format!("client {nth} {}", what(judge)));
    }

    /// Some clock is off by so many milliseconds.
    pub(crate) fn saw_skew(&self, skew: i64) {
        self.furthest.fetch_max(skew, Ordering::SeqCst);
    }

    /// What a clock must be off by that is behind no other: the one that time is taken from in the end.
    pub(crate) fn latest(&self) -> i64 {
        self.furthest.load(Ordering::SeqCst)
    }

    /// Whether every task is over, and every attempt.
    pub(crate) fn is_over(&self) -> bool {
        let nodes = self.nodes();
        !nodes.is_empty()
            && peek::counts(&self.disk) == Counts::default()
            && nodes.iter().all(|node| node.engine.running() == 0)
    }

    /// What is not over, in words.
    pub(crate) fn live(&self) -> String {
        let counts = peek::counts(&self.disk);
        let running: usize = self.nodes().iter().map(|node| node.engine.running()).sum();
        let live = self.judge(|judge| judge.live(&self.disk));
        format!("{counts:?}, {running} attempts: {live}")
    }

    // Processes and nodes.

    pub(crate) fn last_process(&self) -> u32 {
        self.processes.load(Ordering::SeqCst)
    }

    pub(crate) fn new_process(&self) -> Process {
        Process(self.processes.fetch_add(1, Ordering::SeqCst) + 1)
    }

    /// Numbers a call, so that it can be told from others by its arguments.
    pub(crate) fn new_call(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn nodes(&self) -> Vec<Node> {
        self.nodes.lock().clone()
    }

    pub(crate) fn add_node(&self, node: Node) {
        self.nodes.lock().push(node);
    }

    /// Any node that lives.
    pub(crate) fn some_node(&self) -> Option<Node> {
        let nodes = self.nodes();
        let nth = self.between(0..=nodes.len().saturating_sub(1) as u64);
        nodes.into_iter().nth(usize::try_from(nth).unwrap_or(0))
    }

    /// A process dies, between any two steps of its futures. What it had sent to the disk is made or not, as chance has it; what it
    /// had only read is forgotten.
    pub(crate) fn crash(&self, process: Process) {
        self.note(process, |_| "crashes".to_owned());
        let gone = {
            let mut nodes = self.nodes.lock();
            let gone: Vec<Node> = nodes.iter().filter(|node| node.process == process).cloned().collect();
            nodes.retain(|node| node.process != process);
            gone
        };
        self.executor.kill(process);
        for flight in self.take_flights(process) {
            if flight.writes && self.once_in(2) {
                (flight.land)();
            }
        }
        for node in &gone {
            node.die.send_replace(true);
        }
    }

    /// Lets go of everything, so that nothing keeps itself alive.
    pub(crate) fn dissolve(&self) {
        self.executor.clear();
        let nodes = std::mem::take(&mut *self.nodes.lock());
        drop(nodes);
        let flights = std::mem::take(&mut *self.flights.lock());
        drop(flights);
    }

    // The way to the disk.

    /// An operation is under way; `land` makes it.
    pub(crate) fn depart(&self, process: Process, writes: bool, land: Box<dyn FnOnce() + Send>) -> u64 {
        let mut flights = self.flights.lock();
        let id = flights.begun;
        flights.begun += 1;
        flights.under_way.insert(id, Flight { process, writes, land });
        id
    }

    /// An operation arrives, unless a crash was quicker.
    pub(crate) fn land(&self, id: u64) {
        let flight = self.flights.lock().under_way.remove(&id);
        if let Some(flight) = flight {
            (flight.land)();
        }
    }

    fn take_flights(&self, process: Process) -> Vec<Flight> {
        let mut flights = self.flights.lock();
        let mine: Vec<u64> = (flights.under_way.iter().filter(|(_, flight)| flight.process == process))
            .map(|(id, _)| *id)
            .collect();
        mine.iter().filter_map(|id| flights.under_way.remove(id)).collect()
    }
}
