//! `cargo xtask attack`: attacks a real server in the ways that have found defects before. After each attack a normal client must be served
//! as before.

mod arguments;
mod bodies;
mod clocks;
mod connections;
mod disk;
mod folders;
mod http;
mod json;
mod mutation;
mod processes;
mod raw;
mod report;
pub(crate) mod shim;
mod site;

use crate::{mcp::RequestError, process::ProcessError, server::ServerError, workspace};
use report::Report;
use site::Programs;
use std::{io, path::PathBuf};

/// `cargo xtask attack`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Run only this attack; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Vec<String>,
    /// Repeat the random part of an earlier run
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// How many random requests the attacks `http` and `json` send
    #[arg(long, default_value_t = 500)]
    pub(crate) random: u32,
    /// Use this server instead of building one
    #[arg(long, value_name = "FILE")]
    pub(crate) program: Option<PathBuf>,
    /// Use this fault injection library instead of building it
    #[arg(long, value_name = "FILE")]
    pub(crate) shim: Option<PathBuf>,
    /// Report as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Why the attacks failed or could not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AttackError {
    #[error("the faults are injected with LD_PRELOAD and seen in /proc, so this needs Linux")]
    NotLinux,
    #[error("there is no attack named {name}; there are {known}")]
    Unknown { name: String, known: String },
    #[error(transparent)]
    Build(#[from] ProcessError),
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error("a normal client was not served: {0}")]
    Client(#[from] RequestError),
    #[error("a file of the attack cannot be used: {0}")]
    Io(#[from] io::Error),
    #[error("{broken} of {tried} attempts broke something (seed {seed}); folders are kept below {kept}")]
    Broken {
        broken: usize,
        tried: u64,
        seed: u64,
        kept: PathBuf,
    },
}

/// An attack. It starts its own servers and reports its attempts.
type Attack = fn(&Programs, &mut Report) -> Result<(), AttackError>;

const ATTACKS: [(&str, Attack); 9] = [
    ("http", http::run),
    ("json", json::run),
    ("arguments", arguments::run),
    ("folders", folders::run),
    ("clocks", clocks::run),
    ("disk", disk::run),
    ("processes", processes::run),
    ("bodies", bodies::run),
    ("connections", connections::run),
];

/// Runs the attacks one after the other.
pub(crate) fn run(args: &Args) -> Result<(), AttackError> {
    if !cfg!(target_os = "linux") {
        return Err(AttackError::NotLinux);
    }
    let known = ATTACKS.map(|(name, _)| name);
    if let Some(name) = args.only.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(AttackError::Unknown {
            name: name.clone(),
            known: known.join(", "),
        });
    }
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..));
    let programs = Programs {
        server: workspace::longhaul().or_build(args.program.as_ref())?,
        shim: workspace::shim().or_build(args.shim.as_ref())?,
        root: workspace::target()
            .join("attack")
            .join(format!("seed-{seed}-{}", std::process::id())),
        seed,
        random: args.random,
    };
    eprintln!("attack: seed {seed}");
    let mut report = Report::new(seed);
    for (name, attack) in ATTACKS {
        if args.only.is_empty() || args.only.iter().any(|only| only == name) {
            report.begin(name);
            attack(&programs, &mut report)?;
        }
    }
    report.print(args.json);
    if report.broken() == 0 {
        site::remove(&programs.root)?;
        return Ok(());
    }
    Err(AttackError::Broken {
        broken: report.broken(),
        tried: report.tried(),
        seed,
        kept: programs.root,
    })
}
