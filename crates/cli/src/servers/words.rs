//! Words of a command line that were to name a server, and do not.

use super::{ConfiguredServers, ServerError};
use crate::{args::ServerArgs, output::nearest};

/// Refuses the words behind the server, for commands that take none.
pub(crate) fn nothing_more(args: &ServerArgs, rest: &[String]) -> Result<(), ServerError> {
    let Some(word) = rest.first() else { return Ok(()) };
    let why = match (&args.server, args.command.is_empty()) {
        (Some(_), _) => "-s says the server already".to_owned(),
        (None, false) => "the command behind -- is the server".to_owned(),
        (None, true) => match did_you_mean(args, word) {
            Some(hint) => format!("it is not a URL and not a configured server; {hint}"),
            None => "it is not a URL and not a configured server".to_owned(),
        },
    };
    Err(ServerError::TooMany {
        word: word.clone(),
        why,
    })
}

/// The configured server whose name is near to this word: "did you mean". A configuration that cannot be read has none.
pub(crate) fn did_you_mean(args: &ServerArgs, word: &str) -> Option<String> {
    let configured = ConfiguredServers::load(args.mcp_config.as_deref()).ok()?;
    let names = configured.entries.keys().map(String::as_str);
    nearest::suggestion(word, names.filter(|name| nearest::is_near(word, name)))
}
