//! `longhaul login`, `logout` and `whoami`.

use super::ServerArgs;
use clap::Args;
use std::path::PathBuf;

/// `longhaul login`
#[derive(Debug, Args)]
#[command(override_usage = "longhaul login [OPTIONS] [SERVER]\n       longhaul login --key [SERVER] < FILE")]
#[command(mut_arg("command", |command| command.hide(true)))]
pub(crate) struct Login {
    /// URL or name of the server
    #[arg(value_name = "SERVER", num_args = 0..=1)]
    pub(crate) words: Vec<String>,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// For this principal of a server of yours that is in front of it with `login = "per-principal"`, instead of you
    #[arg(long = "for", value_name = "PRINCIPAL", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) principal: Option<String>,
    /// Keep the key on standard input for this server, instead of logging in
    #[arg(long, conflicts_with_all = ["issuer", "scope", "client_id", "client_metadata_url", "as_client", "no_browser"])]
    pub(crate) key: bool,
    /// The authorization server to log in at, if the server names several [default: the first that answers]
    #[arg(long, value_name = "URL")]
    pub(crate) issuer: Option<String>,
    /// Ask for this permission instead of those that the server names, beside those that the login has; may be repeated
    #[arg(long, value_name = "SCOPE", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) scope: Vec<String>,
    /// The id under which the authorization server knows this client, if it does not register clients by itself
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,
    /// File with the secret of --client-id
    #[arg(long, value_name = "FILE", requires = "client_id")]
    pub(crate) client_secret_file: Option<PathBuf>,
    /// URL of a metadata document of this client, for authorization servers that read such documents
    #[arg(long, value_name = "URL")]
    pub(crate) client_metadata_url: Option<String>,
    /// Log in as the client itself and not as a user: for programs, with --client-id and --client-secret-file
    #[arg(long, requires = "client_secret_file")]
    pub(crate) as_client: bool,
    /// Print the address to log in at, and read the one that the browser is sent to: for a machine without a browser
    #[arg(long)]
    pub(crate) no_browser: bool,
    /// Send the key or token over plain HTTP to another machine: others on the network can read it
    #[arg(long)]
    pub(crate) plain_http: bool,
    /// Print the login as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `longhaul logout` and `longhaul whoami`
#[derive(Debug, Args)]
#[command(mut_arg("command", |command| command.hide(true)))]
pub(crate) struct Account {
    /// URL or name of the server
    #[arg(value_name = "SERVER", num_args = 0..=1)]
    pub(crate) words: Vec<String>,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// That of this principal of a server of yours, instead of your own
    #[arg(long = "for", value_name = "PRINCIPAL", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) principal: Option<String>,
    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}
