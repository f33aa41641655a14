#![doc = include_str!("../README.md")]

mod client;
mod deploys;
mod executor;
mod harm;
mod judge;
mod log;
mod peek;
mod plant;
mod ports;
mod program;
mod store;
mod tool;
mod world;

pub use judge::{Broken, Invariant};
pub use plant::Plant;

use client::Client;
use deploys::Deploys;
use executor::{Executor, Process, Turn};
use judge::Judge;
use log::Log;
use std::sync::Arc;
use world::World;

/// How many clients there are, each a principal of its own.
const CLIENTS: usize = 3;
/// So long clients begin something new.
const SHORTEST_CALM: u64 = 42_000;
/// In this time, in milliseconds, everything ends once nothing goes wrong any more.
const LONGEST_CALM: u64 = 3_600_000;
/// Between two looks at whether it has, in milliseconds.
const LOOK_EVERY: u64 = 5_000;
/// So many turns mean that something spins.
const MOST_TURNS: u64 = 3_000_000;

/// How to run a seed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// A fault to find.
    pub plant: Option<Plant>,
    /// Write every line of the log to standard error.
    pub aloud: bool,
}

/// What became of a seed.
#[derive(Debug, Clone)]
pub struct Report {
    /// Of the log and the order of all turns; two runs of a seed have the same.
    pub hash: u64,
    /// Lines in the log.
    pub lines: u64,
    /// How often something was given a turn.
    pub turns: u64,
    /// How long the world lasted, in milliseconds of its own.
    pub lasted: u64,
    /// The first invariant found broken.
    pub broken: Option<Broken>,
    /// The last lines of the log, oldest first.
    pub last: Vec<String>,
}

/// Runs the world of this seed to its end.
pub fn run(seed: u64, options: Options) -> Report {
    let mut chance = fastrand::Rng::with_seed(seed);
    let executor = Executor::new(chance.fork());
    let judge = Judge::new(Log::new(options.aloud));
    let deploys = Deploys::of_world(seed);
    let world = World::new(Arc::clone(&executor), judge, chance, options.plant, deploys);
    let foreign = Arc::default();
    executor.spawn(Process::WORLD, Box::pin(harm::harm(Arc::clone(&world))));
    for nth in 0..CLIENTS {
        executor.spawn(Process::WORLD, Box::pin(Client::new(&world, nth, &foreign).live()));
    }
    drive(&world);
    let report = world.judge(|judge| Report {
        hash: judge.log().hash(),
        lines: judge.log().lines(),
        turns: judge.log().turns(),
        lasted: executor.elapsed(),
        broken: judge.broken().cloned(),
        last: judge.log().last(),
    });
    world.dissolve();
    report
}

/// Runs a seed twice, and says so if the two differ.
pub fn run_twice(seed: u64, options: Options) -> Report {
    let (first, mut second) = (run(seed, options), run(seed, options));
    if (first.hash, first.lines) != (second.hash, second.lines) && second.broken.is_none() {
        second.broken = Some(Broken {
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
    let mut calm = Calm::default();
    for _ in 0..MOST_TURNS {
        match world.executor.turn() {
            Turn::Ran(job) => world.judge(|judge| judge.turn(job)),
            Turn::Waited if world.is_calm() => {
                if calm.is_over(world) {
                    return;
                }
            }
            Turn::Waited => {}
            Turn::Idle => {
                let live = world.live();
                world.judge(|judge| judge.breaks(Invariant::ENDS, format!("nothing moves any more: {live}")));
            }
            Turn::Panicked(words) => world.judge(|judge| judge.breaks(Invariant::CALM, words)),
        }
        if world.judge(|judge| judge.broken().is_some()) {
            return;
        }
    }
    world.judge(|judge| judge.breaks(Invariant::CALM, format!("{MOST_TURNS} turns and no end")));
}

/// The end of a run, when nothing goes wrong any more.
#[derive(Default)]
struct Calm {
    since: Option<u64>,
    /// When it was looked at last; looking at all there is takes time.
    looked: u64,
}

impl Calm {
    /// Whether everything has come to its end, and holds what is left to it now and then.
    fn is_over(&mut self, world: &World) -> bool {
        let now = world.executor.elapsed();
        let since = *self.since.get_or_insert(now);
        if now - self.looked < LOOK_EVERY {
            return false;
        }
        self.looked = now;
        if let Some(what) = world.judge(|judge| judge.dawdles(&world.disk, now)) {
            world.judge(|judge| judge.breaks(Invariant::ENDS, what));
        } else if now - since > LONGEST_CALM {
            let live = world.live();
            world.judge(|judge| judge.breaks(Invariant::ENDS, live));
        } else if now - since > SHORTEST_CALM && world.is_over() {
            world.judge(|judge| judge.look_at_all(&world.disk));
            return true;
        }
        false
    }
}
