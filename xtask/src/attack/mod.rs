//! `cargo xtask attack`: attacks a real server in the ways that have found defects before. After each attack a normal client must be served
//! as before.

mod arguments;
mod attempts;
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
mod site;

use attempts::Attempts;
use fastrand::Rng;
use harness::{
    clock,
    rounds::report::RunReport,
    rounds::violation::Violation,
    rounds::{Campaign, Rounds, RunError},
    workspace,
};
use site::Programs;
use std::path::PathBuf;

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

/// An attack. It starts its own servers and reports its attempts.
type Attack = fn(&Programs, &mut Attempts) -> Result<(), RunError>;

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

/// The chosen attacks, one a round.
struct Attacks {
    programs: Programs,
    left: std::vec::IntoIter<(&'static str, Attack)>,
    shown: Vec<(&'static str, String)>,
    broken: Vec<Violation>,
}

impl Campaign for Attacks {
    fn round(&mut self, _: u32, _: &mut Rng) -> Result<Vec<Violation>, RunError> {
        let Some((name, attack)) = self.left.next() else {
            return Ok(Vec::new());
        };
        eprintln!("attack: {name}");
        let since = clock::now();
        let mut attempts = Attempts::of(name);
        attack(&self.programs, &mut attempts)?;
        let Attempts { tried, broken, .. } = attempts;
        let took = since.elapsed().as_secs_f64();
        self.shown
            .push((name, format!("{tried} tried, {} broken, {took:.1} s", broken.len())));
        self.broken.extend(broken);
        Ok(Vec::new())
    }

    fn finish(&mut self, report: &mut RunReport) -> Result<Vec<Violation>, RunError> {
        for (name, what) in self.shown.drain(..) {
            report.line(name, what);
        }
        Ok(std::mem::take(&mut self.broken))
    }
}

/// Runs the attacks one after the other.
pub(crate) fn run(args: &Args) -> Result<(), RunError> {
    if !cfg!(target_os = "linux") {
        return Err(RunError::NotLinux);
    }
    let known = ATTACKS.map(|(name, _)| name);
    if let Some(name) = args.only.iter().find(|name| !known.contains(&name.as_str())) {
        let known = known.join(", ");
        return Err(RunError::Impossible(format!(
            "there is no attack named {name}; there are {known}"
        )));
    }
    let is_chosen = |name: &str| args.only.is_empty() || args.only.iter().any(|only| only == name);
    let chosen = Vec::from_iter(ATTACKS.into_iter().filter(|(name, _)| is_chosen(name)));
    let options: String = args.only.iter().map(|only| format!(" --only {only}")).collect();
    let count = u32::try_from(chosen.len()).unwrap_or(u32::MAX);
    let rounds = Rounds::new(&format!("attack{options} --random {}", args.random), count, args.seed);
    let site = rounds.site()?;
    let attacks = Attacks {
        programs: Programs {
            server: workspace::longhaul().or_build(args.program.as_ref())?,
            shim: workspace::shim().or_build(args.shim.as_ref())?,
            root: site.root().to_owned(),
            seed: rounds.seed,
            random: args.random,
        },
        left: chosen.into_iter(),
        shown: Vec::new(),
        broken: Vec::new(),
    };
    rounds.run(site, attacks, args.json)
}
