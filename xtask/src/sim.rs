//! `cargo xtask sim`: the runtime, the store's model and several nodes in one thread, under a schedule drawn from a seed.

use harness::{
    process::{self, ProcessError},
    workspace,
};
use std::{io, process::Command};

/// From how many seeds on an optimised build is faster.
const MANY: u64 = 2_000;

/// `cargo xtask sim`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many seeds
    #[arg(long, default_value_t = 300, value_name = "N")]
    pub(crate) seeds: u64,
    /// The first one
    #[arg(long, default_value_t = 0, value_name = "SEED")]
    pub(crate) from: u64,
    /// Break the store on purpose: ack-before-commit, missing-fence or reused-key
    #[arg(long, value_name = "FAULT")]
    pub(crate) plant: Option<String>,
    /// Print all events to standard error
    #[arg(long)]
    pub(crate) log: bool,
    /// Report as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Why the simulation failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SimError {
    #[error(transparent)]
    Build(#[from] ProcessError),
    #[error("the simulation cannot be started: {0}")]
    Start(#[from] io::Error),
    #[error("an invariant is broken")]
    Broken,
    #[error("the simulation itself failed")]
    Failed,
}

/// Builds the simulation and runs the seeds. Its report goes to standard output.
pub(crate) fn run(args: &Args) -> Result<(), SimError> {
    let profile = if args.seeds < MANY { "dev" } else { "fuzz" };
    let mut build = workspace::cargo();
    build.args(["build", "--locked", "--package", "longhaul-sim", "--profile", profile]);
    process::run(&mut build)?;
    let folder = if profile == "dev" { "debug" } else { profile };
    let mut program = Command::new(workspace::target().join(folder).join("longhaul-sim"));
    program.args(["--seeds", &args.seeds.to_string(), "--from", &args.from.to_string()]);
    if let Some(plant) = &args.plant {
        program.args(["--plant", plant]);
    }
    program.args(args.log.then_some("--log"));
    program.args(args.json.then_some("--json"));
    match program.status()?.code() {
        Some(0) => Ok(()),
        Some(1) => Err(SimError::Broken),
        _ => Err(SimError::Failed),
    }
}
