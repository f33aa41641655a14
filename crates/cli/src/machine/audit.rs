//! The audit log of a server: lines of JSON, in a file or on standard error.

use crate::config::AuditConfig;
use longhaul::audit::{Audit, AuditAction, AuditEvent, LostEvents};
use longhaul_client::stderr;
use longhaul_core::Clock;
use longhaul_private_dir::is_at;
use parking_lot::Mutex;
use rustix::{
    fs::{FlockOperation, OFlags, flock},
    io::Errno,
};
use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};
use tracing::warn;

/// Between two warnings that the log cannot be written.
const WARN_EVERY: Duration = Duration::from_secs(60);
/// Between two attempts to lock the file, which its other writers hold for microseconds.
const LOCK_EVERY: Duration = Duration::from_millis(1);
/// How often that is tried until the line counts as lost. A program that keeps the lock must not stop the server.
const LOCK_ATTEMPTS: u32 = 1_000;

/// The end of the file that operators are shown, in bytes.
const SHOWN: u64 = 1 << 20;

/// The audit log cannot be opened or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} the audit log {path}: {source}", path = path.display())]
pub(crate) struct AuditError {
    action: &'static str,
    path: PathBuf,
    pub(crate) source: io::Error,
}

/// Writes each event as one line, with one `write`, before the answer leaves. Nothing is synced.
pub(crate) struct AuditLog {
    reads: bool,
    /// What standard error has lost, if events are written there.
    stderr: Option<Mutex<LostEvents>>,
    file: Option<Mutex<AuditFile>>,
    clock: Arc<dyn Clock>,
}

/// The file that is written, and what could not be.
///
/// Other processes write it, too: `longhaul keys` while a server runs. Each line is appended, and the file rotated, under a lock (`flock`) on the file at the path.
struct AuditFile {
    path: PathBuf,
    max_size: u64,
    keep: u32,
    file: File,
    lost: LostEvents,
    /// By the monotonic clock.
    warned_at: Option<Duration>,
}

impl AuditLog {
    /// Whether [`open`](Self::open) would refuse what is there. Nothing is made.
    ///
    /// # Errors
    /// [`AuditError`].
    pub(crate) fn check(config: &AuditConfig) -> Result<(), AuditError> {
        let Some(path) = &config.file else { return Ok(()) };
        match open_to_append(path, false) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(AuditError {
                action: "open",
                path: path.clone(),
                source,
            }),
            _ => Ok(()),
        }
    }

    /// Opens the log, or creates it.
    ///
    /// # Errors
    /// [`AuditError`].
    pub(crate) fn open(config: &AuditConfig, clock: &Arc<dyn Clock>) -> Result<Self, AuditError> {
        let file = match &config.file {
            None => None,
            Some(path) => Some(Mutex::new(AuditFile::open(path, config).map_err(|source| {
                AuditError {
                    action: "open",
                    path: path.clone(),
                    source,
                }
            })?)),
        };
        Ok(Self {
            reads: config.reads,
            stderr: config.stderr.then(Mutex::default),
            file,
            clock: Arc::clone(clock),
        })
    }

    /// Writes one event, in a process that has no log to warn in.
    ///
    /// # Errors
    /// [`AuditError`].
    pub(crate) fn write(&self, event: &AuditEvent) -> Result<(), AuditError> {
        let line = event.to_json();
        self.write_to_stderr(&line);
        let Some(file) = &self.file else { return Ok(()) };
        let mut file = file.lock();
        let written = file.append(format!("{line}\n").as_bytes());
        written.map_err(|source| AuditError {
            action: "write",
            path: file.path.clone(),
            source,
        })
    }

    fn write_to_stderr(&self, line: &str) {
        let Some(lost) = &self.stderr else { return };
        let mut lost = lost.lock();
        if stderr::write_or_drop(format!("{line}\n").as_bytes()) {
            lost.at_present = 0;
        } else {
            lost.at_present += 1;
            lost.in_all += 1;
        }
    }
}

impl Audit for AuditLog {
    fn record(&self, event: &AuditEvent) {
        if !self.reads && event.action == AuditAction::Read {
            return;
        }
        let line = event.to_json();
        if let Some(file) = &self.file {
            file.lock().write(&line, self.clock.monotonic());
        }
        self.write_to_stderr(&line);
    }

    fn records_reads(&self) -> bool {
        self.reads
    }

    fn lost(&self) -> LostEvents {
        let of_file = self.file.as_ref().map(|file| file.lock().lost).unwrap_or_default();
        let of_stderr = self.stderr.as_ref().map(|lost| *lost.lock()).unwrap_or_default();
        LostEvents {
            at_present: of_file.at_present.max(of_stderr.at_present),
            in_all: of_file.in_all + of_stderr.in_all,
        }
    }

    fn latest(&self, most: usize) -> io::Result<Option<Vec<String>>> {
        let Some(path) = self.file.as_ref().map(|file| file.lock().path.clone()) else {
            return Ok(None);
        };
        let mut lines = last_lines(&path, most)?;
        if lines.len() < most
            && let Ok(older) = last_lines(&rotated(&path, 1), most - lines.len())
        {
            lines.extend(older);
        }
        Ok(Some(lines))
    }
}

/// The last whole lines of a file, the last one first: as many as fit into [`SHOWN`] bytes.
fn last_lines(path: &Path, most: usize) -> io::Result<Vec<String>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let from = length.saturating_sub(SHOWN);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(SHOWN).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    // The first one may be cut off.
    let whole = text.lines().skip(usize::from(from > 0));
    let mut lines: Vec<String> = whole.map(str::to_owned).collect();
    lines.reverse();
    lines.truncate(most);
    Ok(lines)
}

impl AuditFile {
    fn open(path: &Path, config: &AuditConfig) -> io::Result<Self> {
        let mut file = Self {
            path: path.to_owned(),
            max_size: config.max_size,
            keep: config.keep,
            file: append_to(path)?,
            lost: LostEvents::default(),
            warned_at: None,
        };
        // A file system without locks is found out now.
        file.locked(|_| Ok(()))?;
        Ok(file)
    }

    /// Appends a line. One that does not fit on the disk is counted, and the next one that does says how many were lost.
    fn write(&mut self, line: &str, now: Duration) {
        let line = match (self.lost.at_present, line.strip_suffix('}')) {
            (lost @ 1.., Some(open)) => format!("{open},\"lost\":{lost}}}\n"),
            _ => format!("{line}\n"),
        };
        match self.append(line.as_bytes()) {
            Ok(()) => self.lost.at_present = 0,
            Err(error) => {
                self.lost.at_present += 1;
                self.lost.in_all += 1;
                let is_due = self.warned_at.is_none_or(|at| now.saturating_sub(at) >= WARN_EVERY);
                if is_due {
                    self.warned_at = Some(now);
                    warn!(%error, lost = self.lost.at_present, "the audit log cannot be written; requests are served all the same");
                }
            }
        }
    }

    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        self.locked(|this| {
            while this.is_full(line)? {
                this.rotate()?;
                this.lock()?;
            }
            let written = this.file.write(line)?;
            if written < line.len() {
                // Half a line would spoil the next one.
                this.file.set_len(this.file.metadata()?.len() - written as u64)?;
                return Err(io::ErrorKind::WriteZero.into());
            }
            Ok(())
        })
    }

    fn is_full(&self, line: &[u8]) -> io::Result<bool> {
        let size = self.file.metadata()?.len();
        Ok(size > 0 && size + line.len() as u64 > self.max_size)
    }

    /// Does something while no other process appends or rotates.
    fn locked(&mut self, act: impl FnOnce(&mut Self) -> io::Result<()>) -> io::Result<()> {
        let done = self.lock().and_then(|()| act(self));
        flock(&self.file, FlockOperation::Unlock)?;
        done
    }

    /// Locks the file that is at the path, which is another one after somebody else has rotated it.
    fn lock(&mut self) -> io::Result<()> {
        loop {
            self.wait_for_lock()?;
            if is_at(&self.file.metadata()?, &self.path)? {
                return Ok(());
            }
            self.file = append_again(&self.path)?;
        }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "an event is recorded without async code, and the lock is free in microseconds"
    )]
    fn wait_for_lock(&self) -> io::Result<()> {
        // Who has waited in vain does not wait again for each line.
        let attempts = if self.lost.at_present == 0 { LOCK_ATTEMPTS } else { 1 };
        for attempt in 1..=attempts {
            match flock(&self.file, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) if attempt < attempts => thread::sleep(LOCK_EVERY),
                Err(Errno::WOULDBLOCK) => break,
                locked => return Ok(locked?),
            }
        }
        Err(io::Error::new(
            io::ErrorKind::WouldBlock,
            "another program keeps it locked (flock); end that program",
        ))
    }

    /// `audit.jsonl` becomes `audit.jsonl.1`, that `audit.jsonl.2`, and so on; the oldest one goes.
    fn rotate(&mut self) -> io::Result<()> {
        let numbered = |nth: u32| rotated(&self.path, nth);
        match fs::remove_file(numbered(self.keep)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        for nth in (0..self.keep).rev() {
            match fs::rename(numbered(nth), numbered(nth + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        self.file = append_to(&self.path)?;
        Ok(())
    }
}

/// The path of the log after so many rotations.
fn rotated(path: &Path, nth: u32) -> PathBuf {
    match nth {
        0 => path.to_owned(),
        nth => {
            let mut name = path.to_owned().into_os_string();
            name.push(format!(".{nth}"));
            PathBuf::from(name)
        }
    }
}

/// As [`append_to`], also when somebody has removed the folder meanwhile: only that one, since what is above it may be a disk that is not mounted now.
fn append_again(path: &Path) -> io::Result<File> {
    match (append_to(path), path.parent()) {
        (Err(error), Some(folder)) if error.kind() == io::ErrorKind::NotFound => {
            DirBuilder::new().mode(0o700).create(folder)?;
            append_to(path)
        }
        (opened, _) => opened,
    }
}

/// Readable by its owner only. A link is not followed, and a FIFO is not waited for.
fn append_to(path: &Path) -> io::Result<File> {
    open_to_append(path, true)
}

fn open_to_append(path: &Path, create: bool) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    if path.symlink_metadata().is_ok_and(|found| found.is_symlink()) {
        return Err(io::Error::other("it is a symbolic link and should be a file"));
    }
    let file = OpenOptions::new()
        .append(true)
        .create(create)
        .mode(0o600)
        .custom_flags(i32::try_from(flags.bits()).unwrap_or_default())
        .open(path)?;
    match file.metadata()?.file_type().is_fifo() {
        true => Err(io::Error::other("it is a FIFO and should be a file")),
        false => Ok(file),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul::audit::AuditOutcome;
    use longhaul_core::UnixMillis;
    use longhaul_runtime::Ports;

    fn config(path: &Path) -> AuditConfig {
        AuditConfig {
            file: Some(path.to_owned()),
            stderr: false,
            max_size: 300,
            keep: 2,
            reads: false,
        }
    }

    fn event(action: AuditAction) -> AuditEvent {
        AuditEvent::new(UnixMillis(1_800_000_000_123), action, AuditOutcome::Ok)
    }

    #[tokio::test]
    async fn s_07_a_full_file_is_rotated_and_the_oldest_goes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.jsonl");
        let log = AuditLog::open(&config(&path), &Ports::system().clock).unwrap();
        log.record(&event(AuditAction::Read));
        assert_eq!(fs::read_to_string(&path).unwrap(), "", "reads are left out");
        for nth in 0..20 {
            log.record(&event(AuditAction::Create).with_detail(nth.to_string()));
        }
        let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
        let lines: String = ["audit.jsonl.2", "audit.jsonl.1", "audit.jsonl"].map(read).concat();
        let details: Vec<String> = lines
            .lines()
            .map(|line| {
                serde_json::from_str::<serde_json::Value>(line).unwrap()["detail"]
                    .as_str()
                    .unwrap()
                    .to_owned()
            })
            .collect();
        let newest: Vec<String> = (20 - details.len()..20).map(|nth| nth.to_string()).collect();
        assert_eq!(details, newest, "in order, and nothing twice");
        assert!(
            details.len() >= 6 && fs::read_dir(directory.path()).unwrap().count() == 3,
            "{details:?}"
        );
        assert!(read("audit.jsonl.1").len() <= 300);
        let latest = log.latest(3).unwrap().unwrap();
        let shown = |nth: usize| latest[nth].contains(&format!("\"detail\":\"{}\"", 19 - nth));
        assert!(
            latest.len() == 3 && (0..3).all(shown),
            "newest first, over a rotation: {latest:?}"
        );
        let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
    }

    /// As `longhaul keys` beside a server: each has the file open when the other one rotates it.
    #[tokio::test]
    async fn s_07_no_writer_goes_on_in_a_file_that_another_has_rotated() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.jsonl");
        let clock = Ports::system().clock;
        let logs = [(); 2].map(|()| AuditLog::open(&config(&path), &clock).unwrap());
        for nth in 0..40 {
            let detail = format!("event {nth}");
            logs[nth % 2].record(&event(AuditAction::Create).with_detail(detail.clone()));
            let current = fs::read_to_string(&path).unwrap();
            assert!(current.ends_with(&format!("\"{detail}\"}}\n")), "{nth}: {current}");
            assert!(current.len() <= 300, "{current}");
        }
        fs::remove_file(&path).unwrap();
        logs[0].record(&event(AuditAction::Create));
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 1);
    }

    /// Neither a start nor a request waits for its other end.
    #[test]
    fn s_07_a_fifo_is_refused_whether_or_not_somebody_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert!(AuditFile::open(&path, &config(&path)).is_err());
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let _reader = rustix::fs::open(&path, flags, rustix::fs::Mode::empty()).unwrap();
        let error = AuditFile::open(&path, &config(&path)).err().unwrap();
        assert!(error.to_string().contains("FIFO"), "{error}");
    }

    /// The server must not wait for ever for a program that locks the file.
    #[test]
    fn s_07_a_file_that_stays_locked_is_given_up() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.jsonl");
        let mut file = AuditFile::open(&path, &config(&path)).unwrap();
        let other = append_to(&path).unwrap();
        flock(&other, FlockOperation::LockExclusive).unwrap();
        file.write(r#"{"a":1}"#, Duration::ZERO);
        file.write(r#"{"b":2}"#, Duration::ZERO);
        flock(&other, FlockOperation::Unlock).unwrap();
        file.write(r#"{"c":3}"#, Duration::ZERO);
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"c\":3,\"lost\":2}\n");
    }

    #[test]
    fn s_07_no_line_is_lost_when_the_folder_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join("logs");
        fs::create_dir(&folder).unwrap();
        let path = folder.join("audit.jsonl");
        let mut file = AuditFile::open(&path, &config(&path)).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        file.write(r#"{"a":1}"#, Duration::ZERO);
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"a\":1}\n");
        let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&folder).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn s_07_lines_that_could_not_be_written_are_counted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.jsonl");
        let mut file = AuditFile::open(&path, &config(&path)).unwrap();
        // Every write to this device finds the disk full.
        let full = PathBuf::from("/dev/full");
        if !full.exists() {
            return;
        }
        file.path = full;
        for second in 0..3 {
            file.write(r#"{"a":1}"#, Duration::from_secs(second));
        }
        file.path.clone_from(&path);
        file.write(r#"{"b":2}"#, Duration::from_secs(4));
        file.write(r#"{"c":3}"#, Duration::from_secs(5));
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"b\":2,\"lost\":3}\n{\"c\":3}\n");
    }
}
