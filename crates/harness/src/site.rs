//! The folder of a run.

use crate::{clock, server::supervisors, workspace};
use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

/// How long the processes of a site may take to end after they are killed.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// The folder of a run: configurations, data directories, logs. What a run that failed has left stays there.
pub struct Site(PathBuf);

impl Site {
    /// Makes a folder below the target folder, for a run of this program.
    pub fn create(program: &str, name: &str) -> io::Result<Self> {
        let name = format!("{name}-{}", std::process::id());
        let root = workspace::target().join(program).join(name);
        fs::create_dir_all(&root)?;
        // Canonical, as in the command lines of supervisors.
        Ok(Self(root.canonicalize()?))
    }

    pub fn root(&self) -> &Path {
        &self.0
    }

    /// The path of a file or folder of the site.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file, and returns its path.
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> io::Result<PathBuf> {
        let path = self.file(name);
        fs::write(&path, text)?;
        Ok(path)
    }

    /// Removes the folder, and kills the processes that still use it.
    pub fn discard(self) -> io::Result<()> {
        discard(&self.0)
    }
}

/// Removes the folder of a site. Commands outlive the server, and their supervisors create files while they run, so they are killed first.
pub fn discard(root: &Path) -> io::Result<()> {
    let gone = clock::wait_for(KILL_TIMEOUT, || {
        supervisors::kill_all(root);
        (!supervisors::is_in_use(root)).then_some(())
    });
    match gone {
        Some(()) => fs::remove_dir_all(root),
        None => Err(io::Error::other(format!("processes still run in {}", root.display()))),
    }
}
