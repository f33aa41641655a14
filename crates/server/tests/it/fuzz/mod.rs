//! Fuzz targets. In a test run each replays its corpus (`__fuzz__/TARGET/corpus`) and then a few random
//! cases; `cargo xtask fuzz` lets libFuzzer, which sees what is reached, search for as long as it is given.
//!
//! A case is a [`Scene`](grammar::Scene): a few requests that would be valid, and what is damaged in each. It is played to a
//! [`World`](world::World) in which time and randomness are the same each time, and what comes back is held against the [`expected`].

mod cursor;
mod deterministic;
mod expected;
mod grammar;
mod json;
mod offers;
mod pipe;
mod play;
mod resume;
mod session;
mod state;
mod stdio;
mod tools;
mod world;

use std::panic::AssertUnwindSafe;

/// Random cases in a test run. A count and no time: on a slow machine, too, the whole corpus is replayed first.
const CHANCES: usize = 250;

/// Damaged seals in a test run, of each kind: session ids, cursors, event ids and states of rounds.
const DAMAGED_SEALS: usize = 3_000;

#[test]
fn legacy() {
    let worlds = AssertUnwindSafe(world::Worlds::default());
    bolero::check!(name = "legacy")
        .with_iterations(CHANCES)
        .with_type::<grammar::Scene>()
        .for_each(move |scene| worlds.with(|world| play::play(world, scene, grammar::Family::Legacy)));
}

#[test]
fn modern() {
    let worlds = AssertUnwindSafe(world::Worlds::default());
    bolero::check!(name = "modern")
        .with_iterations(CHANCES)
        .with_type::<grammar::Scene>()
        .for_each(move |scene| worlds.with(|world| play::play(world, scene, grammar::Family::Modern)));
}
