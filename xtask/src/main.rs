//! The tasks of the repository: `cargo xtask COMMAND`.
//!
//! Results go to standard output, everything else to standard error.

mod attack;
mod check;
mod cluster;
mod crash;
mod durability;
mod fuzz;
mod page;
mod peers;
mod proxies;
mod release;
mod requirement;
mod sim;
mod site;
mod test;

use clap::{Parser, Subcommand};
use std::{error::Error, process::ExitCode};

/// The tasks of the repository
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Run all tests, and install what they need
    Test(test::Args),
    /// Run the official conformance suite against the fixture server
    Conformance(peers::conformance::Args),
    /// Run clients of other projects against the fixture server, and our client against their servers
    Interop(peers::interop::Args),
    /// Run the hosts that people use, with a scripted model, against our server
    Hosts(peers::hosts::Args),
    /// Run the pages of an operator in Debian's Chromium
    Page(page::Args),
    /// Kill the server repeatedly under load, and check that nothing acknowledged is lost
    Crash(crash::Args),
    /// Kill, pause and cut off nodes that share a database, under load, and check all that is answered and done
    Cluster(cluster::Args),
    /// Attack a server: requests, arguments, folders, clocks, a failing disk
    Attack(attack::Args),
    /// Simulate the runtime with crashes, delays and clock jumps: one seed, one schedule
    Sim(sim::Args),
    /// Show with strace that nothing is acknowledged before it is on disk
    Durability(durability::Args),
    /// Count the instructions that the hot requests take
    Counts(check::counts::Args),
    /// Measure what schedules cost while none is due
    Schedules(check::schedule_costs::Args),
    /// Measure the gateway beside other proxies in front of the same server
    Proxies(proxies::Args),
    /// Fuzz for as long as you like
    Fuzz(fuzz::Args),
    /// Make the artefacts of a release
    Dist(release::dist::Args),
    /// Check that this commit can be released, and print the commands that publish it
    Release(release::Args),
    /// Make a site of the documents
    Site(site::Args),
    /// Package the crates as they are published
    Crates(release::crates::Args),
    /// Check that every test exists which docs/protocol-coverage.md names, and that it names all requirements
    Coverage,
    /// Count the lines of code of each crate, and hold them to a table
    Size(check::size::Args),
    /// Check dependencies: licenses, bans, sources
    Deny,
    /// The command that the server runs in the crash test
    #[command(hide = true)]
    Worker(harness::commands::WorkerArgs),
    /// The server behind the proxies that are measured
    #[command(hide = true)]
    Upstream,
}

fn main() -> ExitCode {
    let done = match Cli::parse().task {
        Task::Test(args) => boxed(test::run(&args)),
        Task::Conformance(args) => boxed(peers::conformance::run(&args)),
        Task::Interop(args) => boxed(peers::interop::run(&args)),
        Task::Hosts(args) => boxed(peers::hosts::run(&args)),
        Task::Page(args) => boxed(page::run(&args)),
        Task::Crash(args) => boxed(crash::run(&args)),
        Task::Cluster(args) => boxed(cluster::run(&args)),
        Task::Attack(args) => boxed(attack::run(&args)),
        Task::Sim(args) => boxed(sim::run(&args)),
        Task::Durability(args) => boxed(durability::run(&args)),
        Task::Counts(args) => boxed(check::counts::run(&args)),
        Task::Schedules(args) => boxed(check::schedule_costs::run(&args)),
        Task::Proxies(args) => boxed(proxies::run(&args)),
        Task::Upstream => boxed(proxies::serve_upstream()),
        Task::Fuzz(args) => boxed(fuzz::run(&args)),
        Task::Dist(args) => boxed(release::dist::run(&args)),
        Task::Release(args) => boxed(release::run(&args)),
        Task::Site(args) => boxed(site::run(&args)),
        Task::Crates(args) => boxed(release::crates::run(&args)),
        Task::Coverage => boxed(check::coverage::run()),
        Task::Size(args) => boxed(check::size::run(&args)),
        Task::Deny => boxed(check::deny::run()),
        Task::Worker(args) => return harness::commands::work(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

fn boxed<E: Error + 'static>(done: Result<(), E>) -> Result<(), Box<dyn Error>> {
    done.map_err(Box::from)
}
