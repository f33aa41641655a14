//! `longhaul-sim`: runs seeds and reports the first violation of an invariant. `cargo xtask sim` runs it.

use clap::Parser;
use longhaul_sim::{PlantedFault, Report, SimOptions, run, run_twice};
use parking_lot::Mutex;
use serde_json::json;
use std::{
    process::ExitCode,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

/// Simulate the runtime: one seed, one schedule
#[derive(Debug, Parser)]
#[command(name = "longhaul-sim", bin_name = "cargo xtask sim")]
struct Args {
    /// Number of seeds
    #[arg(long, default_value_t = 300, value_name = "N")]
    seeds: u64,
    /// First seed
    #[arg(long, default_value_t = 0, value_name = "SEED")]
    from: u64,
    /// How many of the first seeds are run twice, to check that runs are deterministic
    #[arg(long, default_value_t = 10, value_name = "N")]
    twice: u64,
    /// Break the store on purpose
    #[arg(long)]
    plant: Option<PlantedFault>,
    /// Write the log to standard error
    #[arg(long)]
    log: bool,
    /// Report as one line of JSON
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let turns = AtomicU64::new(0);
    let found = search(&args, &turns);
    let turns = turns.into_inner();
    match &found {
        Some((seed, report)) => print_violation(&args, *seed, report),
        None if args.json => {
            let passed = json!({"seeds": args.seeds, "from": args.from, "turns": turns, "broken": null});
            println!("{passed}");
        }
        None => println!("{} seeds from {}, {turns} turns: no violation", args.seeds, args.from),
    }
    if found.is_some() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// Runs the seeds on all processors, and stops at a violation. Returns the one with the lowest seed.
fn search(args: &Args, turns: &AtomicU64) -> Option<(u64, Report)> {
    let next = AtomicU64::new(0);
    let found: Mutex<Option<(u64, Report)>> = Mutex::new(None);
    let options = SimOptions {
        plant: args.plant,
        verbose: args.log,
    };
    let threads = if args.log {
        1
    } else {
        thread::available_parallelism().map_or(1, usize::from)
    };
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let nth = next.fetch_add(1, Ordering::SeqCst);
                    if nth >= args.seeds {
                        return;
                    }
                    let seed = args.from.wrapping_add(nth);
                    let report = if nth < args.twice && !args.log {
                        run_twice(seed, options)
                    } else {
                        run(seed, options)
                    };
                    turns.fetch_add(report.turns, Ordering::SeqCst);
                    if report.violation.is_some() {
                        next.store(args.seeds, Ordering::SeqCst);
                        let mut found = found.lock();
                        if found.as_ref().is_none_or(|(other, _)| seed < *other) {
                            *found = Some((seed, report));
                        }
                        return;
                    }
                }
            });
        }
    });
    found.into_inner()
}

fn print_violation(args: &Args, seed: u64, report: &Report) {
    let Some(broken) = &report.violation else { return };
    let plant = args.plant.map_or(String::new(), |plant| format!(" --plant {plant}"));
    let again = format!("cargo xtask sim --seeds 1 --from {seed}{plant} --log");
    if args.json {
        let found = json!({"seed": seed, "broken": broken, "last": report.last, "again": again});
        println!("{found}");
        return;
    }
    for line in &report.last {
        println!("  {line}");
    }
    println!(
        "seed {seed} violates {}\n  {}\nto reproduce: {again}",
        broken.invariant, broken.what
    );
}
