//! The server of a URL, or of a name in the configuration.

use super::{
    Command, Endpoint, NamedBy, Server, ServerError,
    config::{ConfiguredServers, Entry},
};
use crate::{
    config::{self, Environment, variables::expand},
    machine::served_file,
    mcp_servers,
    output::{self, nearest},
};
use http::{HeaderMap, HeaderName, HeaderValue};
use longhaul_client::EraChoice;
use longhaul_gateway::ToolSelection;
use std::{
    env,
    path::{Path, PathBuf},
};

pub(super) fn is_url(word: &str) -> bool {
    word.contains("://")
}

/// The command that speaks with the server of a file.
const STDIO: &str = "stdio";

/// Whether a word can name the configuration file of a server, as in `longhaul serve jobs.toml`.
fn has_file_ending(word: &str) -> bool {
    word.ends_with(".toml")
}

impl ConfiguredServers {
    pub(super) fn has(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    /// Whether a word names the configuration file of a server. A configured name comes first.
    pub(super) fn is_config_file(&self, word: &str) -> bool {
        has_file_ending(word) && !self.has(word)
    }

    /// The server of this URL, name or configuration file.
    pub(super) fn server(&self, name: &str, words: (Vec<String>, Vec<String>)) -> Result<Server, ServerError> {
        let mut tools = ToolSelection::default();
        let (endpoint, headers, uid, era) = if is_url(name) {
            (Endpoint::Http(name.to_owned()), HeaderMap::new(), None, EraChoice::Auto)
        } else if self.is_config_file(name) {
            let command = Command::serving(name)?;
            (Endpoint::Child(command), HeaderMap::new(), None, EraChoice::Auto)
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
            tools.clone_from(&entry.tools);
            (endpoint, headers, entry.uid, entry.era.into())
        };
        Ok(Server {
            endpoint,
            headers,
            tools,
            uid,
            era,
            given_era: None,
            name: self.has(name).then(|| name.to_owned()),
            mcp_config: None,
            named_by: NamedBy::CommandLine,
            words,
        })
    }
}

impl Command {
    /// `longhaul stdio FILE`: it connects to the server of the file, or starts it.
    fn serving(file: &str) -> Result<Self, ServerError> {
        let wrong = |reason: String| ServerError::Config {
            file: file.to_owned(),
            reason,
        };
        let path = Path::new(file)
            .canonicalize()
            .map_err(|error| wrong(format!("it cannot be read: {error}")))?;
        // Said here, with each mistake on its line, and not as the last words of a server that did not start.
        let config = config::load(&path, &Environment::of_this_process())
            .map_err(|error| ServerError::ConfigFile(error.to_string()))?;
        if let Some(unread) = served_file::unread(&path, &config.server.data_dir, &config.settings) {
            output::note(&format!("longhaul: {unread}"));
        }
        let program = env::current_exe().map_err(|error| wrong(error.to_string()))?;
        let text = |path: PathBuf| {
            let text = path.into_os_string().into_string();
            text.map_err(|path| wrong(format!("{} is not UTF-8", path.display())))
        };
        Ok(Self {
            // The same from every folder.
            cwd: path.parent().map(Path::to_owned),
            program: text(program)?,
            args: vec![STDIO.to_owned(), text(path)?],
            env: Vec::new(),
        })
    }

    /// The configuration file whose server this command speaks with.
    pub(super) fn config_file(&self) -> Option<&str> {
        match &*self.args {
            [stdio, file] if stdio == STDIO && has_file_ending(file) => {
                let is_this = env::current_exe().is_ok_and(|own| own == Path::new(&self.program));
                is_this.then_some(file)
            }
            _ => None,
        }
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
