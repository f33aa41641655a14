//! The audit log of a server: lines of JSON, in a file or on standard error.

use crate::config::AuditConfig;
use longhaul::audit::{Audit, AuditAction, AuditEvent};
use longhaul_core::Clock;
use parking_lot::Mutex;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tracing::warn;

/// Between two warnings that the log cannot be written.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// The audit log cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open the audit log {path}: {source}", path = path.display())]
pub(crate) struct AuditError {
    path: PathBuf,
    source: io::Error,
}

/// Writes each event as one line, with one `write`, before the answer leaves. Nothing is synced.
pub(crate) struct AuditLog {
    reads: bool,
    stderr: bool,
    file: Option<Mutex<AuditFile>>,
    clock: Arc<dyn Clock>,
}

/// The file that is written, and what could not be.
struct AuditFile {
    path: PathBuf,
    max_size: u64,
    keep: u32,
    file: File,
    size: u64,
    lost: u64,
    /// By the monotonic clock.
    warned_at: Option<Duration>,
}

impl AuditLog {
    /// Opens the log, or creates it.
    ///
    /// # Errors
    /// [`AuditError`].
    pub(crate) fn open(config: &AuditConfig, clock: &Arc<dyn Clock>) -> Result<Self, AuditError> {
        let file = match &config.file {
            None => None,
            Some(path) => Some(Mutex::new(AuditFile::open(path, config).map_err(|source| {
                AuditError {
                    path: path.clone(),
                    source,
                }
            })?)),
        };
        Ok(Self {
            reads: config.reads,
            stderr: config.stderr,
            file,
            clock: Arc::clone(clock),
        })
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
        if self.stderr {
            // Nobody could be told of an error.
            let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
        }
    }

    fn records_reads(&self) -> bool {
        self.reads
    }
}

impl AuditFile {
    fn open(path: &Path, config: &AuditConfig) -> io::Result<Self> {
        let file = append_to(path)?;
        Ok(Self {
            path: path.to_owned(),
            max_size: config.max_size,
            keep: config.keep,
            size: file.metadata()?.len(),
            file,
            lost: 0,
            warned_at: None,
        })
    }

    /// Appends a line. One that does not fit on the disk is counted, and the next one that does says how many were lost.
    fn write(&mut self, line: &str, now: Duration) {
        let line = match (self.lost, line.strip_suffix('}')) {
            (lost @ 1.., Some(open)) => format!("{open},\"lost\":{lost}}}\n"),
            _ => format!("{line}\n"),
        };
        match self.append(line.as_bytes()) {
            Ok(()) => self.lost = 0,
            Err(error) => {
                self.lost += 1;
                let is_due = self.warned_at.is_none_or(|at| now.saturating_sub(at) >= WARN_EVERY);
                if is_due {
                    self.warned_at = Some(now);
                    warn!(%error, lost = self.lost, "the audit log cannot be written; requests are served all the same");
                }
            }
        }
    }

    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        if self.size > 0 && self.size + line.len() as u64 > self.max_size {
            self.rotate()?;
        }
        let written = self.file.write(line)?;
        if written < line.len() {
            // Half a line would spoil the next one.
            self.file.set_len(self.file.metadata()?.len() - written as u64)?;
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.size += written as u64;
        Ok(())
    }

    /// `audit.jsonl` becomes `audit.jsonl.1`, that `audit.jsonl.2`, and so on; the oldest one goes.
    fn rotate(&mut self) -> io::Result<()> {
        let numbered = |nth: u32| match nth {
            0 => self.path.clone(),
            nth => {
                let mut name = self.path.clone().into_os_string();
                name.push(format!(".{nth}"));
                PathBuf::from(name)
            }
        };
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
        self.size = self.file.metadata()?.len();
        Ok(())
    }
}

/// Readable by its owner only; a link is not followed.
fn append_to(path: &Path) -> io::Result<File> {
    let no_follow = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or_default();
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(no_follow)
        .open(path)
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
        let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn s_07_lines_that_could_not_be_written_are_counted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.jsonl");
        let mut file = AuditFile::open(&path, &config(&path)).unwrap();
        // Every write to this device finds the disk full.
        let Ok(full) = OpenOptions::new().write(true).open("/dev/full") else {
            return;
        };
        let sound = std::mem::replace(&mut file.file, full);
        for second in 0..3 {
            file.write(r#"{"a":1}"#, Duration::from_secs(second));
        }
        file.file = sound;
        file.write(r#"{"b":2}"#, Duration::from_secs(4));
        file.write(r#"{"c":3}"#, Duration::from_secs(5));
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"b\":2,\"lost\":3}\n{\"c\":3}\n");
    }
}
