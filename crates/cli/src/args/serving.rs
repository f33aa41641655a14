//! `longhaul serve`, `stdio` and `check`.

use crate::config;
use clap::Args;
use longhaul_core::{Millis, parse_duration};
use std::path::{Path, PathBuf};

/// What is served: a configuration, or what another client has.
#[derive(Debug, Clone, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Source {
    /// Configuration file (TOML)
    file: Option<PathBuf>,
    /// Serve the MCP servers of another client's file (JSON with `mcpServers`) in place of a configuration file
    #[arg(long, value_name = "FILE")]
    mcp_config: Option<PathBuf>,
}

impl Source {
    /// The file of another client.
    pub(crate) fn mcp_config(&self) -> Option<&Path> {
        self.mcp_config.as_deref()
    }

    /// The file that says what is served.
    pub(crate) fn path(&self) -> &Path {
        let source = self.file.as_deref().or(self.mcp_config());
        // One of them is required.
        source.unwrap_or(Path::new(""))
    }
}

/// How lines of the log are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum LogFormat {
    #[default]
    Text,
    Json,
}

/// `longhaul serve`
#[derive(Debug, Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) source: Source,
    /// Address or unix:PATH to listen on; overrides the file
    #[arg(long, value_name = "ADDR", value_parser = config::parse_listen)]
    pub(crate) listen: Option<config::Listen>,
    /// Data directory; overrides the file
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Print the start-up report as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// How lines on standard error are written: for people, or each as a JSON object
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub(crate) log: LogFormat,
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
    #[command(flatten)]
    pub(crate) source: Source,
    /// Do not connect to the upstreams, the issuers, nor to the database of `store`
    #[arg(long)]
    pub(crate) offline: bool,
    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl Serve {
    /// A configuration file, served without further options.
    pub(crate) fn of_file(file: PathBuf, listen: Option<config::Listen>, data_dir: PathBuf) -> Self {
        Self {
            source: Source {
                file: Some(file),
                mcp_config: None,
            },
            listen,
            data_dir: Some(data_dir),
            json: false,
            log: LogFormat::default(),
            idle_exit: None,
            accept_restored_database: false,
            remove_orphaned_attempts: false,
            detach: false,
        }
    }
}

/// `longhaul wrap`
#[cfg(unix)]
#[derive(Debug, Args)]
pub(crate) struct Wrap {
    /// Address or unix:PATH to listen on; without it, standard input and output
    #[arg(long, value_name = "ADDR", value_parser = config::parse_listen)]
    pub(crate) listen: Option<config::Listen>,
    /// Data directory; by default one that follows from the command, the folder, the environment and --handoff
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// After how long a call of a client without tasks is answered, with how to follow it. `0s` for never
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) handoff: Option<Millis>,
    /// Changes nothing: `longhaul import` marks with it what its `--undo` takes back
    #[arg(long)]
    pub(crate) imported: bool,
    /// The MCP server's command, or its URL, behind `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}
