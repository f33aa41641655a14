//! Which directories can be opened, and by whom.

use crate::{planted::PLANTS, task};
use longhaul_core::{HostId, UnixMillis, store::LeaseStore};
use longhaul_private_dir::Unfit;
use longhaul_store::{SqliteOpenError, SqliteOptions, SqliteStore};
use rustix::fs::{FlockOperation, flock};
use std::{
    fs::{self, File},
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    sync::{Arc, Mutex},
};

fn open(directory: &Path) -> Result<SqliteStore, SqliteOpenError> {
    SqliteStore::open(directory, SqliteOptions::default())
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_directory_has_one_owner_and_the_refusal_names_it() {
    let directory = tempfile::tempdir().unwrap();
    let owner = open(directory.path()).unwrap();
    owner.describe_owner("http://127.0.0.1:7411/mcp\n").unwrap();
    let refused = open(directory.path()).err().unwrap();
    let SqliteOpenError::InUse { path, holder } = &refused else {
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

/// Somebody may remove the lock file as stale; there is still one owner.
#[test]
fn a_directory_whose_lock_file_is_removed_still_has_one_owner() {
    let directory = tempfile::tempdir().unwrap();
    let owner = open(directory.path()).unwrap();
    fs::remove_file(directory.path().join("lock")).unwrap();
    let refused = open(directory.path()).err().unwrap();
    assert!(matches!(refused, SqliteOpenError::InUse { .. }), "{refused}");
    assert!(!directory.path().join("lock").exists(), "no other lock was made");
    drop(owner);
    open(directory.path()).unwrap();
}

/// Releases before the directory itself was locked take the lock of the file, and only that.
#[test]
fn an_earlier_release_and_this_one_exclude_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let owner = open(directory.path()).unwrap();
    let lock = File::open(directory.path().join("lock")).unwrap();
    let take = || flock(&lock, FlockOperation::NonBlockingLockExclusive);
    assert_eq!(take(), Err(rustix::io::Errno::WOULDBLOCK));
    drop(owner);
    take().unwrap();
    let refused = open(directory.path()).err().unwrap();
    assert!(matches!(refused, SqliteOpenError::InUse { .. }), "{refused}");
}

/// SQLite goes on writing to files that were removed or moved.
#[tokio::test]
async fn nothing_is_acknowledged_once_the_files_are_removed() {
    type Loss = fn(&Path) -> std::io::Result<()>;
    let losses: [(&str, Loss); 6] = [
        ("all of it", |directory| fs::remove_dir_all(directory)),
        ("the database", |directory| {
            fs::remove_file(directory.join("longhaul.db"))
        }),
        ("the log", |directory| {
            fs::remove_file(directory.join("longhaul.db-wal"))
        }),
        ("another file at the database's path", |directory| {
            fs::rename(directory.join("longhaul.db"), directory.join("old.db"))
        }),
        ("another directory at its path", |directory| {
            fs::rename(directory, directory.with_extension("old"))
        }),
        ("the database, for another one", |directory| {
            fs::copy(directory.join("longhaul.db"), directory.join("copy"))?;
            fs::rename(directory.join("copy"), directory.join("longhaul.db"))
        }),
    ];
    for (what, lose) in losses {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("data");
        let reasons = Arc::new(Mutex::new(Vec::new()));
        let listener = Arc::clone(&reasons);
        let options = SqliteOptions {
            on_fatal: Arc::new(move |why| listener.lock().unwrap().push(why.to_owned())),
            ..SqliteOptions::default()
        };
        let (store, node) = task::open(&directory, options).await;
        task::create(&store, "before", node, 10).await.unwrap();
        lose(&directory).unwrap();
        let after = task::create(&store, "after", node, 10).await;
        assert!(after.is_err(), "acknowledged without {what}");
        let later = store.open_node(&HostId("here".into()).into(), UnixMillis(2)).await;
        assert!(later.is_err(), "nor anything later");
        let reasons = reasons.lock().unwrap().clone();
        assert_eq!(reasons.len(), 1, "{what}: {reasons:?}");
        assert!(reasons[0].contains("was removed, moved or replaced"), "{reasons:?}");
        // What was acknowledged before can still be read.
        assert!(task::exists(&store, "before").await, "{what}");
    }
}

/// Each kind of planted file at the path of each file: a clear error at once, and nothing is written anywhere.
#[test]
fn a_planted_file_is_refused_and_what_it_leads_to_is_untouched() {
    for file in [
        "lock",
        "longhaul.db",
        "longhaul.db-wal",
        "longhaul.db-shm",
        "longhaul.db-journal",
    ] {
        for (nth, (said, plant)) in PLANTS.into_iter().enumerate() {
            let folder = tempfile::tempdir().unwrap();
            let victim = folder.path().join("victim");
            fs::write(&victim, "precious").unwrap();
            let directory = folder.path().join("data");
            fs::create_dir(&directory).unwrap();
            plant(&directory.join(file), &victim);
            let refused = open(&directory).err().unwrap();
            let SqliteOpenError::Io { path, source, .. } = &refused else {
                panic!("{file}, {nth}: {refused}")
            };
            assert!(Unfit::of(source).is_some(), "{file}, {nth}: {refused}");
            assert!(
                path.ends_with(file) && refused.to_string().contains(said),
                "{nth}: {refused}"
            );
            assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
            assert!(!victim.with_extension("not").exists());
        }
    }
}

#[test]
fn a_directory_of_another_user_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("data");
    fs::create_dir(&directory).unwrap();
    // Only root can give it away.
    if std::os::unix::fs::chown(&directory, Some(4711), None).is_err() {
        return;
    }
    let refused = open(&directory).err().unwrap().to_string();
    assert!(refused.contains("belongs to user 4711"), "{refused}");
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
}

#[test]
fn a_link_above_the_directory_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("var")).unwrap();
    symlink("var", folder.path().join("home")).unwrap();
    drop(open(&folder.path().join("home/data")).unwrap());
    let owner = open(&folder.path().join("var/data")).unwrap();
    let refused = open(&folder.path().join("home/data")).err().unwrap();
    assert!(matches!(refused, SqliteOpenError::InUse { .. }), "{refused}");
    drop(owner);
}

/// A deploy may overlap a little: the next process waits.
#[test]
fn a_directory_that_is_released_in_time_is_opened() {
    let directory = tempfile::tempdir().unwrap();
    let owner = open(directory.path()).unwrap();
    std::thread::scope(|scope| {
        let next = scope.spawn(|| open(directory.path()).map(drop));
        drop(owner);
        next.join().unwrap().unwrap();
    });
}

#[test]
fn other_users_cannot_read_the_directory() {
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
fn unusable_directories_are_refused_with_a_reason() {
    let damaged = tempfile::tempdir().unwrap();
    fs::write(
        damaged.path().join("longhaul.db"),
        "not a database, and long enough to be looked at. ".repeat(100),
    )
    .unwrap();
    let refused = open(damaged.path()).err().unwrap();
    assert!(matches!(refused, SqliteOpenError::Corrupt { .. }), "{refused}");
    assert!(refused.to_string().contains("restore a backup"), "{refused}");

    let newer = tempfile::tempdir().unwrap();
    drop(open(newer.path()).unwrap());
    let raw = rusqlite::Connection::open(newer.path().join("longhaul.db")).unwrap();
    raw.pragma_update(None, "user_version", 99).unwrap();
    drop(raw);
    let refused = open(newer.path()).err().unwrap();
    assert!(
        matches!(refused, SqliteOpenError::NewerSchema { found: 99, .. }),
        "{refused}"
    );
    assert!(refused.to_string().contains("schema version 99"), "{refused}");

    let strange = tempfile::tempdir().unwrap();
    let raw = rusqlite::Connection::open(strange.path().join("longhaul.db")).unwrap();
    raw.execute_batch("CREATE TABLE theirs (x)").unwrap();
    drop(raw);
    let refused = open(strange.path()).err().unwrap();
    assert!(matches!(refused, SqliteOpenError::NotOurs { .. }), "{refused}");

    let file = tempfile::NamedTempFile::new().unwrap();
    let refused = open(file.path()).err().unwrap();
    assert!(matches!(refused, SqliteOpenError::Io { .. }), "{refused}");

    let refused = open(Path::new("")).err().unwrap();
    assert!(matches!(refused, SqliteOpenError::Unnamed), "{refused}");
}
