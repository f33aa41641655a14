//! What durability costs, over real HTTP against real server processes: `cargo bench -p longhaul-server`.
//!
//! Figures stand beside those of bare axum and of rmcp, which are measured in the same run and in turns, since only ratios compare between
//! machines. `docs/performance.md` keeps the figures and says what was compared. Words on the command line select measurements; `mixed`
//! takes more than two minutes and runs only if it is named. `LONGHAUL_BENCH_RETAINED` sets the number of retained tasks of `get`
//! (default 1,000,000).

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a program for people who measure"
)]

mod compare;
mod load;
mod measure;
mod mixed;
mod process;
mod push;
mod retained;

/// Names and functions, in the order of docs/performance.md.
const ALL: [(&str, fn()); 7] = [
    ("get", measure::get),
    ("random", measure::random),
    ("create", measure::create),
    ("roundtrip", measure::roundtrip),
    ("push", push::measure),
    ("mixed", mixed::measure),
    ("restart", measure::restart),
];
/// Runs only if it is named.
const LONG: &str = "mixed";

fn main() {
    // `cargo bench` adds a flag of its own; only words select.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    process::build_examples();
    for (name, measurement) in ALL {
        if wanted.is_empty() && name != LONG || wanted.iter().any(|word| name.contains(word.as_str())) {
            measurement();
        }
    }
}
