//! The file `host` of a data directory: the id of the host that it belongs to.
//!
//! In a store that many nodes share, the id says which node may resume what runs outside of the processes, such as commands. It is the machine's name
//! when the file was made, for people, and random characters. It never changes afterwards, also when the directory is moved or copied: the store
//! leases it to one node at a time. With SQLite in the same directory, the lock of the directory does.

use crate::sqlite::SqliteOpenError;
use longhaul_core::HostId;
use longhaul_private_dir::{PrivateDir, open_file, read_file};
use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

const NAME: &str = "host";
const DRAFT: &str = "host.draft";
/// The longest part of the machine's name that is used.
const LONGEST_NAME: usize = 40;
/// The longest id.
const LONGEST: usize = 100;
/// Random characters of an id: 60 bits.
const RANDOM: usize = 12;
/// Letters that are not mistaken for digits.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The id of the host, which is made at the first start. Only the owner of the directory may call it.
pub(crate) fn read_or_create(dir: &PrivateDir) -> Result<HostId, SqliteOpenError> {
    let path = dir.path().join(NAME);
    let failed = |source| SqliteOpenError::Io {
        action: "use",
        path: path.clone(),
        source,
    };
    match read_file(&path) {
        Ok(bytes) => parse(&bytes).ok_or(SqliteOpenError::HostFile { path }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => create(dir, &path).map_err(failed),
        Err(error) => Err(failed(error)),
    }
}

/// Whole or not at all, and on disk before anything is bound to it.
fn create(dir: &PrivateDir, path: &Path) -> io::Result<HostId> {
    let id = new_id(&rustix::system::uname().nodename().to_string_lossy());
    let draft = dir.path().join(DRAFT);
    let mut file = open_file(&draft, OpenOptions::new().write(true).create(true).mode(0o600))?;
    file.set_len(0)?;
    writeln!(file, "{}", id.0)?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    dir.sync()?;
    Ok(id)
}

fn new_id(machine: &str) -> HostId {
    let mut id: String = machine.chars().filter(|c| is_allowed(*c)).take(LONGEST_NAME).collect();
    id.push('-');
    id.extend(
        (0..RANDOM)
            .filter_map(|_| fastrand::choice(ALPHABET))
            .map(|c| char::from(*c)),
    );
    HostId(id.into())
}

fn parse(bytes: &[u8]) -> Option<HostId> {
    let id = std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?;
    let is_valid = (1..=LONGEST).contains(&id.len()) && id.chars().all(is_allowed);
    is_valid.then(|| HostId(id.into()))
}

fn is_allowed(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_')
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{PrivateDir, SqliteOpenError, new_id, parse, read_or_create};

    #[test]
    fn an_id_is_made_once_and_names_the_machine() {
        let directory = tempfile::tempdir().unwrap();
        let dir = PrivateDir::create(directory.path()).unwrap();
        let first = read_or_create(&dir).unwrap();
        assert_eq!(read_or_create(&dir).unwrap(), first);
        let id = new_id("we b\u{e9}1.example");
        assert!(id.0.starts_with("web1.example-"), "{id:?}");
        assert_ne!(new_id("web1"), new_id("web1"));
        assert_eq!(parse(format!("{}\n", id.0).as_bytes()), Some(id));
    }

    #[test]
    fn a_damaged_file_is_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let dir = PrivateDir::create(directory.path()).unwrap();
        let path = directory.path().join("host");
        for damaged in ["", "\n", "web1-0123", "two words\n", "\u{e9}\n", "a\nb\n"] {
            std::fs::write(&path, damaged).unwrap();
            let opened = read_or_create(&dir);
            assert!(
                matches!(opened, Err(SqliteOpenError::HostFile { .. })),
                "{damaged:?}: {opened:?}"
            );
            assert_eq!(std::fs::read_to_string(&path).unwrap(), damaged);
        }
    }
}
