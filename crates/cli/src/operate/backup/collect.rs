//! Which files of a data directory are in a backup, and in which order they are copied.

use super::{BackupError, archive::ArchiveWriter};
use crate::{machine::secret_keys, output};
use longhaul_command::Attempts;
use longhaul_core::TaskId;
use longhaul_private_dir::{Unfit, open_file};
use longhaul_store::DatabaseCopy;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::MetadataExt,
    path::Path,
};

/// The folder of attempts, in the data directory.
pub(crate) const ATTEMPTS: &str = "attempts";
/// The database, in the data directory.
pub(crate) const DATABASE: &str = "longhaul.db";
/// What belongs to this directory and this machine alone: a restored one gets its own. So do the sockets, which are no files.
const OF_THIS_DIRECTORY: [&str; 4] = ["lock", "node", "host", "reserve"];
/// The keys of secret arguments: a backup that had them would have the arguments in the clear.
const KEYS: &str = secret_keys::FILE;
/// Databases and what SQLite keeps beside them. Ours is copied as a whole; events are of streams that end with the server.
const DATABASES: [&str; 2] = [DATABASE, "events.db"];
/// Files that are being written, and locks.
const FOR_A_MOMENT: [&str; 4] = ["draft", "new", "lock", "partial"];
/// How deep folders are looked into.
const DEEPEST: usize = 8;
/// Attempt folders between two lines that say how far it is.
const TOLD_EVERY: u64 = 10_000;

/// Whether a file in the data directory, of this name, is in a backup beside the database and the attempts.
pub(crate) fn is_copied(name: &str) -> bool {
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    !OF_THIS_DIRECTORY.contains(&name)
        && name != KEYS
        && !DATABASES.iter().any(|database| name.starts_with(database))
        && !FOR_A_MOMENT.contains(&ending)
}

/// Copies files to an archive.
pub(super) struct Collector<'a, W: Write> {
    pub(super) archive: ArchiveWriter<W>,
    pub(super) data_dir: &'a Path,
}

impl<W: Write> Collector<'_, W> {
    /// The copy of the database: first, so that what it knows is in the files that are copied later.
    pub(super) fn add_database(&mut self, copy: &DatabaseCopy) -> Result<(), BackupError> {
        let file = File::open(copy.path()).map_err(BackupError::reading(copy.path()))?;
        self.add_opened(DATABASE, &file, copy.path())
    }

    /// All files but those of the database and of attempts.
    pub(super) fn add_others(&mut self) -> Result<(), BackupError> {
        let mut files = Vec::new();
        self.list("", 1, &mut files)?;
        files.sort();
        for name in files {
            self.add(&name)?;
        }
        Ok(())
    }

    fn list(&self, folder: &str, depth: usize, files: &mut Vec<String>) -> Result<(), BackupError> {
        let path = self.data_dir.join(folder);
        let reading = BackupError::reading(&path);
        for entry in fs::read_dir(&path).map_err(&reading)? {
            let entry = entry.map_err(&reading)?;
            let Some(name) = entry.file_name().to_str().map(|name| format!("{folder}{name}")) else {
                output::note(&format!(
                    "not in the backup, since its name is not UTF-8: {}",
                    entry.path().display()
                ));
                continue;
            };
            let kind = entry.file_type().map_err(&reading)?;
            if kind.is_dir() && depth < DEEPEST && !(depth == 1 && name == ATTEMPTS) {
                self.list(&format!("{name}/"), depth + 1, files)?;
            } else if kind.is_file() && is_copied(&name) {
                files.push(name);
            }
        }
        Ok(())
    }

    /// The folders of all attempts of the tasks in `copy`. Folders of later tasks would say that the database has lost these. Returns how many tasks have one.
    pub(super) fn add_attempts(&mut self, copy: &DatabaseCopy) -> Result<u64, BackupError> {
        let root = self.data_dir.join(ATTEMPTS);
        if !root.is_dir() {
            return Ok(0);
        }
        let attempts = Attempts::open(&root).map_err(BackupError::reading(&root))?;
        let mut folders = 0;
        copy.for_each_task(|task| {
            let copied = self.add_attempts_of(&attempts, task)?;
            folders += u64::from(copied);
            if copied && folders % TOLD_EVERY == 0 {
                output::note(&format!("copied the attempts of {folders} tasks"));
            }
            Ok::<(), BackupError>(())
        })?;
        Ok(folders)
    }

    fn add_attempts_of(&mut self, attempts: &Attempts, task: &TaskId) -> Result<bool, BackupError> {
        let reading = |error| BackupError::reading(&self.data_dir.join(ATTEMPTS))(error);
        let epochs = attempts.epochs(task).map_err(reading)?;
        for epoch in &epochs {
            let dir = attempts.dir(task, *epoch);
            for name in dir.files_to_copy().map_err(BackupError::reading(dir.path()))? {
                self.add(&format!("{ATTEMPTS}/{task}/{epoch}/{name}"))?;
            }
        }
        Ok(!epochs.is_empty())
    }

    /// A file that is gone by now was removed on purpose, as the attempts of a task that has expired.
    fn add(&mut self, name: &str) -> Result<(), BackupError> {
        let path = self.data_dir.join(name);
        match open_file(&path, OpenOptions::new().read(true)) {
            Ok(file) => self.add_opened(name, &file, &path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) if Unfit::of(&error).is_some() => {
                output::note(&format!("not in the backup: {}: {error}", path.display()));
                Ok(())
            }
            Err(error) => Err(BackupError::reading(&path)(error)),
        }
    }

    /// As long as it is now: a log that is being written grows.
    fn add_opened(&mut self, name: &str, file: &File, path: &Path) -> Result<(), BackupError> {
        let metadata = file.metadata().map_err(BackupError::reading(path))?;
        let name = format!("{}{name}", super::archive::DATA);
        self.archive
            .add(&name, metadata.mtime(), metadata.len(), file)
            .map_err(BackupError::Write)
    }
}
