//! `cargo xtask test`: runs all tests, one part after the other.

use crate::{
    attack,
    check::{counts, coverage, deny, size},
    cluster, crash, durability, page,
    peers::{conformance, hosts, interop},
    release::{crates, dist},
    requirement::{self, RequirementError},
    sim::{self, SimError},
};
use harness::{clock, process, rounds::RunError, workspace};
use serde_json::json;
use std::{error::Error, time::Duration};

/// The seed of the crash tests, so that every run kills the server at the same decisions.
const SEED: u64 = 2663;
const ROUNDS: u32 = 120;
const NATIVE_ROUNDS: u32 = 40;
const GATEWAY_ROUNDS: u32 = 30;
const ACTION_ROUNDS: u32 = 60;
const SCHEDULE_ROUNDS: u32 = 40;
const CLUSTER_ROUNDS: u32 = 10;
/// The upgrade test starts with the servers of this commit: the last one before many names in the code changed.
const UPGRADE_FROM: &str = "c0a1efe6109519ec7ab1b5b6f0e31995004487bf";
const RANDOM_REQUESTS: u32 = 500;
/// The attacks that do not load the machine.
const ATTACKS: [&str; 6] = ["http", "json", "arguments", "folders", "clocks", "processes"];
/// How many seeds are simulated: few enough for a development build. The tests of `sim` run other seeds.
const SIMULATED: u64 = 200;
const SIMULATED_FROM: u64 = 1_000;
/// How many seeds are simulated to find a planted fault. The first ones should find it.
const PLANTED_SEEDS: u64 = 100;
/// How many rounds are run to find a planted fault. Far fewer should find it.
const PLANTED_ROUNDS: u32 = 40;

/// `cargo xtask test`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Report as lines of JSON, one for each part that reports and one for all
    #[arg(long)]
    json: bool,
    /// Leave the upgrade test out, which needs an older commit: a shallow clone does not have it
    #[arg(long)]
    without_upgrade: bool,
    /// Run only this part; several times for several. Parts that run programs need `build`, or programs that are built. "crates outside" and "instruction
    /// counts" are run only if named
    #[arg(long = "part", value_name = "NAME")]
    parts: Vec<String>,
}

/// Why the tests failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TestError {
    #[error(transparent)]
    Requirement(#[from] RequirementError),
    #[error("there is no part {0:?}; there are {1}")]
    NoSuchPart(String, String),
    #[error("failed: {}", .0.join(", "))]
    Parts(Vec<&'static str>),
}

/// A planted fault was not found, or found as something else.
#[derive(Debug, thiserror::Error)]
enum PlantError {
    #[error("the run with the fault {0} passed, and must not")]
    NotFound(String),
    #[error("the run with the fault {0} found something else: {1}")]
    FoundElse(String, RunError),
    #[error("the simulation with the fault {0} passed, and must not")]
    NotSimulated(&'static str),
}

/// Checks that a run with a planted fault has found it.
fn is_found(plant: &str, result: Result<(), RunError>) -> Result<(), Box<dyn Error>> {
    match result {
        Err(RunError::Broken { kept, .. }) => {
            eprintln!("found, as it must be");
            Ok(harness::site::discard(&kept)?)
        }
        Ok(()) => Err(PlantError::NotFound(plant.to_owned()).into()),
        Err(error) => Err(PlantError::FoundElse(plant.to_owned(), error).into()),
    }
}

/// The parts that are run only if they are named.
const COUNTS: &str = "instruction counts";
const OUTSIDE: &str = "crates outside";
/// The part without which no other is run.
const BUILD: &str = "build";

/// A part of the tests; the argument is whether it reports as JSON.
type Part = fn(json: bool) -> Result<(), Box<dyn Error>>;

/// The cheapest first.
const PARTS: [(&str, Part); 11] = [
    (BUILD, build),
    ("tests", tests),
    ("examples in the documentation", documentation),
    ("what the tests cover", |_| Ok(coverage::run()?)),
    ("lines of code", |json| {
        Ok(size::run(&size::Args { write: false, json })?)
    }),
    ("crates", |json| Ok(crates::run(&crates::Args { test: false, json })?)),
    ("planted faults are found", planted_faults),
    ("simulation", simulation),
    ("conformance", conformance),
    ("conformance through the gateway", conformance_through_gateway),
    ("clients and servers by others", interop),
];

/// The parts that need `/proc` or strace.
const LINUX_PARTS: [(&str, Part); 12] = [
    ("attacks", attacks),
    ("hosts", hosts),
    ("durability", durability),
    ("a planted loss is found", planted_loss),
    ("planted faults of the gateway are found", planted_faults_of_gateway),
    ("planted faults of nodes are found", planted_faults_of_nodes),
    ("crashes", crashes),
    ("crashes of durable tools", native_crashes),
    ("crashes of the gateway", gateway_crashes),
    ("crashes of operators' actions", action_crashes),
    ("crashes of schedules", schedule_crashes),
    ("crashes of nodes", node_crashes),
];

/// Installs what the parts need, and runs them all, also when one has failed. Without a build nothing is run.
pub(crate) fn run(args: &Args) -> Result<(), TestError> {
    requirement::cargo_command("nextest")?;
    requirement::npm()?;
    requirement::python()?;
    requirement::postgres()?;
    requirement::program("pgbouncer")?;
    requirement::systemd_analyze()?;
    let mut parts = PARTS.to_vec();
    if cfg!(target_os = "linux") {
        requirement::program("strace")?;
        parts.extend(LINUX_PARTS);
        if args.without_upgrade {
            eprintln!("no upgrade is tested: --without-upgrade");
        } else {
            match requirement::commit(UPGRADE_FROM) {
                Ok(()) => parts.push(("an upgrade", upgrade)),
                // Then the older commit cannot be had. In a whole clone it must be there.
                Err(why) if !requirement::has_whole_history() => eprintln!("no upgrade is tested: {why}"),
                Err(why) => return Err(why.into()),
            }
        }
        match dist::requirements() {
            Ok(()) => parts.push(("dist", dist)),
            Err(why) => eprintln!("no packages are tested: {why}"),
        }
        match page::browser() {
            Ok(()) => parts.push(("the page in a browser", page_in_browser)),
            Err(why) => eprintln!("no page is tested: {why}"),
        }
        // They show what requests cost, not whether they are right, and need an optimised build: whoever changes a hot path asks for them.
        if args.parts.iter().any(|part| part == COUNTS) {
            parts.push((COUNTS, counts));
        }
    } else {
        eprintln!("not on Linux: durability, crashes, the upgrade and counts are left out");
    }
    if deny::is_installed() {
        parts.push(("dependencies", |_| Ok(deny::run()?)));
    }
    // It compiles all that the crates depend on once more.
    if args.parts.iter().any(|part| part == OUTSIDE) {
        parts.push((OUTSIDE, |json| Ok(crates::run(&crates::Args { test: true, json })?)));
    }
    let parts = chosen(parts, &args.parts)?;
    let mut ended = Vec::new();
    for (part, run) in parts {
        eprintln!("\n== {part}");
        let since = clock::now();
        let has_passed = run(args.json).inspect_err(|why| eprintln!("== {part}: {why}")).is_ok();
        ended.push(PartResult {
            part,
            has_passed,
            took: since.elapsed(),
        });
        if part == BUILD && !has_passed {
            break;
        }
    }
    report(args.json, &ended);
    let failed = ended.iter().filter(|ended| !ended.has_passed);
    let failed: Vec<_> = failed.map(|ended| ended.part).collect();
    match failed.is_empty() {
        true => Ok(()),
        false => Err(TestError::Parts(failed)),
    }
}

/// The parts with these names, or all.
fn chosen(parts: Vec<(&'static str, Part)>, names: &[String]) -> Result<Vec<(&'static str, Part)>, TestError> {
    let known = |name: &String| parts.iter().any(|(part, _)| part == name);
    if let Some(unknown) = names.iter().find(|name| !known(name)) {
        let known: Vec<_> = parts.iter().map(|(part, _)| *part).collect();
        return Err(TestError::NoSuchPart(unknown.clone(), known.join(", ")));
    }
    let is_chosen = |part: &str| names.is_empty() || names.iter().any(|name| name == part);
    Ok(parts.into_iter().filter(|(part, _)| is_chosen(part)).collect())
}

struct PartResult {
    part: &'static str,
    has_passed: bool,
    took: Duration,
}

fn report(as_json: bool, ended: &[PartResult]) {
    let passed = ended.iter().filter(|ended| ended.has_passed).count();
    if as_json {
        let parts = ended.iter().map(|ended| {
            json!({
                "part": ended.part,
                "passed": ended.has_passed,
                "seconds": ended.took.as_secs_f64(),
            })
        });
        println!("{}", json!({"parts": parts.collect::<Vec<_>>()}));
        return;
    }
    println!();
    for ended in ended {
        let result = if ended.has_passed { "passed" } else { "FAILED" };
        println!("{result}  {:>6.1} s  {}", ended.took.as_secs_f64(), ended.part);
    }
    println!("{passed} passed, {} failed", ended.len() - passed);
}

/// Builds everything that the other parts run in one go, so that they do not rebuild it with other features.
fn build(_json: bool) -> Result<(), Box<dyn Error>> {
    Ok(process::run(workspace::cargo().args([
        "build",
        "--locked",
        "--workspace",
        "--lib",
        "--bins",
        "--examples",
        "--tests",
    ]))?)
}

fn tests(_json: bool) -> Result<(), Box<dyn Error>> {
    Ok(process::run(workspace::cargo().args([
        "nextest",
        "run",
        "--locked",
        "--workspace",
        "--no-fail-fast",
    ]))?)
}

fn documentation(_json: bool) -> Result<(), Box<dyn Error>> {
    Ok(process::run(workspace::cargo().args([
        "test",
        "--locked",
        "--workspace",
        "--doc",
    ]))?)
}

fn conformance(json: bool) -> Result<(), Box<dyn Error>> {
    let program = Some(workspace::fixtures().path());
    Ok(conformance::run(&conformance::Args {
        scenario: Vec::new(),
        program,
        client: Some(workspace::conformance_client().path()),
        nodes: None,
        gateway: false,
        upstream: Vec::new(),
        longhaul: None,
        rmcp: None,
        short: false,
        json,
    })?)
}

fn conformance_through_gateway(json: bool) -> Result<(), Box<dyn Error>> {
    Ok(conformance::run(&conformance::Args {
        scenario: Vec::new(),
        program: Some(workspace::fixtures().path()),
        client: None,
        nodes: None,
        gateway: true,
        upstream: Vec::new(),
        longhaul: Some(workspace::longhaul().path()),
        rmcp: Some(workspace::interop_rmcp_server().path()),
        short: true,
        json,
    })?)
}

fn interop(json: bool) -> Result<(), Box<dyn Error>> {
    let program = Some(workspace::fixtures().path());
    Ok(interop::run(&interop::Args {
        script: Vec::new(),
        program,
        nodes: None,
        is_built: true,
        json,
    })?)
}

fn page_in_browser(_json: bool) -> Result<(), Box<dyn Error>> {
    Ok(page::run(&page::Args {
        program: Some(workspace::longhaul().path()),
        figures: false,
        operated: None,
        screenshots: None,
    })?)
}

fn simulation(json: bool) -> Result<(), Box<dyn Error>> {
    Ok(sim::run(&sim_args(SIMULATED, None, json))?)
}

/// Checks that the simulation finds planted faults.
fn planted_faults(json: bool) -> Result<(), Box<dyn Error>> {
    for plant in [
        "ack-before-commit",
        "missing-fence",
        "reused-key",
        "lost-wakeup",
        "unknown-as-failed",
        "stale-lease",
        "forgotten-row",
        "forgotten-rate",
        "forgotten-value",
        "unlimited-groups",
    ] {
        match sim::run(&sim_args(PLANTED_SEEDS, Some(plant), json)) {
            Err(SimError::Broken) => eprintln!("found, as it must be"),
            Ok(()) => return Err(PlantError::NotSimulated(plant).into()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn sim_args(seeds: u64, plant: Option<&str>, json: bool) -> sim::Args {
    sim::Args {
        seeds,
        from: SIMULATED_FROM,
        plant: plant.map(str::to_owned),
        log: false,
        json,
    }
}

fn counts(json: bool) -> Result<(), Box<dyn Error>> {
    Ok(counts::run(&counts::Args { json })?)
}

fn attacks(json: bool) -> Result<(), Box<dyn Error>> {
    Ok(attack::run(&attack::Args {
        only: ATTACKS.map(str::to_owned).to_vec(),
        seed: Some(SEED),
        random: RANDOM_REQUESTS,
        program: Some(workspace::longhaul().path()),
        shim: Some(workspace::shim().path()),
        json,
    })?)
}

/// The cases that take seconds.
fn hosts(json: bool) -> Result<(), Box<dyn Error>> {
    Ok(hosts::run(&hosts::Args {
        hosts: Vec::new(),
        cases: Vec::new(),
        quick: true,
        program: Some(workspace::longhaul().path()),
        folder: None,
        json,
    })?)
}

/// Packages the program of the development build, and installs and uses what comes of it.
fn dist(json: bool) -> Result<(), Box<dyn Error>> {
    Ok(dist::run(&dist::Args {
        program: Some(workspace::longhaul().path()),
        // Not the image, which takes half as long as all others together.
        only: dist::KINDS
            .into_iter()
            .filter(|kind| *kind != dist::Kind::Image)
            .collect(),
        test: true,
        json,
    })?)
}

fn durability(json: bool) -> Result<(), Box<dyn Error>> {
    Ok(durability::run(&durability::Args {
        program: Some(workspace::longhaul().path()),
        tools: Some(workspace::under_fire().path()),
        json,
    })?)
}

fn crashes(json: bool) -> Result<(), Box<dyn Error>> {
    Ok(crash::run(&crash_args(ROUNDS, None, json))?)
}

/// Checks that the crash test finds a lost task, and reports it as lost.
fn planted_loss(json: bool) -> Result<(), Box<dyn Error>> {
    let plant = crash::InjectedFault::LoseAck;
    is_found("lose-ack", crash::run(&crash_args(PLANTED_ROUNDS, Some(plant), json)))
}

/// Checks that the crash test of the gateway finds a lost task of an upstream, and a call that is made twice.
fn planted_faults_of_gateway(json: bool) -> Result<(), Box<dyn Error>> {
    for plant in [crash::InjectedFault::SkipCheckpoint, crash::InjectedFault::RepeatCalls] {
        let args = crash::Args {
            gateway: true,
            ..crash_args(PLANTED_ROUNDS, Some(plant), json)
        };
        is_found(&format!("{plant:?} of the gateway"), crash::run(&args))?;
    }
    Ok(())
}

fn native_crashes(json: bool) -> Result<(), Box<dyn Error>> {
    Ok(crash::run(&crash::Args {
        native: true,
        program: Some(workspace::under_fire().path()),
        ..crash_args(NATIVE_ROUNDS, None, json)
    })?)
}

fn node_crashes(json: bool) -> Result<(), Box<dyn Error>> {
    Ok(cluster::run(&cluster_args(CLUSTER_ROUNDS, None, json))?)
}

/// Checks that the run of nodes finds a lost task, and a step that runs again.
fn planted_faults_of_nodes(json: bool) -> Result<(), Box<dyn Error>> {
    for plant in [cluster::InjectedFault::LoseAck, cluster::InjectedFault::ForgetEntry] {
        let args = cluster_args(PLANTED_ROUNDS, Some(plant), json);
        is_found(&format!("{plant:?} of nodes"), cluster::run(&args))?;
    }
    Ok(())
}

fn cluster_args(rounds: u32, plant: Option<cluster::InjectedFault>, json: bool) -> cluster::Args {
    cluster::Args {
        rounds,
        seed: Some(SEED),
        plant,
        network: None,
        figures: false,
        upgrade_from: None,
        older: None,
        program: Some(workspace::longhaul().path()),
        under_fire: Some(workspace::under_fire().path()),
        json,
    }
}

fn action_crashes(json: bool) -> Result<(), Box<dyn Error>> {
    Ok(crash::run(&crash::Args {
        actions: true,
        ..crash_args(ACTION_ROUNDS, None, json)
    })?)
}

fn schedule_crashes(json: bool) -> Result<(), Box<dyn Error>> {
    Ok(crash::run(&crash::Args {
        schedules: true,
        ..crash_args(SCHEDULE_ROUNDS, None, json)
    })?)
}

fn gateway_crashes(json: bool) -> Result<(), Box<dyn Error>> {
    Ok(crash::run(&crash::Args {
        gateway: true,
        ..crash_args(GATEWAY_ROUNDS, None, json)
    })?)
}

/// Checks that this tree's servers continue what older ones were killed with.
fn upgrade(json: bool) -> Result<(), Box<dyn Error>> {
    let args = crash::Args {
        program: Some(workspace::longhaul().path()),
        ..crash::Args::default()
    };
    Ok(crash::upgrade(UPGRADE_FROM, &args.programs()?, json)?)
}

fn crash_args(rounds: u32, plant: Option<crash::InjectedFault>, json: bool) -> crash::Args {
    crash::Args {
        rounds,
        seed: Some(SEED),
        plant,
        program: Some(workspace::longhaul().path()),
        json,
        ..crash::Args::default()
    }
}
