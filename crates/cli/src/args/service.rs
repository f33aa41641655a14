//! The arguments of `longhaul service`.

use super::help::SERVICE;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `longhaul service`
#[derive(Debug, Args)]
pub(crate) struct Service {
    #[command(subcommand)]
    pub(crate) command: ServiceCommand,
}

/// What is done with the service.
#[derive(Debug, Subcommand)]
pub(crate) enum ServiceCommand {
    /// Make a service of a configuration file, and start it
    #[command(after_help = SERVICE)]
    Install(ServiceChange),
    /// Show whether the service of a file runs, since when, and where its log is
    #[command(after_help = SERVICE)]
    Status(ServiceOf),
    /// Stop the service of a file and remove it. Its data stay, and its running commands go on
    #[command(after_help = SERVICE)]
    Uninstall(ServiceChange),
}

/// Which service.
#[derive(Debug, Args)]
pub(crate) struct ServiceOf {
    /// Configuration file (TOML)
    pub(crate) file: PathBuf,
    /// A service of this user; by default unless this is root
    #[arg(long, conflicts_with = "system")]
    pub(crate) user: bool,
    /// A service of the system; by default if this is root
    #[arg(long)]
    pub(crate) system: bool,
    /// The service is called longhaul-NAME [default: the name of the server]
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    pub(crate) name: Option<String>,
    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `longhaul service install` and `uninstall`
#[derive(Debug, Args)]
pub(crate) struct ServiceChange {
    #[command(flatten)]
    pub(crate) of: ServiceOf,
    /// Do not ask. With --json nothing is changed without it
    #[arg(long)]
    pub(crate) yes: bool,
    /// Print what would be done, and do nothing
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
}

fn parse_name(text: &str) -> Result<String, &'static str> {
    match crate::config::is_server_name(text) {
        true => Ok(text.to_owned()),
        false => Err("use 1 to 64 of A-Z a-z 0-9 _ - . and no dot at the beginning"),
    }
}
