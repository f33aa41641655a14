//! Which file the server of a data directory has read, for the programs that connect to it by a file.

use crate::config::digest;
use longhaul_private_dir::{PrivateDir, read_file, read_named};
use longhaul_runtime::Ports;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

/// Its record, in the data directory.
const NAME: &str = "served.json";
/// The same while it is written.
const DRAFT: &str = "served.json.new";
/// How long a server may take to read its file again.
const READ_AGAIN: Duration = Duration::from_secs(20);
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// What a server has read.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ServedFile {
    file: PathBuf,
    digest: String,
    pid: i32,
    /// It was started by a client.
    in_background: bool,
    /// What it has read since, and cannot serve.
    refused: Option<Refused>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Refused {
    digest: String,
    why: String,
}

/// The server of a data directory does not serve the file of a client as it is now.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FollowError {
    #[error(
        "the data directory {} is that of the server of {}, which runs (pid {pid}). Give one of the two files another `name` or `data_dir`; or end that server with `kill {pid}`",
        data_dir.display(), file.display()
    )]
    OtherFile { data_dir: PathBuf, file: PathBuf, pid: i32 },
    #[error(
        "the data directory {} is that of the server of {}, which is not there any more; end the server with `kill {pid}`: its commands run on",
        data_dir.display(), file.display()
    )]
    GoneFile { data_dir: PathBuf, file: PathBuf, pid: i32 },
    #[error(
        "the file has changed, and its server in the background (pid {pid}) cannot serve it now: {why}\n`kill {pid}` ends that server; its commands run on, and the next call starts another one"
    )]
    Refused { pid: i32, why: String },
    #[error(
        "the file has changed, and its server in the background (pid {pid}) has not read it again; `kill {pid}` ends that server"
    )]
    Silent { pid: i32 },
}

impl ServedFile {
    /// What this process has read.
    pub(crate) fn of_this_process(file: &Path, digest: String, in_background: bool) -> Self {
        Self {
            file: std::path::absolute(file).unwrap_or_else(|_| file.to_owned()),
            digest,
            pid: std::process::id().cast_signed(),
            in_background,
            refused: None,
        }
    }

    /// Records for the clients of this server that it cannot serve the file as it is now.
    pub(crate) fn refuse(data_dir: &Path, file: &Path, why: String) -> io::Result<()> {
        let digest = digest(&read_named(file).unwrap_or_default());
        match Self::read(data_dir) {
            Some(served) => Self {
                refused: Some(Refused { digest, why }),
                ..served
            }
            .write(data_dir),
            None => Ok(()),
        }
    }

    /// Records it for the clients of this server.
    pub(crate) fn write(&self, data_dir: &Path) -> io::Result<()> {
        let directory = PrivateDir::open(data_dir)?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        directory.file(DRAFT, &options)?.write_all(&serde_json::to_vec(self)?)?;
        fs::rename(data_dir.join(DRAFT), data_dir.join(NAME))
    }

    /// Whether the process that owns the directory has written it.
    fn is_of_owner(&self, data_dir: &Path) -> bool {
        let owner = read_file(&data_dir.join("lock")).unwrap_or_default();
        let owner = String::from_utf8_lossy(&owner);
        let rest = owner.strip_prefix(&format!("pid {}", self.pid));
        rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_digit()))
    }

    /// Whether this path leads to it, or once led to it.
    fn is_at(&self, path: &Path) -> bool {
        let leads = || Some(fs::canonicalize(path).ok()? == fs::canonicalize(&self.file).ok()?);
        std::path::absolute(path).is_ok_and(|path| path == self.file) || leads() == Some(true)
    }

    fn read(data_dir: &Path) -> Option<Self> {
        serde_json::from_slice(&read_file(&data_dir.join(NAME)).ok()?).ok()
    }
}

/// Makes sure that the server of a data directory serves `file` as it is now. One in the background reads a changed file again; of one that somebody
/// has started, the returned note says that it has not.
///
/// # Errors
/// It serves another file, or does not take the changes.
pub(crate) async fn follow(file: &Path, data_dir: &Path) -> Result<Option<String>, FollowError> {
    // Servers of earlier releases record nothing.
    let Some(served) = ServedFile::read(data_dir).filter(|served| served.is_of_owner(data_dir)) else {
        return Ok(None);
    };
    let pid = served.pid;
    if !served.is_at(file) {
        let (data_dir, file) = (data_dir.to_owned(), served.file);
        return Err(match file.exists() {
            true => FollowError::OtherFile { data_dir, file, pid },
            false => FollowError::GoneFile { data_dir, file, pid },
        });
    }
    let present = || digest(&read_named(file).unwrap_or_default());
    if served.digest == present() {
        return Ok(None);
    }
    if !served.in_background {
        let shown = file.display();
        let note = format!("{shown} has changed since its server has read it; `kill -HUP {pid}` has it read again");
        return Ok(Some(note));
    }
    let Some(server) = Pid::from_raw(pid) else {
        return Ok(None);
    };
    // It may have been another variable, or a file beside it, that was wrong before.
    let _ = ServedFile {
        refused: None,
        ..served
    }
    .write(data_dir);
    // If it has ended, the next one reads the file anyway.
    let _ = kill_process(server, Signal::HUP);
    let ports = Ports::system();
    let is_read = async {
        loop {
            match ServedFile::read(data_dir) {
                Some(served) if served.digest == present() => return Ok(None),
                Some(ServedFile {
                    refused: Some(refused), ..
                }) if refused.digest == present() => {
                    return Err(FollowError::Refused { pid, why: refused.why });
                }
                _ => ports.clock.sleep(RETRY_INTERVAL).await,
            }
        }
    };
    ports
        .within(READ_AGAIN, is_read)
        .await
        .unwrap_or(Err(FollowError::Silent { pid }))
}
