//! Who may open what.

use longhaul_store::{OpenError, SqliteOptions, SqliteStore};
use std::{fs, os::unix::fs::PermissionsExt, path::Path};

fn open(directory: &Path) -> Result<SqliteStore, OpenError> {
    SqliteStore::open(directory, SqliteOptions::default())
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_directory_has_one_owner_and_the_next_is_told_who() {
    let directory = tempfile::tempdir().unwrap();
    let owner = open(directory.path()).unwrap();
    owner.describe_owner("http://127.0.0.1:7411/mcp\n").unwrap();
    let refused = open(directory.path()).err().unwrap();
    let OpenError::InUse { path, holder } = &refused else {
        panic!("{refused}")
    };
    assert_eq!(path, directory.path());
    assert_eq!(
        *holder,
        format!("pid {}, http://127.0.0.1:7411/mcp", std::process::id())
    );
    assert!(
        refused.to_string().contains("is in use by another process"),
        "{refused}"
    );
    drop(owner);
    open(directory.path()).unwrap();
}

/// A deploy may overlap a little: the next process waits.
#[test]
fn a_directory_that_comes_free_in_time_is_taken() {
    let directory = tempfile::tempdir().unwrap();
    let owner = open(directory.path()).unwrap();
    std::thread::scope(|scope| {
        let next = scope.spawn(|| open(directory.path()).map(drop));
        drop(owner);
        next.join().unwrap().unwrap();
    });
}

#[test]
fn nobody_else_can_look_in() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("some/where");
    let store = open(&directory).unwrap();
    assert_eq!(mode(&directory), 0o700);
    for file in ["longhaul.db", "longhaul.db-wal", "longhaul.db-shm", "lock"] {
        assert_eq!(mode(&directory.join(file)), 0o600, "{file}");
    }
    drop(store);
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
    open(&directory).unwrap();
    assert_eq!(mode(&directory), 0o700);
}

#[test]
fn what_cannot_be_used_is_refused_in_plain_words() {
    let damaged = tempfile::tempdir().unwrap();
    fs::write(
        damaged.path().join("longhaul.db"),
        "not a database, and long enough to be looked at. ".repeat(100),
    )
    .unwrap();
    let refused = open(damaged.path()).err().unwrap();
    assert!(matches!(refused, OpenError::Corrupt { .. }), "{refused}");
    assert!(refused.to_string().contains("restore a backup"), "{refused}");

    let newer = tempfile::tempdir().unwrap();
    drop(open(newer.path()).unwrap());
    let raw = rusqlite::Connection::open(newer.path().join("longhaul.db")).unwrap();
    raw.pragma_update(None, "user_version", 99).unwrap();
    drop(raw);
    let refused = open(newer.path()).err().unwrap();
    assert!(matches!(refused, OpenError::NewerSchema { found: 99, .. }), "{refused}");
    assert!(refused.to_string().contains("schema version 99"), "{refused}");

    let strange = tempfile::tempdir().unwrap();
    let raw = rusqlite::Connection::open(strange.path().join("longhaul.db")).unwrap();
    raw.execute_batch("CREATE TABLE theirs (x)").unwrap();
    drop(raw);
    let refused = open(strange.path()).err().unwrap();
    assert!(matches!(refused, OpenError::NotOurs { .. }), "{refused}");

    let file = tempfile::NamedTempFile::new().unwrap();
    let refused = open(file.path()).err().unwrap();
    assert!(matches!(refused, OpenError::Io { .. }), "{refused}");

    let refused = open(Path::new("")).err().unwrap();
    assert!(matches!(refused, OpenError::Unnamed), "{refused}");
}
