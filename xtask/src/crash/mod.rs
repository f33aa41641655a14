//! `cargo xtask crash`: kills real servers repeatedly under load. After each restart, and at the end, checks that nothing acknowledged is lost. The checks use
//! only the responses to clients, what tools have written while they ran, and the list of processes.

mod actions;
mod commands;
mod durable;
mod gateway;
mod older;
mod schedules;
mod upgrade;

use harness::{
    commands::CommandLoad,
    rounds::violation::Invariant,
    rounds::{Rounds, RunError},
    workspace::{self, Program},
};
use older::Release;
pub(crate) use older::{ServerPrograms, build as build_older};
use std::path::PathBuf;
pub(crate) use upgrade::run as upgrade;

/// `cargo xtask crash`
#[derive(Debug, Default, clap::Args)]
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
    /// Kill a server whose schedules start a task each second
    #[arg(long, conflicts_with_all = ["native", "gateway", "actions", "prints", "plant", "upgrade_from"])]
    pub(crate) schedules: bool,
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
    /// Use this server instead of building one; what else is run was built with it
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

    /// What it violates. Other violations that it causes do not count.
    fn violates(self) -> Option<Invariant> {
        (self == Self::LoseAck).then_some(Invariant::NOTHING_LOST)
    }
}

impl Args {
    /// A program: the chosen one if it is meant, or one that was built with it, or one that is built now.
    fn program(&self, program: &Program, is_meant: bool) -> Result<PathBuf, RunError> {
        Ok(match &self.program {
            Some(chosen) if is_meant => chosen.clone(),
            Some(_) => program.path(),
            None => program.or_build(None)?,
        })
    }

    pub(crate) fn programs(&self) -> Result<ServerPrograms, RunError> {
        Ok(ServerPrograms {
            longhaul: self.program(&workspace::longhaul(), !self.native)?,
            under_fire: self.program(&workspace::under_fire(), self.native)?,
            effects_flag: older::EFFECTS_FLAG,
        })
    }
}

/// Runs all rounds.
pub(crate) fn run(args: &Args) -> Result<(), RunError> {
    if !cfg!(target_os = "linux") {
        return Err(RunError::NotLinux);
    }
    if let Some(plant) = args.plant.filter(|plant| plant.is_of_gateway() != args.gateway) {
        let of = if args.gateway {
            "not for runs with"
        } else {
            "for runs with"
        };
        return Err(RunError::Impossible(format!(
            "the fault {} is {of} --gateway",
            plant.name()
        )));
    }
    let options = [
        (args.native, " --native"),
        (args.gateway, " --gateway"),
        (args.actions, " --actions"),
        (args.schedules, " --schedules"),
        (args.prints, " --prints"),
    ];
    let options: String = options
        .iter()
        .filter(|(is_given, _)| *is_given)
        .map(|(_, option)| *option)
        .collect();
    let mut rounds = Rounds::new(
        &format!("crash{options} --rounds {}", args.rounds),
        args.rounds,
        args.seed,
    );
    rounds.planted = args.plant.and_then(InjectedFault::violates);
    if args.actions {
        let programs = [workspace::longhaul(), workspace::operated()];
        let [longhaul, operated] = [args.program(&programs[0], true)?, args.program(&programs[1], false)?];
        let site = rounds.site()?;
        let campaign = actions::ActionCrashes::start(&site, [longhaul, operated])?;
        return rounds.run(site, campaign, args.json);
    }
    if args.schedules {
        let program = args.program(&workspace::longhaul(), true)?;
        let site = rounds.site()?;
        let campaign = schedules::ScheduleCrashes::start(&site, program)?;
        return rounds.run(site, campaign, args.json);
    }
    let programs = args.programs()?;
    if args.gateway {
        let site = rounds.site()?;
        let campaign = gateway::GatewayCrashes::start(&site, programs, args.plant)?;
        return rounds.run(site, campaign, args.json);
    }
    let older = match &args.upgrade_from {
        Some(commit) => {
            upgrade(commit, &programs, args.json)?;
            Some(older::build(commit)?)
        }
        None => None,
    };
    let release = Release {
        newer: programs,
        older,
        rounds: args.rounds,
    };
    let site = rounds.site()?;
    if args.native {
        let campaign = durable::DurableCrashes::start(&site, release)?;
        return rounds.run(site, campaign, args.json);
    }
    let load = if args.prints {
        CommandLoad::Printing
    } else {
        CommandLoad::Mixed
    };
    let campaign = commands::CommandCrashes::start(&site, release, load, args.plant)?;
    rounds.run(site, campaign, args.json)
}
