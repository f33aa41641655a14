//! Which server the command line and the environment mean.

use super::{
    Command, DEFAULT_URL, DEFAULT_VARIABLE, Endpoint, NamedBy, Server, ServerError, config::ConfiguredServers,
    entry::is_url,
};
use crate::{args::ServerArgs, output};
use std::env;

/// Chooses the server, and returns it with the words that do not belong to the choice.
///
/// With a command behind `--`, or with `-s`, no word names the server. Else the first word does if it has `://`, is a configured name, or ends with
/// `.toml`. Else it is the default server.
pub(crate) fn choose<'a>(args: &ServerArgs, words: &'a [String]) -> Result<(Server, &'a [String]), ServerError> {
    if args.command.is_empty() && env::args_os().next_back().is_some_and(|last| last == "--") {
        return Err(ServerError::NoCommand);
    }
    // A URL or a command needs no configuration, so a mistake in it is no obstacle.
    let named = match (&args.server, words.first()) {
        (Some(server), _) => !is_url(server),
        (None, _) if !args.command.is_empty() => false,
        (None, first) => !first.is_some_and(|first| is_url(first)),
    };
    let configured = match named || args.mcp_config.is_some() {
        true => ConfiguredServers::load(args.mcp_config.as_deref())?,
        false => ConfiguredServers::default(),
    };
    let (server, rest) = choose_among(&configured, args, words, env::var(DEFAULT_VARIABLE).ok())?;
    Ok((server.of_file(args.mcp_config.as_deref()).in_era(args.era), rest))
}

/// The names in the user's `servers.toml`, without those of disabled servers; none if it cannot be read.
pub(crate) fn configured_names() -> Vec<String> {
    let configured = ConfiguredServers::load(None).unwrap_or_default();
    let entries = configured.entries.into_iter();
    let usable = entries.filter(|(_, entry)| !entry.as_ref().is_ok_and(|entry| entry.disabled));
    usable.map(|(name, _)| name).collect()
}

pub(super) fn choose_among<'a>(
    configured: &ConfiguredServers,
    args: &ServerArgs,
    words: &'a [String],
    default: Option<String>,
) -> Result<(Server, &'a [String]), ServerError> {
    if let Some(name) = &args.server {
        if !args.command.is_empty() {
            output::note("note: -s says the server, so the command behind -- is not started");
        }
        let chosen = configured.server(name, (vec!["-s".to_owned(), name.clone()], Vec::new()))?;
        return Ok((chosen, words));
    }
    if let Some((program, rest)) = args.command.split_first() {
        let mut behind = vec!["--".to_owned()];
        behind.extend(args.command.iter().cloned());
        let command = Command {
            program: program.clone(),
            args: rest.to_vec(),
            env: Vec::new(),
            cwd: None,
        };
        let server = Server {
            words: (Vec::new(), behind),
            ..Server::at(Endpoint::Child(command))
        };
        return Ok((server, words));
    }
    if let Some((first, rest)) = words.split_first()
        && (is_url(first) || configured.has(first) || configured.is_config_file(first))
    {
        return Ok((configured.server(first, (vec![first.clone()], Vec::new()))?, rest));
    }
    let default = default.filter(|default| !default.is_empty());
    let named_by = match default {
        Some(_) => NamedBy::Environment,
        None => NamedBy::Nothing,
    };
    let default = default.unwrap_or_else(|| DEFAULT_URL.to_owned());
    let server = match configured.server(&default, (Vec::new(), Vec::new())) {
        Ok(server) => server,
        Err(error) => Server::at(Endpoint::Wrong(error)),
    };
    Ok((Server { named_by, ..server }, words))
}
