//! `longhaul service`: a server as a systemd service.

mod install;
mod installed;
mod owner;
mod status;
mod systemd;
mod uninstall;
mod unit;

use crate::{
    args::{Service, ServiceCommand, ServiceOf},
    ask::agrees,
    config::{self, ConfigError},
    exit::failure::{report_config, report_local},
    output,
};
use installed::InstalledUnit;
use serde_json::json;
use std::{
    fs,
    io::{self, IsTerminal as _},
    path::{Path, PathBuf},
    process::ExitCode,
};
use systemd::{Scope, SystemdError};
use unit::UnitError;

/// Exit statuses as those of `systemctl status`.
const NOT_RUNNING: u8 = 3;
const NOT_INSTALLED: u8 = 4;

/// Why nothing, or not all, was done.
#[derive(Debug, thiserror::Error)]
enum ServiceError {
    #[error("a service of the system needs root: run it with sudo, or give --user for a service of this user")]
    NotRoot,
    #[error("with sudo this would be a service of root: run it as yourself, without sudo")]
    SudoUser,
    #[error("HOME is not set, so the folder for units of this user is not known")]
    NoHome,
    #[error("{0}")]
    Config(ConfigError),
    #[error("{}", .0.join("\n"))]
    Refused(Vec<String>),
    #[error(transparent)]
    Unit(#[from] UnitError),
    #[error("{0}")]
    Owner(String),
    #[error(
        "{why}, so no service can be installed here. Without systemd, have `longhaul serve` started by what starts your programs; `longhaul service install --dry-run` shows how systemd would do it"
    )]
    NoSystemd { why: String },
    #[error("{path} was not written by `longhaul service`, and is left as it is: give another --name, or remove it")]
    Foreign { path: String },
    #[error("{path} is the service of another file, {file}: give another --name, or uninstall that one first")]
    OtherFile { path: String, file: String },
    #[error("no service of {file} is installed{where_}")]
    NotInstalled { file: String, where_: &'static str },
    #[error(
        "a server runs on {data_dir} already ({owner}): stop it first; its running commands go on, and the service takes them over"
    )]
    InUse { data_dir: String, owner: String },
    #[error("standard input is no terminal, so nothing was changed: use --yes")]
    NobodyToAsk,
    #[error("nothing was changed")]
    Declined,
    #[error("{path}: {error}")]
    File { path: String, error: io::Error },
    #[error(transparent)]
    Systemd(#[from] SystemdError),
    #[error("the server does not answer. {state}. The last lines of its log:\n{log}\n{undo}")]
    NotStarted { state: String, log: String, undo: String },
    #[error("cannot find this program's executable: {0}")]
    Program(io::Error),
    #[error("{0}")]
    Runtime(io::Error),
}

impl ServiceError {
    /// Whether nothing was done since something else is to be done first.
    fn is_usage(&self) -> bool {
        !matches!(
            self,
            Self::Declined
                | Self::File { .. }
                | Self::Systemd(_)
                | Self::NotStarted { .. }
                | Self::Program(_)
                | Self::Runtime(_)
        )
    }
}

/// Does what is asked.
pub(crate) fn run(service: &Service) -> ExitCode {
    let (of, done) = match &service.command {
        ServiceCommand::Install(change) => (&change.of, install::run(change)),
        ServiceCommand::Status(of) => (of, status::run(of)),
        ServiceCommand::Uninstall(change) => (&change.of, uninstall::run(change)),
    };
    match done {
        Ok(exit) => exit,
        Err(ServiceError::Config(error)) => report_config(&error, of.json),
        Err(error @ ServiceError::NotInstalled { .. }) => {
            output::note(&format!("longhaul: {error}"));
            if of.json {
                output::json_line(&json!({"error": {"kind": "not_installed", "message": error.to_string()}}));
            }
            ExitCode::from(NOT_INSTALLED)
        }
        Err(error) => report_local(&error, error.is_usage(), of.json),
    }
}

/// What is asked about.
struct Target {
    scope: Scope,
    /// The configuration file, as a unit names it.
    file: PathBuf,
    /// Of units.
    folder: PathBuf,
}

impl Target {
    fn of(of: &ServiceOf) -> Result<Self, ServiceError> {
        let is_root = rustix::process::geteuid().is_root();
        let scope = match (of.user, of.system) {
            (false, false) if is_root => Scope::System,
            (false, true) => Scope::System,
            _ => Scope::User,
        };
        if scope == Scope::User && is_root && std::env::var_os("SUDO_UID").is_some() {
            return Err(ServiceError::SudoUser);
        }
        Ok(Self {
            scope,
            file: absolute(&of.file),
            folder: installed::folder(scope).ok_or(ServiceError::NoHome)?,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(installed::unit_name(name))
    }

    /// The unit that is installed for the file: that of the name that is given, else whatever it is called.
    fn installed(&self, of: &ServiceOf) -> Result<Option<InstalledUnit>, ServiceError> {
        let unread = |path: &Path| {
            let path = path.display().to_string();
            move |error| ServiceError::File { path, error }
        };
        match &of.name {
            None => InstalledUnit::find(&self.folder, &self.file).map_err(unread(&self.folder)),
            Some(name) => {
                let path = self.path(name);
                let unit = InstalledUnit::read(&path).map_err(unread(&path))?;
                unit.map(|unit| self.own(unit)).transpose()
            }
        }
    }

    /// Refuses a unit that is not for this file.
    fn own(&self, unit: InstalledUnit) -> Result<InstalledUnit, ServiceError> {
        let path = unit.path.display().to_string();
        match &unit.file {
            None => Err(ServiceError::Foreign { path }),
            Some(file) if *file != self.file => {
                let file = file.display().to_string();
                Err(ServiceError::OtherFile { path, file })
            }
            Some(_) => Ok(unit),
        }
    }

    fn not_installed(&self) -> ServiceError {
        ServiceError::NotInstalled {
            file: self.file.display().to_string(),
            where_: match self.scope {
                Scope::User => " for this user (--system looks for one of the system)",
                Scope::System => " for the system (--user looks for one of this user)",
            },
        }
    }

    fn needs_systemd(&self) -> Result<(), ServiceError> {
        match self.scope.absence() {
            None => Ok(()),
            Some(why) => Err(ServiceError::NoSystemd { why }),
        }
    }

    /// Where the data are, as far as the file says so.
    fn data_dir(&self) -> Option<PathBuf> {
        config::load_for_data_dir(&self.file, None)
            .ok()
            .map(|config| config.data_dir)
    }
}

/// The path of a file without links of the folders before it. The file itself may be a link that is set to another one later.
fn absolute(file: &Path) -> PathBuf {
    let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    match (absolute.parent().map(fs::canonicalize), absolute.file_name()) {
        (Some(Ok(folder)), Some(name)) => folder.join(name),
        _ => absolute,
    }
}

/// The name of the unit of a path.
fn unit_of(path: &Path) -> String {
    path.file_name()
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// Asks whether to do it. `shown` is what will be done.
fn agreed(yes: bool, shown: &str, question: &str) -> Result<(), ServiceError> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        return Err(ServiceError::NobodyToAsk);
    }
    output::note(shown);
    match agrees(question) {
        true => Ok(()),
        false => Err(ServiceError::Declined),
    }
}
