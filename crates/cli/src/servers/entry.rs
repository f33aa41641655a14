//! The server of a URL, or of a name in the configuration.

use super::{
    Command, Endpoint, NamedBy, Server, ServerError,
    config::{Configured, Entry},
};
use crate::{mcp_servers, nearest, variables::expand};
use http::{HeaderMap, HeaderName, HeaderValue};
use longhaul_client::EraChoice;
use std::{env, path::PathBuf};

pub(super) fn is_url(word: &str) -> bool {
    word.contains("://")
}

impl Configured {
    pub(super) fn has(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    /// The server of this URL or name.
    pub(super) fn server(&self, name: &str, words: (Vec<String>, Vec<String>)) -> Result<Server, ServerError> {
        let (endpoint, headers, uid, era) = if is_url(name) {
            (Endpoint::Http(name.to_owned()), HeaderMap::new(), None, EraChoice::Auto)
        } else {
            let Some(entry) = self.entries.get(name) else {
                let hint = nearest::suggestion(name, self.entries.keys().map(String::as_str));
                let hint = hint.unwrap_or_else(|| format!("none is configured in {}", self.file));
                return Err(ServerError::Unknown {
                    name: name.to_owned(),
                    hint,
                });
            };
            let entry = entry.as_ref().map_err(|wrong| ServerError::Entry {
                name: name.to_owned(),
                reason: format!("its entry in {} is wrong: {}", wrong.file, wrong.reason),
            })?;
            if entry.disabled {
                return Err(ServerError::Disabled(name.to_owned()));
            }
            let wrong = |reason| ServerError::Entry {
                name: name.to_owned(),
                reason,
            };
            let endpoint = endpoint(entry).map_err(wrong)?;
            let headers = headers(entry).map_err(wrong)?;
            (endpoint, headers, entry.uid, entry.era.into())
        };
        Ok(Server {
            endpoint,
            headers,
            uid,
            era,
            given_era: None,
            name: (!is_url(name)).then(|| name.to_owned()),
            mcp_config: None,
            named_by: NamedBy::CommandLine,
            words,
        })
    }
}

/// What an entry says, with its variables expanded.
fn endpoint(entry: &Entry) -> Result<Endpoint, String> {
    let expanded = |text: &String| expand(text, |name| env::var(name).ok());
    if entry.env_file.is_some() {
        return Err(mcp_servers::NO_ENV_FILE.to_owned());
    }
    match (&entry.url, &entry.command) {
        (Some(url), None) => Ok(Endpoint::Http(expanded(url)?)),
        (None, Some(program)) => Ok(Endpoint::Child(Command {
            program: expanded(program)?,
            args: entry.args.iter().map(expanded).collect::<Result<_, _>>()?,
            env: (entry.env.iter())
                .map(|(name, value)| Ok((name.clone(), expanded(value)?)))
                .collect::<Result<_, String>>()?,
            cwd: entry.cwd.as_ref().map(expanded).transpose()?.map(PathBuf::from),
        })),
        (Some(_), Some(_)) => Err("it has a `url` and a `command`; give one of them".to_owned()),
        (None, None) => Err("it needs a `url` or a `command`".to_owned()),
    }
}

/// The headers of an entry, with their variables expanded.
fn headers(entry: &Entry) -> Result<HeaderMap, String> {
    if !entry.headers.is_empty() && entry.url.is_none() {
        return Err("it has `headers`, which only a server with a `url` can be sent".to_owned());
    }
    let mut headers = HeaderMap::new();
    for (name, value) in &entry.headers {
        // The value may be secret, so it is not shown.
        let value = expand(value, |variable| env::var(variable).ok())?;
        let key = HeaderName::try_from(name).map_err(|_| format!("`{name}` cannot be the name of an HTTP header"))?;
        let mut value = HeaderValue::try_from(value)
            .map_err(|_| format!("the value of its header `{name}` has characters that no header may have"))?;
        value.set_sensitive(true);
        headers.insert(key, value);
    }
    Ok(headers)
}
