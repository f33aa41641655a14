//! The directory of an attempt: all that outlives both the server and the supervisor.
//!
//! `attempts/<task>/<epoch>/` holds, in the order they appear:
//!
//! | file | written by | says |
//! | --- | --- | --- |
//! | `version` | server | the format of the rest |
//! | `spec`, `stdin` | server | what to run (mode 0600, as everything here) |
//! | `argument.<n>` | server | an argument that the command reads from a file |
//! | `secret.<n>` | supervisor | the same of a secret one, until the command has ended: not synced, and in no backup |
//! | `lock` | server | the holder of its `flock` decides what becomes of the attempt |
//! | `void` | either | nothing may be started here any more; a supervisor that could not start its command for want of something writes why |
//! | `sock` | supervisor | where it listens |
//! | `started` | supervisor | the command may have run |
//! | `pid` | supervisor | the process of the command, for people: not synced |
//! | `log.<offset>` | supervisor | both streams, see [`log`](self::log) |
//! | `stdout`, `stderr` | supervisor | their tails |
//! | `both` | supervisor | the ends of both in order of arrival, unless the command succeeded |
//! | `out`, `artifact.<n>`, `artifacts` | either | files for the caller, see [`artifacts`](self::artifacts) |
//! | `exit` | supervisor | how it ended; everything before it is on disk |

pub(crate) mod artifacts;
pub(crate) mod log;
pub(crate) mod past_attempt;
pub(crate) mod record;
pub(crate) mod secret_input;
pub(crate) mod segments;
pub(crate) mod signal;
pub(crate) mod verdict;

use longhaul_core::{TaskId, UnixMillis};
use longhaul_private_dir::{PrivateDir, is_directory, open_file, read_file};
use record::{ExitRecord, LaunchSpec};
use rustix::{fs::FlockOperation, process::Pid};
use secret_input::SECRET_FILE;
use std::{
    fs::{DirBuilder, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// The format this Longhaul writes and reads.
pub const DIRECTORY_VERSION: &str = "1";

pub(super) const SOCKET: &str = "sock";
pub(super) const STDOUT: &str = "stdout";
pub(super) const STDERR: &str = "stderr";
pub(super) const BOTH: &str = "both";
pub(super) const STDIN: &str = "stdin";
pub(super) const EXIT: &str = "exit";
const EXIT_DRAFT: &str = "exit.draft";
const VERSION: &str = "version";
const SPEC: &str = "spec";
const LOCK: &str = "lock";
const VOID: &str = "void";
const STARTED: &str = "started";
const PID: &str = "pid";

/// Bytes of a description of what to run that are read for people.
const LONGEST_SHOWN_SPEC: u64 = 64 << 10;
/// No record has so many bytes.
const LARGEST_EXIT: u64 = 64 << 10;
/// Room kept for the exit record, so that a full disk cannot keep an ended command from being recorded.
const EXIT_ROOM: usize = 4096;

/// All attempts of a data directory.
#[derive(Debug, Clone)]
pub struct Attempts {
    root: PathBuf,
}

impl Attempts {
    /// Opens `root`, creating it with mode 0700 if it is not there. It must not be a link.
    ///
    /// # Errors
    /// When the directory cannot be made or synced.
    pub fn open(root: impl Into<PathBuf>) -> io::Result<Self> {
        let root = std::path::absolute(root.into())?;
        let (Some(data_dir), Some(name)) = (root.parent(), root.file_name().and_then(|name| name.to_str())) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let attempts = PrivateDir::create(data_dir)?.subdirectory(name)?;
        Ok(Self {
            root: attempts.path().to_owned(),
        })
    }

    /// Those in `root`, which is there or not.
    pub(super) fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// The directory of an attempt, there or not.
    pub fn dir(&self, task: &TaskId, epoch: u32) -> AttemptDir {
        AttemptDir {
            path: self.root.join(task.as_str()).join(epoch.to_string()),
        }
    }

    /// Whether there is anything of this task, or it cannot be said.
    pub(super) fn has_folder(&self, task: &TaskId) -> bool {
        let found = std::fs::symlink_metadata(self.root.join(task.as_str()));
        !matches!(found, Err(error) if error.kind() == io::ErrorKind::NotFound)
    }

    /// Removes all attempts of a task. One that is not there is no error.
    ///
    /// # Errors
    /// When something in it cannot be removed.
    pub fn remove(&self, task: &TaskId) -> io::Result<()> {
        match std::fs::remove_dir_all(self.root.join(task.as_str())) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// The tasks that have a folder here, whether or not anyone knows them. Reads the whole directory; for a start.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn tasks(&self) -> io::Result<Vec<TaskId>> {
        let mut tasks = Vec::new();
        for entry in std::fs::read_dir(&self.root)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                tasks.extend(entry.file_name().to_str().and_then(|name| name.parse().ok()));
            }
        }
        Ok(tasks)
    }

    /// The numbers of a task's attempts that have a folder here, in order.
    ///
    /// # Errors
    /// When the task's folder cannot be read; a missing one has none.
    pub fn epochs(&self, task: &TaskId) -> io::Result<Vec<u32>> {
        let mut epochs = Vec::new();
        for entry in present(std::fs::read_dir(self.root.join(task.as_str())))?
            .into_iter()
            .flatten()
        {
            epochs.extend(entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
        }
        epochs.sort_unstable();
        Ok(epochs)
    }

    /// Whether a supervisor holds an attempt of this task.
    ///
    /// # Errors
    /// When something in its folder cannot be read.
    pub fn is_held(&self, task: &TaskId) -> io::Result<bool> {
        for entry in std::fs::read_dir(self.root.join(task.as_str()))? {
            let dir = AttemptDir { path: entry?.path() };
            if dir.has_lock()? && Lock::try_take(&dir)?.is_none() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The attempts that a supervisor holds. Reads every directory; for a start.
    ///
    /// # Errors
    /// When something in them cannot be read.
    pub fn held(&self) -> io::Result<Vec<(TaskId, u32)>> {
        let mut held = Vec::new();
        for task in self.tasks()? {
            for epoch in self.epochs(&task)? {
                let dir = self.dir(&task, epoch);
                if dir.has_lock()? && Lock::try_take(&dir)?.is_none() {
                    held.push((task.clone(), epoch));
                }
            }
        }
        Ok(held)
    }

    /// Bytes on disk that all attempts take. Reads every directory; for a start or a metrics page, not for every request.
    ///
    /// # Errors
    /// When a directory cannot be read for another reason than being removed meanwhile.
    pub fn bytes_held(&self) -> io::Result<u64> {
        bytes_below(&self.root)
    }
}

fn bytes_below(dir: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in present(std::fs::read_dir(dir))?.into_iter().flatten() {
        let entry = entry?;
        let Some(metadata) = present(entry.metadata())? else {
            continue;
        };
        bytes += metadata.blocks() * 512;
        if metadata.is_dir() {
            bytes += bytes_below(&entry.path())?;
        }
    }
    Ok(bytes)
}

/// Attempts are removed while others are counted or read.
fn present<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A file that an attempt's folder has for its command: the value of an argument.
#[derive(Clone, PartialEq, Eq)]
pub struct ArgumentFile {
    /// Its name in the folder.
    pub name: String,
    /// The value.
    pub contents: String,
}

/// The value may be secret.
impl std::fmt::Debug for ArgumentFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ArgumentFile({})", self.name)
    }
}

/// One attempt's directory.
#[derive(Clone)]
pub struct AttemptDir {
    path: PathBuf,
}

/// Its path holds the task's id, which may serve as a bearer token.
impl std::fmt::Debug for AttemptDir {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AttemptDir(epoch {:?})", self.path.file_name().unwrap_or_default())
    }
}

impl AttemptDir {
    /// The directory at this path.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Makes the directory, so that a supervisor can be started on it. When this returns everything is on disk, the way there
    /// included: what a supervisor writes later cannot be lost with a directory entry above it.
    ///
    /// # Errors
    /// When the directory exists already or anything cannot be written.
    pub fn prepare(&self, spec: &LaunchSpec, stdin: &str, files: &[ArgumentFile]) -> io::Result<()> {
        let task_dir = self.path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        let root = task_dir.parent().ok_or(io::ErrorKind::InvalidInput)?;
        make_dir(task_dir)?;
        self.remove_unstarted(task_dir)?;
        if spec.artifacts.is_some()
            && let Some(epoch) = self.epoch()
        {
            artifacts::remove_superseded(task_dir, epoch)?;
        }
        DirBuilder::new().mode(0o700).create(&self.path)?;
        if spec.artifacts.is_some() {
            DirBuilder::new().mode(0o700).create(self.file(artifacts::FOLDER))?;
        }
        self.write_synced(VERSION, DIRECTORY_VERSION.as_bytes())?;
        self.write_synced(SPEC, &serde_json::to_vec(spec)?)?;
        if !stdin.is_empty() {
            self.write_synced(STDIN, stdin.as_bytes())?;
        }
        for file in files {
            self.write_synced(&file.name, file.contents.as_bytes())?;
        }
        self.write_synced(LOCK, b"")?;
        for dir in [&self.path, task_dir, root] {
            sync_dir(dir)?;
        }
        Ok(())
    }

    /// Whether it is there. What has its name, or its task's, and is no directory of ours is [`Unfit`](longhaul_private_dir::Unfit).
    pub(super) fn is_there(&self) -> io::Result<bool> {
        let task_dir = self.path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        Ok(is_directory(task_dir)? && is_directory(&self.path)?)
    }

    /// The format it is written in, if it is not ours.
    pub(super) fn foreign_version(&self) -> io::Result<Option<String>> {
        let mut found = String::new();
        match open_file(&self.file(VERSION), OpenOptions::new().read(true)) {
            Ok(file) => file.take(64).read_to_string(&mut found)?,
            // Killed while preparing: nothing was ever started on it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let found = found.trim();
        Ok((!found.is_empty() && found != DIRECTORY_VERSION).then(|| found.to_owned()))
    }

    /// What the attempt runs, for people. Nothing if its description is long, since attempts are looked at for other reasons, too.
    pub(super) fn short_spec(&self) -> Option<LaunchSpec> {
        let found = std::fs::symlink_metadata(self.file(SPEC)).ok()?;
        (found.len() <= LONGEST_SHOWN_SPEC).then(|| self.read_spec().ok())?
    }

    pub(super) fn read_spec(&self) -> io::Result<LaunchSpec> {
        Ok(serde_json::from_slice(&read_file(&self.file(SPEC))?)?)
    }

    /// Whether it has what [`prepare`](Self::prepare) writes, whatever the attempt.
    pub(super) fn is_complete(&self) -> io::Result<bool> {
        Ok(self.file(VERSION).try_exists()? && self.file(SPEC).try_exists()? && self.has_lock()?)
    }

    pub(super) fn has_lock(&self) -> io::Result<bool> {
        self.file(LOCK).try_exists()
    }

    pub(super) fn is_void(&self) -> io::Result<bool> {
        self.file(VOID).try_exists()
    }

    pub(super) fn write_void(&self) -> io::Result<()> {
        self.write_synced(VOID, b"")?;
        sync_dir(&self.path)
    }

    /// Withdraws that the command may have run: it was not started, for this reason, and nothing will be started here. In one step, which
    /// needs no room and no descriptor.
    pub(super) fn give_back(&self, why: &str) -> io::Result<()> {
        std::fs::rename(self.file(STARTED), self.file(VOID))?;
        // Without the reason, or should the loss of power undo it, this is safe all the same.
        let _ = open_file(&self.file(VOID), OpenOptions::new().write(true))
            .and_then(|mut file| file.write_all(why.as_bytes()));
        let _ = sync_dir(&self.path);
        Ok(())
    }

    /// Why its supervisor could not start the command, if it has given the attempt back.
    pub(super) fn given_back_for(&self) -> Option<String> {
        let mut why = String::new();
        open_file(&self.file(VOID), OpenOptions::new().read(true))
            .ok()?
            .take(512)
            .read_to_string(&mut why)
            .ok()?;
        (!why.is_empty()).then_some(why)
    }

    /// Which attempt it is of.
    fn epoch(&self) -> Option<u32> {
        self.path.file_name()?.to_str()?.parse().ok()
    }

    /// Removes the folders of earlier attempts of the task in which nothing was started, so that failed starts do not accumulate.
    fn remove_unstarted(&self, task_dir: &Path) -> io::Result<()> {
        let Some(own) = self.epoch().filter(|own| *own > 1) else {
            return Ok(());
        };
        for entry in present(std::fs::read_dir(task_dir))?.into_iter().flatten() {
            let earlier = Self::at(entry?.path());
            if earlier.epoch().is_none_or(|epoch| epoch >= own) || earlier.is_started()? || earlier.exit()?.is_some() {
                continue;
            }
            // A supervisor that is started late finds nothing to run.
            for name in [SPEC, STDIN] {
                present(std::fs::remove_file(earlier.file(name)))?;
            }
            std::fs::remove_dir_all(&earlier.path)?;
        }
        Ok(())
    }

    pub(super) fn is_started(&self) -> io::Result<bool> {
        self.file(STARTED).try_exists()
    }

    /// When the command may have begun to run, by the clock of the file system.
    pub(super) fn started_at(&self) -> io::Result<Option<UnixMillis>> {
        let Some(metadata) = present(std::fs::symlink_metadata(self.file(STARTED)))? else {
            return Ok(None);
        };
        let at = metadata
            .mtime()
            .saturating_mul(1000)
            .saturating_add(metadata.mtime_nsec() / 1_000_000);
        Ok(Some(UnixMillis(at)))
    }

    pub(super) fn write_started(&self) -> io::Result<()> {
        self.write_synced(STARTED, b"")?;
        sync_dir(&self.path)
    }

    /// Says which process the command is. Nothing relies on it, so it is not synced, and an error is none.
    pub(super) fn write_pid(&self, pid: Pid) {
        let written = self.create(PID);
        let _ = written.and_then(|mut file| file.write_all(pid.as_raw_nonzero().to_string().as_bytes()));
    }

    /// The process of the command, if it was written.
    pub(super) fn pid(&self) -> Option<u32> {
        String::from_utf8(read_file(&self.file(PID)).ok()?).ok()?.parse().ok()
    }

    /// How the attempt ended, once it has.
    ///
    /// # Errors
    /// When the record is there and cannot be read.
    pub fn exit(&self) -> io::Result<Option<ExitRecord>> {
        let Some(file) = present(open_file(&self.file(EXIT), OpenOptions::new().read(true)))? else {
            return Ok(None);
        };
        // A command may have written to it.
        let mut bytes = Vec::new();
        file.take(LARGEST_EXIT).read_to_end(&mut bytes)?;
        serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    pub(super) fn has_exit(&self) -> io::Result<bool> {
        self.file(EXIT).try_exists()
    }

    /// The names of the files that a copy of the directory has, to be read in this order. If `exit` is among them, the copies of the others are complete.
    /// One that is gone when it is read has been dropped meanwhile.
    ///
    /// # Errors
    /// When the directory cannot be read; a missing one has none.
    pub fn files_to_copy(&self) -> io::Result<Vec<String>> {
        // Looked for before the others: an end that is recorded only afterwards would be copied without the outputs before it.
        let has_exit = self.has_exit()?;
        let mut names = Vec::new();
        for entry in present(std::fs::read_dir(&self.path))?.into_iter().flatten() {
            let entry = entry?;
            let name = entry.file_name();
            let is_copied = |name: &&str| ![EXIT, EXIT_DRAFT].contains(name) && !name.starts_with(SECRET_FILE);
            let Some(name) = name.to_str().filter(is_copied) else {
                continue;
            };
            if entry.file_type()?.is_file() {
                names.push(name.to_owned());
            }
        }
        names.sort_unstable();
        names.extend(has_exit.then(|| EXIT.to_owned()));
        Ok(names)
    }

    /// Writes a file with a secret for the command.
    pub(super) fn write_secret_file(&self, name: &str, contents: &str) -> io::Result<()> {
        self.create(name)?.write_all(contents.as_bytes())
    }

    /// Removes the files with secrets: the command has ended, or was never started.
    pub(super) fn remove_secret_files(&self) -> io::Result<()> {
        for entry in present(std::fs::read_dir(&self.path))?.into_iter().flatten() {
            let entry = entry?;
            if entry
                .file_name()
                .to_str()
                .is_some_and(|name| name.starts_with(SECRET_FILE))
            {
                present(std::fs::remove_file(entry.path()))?;
            }
        }
        Ok(())
    }

    /// Takes the room the exit record will need.
    pub(super) fn reserve_exit(&self) -> io::Result<()> {
        self.create(EXIT_DRAFT)?.write_all(&[b' '; EXIT_ROOM])
    }

    /// Writes the exit record over the reserved room and gives it its name: whole or not at all, and on disk.
    pub(super) fn write_exit(&self, record: &ExitRecord) -> io::Result<()> {
        let bytes = serde_json::to_vec(record)?;
        let draft = self.file(EXIT_DRAFT);
        // Not truncated before it is written: that would give the room away.
        let mut file = open_file(&draft, OpenOptions::new().write(true).create(true).mode(0o600))?;
        file.write_all(&bytes)?;
        file.set_len(bytes.len() as u64)?;
        file.sync_all()?;
        std::fs::rename(&draft, self.file(EXIT))?;
        sync_dir(&self.path)
    }

    /// Removes what a command has put in the place of the record: a folder, a FIFO or a link.
    pub(super) fn clear_exit(&self) {
        for path in [EXIT, EXIT_DRAFT].map(|name| self.file(name)) {
            let _ = match std::fs::symlink_metadata(&path) {
                Ok(found) if found.is_dir() => std::fs::remove_dir_all(path),
                Ok(found) if !found.is_file() => std::fs::remove_file(path),
                _ => Ok(()),
            };
        }
    }

    /// Whether the current directory of the process was removed: nothing can be written to it any more.
    pub(super) fn is_removed(&self) -> bool {
        std::fs::metadata(&self.path).is_ok_and(|metadata| metadata.nlink() == 0)
    }

    pub(super) fn write_synced(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.create(name)?;
        file.write_all(bytes)?;
        file.sync_all()
    }

    fn create(&self, name: &str) -> io::Result<File> {
        create_private(&self.file(name))
    }
}

/// A new or emptied file that only we may read.
pub(super) fn create_private(path: &Path) -> io::Result<File> {
    let file = open_file(path, OpenOptions::new().write(true).create(true).mode(0o600))?;
    file.set_len(0)?;
    Ok(file)
}

/// Makes a directory of mode 0700 and those above it, unless it is there.
fn make_dir(path: &Path) -> io::Result<()> {
    if is_directory(path)? {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

pub(super) fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// The right to decide what becomes of an attempt. Held by its supervisor as long as the supervisor lives.
pub(super) struct Lock(File);

impl Lock {
    /// Takes the lock unless someone holds it.
    pub(super) fn try_take(dir: &AttemptDir) -> io::Result<Option<Self>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).mode(0o600);
        let file = open_file(&dir.file(LOCK), &options)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self(file))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Unlocks explicitly: a process that is being forked at this moment may hold a copy of the descriptor, so closing would not unlock.
impl Drop for Lock {
    fn drop(&mut self) {
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}
