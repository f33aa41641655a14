//! `longhaul serve`, `stdio` and `check`.

use crate::config;
use clap::{Args, builder::NonEmptyStringValueParser};
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
    /// Data directory; by default one that follows from the command, the folder, --name, --header, --era, --shared and the variables that --env names
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// A name of its own, such as of an account: another name is another server with tasks of its own
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) name: Option<String>,
    /// A variable of the environment by which accounts are told apart: another value is another server with tasks of its own. Several times for several
    #[arg(long, value_name = "NAME", value_parser = parse_variable)]
    pub(crate) env: Vec<String>,
    /// A header of each request to a URL, as `Name: value`; `${VAR}` in the value stands for a variable. Several times for several
    #[arg(long, value_name = "HEADER", value_parser = parse_header)]
    pub(crate) header: Vec<Header>,
    /// Which revisions of MCP to speak with the server: `modern` is 2026-07-28, `legacy` is before. By default what it prefers
    #[arg(long, value_name = "ERA", value_enum)]
    pub(crate) era: Option<Era>,
    /// All clients share one connection to the server, and with it one process. It cannot ask them anything then
    #[arg(long)]
    pub(crate) shared: bool,
    /// After how long a call of a client without tasks is answered, with how to follow it. `0s` for never. By default 45s
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) handoff: Option<Millis>,
    /// Changes nothing: `longhaul import` marks with it what its `--undo` takes back
    #[arg(long)]
    pub(crate) imported: bool,
    /// Changes nothing: what an undo of that puts back in place of this entry
    #[arg(long, value_name = "ENTRY", hide = true)]
    pub(crate) imported_entry: Option<String>,
    /// The MCP server's command, or its URL, behind `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// Which revisions an upstream is spoken with in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Era {
    Auto,
    Modern,
    Legacy,
}

impl Era {
    /// As in a configuration.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Modern => "modern",
            Self::Legacy => "legacy",
        }
    }
}

/// A header of HTTP.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) name: String,
    /// It may be secret.
    pub(crate) value: String,
}

impl std::fmt::Debug for Header {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Header").field(&self.name).finish()
    }
}

pub(super) fn parse_header(text: &str) -> Result<Header, &'static str> {
    let wrong = "write `Name: value`, such as `Authorization: Bearer ${TOKEN}`";
    let (name, value) = text.split_once(':').ok_or(wrong)?;
    let name = http::HeaderName::try_from(name.trim()).map_err(|_| wrong)?;
    Ok(Header {
        name: name.as_str().to_owned(),
        value: value.trim().to_owned(),
    })
}

fn parse_variable(text: &str) -> Result<String, &'static str> {
    match text.is_empty() || text.contains('=') {
        true => Err("name a variable only, such as API_KEY, and set it in the environment"),
        false => Ok(text.to_owned()),
    }
}
