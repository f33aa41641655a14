//! `cargo xtask cluster`: real nodes on one PostgreSQL database, behind a load balancer that knows nothing. While clients work, nodes and the database are killed,
//! paused, cut off from each other and stopped, and everything is checked from outside: what clients were answered, and what tools have done.

mod faults;
mod figures;
mod load;
mod network;
mod nodes;
mod proxy;
mod rounds;
mod switch;

use crate::crash;
use harness::{
    rounds::violation::Invariant,
    rounds::{Rounds, RunError},
    workspace,
};
pub(crate) use network::NetworkKind;
use nodes::Cluster;
use rounds::ClusterRun;
use std::path::PathBuf;

/// `cargo xtask cluster`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many rounds, each with a fault
    #[arg(long, default_value_t = 100)]
    pub(crate) rounds: u32,
    /// Draw the faults of an earlier run
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Plant a fault in the nodes with durable tools and run until it is found, which is then a failure
    #[arg(long)]
    pub(crate) plant: Option<InjectedFault>,
    /// How the network is made that faults break; namespaces by default, where they are allowed
    #[arg(long)]
    pub(crate) network: Option<NetworkKind>,
    /// Measure what operations cost instead, without faults; for that the programs should be optimized ones
    #[arg(long, conflicts_with_all = ["plant", "seed", "rounds", "network"])]
    pub(crate) figures: bool,
    /// Build the server of this commit, and replace it by the present one under load, one host after the other
    #[arg(long, value_name = "COMMIT", conflicts_with_all = ["plant", "rounds", "figures"])]
    pub(crate) upgrade_from: Option<String>,
    /// With an upgrade: use this older server instead of building one
    #[arg(long, value_name = "FILE", conflicts_with_all = ["plant", "rounds", "figures", "upgrade_from"])]
    pub(crate) older: Option<PathBuf>,
    /// Use this server instead of building one
    #[arg(long, value_name = "FILE", requires = "under_fire")]
    pub(crate) program: Option<PathBuf>,
    /// Use this server with durable tools instead of building one
    #[arg(long, value_name = "FILE", requires = "program")]
    pub(crate) under_fire: Option<PathBuf>,
    /// Report as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// A fault of `under_fire`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum InjectedFault {
    /// Acknowledge a little before the commit
    LoseAck,
    /// Let an attempt write with the right of another one
    NoFence,
    /// Do not find the latest entry of a journal again
    ForgetEntry,
    /// Answer reads with what was read first
    StaleRead,
}

impl InjectedFault {
    fn name(self) -> &'static str {
        match self {
            Self::LoseAck => "lose-ack",
            Self::NoFence => "no-fence",
            Self::ForgetEntry => "forget-entry",
            Self::StaleRead => "stale-read",
        }
    }

    /// What it violates. Other violations that it causes do not count.
    fn violates(self) -> Invariant {
        match self {
            Self::LoseAck => Invariant::NOTHING_LOST,
            Self::NoFence => Invariant::FENCED,
            Self::ForgetEntry => Invariant::STEP_ONCE,
            Self::StaleRead => Invariant::LINEARIZABLE,
        }
    }
}

/// The programs that are run.
#[derive(Debug, Clone)]
struct Programs {
    longhaul: PathBuf,
    under_fire: PathBuf,
    /// What sets the clocks of nodes.
    shim: PathBuf,
    /// The server that nodes with commands run until they are upgraded.
    older: Option<PathBuf>,
}

/// Runs all rounds.
pub(crate) fn run(args: &Args) -> Result<(), RunError> {
    if !cfg!(target_os = "linux") {
        return Err(RunError::NotLinux);
    }
    let programs = Programs {
        longhaul: workspace::longhaul().or_build(args.program.as_ref())?,
        under_fire: workspace::under_fire().or_build(args.under_fire.as_ref())?,
        shim: match &args.program {
            // It was built with it.
            Some(_) => workspace::shim().path(),
            None => workspace::shim().or_build(None)?,
        },
        older: match &args.upgrade_from {
            Some(commit) => Some(crash::build_older(commit)?.longhaul),
            None => args.older.clone(),
        },
    };
    if args.figures {
        return figures::run(&programs, args.json);
    }
    let mut rounds = Rounds::new(&format!("cluster --rounds {}", args.rounds), args.rounds, args.seed);
    if programs.older.is_some() {
        rounds.count = u32::try_from(faults::HOSTS).unwrap_or(u32::MAX);
    }
    rounds.planted = args.plant.map(InjectedFault::violates);
    let site = rounds.site()?;
    let cluster = Cluster::start(&site, programs, args.plant, args.network)?;
    rounds.command.push_str(&format!(" --network {}", cluster.network()));
    let run = ClusterRun::start(cluster, &site)?;
    rounds.run(site, run, args.json)
}
