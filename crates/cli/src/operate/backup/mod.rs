//! `longhaul backup`: a data directory in one file, while its server runs.

pub(crate) mod archive;
mod collect;
pub(crate) mod work_folder;

pub(crate) use collect::{ATTEMPTS, DATABASE, is_copied};

use crate::{
    args, config,
    exit::failure::{report_config, report_local},
    machine::served_file,
    output::{
        self,
        amounts::{count, size},
        timestamp::timestamp,
    },
};
use archive::{ArchiveWriter, FORMAT, Header, Manifest, TaskCounts};
use collect::Collector;
use longhaul_runtime::Ports;
use longhaul_store::{CopyError, DatabaseCopy};
use serde_json::json;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, IsTerminal, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf, absolute},
    process::ExitCode,
};
use work_folder::{WorkFolder, beside};

/// What stands for standard input and standard output.
pub(crate) const STDIO: &str = "-";
/// The archive in its work folder.
const ARCHIVE: &str = "backup.tar";

/// Why there is no backup.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BackupError {
    #[error(transparent)]
    Copy(#[from] CopyError),
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write the backup: {0}")]
    Write(io::Error),
    #[error("{} exists already: choose another name, or move it away", .0.display())]
    Exists(PathBuf),
    #[error("the tasks are in a PostgreSQL database: back it up with its own tools, such as pg_dump, and copy {} for its keys", .0.display())]
    SharedStore(PathBuf),
    #[error("another `longhaul backup` writes {} just now", .0.display())]
    Busy(PathBuf),
    #[error("cannot make the folder {} for the copy of the database: {source}; choose another one with --temp-dir", path.display())]
    WorkFolder { path: PathBuf, source: io::Error },
    #[error(
        "{} is in the data directory, and would be lost with it: choose a place outside",
        .0.display()
    )]
    InDataDir(PathBuf),
    #[error("standard output is a terminal: name a file, or send the backup to another program")]
    Terminal,
    #[error("with `-` standard output has the backup itself: leave out --json, or name a file")]
    TwoOutputs,
}

impl BackupError {
    fn reading(path: &Path) -> impl Fn(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Read {
            path: path.clone(),
            source,
        }
    }
}

/// Runs the command. It takes no lock and asks no server: what is copied can be read whether a server runs or not.
pub(crate) async fn run(asked: &args::Backup) -> ExitCode {
    let config = match config::load_for_data_dir(&asked.file, asked.data_dir.as_deref()) {
        Ok(config) => config,
        Err(error) => return report_config(&error, asked.json),
    };
    config.warn_of_problems(&asked.file);
    let data_dir = config.data_dir;
    if asked.data_dir.is_none()
        && let Err(error) = served_file::check(&asked.file, &data_dir)
    {
        return report_local(&error, true, asked.json);
    }
    if let Some(user) = crate::check::machine::other_owner(&data_dir) {
        let error = format!(
            "{} is that of the user {user}: run this as that user, with `runuser -u {user} -- longhaul backup …`",
            data_dir.display()
        );
        return report_local(&error, true, asked.json);
    }
    if config.is_shared {
        return report_local(&BackupError::SharedStore(data_dir), false, asked.json);
    }
    let source = Source {
        data_dir,
        server: config.name,
        ports: Ports::system(),
    };
    let written = match asked.out.as_os_str() == STDIO {
        true => to_stdout(asked, &source).await,
        false => to_file(asked, &source).await,
    };
    match written {
        Ok((header, manifest)) => {
            report(asked, &source.data_dir, &header, &manifest);
            ExitCode::SUCCESS
        }
        Err(error) => {
            let is_usage = matches!(error, BackupError::TwoOutputs | BackupError::Terminal);
            report_local(&error, is_usage, asked.json)
        }
    }
}

/// What is backed up.
#[derive(Clone)]
struct Source {
    data_dir: PathBuf,
    /// The name of the server.
    server: String,
    ports: Ports,
}

async fn to_stdout(asked: &args::Backup, source: &Source) -> Result<(Header, Manifest), BackupError> {
    if asked.json {
        return Err(BackupError::TwoOutputs);
    }
    if io::stdout().is_terminal() {
        return Err(BackupError::Terminal);
    }
    let work = temporary_folder(asked.temp_dir.as_deref())?;
    let (header, manifest, _) = source.write(work.path(), io::stdout()).await?;
    Ok((header, manifest))
}

/// The file gets its name when it is complete and on disk.
async fn to_file(asked: &args::Backup, source: &Source) -> Result<(Header, Manifest), BackupError> {
    let out = absolute(&asked.out).map_err(BackupError::Write)?;
    let exists = || BackupError::Exists(out.clone());
    if out.symlink_metadata().is_ok() {
        return Err(exists());
    }
    let parent = out.parent().unwrap_or(Path::new("/"));
    if !parent.is_dir() {
        let missing = io::Error::new(
            io::ErrorKind::NotFound,
            format!("there is no folder {}", parent.display()),
        );
        return Err(BackupError::Write(missing));
    }
    if resolved(parent).starts_with(resolved(&source.data_dir)) {
        return Err(BackupError::InDataDir(out));
    }
    let partial = work_folder(&beside(&out, ".partial")).map_err(|error| match error {
        BackupError::Busy(_) => BackupError::Busy(out.clone()),
        error => error,
    })?;
    let elsewhere = match &asked.temp_dir {
        Some(temp_dir) => Some(temporary_folder(Some(temp_dir))?),
        None => None,
    };
    let path = partial.join(ARCHIVE);
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    let work = elsewhere.as_ref().unwrap_or(&partial);
    let (header, manifest, file) = source.write(work.path(), file.map_err(BackupError::Write)?).await?;
    file.sync_all().map_err(BackupError::Write)?;
    // Unlike a rename, it does not replace what somebody has put there meanwhile.
    match fs::hard_link(&path, &out) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(exists()),
        // There are file systems without links.
        Err(_) => fs::rename(&path, &out).map_err(BackupError::Write)?,
    }
    File::open(parent)
        .and_then(|parent| parent.sync_all())
        .map_err(BackupError::Write)?;
    Ok((header, manifest))
}

/// The directory without links, as names in it are compared.
fn resolved(directory: &Path) -> PathBuf {
    directory.canonicalize().unwrap_or_else(|_| directory.to_owned())
}

fn temporary_folder(parent: Option<&Path>) -> Result<WorkFolder, BackupError> {
    let parent = parent.map_or_else(std::env::temp_dir, Path::to_owned);
    work_folder(&parent.join(format!("longhaul-backup-{}", std::process::id())))
}

fn work_folder(path: &Path) -> Result<WorkFolder, BackupError> {
    WorkFolder::create(path).map_err(|source| match source.kind() {
        io::ErrorKind::ResourceBusy => BackupError::Busy(path.to_owned()),
        _ => BackupError::WorkFolder {
            path: path.to_owned(),
            source,
        },
    })
}

impl Source {
    /// Writes the backup to `to`, on another thread. The copy of the database is made in the folder `work`.
    async fn write<W: Write + Send + 'static>(&self, work: &Path, to: W) -> Result<(Header, Manifest, W), BackupError> {
        let (source, work) = (self.clone(), work.to_owned());
        let written = self.ports.blocking(move || source.write_now(&work, to)).await;
        written.unwrap_or_else(|| Err(BackupError::Write(io::Error::other("the program is ending"))))
    }

    fn write_now<W: Write>(&self, work: &Path, to: W) -> Result<(Header, Manifest, W), BackupError> {
        let clock = &self.ports.clock;
        let taken = clock.wall();
        output::note("copying the database");
        let copy = DatabaseCopy::make(&self.data_dir, &work.join(DATABASE))?;
        let (live, ended) = copy.counts()?;
        let header = Header {
            format: FORMAT,
            longhaul: env!("CARGO_PKG_VERSION").to_owned(),
            schema: copy.schema_version()?,
            taken: timestamp(taken),
            taken_ms: taken.0,
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            server: self.server.clone(),
        };
        let mut collector = Collector {
            archive: ArchiveWriter::new(BufWriter::new(to), &header).map_err(BackupError::Write)?,
            data_dir: &self.data_dir,
        };
        collector.add_database(&copy)?;
        output::note("copying the logs and results of commands, and the other files");
        collector.add_others()?;
        let attempt_folders = collector.add_attempts(&copy)?;
        let (to, manifest) = collector
            .archive
            .finish(TaskCounts::new(live, ended), attempt_folders, clock.wall().0)
            .map_err(BackupError::Write)?;
        let to = to
            .into_inner()
            .map_err(|error| BackupError::Write(error.into_error()))?;
        Ok((header, manifest, to))
    }
}

fn report(asked: &args::Backup, data_dir: &Path, header: &Header, manifest: &Manifest) {
    let tasks = manifest.tasks;
    if asked.json {
        output::json_line(&json!({
            "backup": asked.out,
            "dataDir": data_dir,
            "taken": header.taken,
            "schema": header.schema,
            "tasks": tasks,
            "attemptFolders": manifest.attempt_folders,
            "files": manifest.files,
            "bytes": manifest.bytes,
            "sha256": manifest.sha256,
        }));
    }
    output::note(&format!(
        "backed up {} as of {}: {}, {} of them running and {} queued; {} in {}",
        data_dir.display(),
        header.taken,
        count(tasks.all(), "task"),
        tasks.running,
        tasks.queued + tasks.suspended + tasks.blocked,
        size(manifest.bytes),
        count(manifest.files, "file"),
    ));
}
