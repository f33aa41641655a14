//! `longhaul serve`, `stdio` and `check`.

use crate::config;
use clap::Args;
use longhaul_core::{Millis, parse_duration};
use std::path::PathBuf;

/// `longhaul serve`
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Configuration file (TOML)
    pub(crate) file: PathBuf,
    /// Address or unix:PATH to listen on; overrides the file
    #[arg(long, value_name = "ADDR", value_parser = config::parse_listen)]
    pub(crate) listen: Option<config::Listen>,
    /// Data directory; overrides the file
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Print the start-up report as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Exit after this time without connections and live tasks; if the address is in use, serve only `longhaul stdio`
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) idle_exit: Option<Millis>,
    /// Accept a database that was restored from a backup. Its queued and running tasks are run again, even if they have run since the
    /// backup. Without this option a restored database is read-only
    #[arg(long)]
    pub(crate) accept_restored_database: bool,
    /// Remove attempt folders whose tasks are not in the database, unless their command still runs
    #[arg(long)]
    pub(crate) remove_orphaned_attempts: bool,
    /// Detach from the terminal, as `longhaul stdio` starts its server
    #[arg(long, hide = true)]
    pub(crate) detach: bool,
}

/// `longhaul stdio`
#[cfg(unix)]
#[derive(Debug, Args)]
pub(crate) struct Stdio {
    /// Configuration file (TOML)
    pub(crate) file: PathBuf,
    /// Data directory; overrides the file
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
}

/// `longhaul check`
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Configuration file (TOML)
    pub(crate) file: PathBuf,
    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}
