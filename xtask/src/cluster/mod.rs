//! `cargo xtask cluster`: real nodes on one PostgreSQL database, behind a load balancer that knows nothing. While clients work, nodes and the database are killed,
//! paused, cut off from each other and stopped, and everything is checked from outside: what clients were answered, and what tools have done.

mod acceptor;
mod balancer;
mod calls;
mod effects;
mod faults;
mod figures;
mod history;
mod link_state;
mod load;
mod network;
mod nodes;
mod proxy;
mod replicas;
mod report;
mod rounds;
mod switch;
mod violation;

use crate::{
    crash::{self, CrashError},
    namespace::NamespaceError,
    postgres::PostgresError,
    process::ProcessError,
    server::ServerError,
    workspace,
};
use effects::Misstep;
use history::Contradiction;
pub(crate) use network::NetworkKind;
use nodes::Cluster;
pub(crate) use replicas::Fixture;
use rounds::{Halt, Run};
use std::{
    io,
    path::{Path, PathBuf},
};
use violation::Violation;

/// How many violations are printed.
const MAX_PRINTED: usize = 20;

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

    /// Whether a violation shows this fault. Others that it causes do not count.
    fn shows_in(self, violation: &Violation) -> bool {
        match self {
            Self::LoseAck => matches!(violation, Violation::Lost { .. }),
            Self::NoFence => matches!(violation, Violation::Step(Misstep::WentOn { .. })),
            Self::ForgetEntry => matches!(violation, Violation::Step(Misstep::Repeated { .. })),
            Self::StaleRead => matches!(violation, Violation::Order(Contradiction::Back { .. })),
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

/// Why a run failed or has tested nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClusterError {
    #[error("processes are found through /proc, so this needs Linux")]
    NotLinux,
    #[error(transparent)]
    Build(#[from] ProcessError),
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error(transparent)]
    Postgres(#[from] PostgresError),
    #[error(transparent)]
    Older(#[from] Box<CrashError>),
    #[error("network namespaces cannot be used: {0}; `--network proxy` does without them")]
    NoNamespaces(#[source] NamespaceError),
    #[error("the network cannot be changed: {0}")]
    Network(#[from] NamespaceError),
    #[error("a file of the run cannot be used: {0}")]
    Io(#[from] io::Error),
    #[error(
        "{count} violations by round {round} of seed {seed}; logs are in {kept}, and `cargo xtask cluster --rounds {rounds} --seed {seed} --network {network}` \
         draws the same faults again"
    )]
    Broken {
        count: usize,
        /// Whether one of them shows the fault that was planted.
        shows_plant: bool,
        round: u32,
        rounds: u32,
        seed: u64,
        network: &'static str,
        kept: PathBuf,
    },
    #[error("the run has tested too little: no {what} (seed {seed}); more rounds may help")]
    Idle { what: &'static str, seed: u64 },
}

/// Runs all rounds.
pub(crate) fn run(args: &Args) -> Result<(), ClusterError> {
    if !cfg!(target_os = "linux") {
        return Err(ClusterError::NotLinux);
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
            Some(commit) => Some(crash::older_server(commit).map_err(Box::new)?),
            None => args.older.clone(),
        },
    };
    if args.figures {
        let root = workspace::target()
            .join("cluster")
            .join(format!("figures-{}", std::process::id()));
        return figures::run(&root, &programs, args.json);
    }
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..));
    eprintln!("cluster: {} rounds, seed {seed}", args.rounds);
    let root = workspace::target()
        .join("cluster")
        .join(format!("seed-{seed}-{}", std::process::id()));
    std::fs::create_dir_all(&root)?;
    // Canonical, as in the command lines of supervisors.
    let root = root.canonicalize()?;
    let cluster = Cluster::start(root.clone(), programs, args.plant, args.network)?;
    let network = cluster.network();
    eprintln!("cluster: network: {network}");
    match Run::of(cluster, &root)?.all(args.rounds, seed) {
        Ok(report) => {
            report.print(args.json);
            report.check()
        }
        Err(Halt::Error(error)) => Err(error),
        Err(Halt::Broken { round, violations }) => {
            for violation in violations.iter().take(MAX_PRINTED) {
                eprintln!("cluster: by round {round}: {violation}");
            }
            let shows = |plant: InjectedFault| violations.iter().any(|violation| plant.shows_in(violation));
            Err(ClusterError::Broken {
                count: violations.len(),
                shows_plant: args.plant.is_some_and(shows),
                round,
                rounds: args.rounds,
                seed,
                network,
                kept: root,
            })
        }
    }
}

/// Removes the folder of a run that has failed, and kills what still runs there.
pub(crate) fn discard(kept: &Path) -> io::Result<()> {
    Cluster::discard(kept)
}
