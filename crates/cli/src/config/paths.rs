//! Resolving paths in the configuration.

use super::{section::Entry, variables};
use longhaul_command::missing_interpreter;
use longhaul_core::UnixMillis;
use std::{
    env,
    ffi::OsString,
    io::Read as _,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

/// What the configuration depends on outside its file.
#[derive(Debug, Clone)]
pub(crate) struct Environment {
    /// `HOME`, which `~` stands for.
    pub(crate) home: Option<PathBuf>,
    /// `XDG_STATE_HOME`.
    pub(crate) state_home: Option<PathBuf>,
    /// Processor cores: the default of `max_running`.
    pub(crate) cores: u32,
    /// `PATH`.
    pub(crate) path: Option<OsString>,
    /// The time, by which certificates are judged.
    pub(crate) now: UnixMillis,
    /// The values of variables that a file names with `${VAR}`.
    pub(crate) variable: fn(&str) -> Option<String>,
    /// Whether values need the variables that they name. Paths always do.
    pub(crate) needs_variables: bool,
}

impl Environment {
    /// The environment of this process.
    #[expect(
        clippy::disallowed_methods,
        reason = "there is no runtime yet, and nothing to simulate"
    )]
    pub(crate) fn of_this_process() -> Self {
        let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            home: absolute("HOME"),
            state_home: absolute("XDG_STATE_HOME"),
            cores: u32::try_from(cores).unwrap_or(u32::MAX),
            path: env::var_os("PATH"),
            now: UnixMillis(i64::try_from(now.as_millis()).unwrap_or(i64::MAX)),
            variable: |name| env::var(name).ok(),
            needs_variables: true,
        }
    }

    /// As [`of_this_process`](Self::of_this_process), for a command that runs no tool and reaches no upstream, so that what these need of variables need not be set.
    pub(crate) fn without_variables() -> Self {
        Self {
            needs_variables: false,
            ..Self::of_this_process()
        }
    }

    /// The value of a variable that a value names.
    pub(crate) fn value_of(&self, name: &str) -> Option<String> {
        (self.variable)(name).or_else(|| (!self.needs_variables).then(String::new))
    }

    /// Makes `path` absolute: `${VAR}` is a variable, `~` the home folder, and anything relative starts from `folder`.
    pub(super) fn resolve(&self, path: &str, folder: &Path) -> Result<PathBuf, InvalidPath> {
        let path = self.expand_path(path)?;
        // `components` drops the `.` of "./data", for the report of `serve`.
        Ok(folder.join(path).components().collect())
    }

    /// A program as the system looks for it: a name, an absolute path, or one from the folder that it is started in.
    pub(super) fn program(&self, program: &str) -> Result<String, InvalidPath> {
        if program != "~" && !program.starts_with("~/") && !program.contains("${") {
            return Ok(program.to_owned());
        }
        self.expand_path(program)
    }

    /// Replaces `${VAR}` and a `~` at the beginning; the rest of the path is as it stands.
    pub(super) fn expand_path(&self, path: &str) -> Result<String, InvalidPath> {
        let path = variables::expand(path, self.variable).map_err(InvalidPath::Variable)?;
        if path.is_empty() {
            return Err(InvalidPath::Empty);
        }
        let Some(tail) = path.strip_prefix('~') else {
            return Ok(path);
        };
        let home = self.home.as_ref().ok_or(InvalidPath::NoHome)?;
        let home = home.to_str().ok_or(InvalidPath::HomeNotText)?;
        match tail.strip_prefix('/') {
            Some(tail) => Ok(format!(
                "{}/{}",
                home.trim_end_matches('/'),
                tail.trim_start_matches('/')
            )),
            None if tail.is_empty() => Ok(home.to_owned()),
            None => Err(InvalidPath::OtherHome),
        }
    }

    /// Why `program` cannot be started in `cwd`, if that is known. `path` is the tool's own `PATH`.
    pub(crate) fn missing_program(&self, program: &str, path: Option<&str>, cwd: &Path) -> Option<String> {
        let runs = |file: &Path| {
            file.metadata()
                .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
        };
        if program.contains('/') {
            let file = cwd.join(program);
            if runs(&file) {
                return unusable(&file);
            }
            let what = if file.is_file() {
                "is not executable"
            } else if file.is_dir() {
                "is a folder"
            } else {
                "does not exist"
            };
            return Some(format!("the program {} {what}", file.display()));
        }
        let path = path.map(OsString::from).or_else(|| self.path.clone())?;
        let found = env::split_paths(&path).map(|folder| cwd.join(folder).join(program));
        match found.into_iter().find(|file| runs(file)) {
            Some(file) => unusable(&file),
            None => Some(format!("there is no program `{program}` in PATH")),
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

/// Why a program that is there cannot be started, if the system would find out only then.
fn unusable(program: &Path) -> Option<String> {
    let why = missing_interpreter(program)?;
    Some(format!("the program {} cannot be started: {why}", program.display()))
}

/// The path that an entry names.
pub(super) fn read_path(entry: &Entry<'_>, environment: &Environment) -> Option<PathBuf> {
    let path = environment.resolve(entry.text()?, entry.file().folder());
    path.map_err(|error| entry.report(format!("`{}`: {error}", entry.key())))
        .ok()
}

/// The content of the small file that an entry names.
pub(super) fn read_file(entry: &Entry<'_>, environment: &Environment, limit: u64) -> Option<(PathBuf, Vec<u8>)> {
    let path = read_path(entry, environment)?;
    let mut bytes = Vec::new();
    let read = longhaul_private_dir::open_named(&path).and_then(|file| file.take(limit + 1).read_to_end(&mut bytes));
    match read {
        Err(error) => entry.report(format!("`{}`: cannot read {}: {error}", entry.key(), path.display())),
        Ok(_) if bytes.len() as u64 > limit => entry.report(format!(
            "`{}`: {} has more than {} KiB, which is the most that is read here",
            entry.key(),
            path.display(),
            limit >> 10
        )),
        Ok(_) => return Some((path, bytes)),
    }
    None
}

/// Whether users who are neither its owner nor of its group may do something of `mode` with a file.
pub(super) fn is_permitted_to_others(file: &Path, mode: u32) -> bool {
    file.metadata().is_ok_and(|file| file.permissions().mode() & mode != 0)
}

/// An invalid path in the configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidPath {
    /// No characters at all.
    #[error("a path must not be empty")]
    Empty,
    /// `HOME` is not set.
    #[error("the home folder is not known (HOME is not set); write the path in full")]
    NoHome,
    /// `~somebody`.
    #[error("only `~` and `~/...` stand for a home folder; write the path in full")]
    OtherHome,
    /// `HOME` is not UTF-8.
    #[error("the path of the home folder is not UTF-8; write the path in full")]
    HomeNotText,
    /// A variable that is not set, or a `${` without its end.
    #[error("{0}")]
    Variable(String),
}
