#![doc = include_str!("../README.md")]

mod checker;
mod client;
mod command_folders;
mod deploys;
mod disk;
mod executor;
mod faults;
mod log;
mod planted_fault;
mod ports;
mod program;
mod schedules;
mod store;
mod tool;
mod world;

pub use checker::{Invariant, Violation};
pub use planted_fault::PlantedFault;

use checker::Checker;
use client::Client;
use deploys::Deploys;
use executor::{Executor, Process, TurnOutcome};
use log::Log;
use std::sync::Arc;
use world::World;

/// The number of clients, each with its own principal.
const CLIENTS: usize = 3;
/// How long clients still make calls after the last fault, in milliseconds.
const MIN_QUIET: u64 = 42_000;
/// Everything must end within this time after the last fault, in milliseconds.
const MAX_QUIET: u64 = 3_600_000;
/// How often that is checked, in milliseconds.
const CHECK_INTERVAL: u64 = 5_000;
/// A run with more turns is a busy loop.
const MAX_TURNS: u64 = 3_000_000;

/// Options of a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct SimOptions {
    /// A fault that the run should find.
    pub plant: Option<PlantedFault>,
    /// Write every line of the log to standard error.
    pub verbose: bool,
}

/// The result of a run.
#[derive(Debug, Clone)]
pub struct Report {
    /// The hash over the log and the order of all turns. Two runs of a seed have the same.
    pub hash: u64,
    /// Lines in the log.
    pub lines: u64,
    /// The number of turns of the executor.
    pub turns: u64,
    /// The simulated time, in milliseconds.
    pub lasted: u64,
    /// The first violation of an invariant.
    pub violation: Option<Violation>,
    /// The last lines of the log, oldest first.
    pub last: Vec<String>,
}

/// Runs the simulation of this seed to its end.
pub fn run(seed: u64, options: SimOptions) -> Report {
    let mut rng = fastrand::Rng::with_seed(seed);
    let executor = Executor::new(rng.fork());
    let schedules = schedules::draw(&mut rng);
    let checker = Checker::new(Log::new(options.verbose), &schedules);
    let deploys = Deploys::of_world(seed);
    let world = World::new(Arc::clone(&executor), checker, rng, options.plant, deploys, schedules);
    let foreign = Arc::default();
    executor.spawn(Process::WORLD, Box::pin(faults::inject(Arc::clone(&world))));
    for nth in 0..CLIENTS {
        executor.spawn(Process::WORLD, Box::pin(Client::new(&world, nth, &foreign).run()));
    }
    drive(&world);
    let report = world.check(|checker| Report {
        hash: checker.log().hash(),
        lines: checker.log().lines(),
        turns: checker.log().turns(),
        lasted: executor.elapsed(),
        violation: checker.first_violation().cloned(),
        last: checker.log().last(),
    });
    world.clear();
    report
}

/// Runs a seed twice, and reports a violation if the runs differ.
pub fn run_twice(seed: u64, options: SimOptions) -> Report {
    let (first, mut second) = (run(seed, options), run(seed, options));
    if (first.hash, first.lines) != (second.hash, second.lines) && second.violation.is_none() {
        second.violation = Some(Violation {
            invariant: Invariant::SAME_TWICE,
            what: format!(
                "one run has {} lines and hash {:016x}, the other {} and {:016x}",
                first.lines, first.hash, second.lines, second.hash
            ),
        });
    }
    second
}

fn drive(world: &Arc<World>) {
    let mut quiet = QuietPeriod::default();
    for _ in 0..MAX_TURNS {
        match world.executor.turn() {
            TurnOutcome::Ran(job) => world.check(|checker| checker.log_turn(job)),
            TurnOutcome::Waited if world.faults_are_over() => {
                if quiet.is_over(world) {
                    return;
                }
            }
            TurnOutcome::Waited => {}
            TurnOutcome::Idle => {
                let live = world.live();
                world.check(|checker| {
                    checker.report(Invariant::ENDS, format!("no job is ready, and none will be: {live}"))
                });
            }
            TurnOutcome::Panicked(message) => world.check(|checker| checker.report(Invariant::NO_PANIC, message)),
        }
        if world.check(|checker| checker.first_violation().is_some()) {
            return;
        }
    }
    world.check(|checker| checker.report(Invariant::NO_PANIC, format!("no end after {MAX_TURNS} turns")));
}

/// The last part of a run, after the last fault.
#[derive(Default)]
struct QuietPeriod {
    since: Option<u64>,
    /// The time of the last check, in milliseconds: a check takes long.
    last_check: u64,
}

impl QuietPeriod {
    /// Whether everything has ended. Looks for stalled tasks from time to time.
    fn is_over(&mut self, world: &World) -> bool {
        let now = world.executor.elapsed();
        let since = *self.since.get_or_insert(now);
        if now - self.last_check < CHECK_INTERVAL {
            return false;
        }
        self.last_check = now;
        if let Some(what) = world.check(|checker| checker.find_stalled(&world.disk, now)) {
            world.check(|checker| checker.report(Invariant::ENDS, what));
        } else if now - since > MAX_QUIET {
            let live = world.live();
            world.check(|checker| checker.report(Invariant::ENDS, live));
        } else if now - since > MIN_QUIET && world.is_over() {
            world.check(|checker| checker.check_all(&world.disk));
            return true;
        }
        false
    }
}
