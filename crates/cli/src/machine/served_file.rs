//! Which file the server of a data directory has read, for the programs that connect to it by a file.

use crate::config::digest;
use longhaul_private_dir::{PrivateDir, open_file, read_named};
use longhaul_runtime::Ports;
use longhaul_store::DirectoryReport;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

/// Its record, in the data directory.
const NAME: &str = "served.json";
/// The same while it is written.
const DRAFT: &str = "served.json.new";
/// In bytes.
const LARGEST: u64 = 64 * 1024;
/// How long a server may take to read its file again.
const READ_AGAIN: Duration = Duration::from_secs(20);
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// What a server has read, for its clients.
pub(crate) struct ServedFile {
    data_dir: PathBuf,
    record: Record,
}

#[derive(Serialize, Deserialize)]
struct Record {
    file: PathBuf,
    /// Of the text that is served.
    digest: String,
    pid: i32,
    /// It was started by a client.
    in_background: bool,
    /// How often the file was read.
    readings: u64,
    /// The digest of the settings that the server has started with; empty if another version has written this.
    #[serde(default)]
    settings: String,
    /// What was read last, if it cannot be served.
    refused: Option<RefusedFile>,
}

#[derive(Serialize, Deserialize)]
struct RefusedFile {
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
    /// Records what this process has read at its start: the digests of the text and of its settings.
    pub(crate) fn begin(
        data_dir: &Path,
        file: &Path,
        (digest, settings): (String, String),
        in_background: bool,
    ) -> Self {
        let served = Self {
            data_dir: data_dir.to_owned(),
            record: Record {
                file: in_present_folder(file),
                digest,
                pid: std::process::id().cast_signed(),
                in_background,
                readings: 1,
                settings,
                refused: None,
            },
        };
        served.write();
        served
    }

    /// Whether these are the settings that the server uses.
    pub(crate) fn has_started_with(&self, settings: &str) -> bool {
        self.record.settings == settings
    }

    /// The file was read again, and this text is served now.
    pub(crate) fn take(&mut self, digest: String) {
        self.record.readings += 1;
        (self.record.digest, self.record.refused) = (digest, None);
        self.write();
    }

    /// The file was read again, and this text cannot be served.
    pub(crate) fn refuse(&mut self, digest: String, why: String) {
        self.record.readings += 1;
        self.record.refused = Some(RefusedFile { digest, why });
        self.write();
    }

    fn write(&self) {
        if let Err(error) = self.record.write(&self.data_dir) {
            tracing::warn!(%error, "could not record for clients which file is served");
        }
    }
}

impl Record {
    fn write(&self, data_dir: &Path) -> io::Result<()> {
        let directory = PrivateDir::open(data_dir)?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        directory.file(DRAFT, &options)?.write_all(&serde_json::to_vec(self)?)?;
        fs::rename(data_dir.join(DRAFT), data_dir.join(NAME))
    }

    /// The record of the server that owns the directory.
    fn of_owner(data_dir: &Path) -> Option<Self> {
        Self::read(data_dir).filter(|served| served.is_of_owner(data_dir))
    }

    fn read(data_dir: &Path) -> Option<Self> {
        let file = open_file(&data_dir.join(NAME), OpenOptions::new().read(true)).ok()?;
        serde_json::from_reader(file.take(LARGEST)).ok()
    }

    /// Whether the process that owns the directory has written it: another one must not get a signal.
    fn is_of_owner(&self, data_dir: &Path) -> bool {
        let owner = DirectoryReport::owner(data_dir).ok().flatten().unwrap_or_default();
        let rest = owner.strip_prefix(&format!("pid {}", self.pid));
        rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_digit()))
    }

    /// The error of a client that has another file.
    fn other_file(self, data_dir: &Path) -> FollowError {
        let (data_dir, file, pid) = (data_dir.to_owned(), self.file, self.pid);
        match file.exists() {
            true => FollowError::OtherFile { data_dir, file, pid },
            false => FollowError::GoneFile { data_dir, file, pid },
        }
    }

    /// Whether the file has this path, or both lead to one file.
    fn is_at(&self, path: &Path) -> bool {
        let leads = || Some(fs::canonicalize(path).ok()? == fs::canonicalize(&self.file).ok()?);
        in_present_folder(path) == self.file || leads() == Some(true)
    }
}

/// The absolute path of a file, with the links in its folder resolved. A link at its end is kept, since it may lead to another file later.
fn in_present_folder(file: &Path) -> PathBuf {
    let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    match (absolute.parent().map(fs::canonicalize), absolute.file_name()) {
        (Some(Ok(folder)), Some(name)) => folder.join(name),
        _ => absolute,
    }
}

/// The digest of the text of a file now.
pub(crate) fn present_digest(file: &Path) -> String {
    digest(&read_named(file).unwrap_or_default())
}

/// What the server of a data directory does not use of `file` as it is now, if that is the file it serves. `settings`: the digest of those in the file.
pub(crate) fn unread(file: &Path, data_dir: &Path, settings: &str) -> Option<String> {
    let served = Record::of_owner(data_dir).filter(|served| served.is_at(file))?;
    let (shown, pid) = (file.display(), served.pid);
    // One in the background reads the file again when somebody connects.
    if !served.in_background && served.digest != present_digest(file) {
        return Some(format!(
            "{shown} has changed since its server has read it; `kill -HUP {pid}` has it read again"
        ));
    }
    (!served.settings.is_empty() && served.settings != settings).then(|| {
        format!(
            "[server] or [admin] of {shown} has changed, and is read at the next start: `kill {pid}` ends the server, and its commands run on"
        )
    })
}

/// Whether the server of a data directory is that of `file`, if one runs. The file may have been renamed.
///
/// # Errors
/// It is that of another one.
pub(crate) fn check(file: &Path, data_dir: &Path) -> Result<(), FollowError> {
    match Record::of_owner(data_dir) {
        Some(served) if !served.is_at(file) && served.file.exists() => Err(served.other_file(data_dir)),
        _ => Ok(()),
    }
}

/// Makes sure that the server of a data directory serves `file` as it is now. One in the background reads a changed file again; one that somebody has started
/// is left as it [is](unread).
///
/// # Errors
/// It serves another file, or does not take the changes.
pub(crate) async fn follow(file: &Path, data_dir: &Path) -> Result<(), FollowError> {
    let Some(served) = Record::of_owner(data_dir) else {
        return Ok(());
    };
    let pid = served.pid;
    if !served.is_at(file) {
        return Err(served.other_file(data_dir));
    }
    if !served.in_background || served.digest == present_digest(file) {
        return Ok(());
    }
    let Some(server) = Pid::from_raw(pid) else {
        return Ok(());
    };
    // If it has ended, the next one reads the file anyway.
    let _ = kill_process(server, Signal::HUP);
    let ports = Ports::system();
    let is_read = async {
        loop {
            let (now, present) = (Record::read(data_dir), present_digest(file));
            match now.map(|now| (now.digest, now.refused.filter(|_| now.readings > served.readings))) {
                Some((digest, _)) if digest == present => return Ok(()),
                // What was wrong before may have been a file beside it.
                Some((_, Some(refused))) if refused.digest == present => {
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
