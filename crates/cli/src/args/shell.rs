//! `longhaul completions` and `man`.

use clap::Args;
use clap_complete::Shell;
use std::path::PathBuf;

/// `longhaul completions`
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// `longhaul man`
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Write a page for each command into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}
