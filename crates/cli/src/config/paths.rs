//! Where paths in the configuration start from.

use std::{
    env,
    path::{Path, PathBuf},
};

/// What the configuration takes from the machine it is read on.
#[derive(Debug, Clone)]
pub(crate) struct Surroundings {
    /// What `~` stands for.
    pub(crate) home: Option<PathBuf>,
    /// Where programs keep their state by default, if the machine says so.
    pub(crate) state_home: Option<PathBuf>,
    /// Processor cores: the default of `max_running`.
    pub(crate) cores: u32,
}

impl Surroundings {
    /// Those of this process: `HOME`, `XDG_STATE_HOME`, and the cores it may use.
    pub(crate) fn of_this_process() -> Self {
        let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            home: absolute("HOME"),
            state_home: absolute("XDG_STATE_HOME"),
            cores: u32::try_from(cores).unwrap_or(u32::MAX),
        }
    }

    /// Makes `path` absolute: `~` is the home folder, anything relative starts from `folder`.
    pub(super) fn resolve(&self, path: &str, folder: &Path) -> Result<PathBuf, InvalidPath> {
        if path.is_empty() {
            return Err(InvalidPath::Empty);
        }
        let Some(tail) = path.strip_prefix('~') else {
            // Components drop the `.` of "./data", so that paths read well in what `serve` prints.
            return Ok(folder.join(path).components().collect());
        };
        let home = self.home.as_ref().ok_or(InvalidPath::NoHome)?;
        match tail.strip_prefix('/') {
            Some(tail) => Ok(home.join(tail.trim_start_matches('/'))),
            None if tail.is_empty() => Ok(home.clone()),
            None => Err(InvalidPath::OtherHome),
        }
    }

    /// The folder for the data of a server called `name`.
    pub(super) fn default_data_dir(&self, name: &str) -> Result<PathBuf, InvalidPath> {
        let state_home = match (&self.state_home, &self.home) {
            (Some(state_home), _) => state_home.clone(),
            (None, Some(home)) => home.join(".local/state"),
            (None, None) => return Err(InvalidPath::NoHome),
        };
        Ok(state_home.join("longhaul").join(name))
    }
}

/// A path of the configuration that leads nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum InvalidPath {
    /// No characters at all.
    #[error("a path must not be empty")]
    Empty,
    /// `HOME` is not set.
    #[error("the home folder is not known (HOME is not set); write the path in full")]
    NoHome,
    /// `~somebody`.
    #[error("only `~` and `~/...` stand for a home folder; write the path in full")]
    OtherHome,
}
