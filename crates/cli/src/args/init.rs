//! The arguments of `longhaul init`.

use clap::Args;
use std::path::PathBuf;

/// `longhaul init`
#[derive(Debug, Args)]
pub(crate) struct Init {
    /// The file to write
    #[arg(default_value = "jobs.toml")]
    pub(crate) file: PathBuf,
    /// Do not ask: write an example, a tool that counts for a few seconds, served over HTTP
    #[arg(long)]
    pub(crate) yes: bool,
    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}
