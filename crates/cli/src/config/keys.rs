//! What `longhaul keys` needs of a configuration. A mistake elsewhere in it must not keep anybody from revoking a key.

use super::{
    Config,
    file::{ConfigError, File, Problem},
    paths::Environment,
    section::{Entry, Section},
    server,
};
use crate::config::server::{
    audit::{self, AuditConfig},
    shared_store::{self, SharedStore},
};
use std::path::{Path, PathBuf};

/// What `longhaul keys` needs of a configuration.
#[derive(Debug)]
pub(crate) struct KeysConfig {
    /// The data directory; `None` if it cannot be told.
    pub(crate) data_dir: Option<PathBuf>,
    /// Where the audit log goes, if there is one.
    pub(crate) audit: Option<AuditConfig>,
    /// The database with the tasks, if they are not in the data directory and that can be told.
    pub(crate) shared_store: Option<SharedStore>,
    /// Whether the server accepts keys.
    pub(crate) api_keys: bool,
    /// The names of all tools; `None` if they are not known.
    pub(crate) tools: Option<Vec<String>>,
    /// The mistakes with which no server starts.
    pub(crate) problems: Vec<Problem>,
}

/// Reads what `longhaul keys` needs of the configuration at `path`, whatever else is wrong with it.
///
/// # Errors
/// [`ConfigError`] if there is no such file.
pub(crate) fn load_for_keys(path: &Path, environment: &Environment) -> Result<KeysConfig, ConfigError> {
    let file = File::read(path)?;
    let config = super::read(&file, environment);
    let (problems, _) = file.into_problems();
    if let Some(config) = config.filter(|_| problems.is_empty()) {
        return Ok(KeysConfig::from(config));
    }
    // Its problems are among those above.
    let file = File::read(path)?;
    let read = read_server(&file, environment);
    Ok(KeysConfig {
        problems,
        ..read.unwrap_or_default()
    })
}

/// Nothing is known of the configuration.
impl Default for KeysConfig {
    fn default() -> Self {
        Self {
            data_dir: None,
            audit: None,
            shared_store: None,
            api_keys: true,
            tools: None,
            problems: Vec::new(),
        }
    }
}

impl From<Config> for KeysConfig {
    fn from(config: Config) -> Self {
        // Names of upstreams' tools are known only while they are connected.
        let tools = config.upstreams.is_empty();
        Self {
            data_dir: Some(config.server.data_dir),
            audit: config.server.audit,
            shared_store: config.server.shared_store,
            api_keys: config.server.auth.api_keys,
            tools: tools.then(|| config.tools.into_iter().map(|tool| tool.name).collect()),
            problems: Vec::new(),
        }
    }
}

/// `None` if there is no `[server]`.
fn read_server(file: &File, environment: &Environment) -> Option<KeysConfig> {
    let document = file.parse()?;
    let root = Section::root(file, document.get_ref());
    let section = root.get("server")?.section("[server]", "[server]")?;
    let name = server::read_name(&section);
    let data_dir = server::read_data_dir(&section, environment, name.as_deref()).and_then(Result::ok);
    let audit = section.get("audit").and_then(|entry| {
        let section = entry.section("[server.audit]", "such as [server.audit]")?;
        audit::read(&section, environment, data_dir.as_deref())
    });
    let auth = section
        .get("auth")
        .and_then(|entry| entry.section("[server.auth]", "such as [server.auth]"));
    // A mistake in it is one of the problems already.
    let api_keys = auth.is_none_or(|auth| auth.get_or("api_keys", false, Entry::flag) != Some(false));
    Some(KeysConfig {
        data_dir,
        audit,
        shared_store: shared_store::read(&section, environment).flatten(),
        api_keys,
        tools: None,
        problems: Vec::new(),
    })
}
