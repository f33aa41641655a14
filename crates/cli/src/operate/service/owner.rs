//! As whom a service of the system runs.

use super::{ServiceError, systemd};
use crate::config::{self, Config, Environment};
use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

/// Where systemd looks for programs, for a service that does not say.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The user of a service of the system.
pub(super) struct Owner {
    pub(super) id: u32,
    pub(super) name: String,
    /// The configuration as that user reads it.
    pub(super) config: Config,
}

impl Owner {
    /// The owner of the data directory; if there is none yet, that of the file.
    pub(super) fn of(file: &Path) -> Result<Self, ServiceError> {
        // What cannot be read is said as every command says it.
        let id = fs::metadata(file).map_or(0, |found| found.uid());
        let of_file = Self::as_user(id, file)?;
        let owner = match fs::metadata(&of_file.config.server.data_dir).map(|found| found.uid()) {
            Ok(id) if id != of_file.id => {
                let of_data = Self::as_user(id, file)?;
                // Without `data_dir` in the file it would have another one.
                match of_data.config.server.data_dir == of_file.config.server.data_dir {
                    true => of_data,
                    false => of_file,
                }
            }
            _ => of_file,
        };
        owner.refuse_root(file)?;
        Ok(owner)
    }

    fn as_user(id: u32, file: &Path) -> Result<Self, ServiceError> {
        let account = systemd::account(id)?;
        let environment = Environment {
            home: Some(account.home),
            state_home: None,
            path: Some(PATH.into()),
            ..Environment::of_this_process()
        };
        Ok(Self {
            id,
            name: account.name,
            config: config::load(file, &environment).map_err(ServiceError::Config)?,
        })
    }

    /// A server that has run as root has data that only root can go on with. Else nobody has asked for root.
    fn refuse_root(&self, file: &Path) -> Result<(), ServiceError> {
        let data_dir = &self.config.server.data_dir;
        if self.id != 0 || data_dir.exists() {
            return Ok(());
        }
        let (file, data_dir) = (file.display(), data_dir.display());
        Err(ServiceError::Owner(format!(
            "{file} belongs to root, and root is not to run the tools by accident. Set `data_dir` in it, and make that folder for the user that they shall run as: \
             `install -d -o USER -m 700 DIR` (now it is {data_dir})"
        )))
    }

    /// What the server and its commands may write to: the data directory, or the folder in which it will be made; the folder of the audit log; and the folders
    /// of this user in which commands run.
    pub(super) fn writable(&self) -> Result<Vec<PathBuf>, ServiceError> {
        let is_own = |path: &&Path| fs::metadata(path).is_ok_and(|found| found.uid() == self.id);
        let server = &self.config.server;
        let mut above = server.data_dir.ancestors();
        let data_dir = above.find(|path| path.exists()).unwrap_or(Path::new("/"));
        if !is_own(&data_dir) {
            return Err(ServiceError::Owner(format!(
                "{} cannot make the data directory {}: run `install -d -o {0} -m 700 {1}`",
                self.name,
                server.data_dir.display()
            )));
        }
        let audit = server.audit.as_ref().and_then(|audit| audit.file.as_deref()?.parent());
        let folders = self.config.tools.iter().map(|tool| tool.cwd.as_path());
        let others = audit.into_iter().chain(folders).filter(is_own);
        let mut writable: Vec<PathBuf> = others.chain([data_dir]).map(Path::to_owned).collect();
        writable.sort();
        writable.dedup();
        Ok(writable)
    }

    /// Why this user cannot start a program, if that is plain.
    pub(super) fn unreachable(&self, program: &Path) -> Option<String> {
        let is_open = |path: &Path| {
            fs::metadata(path).is_ok_and(|found| found.uid() == self.id || found.permissions().mode() & 1 == 1)
        };
        let closed = program
            .ancestors()
            .find(|path| !is_open(path))
            .filter(|_| self.id != 0)?;
        Some(format!(
            "{} may not be allowed to run {}, since {} is not open to others: copy the program to /usr/local/bin, and run that",
            self.name,
            program.display(),
            closed.display()
        ))
    }
}
