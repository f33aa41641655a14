//! `longhaul backup`, `longhaul restore` and `longhaul migrate`.

use clap::Args;
use std::path::PathBuf;

/// `longhaul backup`
#[derive(Debug, Args)]
pub(crate) struct Backup {
    /// Configuration file of the server (TOML)
    pub(crate) file: PathBuf,
    /// The new file for the backup, or - for standard output
    pub(crate) out: PathBuf,
    /// Data directory; overrides the file
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Where to make the copy of the database, on a local disk
    #[arg(long, value_name = "DIR")]
    pub(crate) temp_dir: Option<PathBuf>,
    /// Print what is in the backup as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `longhaul restore`
#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// The backup, or - for standard input
    pub(crate) backup: PathBuf,
    /// Configuration file (TOML), whose data directory is made
    #[arg(required_unless_present = "data_dir")]
    pub(crate) file: Option<PathBuf>,
    /// The data directory to make; overrides the file. It must not exist, or be empty
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Let queued tasks run at the next start, even if they have run since the backup was taken
    #[arg(long, conflicts_with = "interrupt_queued")]
    pub(crate) run_queued: bool,
    /// End queued tasks as interrupted
    #[arg(long)]
    pub(crate) interrupt_queued: bool,
    /// Print what was restored as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `longhaul migrate`
#[derive(Debug, Args)]
pub(crate) struct Migrate {
    /// Configuration file of the server (TOML), whose data directory has the tasks
    pub(crate) file: PathBuf,
    /// The database, such as postgres://user@host/database
    #[arg(long, value_name = "URL")]
    pub(crate) to: String,
    /// The schema for the tasks, which must have none
    #[arg(long, value_name = "NAME")]
    pub(crate) schema: Option<String>,
    /// Data directory; overrides the file
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// End a move that was interrupted: the data directory is used as before
    #[arg(long)]
    pub(crate) abandon: bool,
    /// Print what was moved as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}
