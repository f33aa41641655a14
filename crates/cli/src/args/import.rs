//! The arguments of `longhaul import`.

use super::{Era, Header, serving::parse_header};
use clap::{
    Arg, Args, Command, ValueEnum as _,
    builder::{EnumValueParser, NonEmptyStringValueParser, PossibleValue, TypedValueParser},
    error::{ContextKind, ContextValue},
};
use longhaul_core::{Millis, parse_duration};
use std::{ffi::OsStr, path::PathBuf};

/// An MCP host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Host {
    /// Claude Desktop
    ClaudeDesktop,
    /// Claude Code: the servers of the user and of all projects
    ClaudeCode,
    /// Cursor
    Cursor,
    /// Visual Studio Code
    #[value(name = "vscode")]
    VsCode,
    /// Zed
    Zed,
    /// Windsurf
    Windsurf,
    /// Gemini CLI
    GeminiCli,
    /// Codex
    Codex,
    /// opencode
    Opencode,
    /// Qwen Code
    QwenCode,
}

/// What is imported.
#[derive(Debug, Clone)]
pub(crate) enum ImportSource {
    /// The servers of a host.
    Host(Host),
    /// The jobs in a file.
    File(PathBuf),
}

/// Reads the name of a host, or a path, which has `/` or `.` in it.
#[derive(Clone)]
struct SourceParser;

impl TypedValueParser for SourceParser {
    type Value = ImportSource;

    fn parse_ref(&self, cmd: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<ImportSource, clap::Error> {
        let is_path = value.as_encoded_bytes().iter().any(|byte| b"/.".contains(byte));
        match EnumValueParser::<Host>::new().parse_ref(cmd, arg, value) {
            Err(_) if is_path => Ok(ImportSource::File(value.into())),
            host => host.map(ImportSource::Host).map_err(|mut error| {
                let tip = "a file is named by a path, as './justfile', or with '--file'";
                error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
                error
            }),
        }
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(
            Host::value_variants().iter().filter_map(Host::to_possible_value),
        ))
    }
}

/// `longhaul import`
#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The host whose servers shall run behind Longhaul, or a file with jobs to draft tools from: tasks.json, mise.toml, a justfile, a unit of systemd, a
    /// workflow of GitHub. A path has `/` or `.` in it
    #[arg(value_name = "HOST|FILE", value_parser = SourceParser, required_unless_present = "file")]
    pub(crate) source: Option<ImportSource>,
    /// The configuration file of the host, such as that of a project; by default that of this user. Without a host, a file with jobs
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// After how long a call that runs on is answered, with how to follow it: less than the host waits. `0s` for never. By default 45s for new
    /// servers, which suits all hosts that were measured; those of an earlier import change only if it is given
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, conflicts_with = "undo")]
    pub(crate) handoff: Option<Millis>,
    /// A name of its own for each server, such as of an account, as for `longhaul wrap`
    #[arg(long, value_name = "NAME", conflicts_with = "undo", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) name: Option<String>,
    /// Which revisions of MCP to speak with the servers, as for `longhaul wrap`
    #[arg(long, value_name = "ERA", value_enum, conflicts_with = "undo")]
    pub(crate) era: Option<Era>,
    /// One process of each server for all clients, as for `longhaul wrap`
    #[arg(long, conflicts_with = "undo")]
    pub(crate) shared: bool,
    /// Puts servers at a URL behind Longhaul, too, with this header beside those of the file, as for `longhaul wrap`. Several times for several
    #[arg(long, value_name = "HEADER", value_parser = parse_header, conflicts_with = "undo")]
    pub(crate) header: Vec<Header>,
    /// Start the servers that an import has put behind Longhaul without it again
    #[arg(long)]
    pub(crate) undo: bool,
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
    /// Print what would change, and change nothing
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
    /// Print one line of JSON. Without --yes nothing is changed
    #[arg(long)]
    pub(crate) json: bool,
}

impl Import {
    /// The first option that only servers of a host have.
    pub(crate) fn option_of_hosts(&self) -> Option<&'static str> {
        [
            (self.handoff.is_some(), "--handoff"),
            (self.name.is_some(), "--name"),
            (self.era.is_some(), "--era"),
            (self.shared, "--shared"),
            (!self.header.is_empty(), "--header"),
            (self.undo, "--undo"),
            (self.yes, "--yes"),
        ]
        .into_iter()
        .find_map(|(is_given, option)| is_given.then_some(option))
    }
}
