//! What commands on the data of a server need of its configuration. A mistake elsewhere in it must not keep anybody from a server that runs, or from a backup.

use super::{
    file::{ConfigError, File, Problem},
    paths::Environment,
    section::Section,
    server,
};
use crate::config::server::shared_store;
use crate::output;
use std::path::{Path, PathBuf, absolute};

/// Where the data of a server are.
#[derive(Debug)]
pub(crate) struct DataDirConfig {
    /// The name of the server.
    pub(crate) name: String,
    /// Its data directory, as an absolute path.
    pub(crate) data_dir: PathBuf,
    /// Whether its tasks are in a database of several servers.
    pub(crate) is_shared: bool,
    /// The room that is kept on its disk; 0 if that cannot be read.
    pub(crate) disk_reserve: u64,
    /// The mistakes elsewhere, with which no server starts.
    pub(crate) problems: Vec<Problem>,
}

impl DataDirConfig {
    /// Says what else is wrong with the file.
    pub(crate) fn warn_of_problems(&self, file: &Path) {
        let file = file.display().to_string();
        for problem in &self.problems {
            output::note(&format!("warning: {}", problem.at(&file)));
        }
    }
}

/// Reads where the data are from the configuration at `path`, whatever else is wrong with it, without the variables of commands. `data_dir` overrides the file's.
///
/// # Errors
/// [`ConfigError`] if the file cannot be read, its syntax is wrong, or it does not say where the data are.
pub(crate) fn load_for_data_dir(path: &Path, data_dir: Option<&Path>) -> Result<DataDirConfig, ConfigError> {
    let environment = Environment::without_variables();
    let given = data_dir.map(|data_dir| absolute(data_dir).unwrap_or_else(|_| data_dir.to_owned()));
    let file = File::read(path)?;
    let config = super::read(&file, &environment);
    let (problems, warnings) = file.into_problems();
    if let Some(config) = config.filter(|_| problems.is_empty()) {
        return Ok(DataDirConfig {
            name: config.server.name,
            data_dir: given.unwrap_or(config.server.data_dir),
            is_shared: config.server.shared_store.is_some(),
            disk_reserve: config.server.disk_reserve,
            problems,
        });
    }
    // Its problems are among those above.
    match read_server(&File::read(path)?, &environment, given) {
        Some(read) => Ok(DataDirConfig { problems, ..read }),
        None => Err(ConfigError {
            file: path.display().to_string(),
            problems,
            warnings,
        }),
    }
}

/// `None` if it does not say where the data are.
fn read_server(file: &File, environment: &Environment, given: Option<PathBuf>) -> Option<DataDirConfig> {
    let document = file.parse()?;
    let root = Section::root(file, document.get_ref());
    let section = root.get("server")?.section("[server]", "[server]")?;
    let name = server::read_name(&section);
    let data_dir = match given {
        Some(given) => given,
        // The default would be another directory than is meant.
        None if section.has_mistyped("data_dir") => return None,
        None => server::read_data_dir(&section, environment, name.as_deref())?.ok()?,
    };
    // Whatever is wrong with the address.
    let is_shared = section.get("store").is_some() || shared_store::read(&section, environment).flatten().is_some();
    Some(DataDirConfig {
        name: name.unwrap_or_else(|| data_dir.display().to_string()),
        data_dir,
        is_shared,
        disk_reserve: 0,
        problems: Vec::new(),
    })
}
