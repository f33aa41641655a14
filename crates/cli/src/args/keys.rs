//! `longhaul keys`.

use clap::{Args, Subcommand};
use longhaul::auth::{ToolPattern, keys::KeyName};
use longhaul_core::{Millis, parse_duration};
use std::path::PathBuf;

/// `longhaul keys`
#[derive(Debug, Args)]
pub(crate) struct Keys {
    #[command(subcommand)]
    pub(crate) command: KeysCommand,
}

/// What is done with the keys. A running server takes a change over within a second.
#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Add a key and print it: it is shown this once
    Add {
        #[command(flatten)]
        of: KeysOf,
        /// Its name, which its tasks belong to
        #[arg(value_parser = key_name)]
        name: KeyName,
        /// Tools it may call, * for any characters; several times for several [default: all]
        #[arg(long, value_name = "PATTERN", value_parser = tool_pattern)]
        tools: Vec<ToolPattern>,
        /// With --tools: allow it to read resources and to get prompts, too
        #[arg(long, requires = "tools")]
        resources: bool,
        /// End it after this time, such as 90d
        #[arg(long, value_name = "DURATION", value_parser = lifetime)]
        expires: Option<Millis>,
        /// Print one line of JSON
        #[arg(long)]
        json: bool,
    },
    /// List the keys, without their secrets
    List {
        #[command(flatten)]
        of: KeysOf,
        /// Print one line of JSON for each
        #[arg(long)]
        json: bool,
    },
    /// Give a key a new secret and print it; its tasks stay
    ///
    /// Without NAME: make a new key for secret arguments of tools. The earlier ones stay, for what is stored already.
    Rotate {
        #[command(flatten)]
        of: KeysOf,
        /// Its name [default: the key that secret arguments are encrypted with]
        #[arg(value_parser = key_name)]
        name: Option<KeyName>,
        /// Accept the old secret for this time, too [default: not]
        #[arg(long, value_name = "DURATION", value_parser = lifetime, requires = "name")]
        overlap: Option<Millis>,
        /// End the key after this time from now
        #[arg(long, value_name = "DURATION", value_parser = lifetime, requires = "name")]
        expires: Option<Millis>,
        /// Print one line of JSON
        #[arg(long)]
        json: bool,
    },
    /// End a key for good, with all that it has opened; its name is not used again
    Revoke {
        #[command(flatten)]
        of: KeysOf,
        /// Its name
        #[arg(value_parser = key_name)]
        name: KeyName,
        /// Print one line of JSON
        #[arg(long)]
        json: bool,
    },
}

/// A pattern of tool names. Tokens have scopes such as `tools:NAME`, but a key's pattern is the name alone.
fn tool_pattern(text: &str) -> Result<ToolPattern, String> {
    if text.is_empty() || text.contains(':') {
        return Err("write the name of a tool alone, with * for any characters, such as 'build*'".to_owned());
    }
    text.parse()
        .map_err(|error: longhaul_core::InvalidToolPattern| error.to_string())
}

/// A duration of at most a hundred years.
fn lifetime(text: &str) -> Result<Millis, String> {
    const LONGEST: Millis = 100 * 365 * 24 * 3_600_000;
    match parse_duration(text) {
        Ok(duration) if duration <= LONGEST => Ok(duration),
        Ok(_) => Err("at most 36500d can be given; leave it out for no end".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Whose keys.
#[derive(Debug, Args)]
pub(crate) struct KeysOf {
    /// Configuration file of the server (TOML)
    pub(crate) file: PathBuf,
    /// Data directory; overrides the file
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
}

fn key_name(text: &str) -> Result<KeyName, String> {
    KeyName::new(text).map_err(|error| error.to_string())
}
