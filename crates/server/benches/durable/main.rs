//! What durability costs, over real HTTP against real server processes: `cargo bench -p longhaul-server`.
//!
//! Every figure stands beside a bare axum handler that is measured in the same run, since only ratios compare between
//! machines. `docs/performance.md` keeps the figures and says what was compared. Words on the command line select measurements;
//! `LONGHAUL_BENCH_RETAINED` sets the number of retained tasks (default 1,000,000).

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    missing_docs,
    reason = "a program for people who measure"
)]

mod load;
mod measure;
mod process;
mod retained;

/// Names and functions, in the order of docs/performance.md.
const ALL: [(&str, fn()); 4] = [
    ("get", measure::get),
    ("create", measure::create),
    ("roundtrip", measure::roundtrip),
    ("restart", measure::restart),
];

fn main() {
    // `cargo bench` adds a flag of its own; only words select.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    process::build_examples();
    for (name, measurement) in ALL {
        if wanted.is_empty() || wanted.iter().any(|word| name.contains(word.as_str())) {
            measurement();
        }
    }
}
