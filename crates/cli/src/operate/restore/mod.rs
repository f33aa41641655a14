//! `longhaul restore`: a data directory from a backup, whose work does not run again by itself.

mod settle;
mod unpack;

use crate::{
    args,
    config::{self, ConfigError},
    exit::failure::{report_config, report_local},
    operate::backup::{
        ATTEMPTS, STDIO,
        archive::{Header, Manifest},
        work_folder::{WorkFolder, beside},
    },
    output::{self, amounts::count},
};
use longhaul_command::Attempts;
use longhaul_core::{UnixMillis, store::StoreError};
use longhaul_runtime::Ports;
use longhaul_store::{SqliteOpenError, SqliteOptions, SqliteStore};
use serde_json::json;
use settle::{RestoredDir, SettleCounts, SettleError};
use std::{
    fs::{self, File},
    io::{self, BufReader, IsTerminal},
    path::{Path, PathBuf, absolute},
    process::ExitCode,
};
use unpack::{UnpackError, unpack};

/// The keys of clients, in a data directory.
const KEYS: &str = "keys.json";
/// The data directory in its work folder.
const DATA_DIR: &str = "data";

/// Why nothing was restored.
#[derive(Debug, thiserror::Error)]
enum RestoreError {
    #[error("cannot read {}: {source}", path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("{backup}: {error}")]
    Unpack { backup: String, error: UnpackError },
    #[error(
        "{} is not empty: a server may use it, and its tasks would be lost. Stop that server and move the directory away, or choose another one with --data-dir",
        .0.display()
    )]
    NotEmpty(PathBuf),
    #[error("{} is no directory", .0.display())]
    NoDirectory(PathBuf),
    #[error(
        "{} is where a file system is mounted, so it cannot be replaced at once. Restore into a folder in it, and serve that one",
        .0.display()
    )]
    MountPoint(PathBuf),
    #[error("another `longhaul restore` works on {} just now", .0.display())]
    Busy(PathBuf),
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("the restored database cannot be used: {0}")]
    Database(#[from] SqliteOpenError),
    #[error(transparent)]
    Settle(#[from] SettleError),
    #[error("the restored directory cannot be marked: {0}")]
    Mark(StoreError),
    #[error("the program is ending")]
    Ending,
    #[error("standard input is a terminal: name a file, or send the backup from another program")]
    Terminal,
}

/// Runs the command.
pub(crate) async fn run(asked: &args::Restore) -> ExitCode {
    let data_dir = match data_dir(asked) {
        Ok(data_dir) => data_dir,
        Err(error) => return report_config(&error, asked.json),
    };
    match restore(asked, &data_dir).await {
        Ok(done) => {
            done.report(asked, &data_dir);
            ExitCode::SUCCESS
        }
        Err(error) => report_local(&error, matches!(error, RestoreError::Terminal), asked.json),
    }
}

/// The directory to make.
fn data_dir(asked: &args::Restore) -> Result<PathBuf, ConfigError> {
    if let Some(data_dir) = &asked.data_dir {
        return Ok(absolute(data_dir).unwrap_or_else(|_| data_dir.clone()));
    }
    // One of them is required.
    let file = asked.file.as_deref().unwrap_or(Path::new(""));
    let config = config::load_for_data_dir(file, None)?;
    config.warn_of_problems(file);
    Ok(config.data_dir)
}

/// All is made in a folder beside the directory, which takes its name in one step at the end.
async fn restore(asked: &args::Restore, data_dir: &Path) -> Result<Done, RestoreError> {
    let ports = Ports::system();
    let target = target(data_dir)?;
    if let Some(user) = crate::check::machine::owner_of_folder(&target) {
        output::note(&format!(
            "warning: {} is made for root in a folder of the user {user}, who cannot use it then; to make it for that user: `runuser -u {user} -- longhaul restore …`",
            target.display()
        ));
    }
    let writing = |path: &Path| {
        let path = path.to_owned();
        move |source| RestoreError::Write { path, source }
    };
    if asked.backup.as_os_str() == STDIO && io::stdin().is_terminal() {
        return Err(RestoreError::Terminal);
    }
    let path = beside(&target, ".restoring");
    let work = WorkFolder::create(&path).map_err(|source| match source.kind() {
        io::ErrorKind::ResourceBusy => RestoreError::Busy(data_dir.to_owned()),
        _ => writing(&path)(source),
    })?;
    let made = work.join(DATA_DIR);
    output::note("copying the files");
    let (backup, to) = (asked.backup.clone(), made.clone());
    let unpacked = ports.blocking(move || read(&backup, &to)).await;
    let (header, manifest) = unpacked.ok_or(RestoreError::Ending)??;
    output::note("ending what ran when the backup was taken");
    let settled = settle(&made, &header, asked, ports.clock.wall()).await?;
    let to = made.clone();
    let synced = ports.blocking(move || sync_all(&to)).await;
    synced.ok_or(RestoreError::Ending)?.map_err(writing(&made))?;
    let has_keys = made.join(KEYS).exists();
    put_in_place(&made, &target)?;
    Ok(Done {
        has_keys,
        header,
        manifest,
        settled,
    })
}

fn read(backup: &Path, to: &Path) -> Result<(Header, Manifest), RestoreError> {
    let is_stdin = backup.as_os_str() == STDIO;
    let unpacked = match is_stdin {
        true => unpack(io::stdin().lock(), to),
        false => {
            let opened = longhaul_private_dir::open_named(backup).and_then(|file| match file.metadata()?.is_dir() {
                true => Err(io::ErrorKind::IsADirectory.into()),
                false => Ok(file),
            });
            let file = opened.map_err(|source| RestoreError::Open {
                path: backup.to_owned(),
                source,
            })?;
            unpack(BufReader::new(file), to)
        }
    };
    unpacked.map_err(|error| RestoreError::Unpack {
        backup: match is_stdin {
            true => "standard input".to_owned(),
            false => backup.display().to_string(),
        },
        error,
    })
}

/// Where the directory is to be, without links. It must not be there, or be empty.
fn target(data_dir: &Path) -> Result<PathBuf, RestoreError> {
    let is_absent = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    match fs::read_dir(data_dir) {
        Ok(entries) => {
            let names: Vec<_> = entries
                .map_while(Result::ok)
                .map(|entry| entry.file_name())
                .take(2)
                .collect();
            match &*names {
                [] => Ok(data_dir.canonicalize().unwrap_or_else(|_| data_dir.to_owned())),
                // The root of a new disk.
                [one] if one == "lost+found" => Err(RestoreError::MountPoint(data_dir.to_owned())),
                _ => Err(RestoreError::NotEmpty(data_dir.to_owned())),
            }
        }
        Err(error) if is_absent(&error) && data_dir.symlink_metadata().is_err() => Ok(data_dir.to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory || is_absent(&error) => {
            Err(RestoreError::NoDirectory(data_dir.to_owned()))
        }
        Err(source) => Err(RestoreError::Open {
            path: data_dir.to_owned(),
            source,
        }),
    }
}

/// Opens the database, which brings it up to date and gives the directory a host id of its own, and ends its work.
async fn settle(
    made: &Path,
    header: &Header,
    asked: &args::Restore,
    now: UnixMillis,
) -> Result<SettleCounts, RestoreError> {
    let options = SqliteOptions {
        // It has no file `node`. The one that it gets says that it was restored.
        accept_restored: true,
        ..SqliteOptions::default()
    };
    let store = SqliteStore::open(made, options)?;
    let root = made.join(ATTEMPTS);
    let attempts = Attempts::open(&root).map_err(|source| RestoreError::Write { path: root, source })?;
    let taken = UnixMillis(header.taken_ms);
    let restored = RestoredDir {
        store: &store,
        attempts: &attempts,
        taken,
        now,
    };
    let settled = restored.settle(asked.interrupt_queued).await?;
    if settled.queued > 0 && !asked.run_queued {
        store.mark_restored(taken).await.map_err(RestoreError::Mark)?;
    }
    Ok(settled)
}

/// Brings all files to the disk: one by one would take a sync for each.
fn sync_all(made: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::fs::syncfs(File::open(made)?)?;
    #[cfg(not(target_os = "linux"))]
    {
        let _ = made;
        rustix::fs::sync();
    }
    Ok(())
}

/// A directory that is not empty by now is not replaced.
fn put_in_place(made: &Path, target: &Path) -> Result<(), RestoreError> {
    let placed = fs::rename(made, target).and_then(|()| {
        let parent = target.parent().unwrap_or(Path::new("/"));
        File::open(parent)?.sync_all()
    });
    placed.map_err(|source| match source.kind() {
        io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists => RestoreError::NotEmpty(target.to_owned()),
        io::ErrorKind::ResourceBusy | io::ErrorKind::CrossesDevices => RestoreError::MountPoint(target.to_owned()),
        _ => RestoreError::Write {
            path: target.to_owned(),
            source,
        },
    })
}

/// What was restored.
struct Done {
    /// Of clients of the server.
    has_keys: bool,
    header: Header,
    manifest: Manifest,
    settled: SettleCounts,
}

impl Done {
    fn report(&self, asked: &args::Restore, data_dir: &Path) {
        let SettleCounts {
            ended,
            interrupted,
            interrupted_queued,
            queued,
        } = self.settled;
        let must_be_accepted = queued > 0 && !asked.run_queued;
        if asked.json {
            output::json_line(&json!({
                "dataDir": data_dir,
                "taken": self.header.taken,
                "tasks": self.manifest.tasks,
                "ended": ended,
                "interrupted": interrupted,
                "interruptedQueued": interrupted_queued,
                "queued": queued,
                "mustBeAccepted": must_be_accepted,
                "hasKeys": self.has_keys,
            }));
        }
        let mut text = format!(
            "restored {} from the backup of {}: {}",
            data_dir.display(),
            self.header.taken,
            count(self.manifest.tasks.all(), "task")
        );
        if ended > 0 {
            text.push_str(&format!(
                "\n  {} had ended, by the record of the command",
                count(ended, "running task")
            ));
        }
        if interrupted > 0 {
            text.push_str(&format!(
                "\n  {} ended as interrupted: how it ended is not known, and it is not run again",
                count(interrupted, "running task")
            ));
        }
        if interrupted_queued > 0 {
            text.push_str(&format!(
                "\n  {} ended as interrupted",
                count(interrupted_queued, "queued task")
            ));
        }
        if must_be_accepted {
            text.push_str(&format!(
                "\n  {} may have run since the backup was taken. A server that starts here is read-only. To run them, start it once with \
                 --accept-restored-database. To run none of them, remove this directory and restore it with --interrupt-queued",
                count(queued, "queued task")
            ));
        } else if queued > 0 {
            text.push_str(&format!("\n  {} run at the next start", count(queued, "queued task")));
        }
        if self.has_keys {
            text.push_str(
                "\n  its keys are as they were then: one that was revoked or rotated since is accepted again. See `longhaul keys list`, and revoke it before \
                 the server starts",
            );
        }
        output::note(&text);
    }
}
