//! Which file the server of a data directory has read, for the programs that connect to it by a file.

use longhaul_private_dir::{PrivateDir, read_file, read_named};
use longhaul_runtime::Ports;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
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
const READ_AGAIN: Duration = Duration::from_secs(10);
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// What a server has read.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ServedFile {
    file: PathBuf,
    digest: String,
    pid: i32,
    /// It was started by a client.
    in_background: bool,
}

/// A client has another file than the server of its data directory.
#[derive(Debug, thiserror::Error)]
#[error(
    "the data directory {} is that of the server of {}, which runs (pid {pid}). Give one of the two files another `name` or `data_dir`; or end that server with `kill {pid}`",
    data_dir.display(), file.display()
)]
pub(crate) struct OtherFile {
    data_dir: PathBuf,
    file: PathBuf,
    pid: i32,
}

impl ServedFile {
    /// What this process has read now.
    pub(crate) fn of_this_process(file: &Path, in_background: bool) -> Self {
        Self {
            file: absolute(file),
            digest: digest(file),
            pid: std::process::id().cast_signed(),
            in_background,
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

    fn read(data_dir: &Path) -> Option<Self> {
        serde_json::from_slice(&read_file(&data_dir.join(NAME)).ok()?).ok()
    }
}

/// Makes sure that the server of a data directory serves `file` as it is now. One in the background reads a changed file again; of one that somebody has started,
/// the returned note says that it has not.
///
/// # Errors
/// It serves another file.
pub(crate) async fn follow(file: &Path, data_dir: &Path) -> Result<Option<String>, OtherFile> {
    // Servers of earlier releases record nothing.
    let Some(served) = ServedFile::read(data_dir).filter(|served| served.is_of_owner(data_dir)) else {
        return Ok(None);
    };
    if served.file != absolute(file) {
        return Err(OtherFile {
            data_dir: data_dir.to_owned(),
            file: served.file,
            pid: served.pid,
        });
    }
    let (present, pid) = (digest(file), served.pid);
    if served.digest == present {
        return Ok(None);
    }
    let shown = file.display();
    if !served.in_background {
        let note = format!("{shown} has changed since its server has read it; `kill -HUP {pid}` has it read again");
        return Ok(Some(note));
    }
    let Some(server) = Pid::from_raw(pid) else {
        return Ok(None);
    };
    // If it has ended, the next one reads the file anyway.
    let _ = kill_process(server, Signal::HUP);
    let ports = Ports::system();
    let is_read = async {
        while ServedFile::read(data_dir).is_none_or(|served| served.digest != present) {
            ports.clock.sleep(RETRY_INTERVAL).await;
        }
    };
    let is_read = ports.within(READ_AGAIN, is_read).await.is_some();
    Ok((!is_read).then(|| format!("{shown} has changed, and its server (pid {pid}) has not taken the changes")))
}

/// Whatever it is called by.
fn absolute(file: &Path) -> PathBuf {
    let absolute = fs::canonicalize(file).or_else(|_| std::path::absolute(file));
    absolute.unwrap_or_else(|_| file.to_owned())
}

/// The digest of a configuration, so that a changed one is noticed.
pub(crate) fn digest(file: &Path) -> String {
    match read_named(file) {
        Ok(text) => Sha256::digest(&text).iter().map(|byte| format!("{byte:02x}")).collect(),
        Err(error) => format!("unknown: {error}"),
    }
}
