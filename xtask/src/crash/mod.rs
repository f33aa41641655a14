//! `cargo xtask crash`: kills a real server with real commands repeatedly under load. After each restart, and at the end, checks that
//! nothing acknowledged is lost. The checks use only the responses to clients, the journal of the commands, and the list of processes.

mod actions;
mod audit;
mod gateway;
mod journal;
mod kind;
mod ledger;
mod load;
mod native;
mod plan;
mod printed;
mod release;
mod report;
mod rounds;
mod site;
mod supervisors;
mod upgrade;
mod violation;
mod worker;

use crate::{
    process::ProcessError,
    server::ServerError,
    workspace::{self, Program},
};
pub(crate) use audit::{Interventions, outcomes};
pub(crate) use journal::History;
pub(crate) use kind::{Kind, Load};
pub(crate) use ledger::Ledger;
use release::Release;
use rounds::{Halt, Run};
use site::Site;
pub(crate) use site::tools;
use std::{
    io,
    path::{Path, PathBuf},
};
pub(crate) use upgrade::{Programs as UpgradePrograms, run as upgrade};
pub(crate) use violation::Violation;
pub(crate) use worker::{Args as WorkerArgs, run as work};

/// How many violations are printed.
const MAX_PRINTED: usize = 20;

/// `cargo xtask crash`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How often the server is killed
    #[arg(long, default_value_t = 200)]
    pub(crate) rounds: u32,
    /// Replay the decisions of an earlier run
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Kill a server with durable tools in Rust, and count the effects of their steps
    #[arg(long, conflicts_with = "plant")]
    pub(crate) native: bool,
    /// Kill a gateway in front of upstreams that count their calls
    #[arg(long, conflicts_with_all = ["native", "prints", "upgrade_from"])]
    pub(crate) gateway: bool,
    /// Kill a server while it does what operators want
    #[arg(long, conflicts_with_all = ["native", "gateway", "prints", "plant", "upgrade_from"])]
    pub(crate) actions: bool,
    /// Run mostly commands that print up to 4 MiB after up to 20 s, and check that no byte is lost
    #[arg(long, conflicts_with_all = ["native", "plant"])]
    pub(crate) prints: bool,
    /// Plant a fault and run until it is found, which is then a failure
    #[arg(long)]
    pub(crate) plant: Option<InjectedFault>,
    /// Build the servers of this commit too. First switch from them to the newer ones while a command runs and a durable task is suspended, then
    /// run the older server for the first half of the rounds
    #[arg(long, value_name = "COMMIT", conflicts_with = "plant")]
    pub(crate) upgrade_from: Option<String>,
    /// Use this server instead of building one
    #[arg(long, value_name = "FILE")]
    pub(crate) program: Option<PathBuf>,
    /// Report as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// A fault of debug builds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum InjectedFault {
    /// Acknowledge a little before the commit
    LoseAck,
    /// With --gateway: forget which task of an upstream a call is
    SkipCheckpoint,
    /// With --gateway: make calls again that are not idempotent
    RepeatCalls,
}

impl InjectedFault {
    fn is_of_gateway(self) -> bool {
        self != Self::LoseAck
    }

    /// The value of `LONGHAUL_PLANT`.
    fn name(self) -> &'static str {
        match self {
            Self::LoseAck => "lose-ack",
            Self::SkipCheckpoint => "skip-checkpoint",
            // The configuration has it.
            Self::RepeatCalls => "repeat-calls",
        }
    }

    /// Whether a violation shows this fault. Others that it causes do not count.
    fn shows_in(self, violation: &Violation) -> bool {
        match self {
            Self::LoseAck => matches!(violation, Violation::Lost { .. }),
            Self::SkipCheckpoint | Self::RepeatCalls => false,
        }
    }
}

/// Why a run failed or has tested nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CrashError {
    #[error("supervisors and their commands are found through /proc, so this needs Linux")]
    NotLinux,
    #[error(transparent)]
    Build(#[from] ProcessError),
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error("a file of the run cannot be used: {0}")]
    Io(#[from] io::Error),
    #[error(
        "{count} violations by round {round} of seed {seed}; data, journal and logs are in {kept}, and \
         `cargo xtask crash{flag} --rounds {rounds} --seed {seed}` makes the same decisions again"
    )]
    Broken {
        count: usize,
        lost: usize,
        round: u32,
        rounds: u32,
        seed: u64,
        kept: PathBuf,
        /// The option of the run, for repeating it.
        flag: &'static str,
    },
    #[error("the fault {} is {} --gateway", .0.name(), if .0.is_of_gateway() { "for runs with" } else { "not for runs with" })]
    MisplacedFault(InjectedFault),
    #[error("commit {0} is not in this repository; in a shallow clone, run `git fetch --unshallow`")]
    UnknownCommit(String),
    #[error("the upgrade from {commit} was not tested: {what} when the older server was killed")]
    NoUpgrade { commit: String, what: String },
    #[error("after the upgrade from {commit}: {problem}; data and logs are in {kept}")]
    BrokenUpgrade {
        commit: String,
        problem: String,
        kept: PathBuf,
    },
    #[error("the run has tested too little: no {what} (seed {seed}); more rounds may help")]
    Idle { what: &'static str, seed: u64 },
}

impl CrashError {
    /// One thing that a run has found in this round; it is printed.
    fn one(what: &str, round: u32, (rounds, seed): (u32, u64), kept: &Path, flag: &'static str) -> Self {
        eprintln!("crash: by round {round}: {what}");
        Self::Broken {
            count: 1,
            lost: 0,
            round,
            rounds,
            seed,
            kept: kept.to_owned(),
            flag,
        }
    }
}

/// The options that both kinds of runs have.
struct RunOptions {
    seed: u64,
    release: Release,
    json: bool,
}

/// Runs all rounds.
pub(crate) fn run(args: &Args) -> Result<(), CrashError> {
    if !cfg!(target_os = "linux") {
        return Err(CrashError::NotLinux);
    }
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..));
    if let Some(plant) = args.plant.filter(|plant| plant.is_of_gateway() != args.gateway) {
        return Err(CrashError::MisplacedFault(plant));
    }
    if args.gateway {
        // With a program everything is built.
        let built = args.program.as_ref().map(|_| workspace::under_fire().path());
        let programs = UpgradePrograms {
            longhaul: workspace::longhaul().or_build(args.program.as_ref())?,
            under_fire: workspace::under_fire().or_build(built.as_ref())?,
        };
        return gateway::run(args.rounds, seed, args.plant, programs, args.json);
    }
    if args.actions {
        let program = workspace::longhaul().or_build(args.program.as_ref())?;
        // With a program everything is built.
        let built = args.program.as_ref().map(|_| workspace::operated().path());
        let durable = workspace::operated().or_build(built.as_ref())?;
        return actions::run(args.rounds, seed, (program, durable), args.json);
    }
    let release = Release::build(args.native, args.program.as_ref(), args.upgrade_from.as_deref())?;
    if let Some(commit) = &args.upgrade_from {
        let chosen = |program: &Program, is_chosen| program.or_build(args.program.as_ref().filter(|_| is_chosen));
        let programs = UpgradePrograms {
            longhaul: chosen(&workspace::longhaul(), !args.native)?,
            under_fire: chosen(&workspace::under_fire(), args.native)?,
        };
        upgrade(commit, &programs, args.json)?;
    }
    if args.native {
        let options = RunOptions {
            seed,
            release,
            json: args.json,
        };
        return native::run(args.rounds, options);
    }
    eprintln!("crash: {} rounds, seed {seed}", args.rounds);
    let load = if args.prints { Load::Printing } else { Load::Mixed };
    let site = Site::prepare(seed, args.plant, load)?;
    let kept = site.root().to_owned();
    match Run::at(site, release, args.rounds)?.all(seed) {
        Ok(report) => {
            report.print(args.json);
            discard(&kept)?;
            report.check()
        }
        Err(Halt::Server(error)) => Err(error.into()),
        Err(Halt::Io(error)) => Err(error.into()),
        Err(Halt::Broken { round, violations }) => {
            for violation in violations.iter().take(MAX_PRINTED) {
                eprintln!("crash: by round {round}: {violation}");
            }
            let lost = violations
                .iter()
                .filter(|violation| matches!(violation, Violation::Lost { .. }))
                .count();
            Err(CrashError::Broken {
                count: violations.len(),
                lost,
                round,
                rounds: args.rounds,
                seed,
                kept,
                flag: if args.prints { " --prints" } else { "" },
            })
        }
    }
}

/// Builds the server as it was at this commit.
pub(crate) fn older_server(commit: &str) -> Result<PathBuf, CrashError> {
    Ok(release::build_older(commit)?.longhaul)
}

/// How many supervisors of the attempts in a folder are running.
pub(crate) fn running_supervisors(attempts: &Path) -> usize {
    supervisors::running(attempts).len()
}

/// Kills all supervisors of the attempts in a folder.
pub(crate) fn kill_supervisors(attempts: &Path) {
    for supervisor in supervisors::running(attempts) {
        supervisor.kill();
    }
}

/// Removes the folder of a run, and kills the processes that still use it.
pub(crate) fn discard(kept: &Path) -> io::Result<()> {
    site::remove(kept, &[kept.join("data")])
}

/// As [`discard`], for a run with these data directories.
pub(crate) fn discard_hosts(kept: &Path, data_dirs: &[PathBuf]) -> io::Result<()> {
    site::remove(kept, data_dirs)
}
