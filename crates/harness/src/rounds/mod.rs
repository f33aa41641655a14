//! The rounds of a run: in each something happens to servers under load, and then everything is checked.

pub mod report;
pub mod violation;

use crate::{
    mcp::RequestError, network::namespace::NamespaceError, postgres::PostgresError, process::ProcessError,
    server::ServerError, site::Site,
};
use fastrand::Rng;
use report::RunReport;
use std::{io, path::PathBuf};
use violation::{Invariant, Violation};

/// How many violations are printed.
const MAX_PRINTED: usize = 20;
/// The number of rounds between two lines of progress.
const PROGRESS_EVERY: u32 = 10;

/// Why a run failed or has tested nothing.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("processes are found through /proc, so this needs Linux")]
    NotLinux,
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error(transparent)]
    Postgres(#[from] PostgresError),
    #[error(transparent)]
    Network(#[from] NamespaceError),
    #[error("a client was not served: {0}")]
    Client(#[from] RequestError),
    #[error("a file of the run cannot be used: {0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Impossible(String),
    #[error(transparent)]
    Found(#[from] Violation),
    #[error(
        "{} violations by round {round}; what the run has left is in {kept}, and `{replay}` makes the same decisions again",
        found.len()
    )]
    Broken {
        found: Vec<Violation>,
        round: u32,
        replay: String,
        kept: PathBuf,
    },
    #[error("the run has tested too little: no {what} (`{replay}`); more rounds may help")]
    Idle { what: &'static str, replay: String },
}

/// What happens in a run, and what is checked.
pub trait Campaign {
    /// One round: what happens, and what was found.
    fn round(&mut self, round: u32, rng: &mut Rng) -> Result<Vec<Violation>, RunError>;

    /// After the last round: waits for the end of all that was begun, and reports.
    fn finish(&mut self, report: &mut RunReport) -> Result<Vec<Violation>, RunError>;

    /// How far it has come.
    fn progress(&self) -> String {
        String::new()
    }
}

/// How many rounds, and the seed of their decisions.
pub struct Rounds {
    /// What follows `cargo xtask` to run it: the program, and its options.
    pub command: String,
    pub count: u32,
    pub seed: u64,
    /// With a planted fault: what it violates. Other violations that it causes do not count.
    pub planted: Option<Invariant>,
}

impl Rounds {
    /// Rounds whose decisions come from a seed: this one, or any.
    pub fn new(command: &str, count: u32, seed: Option<u64>) -> Self {
        let seed = seed.unwrap_or_else(|| fastrand::u64(..));
        Self {
            seed,
            ..Self::undecided(format!("{command} --seed {seed}"), count)
        }
    }

    /// Rounds without decisions.
    pub fn undecided(command: impl Into<String>, count: u32) -> Self {
        Self {
            command: command.into(),
            count,
            seed: 0,
            planted: None,
        }
    }

    fn program(&self) -> &str {
        self.command.split(' ').next().unwrap_or_default()
    }

    /// Makes the folder of the run.
    pub fn site(&self) -> io::Result<Site> {
        Site::create(self.program(), &format!("seed-{}", self.seed))
    }

    /// Runs all rounds until something is found, prints the report, and removes the site.
    pub fn run(&self, site: Site, mut campaign: impl Campaign, as_json: bool) -> Result<(), RunError> {
        let Self {
            command, count, seed, ..
        } = self;
        let program = self.program();
        eprintln!("{command}: {count} rounds");
        let mut rng = Rng::with_seed(*seed);
        for round in 1..=*count {
            self.check(round, campaign.round(round, &mut rng), &site)?;
            if round % PROGRESS_EVERY == 0 {
                eprintln!("{program}: round {round}: {}", campaign.progress());
            }
        }
        let mut report = RunReport::default();
        report.line("seed", *seed);
        report.line("rounds", *count);
        self.check(*count, campaign.finish(&mut report), &site)?;
        drop(campaign);
        report.print(as_json);
        site.discard()?;
        match report.missing() {
            Some(what) => Err(RunError::Idle {
                what,
                replay: self.replay(),
            }),
            None => Ok(()),
        }
    }

    /// Ends the run if a round has found anything that counts.
    fn check(&self, round: u32, found: Result<Vec<Violation>, RunError>, site: &Site) -> Result<(), RunError> {
        let mut found = match found {
            Err(RunError::Found(violation)) => vec![violation],
            found => found?,
        };
        found.retain(|violation| self.planted.is_none_or(|planted| violation.invariant == planted));
        if found.is_empty() {
            return Ok(());
        }
        for violation in found.iter().take(MAX_PRINTED) {
            eprintln!("{}: by round {round}: {violation}", self.program());
        }
        Err(RunError::Broken {
            found,
            round,
            replay: self.replay(),
            kept: site.root().to_owned(),
        })
    }

    /// The command that makes the same decisions again.
    fn replay(&self) -> String {
        format!("cargo xtask {}", self.command)
    }
}
