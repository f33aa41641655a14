//! The log of a server that `longhaul stdio` or `longhaul wrap` has started.

use longhaul_core::Clock;
use longhaul_private_dir::open_file;
use std::{
    fs::{self, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

/// A longer log is moved away, in bytes.
const LONGEST: u64 = 4 << 20;
/// How often a server that runs looks at its length.
const EVERY: Duration = Duration::from_secs(60);

pub(crate) fn path(data_dir: &Path) -> PathBuf {
    data_dir.join("owner.log")
}

/// Moves what a log has that is too long into another file, in place of what was there. The log stays the same file: a server and its children have it open to append. Lines
/// that they write meanwhile may be lost.
pub(crate) fn shorten(log: &Path) -> io::Result<()> {
    shorten_to(log, LONGEST)
}

fn shorten_to(log: &Path, longest: u64) -> io::Result<()> {
    let mut long = open_file(log, OpenOptions::new().read(true).write(true))?;
    if long.metadata()?.len() <= longest {
        return Ok(());
    }
    let older = log.with_extension("log.1");
    match fs::remove_file(&older) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    io::copy(&mut long, &mut open_file(&older, &options)?)?;
    long.set_len(0)
}

/// Keeps the log of this server short. One that cannot be moved stays as it is.
pub(crate) async fn keep_short(data_dir: &Path, clock: &dyn Clock) {
    loop {
        clock.sleep(EVERY).await;
        let _ = shorten(&path(data_dir));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn a_long_log_goes_on_empty_and_its_beginning_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let log = path(folder.path());
        let older = folder.path().join("owner.log.1");
        let mut written = OpenOptions::new().append(true).create(true).open(&log).unwrap();
        for text in ["one\n", "two\n", "three\n"] {
            written.write_all(text.as_bytes()).unwrap();
            shorten_to(&log, 6).unwrap();
        }
        assert_eq!(fs::read_to_string(&older).unwrap(), "one\ntwo\n");
        assert_eq!(fs::read_to_string(&log).unwrap(), "three\n");
        written.write_all(b"four\n").unwrap();
        shorten_to(&log, 6).unwrap();
        assert_eq!(fs::read_to_string(&older).unwrap(), "three\nfour\n");
        assert_eq!(fs::read_to_string(&log).unwrap(), "");
    }
}
