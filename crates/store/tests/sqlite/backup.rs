//! A copy while work goes on.

use crate::task::{create, exists, finish, open};
use longhaul_store::{CopyError, DatabaseCopy, Disagreement, SqliteOpenError, SqliteOptions, SqliteStore};
use std::{fs, os::unix::fs::PermissionsExt, path::Path};

/// It opens like any data directory, holds what was acknowledged before it was asked for, and replaces nothing.
#[test]
fn a_backup_taken_under_load_is_a_whole_store() {
    crate::task::block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let (store, node) = open(directory.path(), SqliteOptions::default()).await;
        for n in 0..200 {
            let task = create(&store, &format!("before-{n}"), node, 2_000).await.unwrap();
            finish(&store, &task).await.unwrap();
        }
        let copy = tempfile::tempdir().unwrap();
        let path = copy.path().join("longhaul.db");
        let load = async {
            for n in 0..500 {
                create(&store, &format!("during-{n}"), node, 2_000).await.unwrap();
            }
        };
        let (copied, ()) = tokio::join!(store.backup_to(&path), load);
        copied.unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(store.backup_to(&path).await.is_err(), "a backup is not overwritten");

        // It is recognized as an older state.
        let older = SqliteStore::open(copy.path(), SqliteOptions::default()).unwrap();
        assert_eq!(older.disagreement(), Some(&Disagreement::FileMissing));
        drop(older);
        let options = SqliteOptions {
            accept_restored: true,
            ..SqliteOptions::default()
        };
        let (restored, next) = open(copy.path(), options).await;
        assert!(next > node);
        for n in 0..200 {
            assert!(exists(&restored, &format!("before-{n}")).await);
        }
        assert!(exists(&store, "during-499").await);
    });
}

/// By another process, as far as the store is concerned: it asks nothing of whoever owns the directory.
#[test]
fn a_copy_of_a_directory_in_use_knows_its_tasks_and_leaves_no_other_file() {
    crate::task::block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let (store, node) = open(directory.path(), SqliteOptions::default()).await;
        for n in 0..1_100 {
            let task = create(&store, &format!("task-{n:04}"), node, 2_000).await.unwrap();
            if n % 2 == 0 {
                finish(&store, &task).await.unwrap();
            }
        }
        let target = tempfile::tempdir().unwrap();
        let copy = DatabaseCopy::make(directory.path(), &target.path().join("copy.db")).unwrap();
        assert_eq!(copy.schema_version().unwrap(), DatabaseCopy::SCHEMA_VERSION);
        let (live, ended) = copy.counts().unwrap();
        assert_eq!((live.queued + live.running, ended), (550, 550));
        let mut ids = Vec::new();
        copy.for_each_task(|id| {
            ids.push(id.to_string());
            Ok::<(), CopyError>(())
        })
        .unwrap();
        let expected: Vec<_> = (0..1_100).map(|n| format!("task-{n:04}")).collect();
        assert_eq!(ids, expected);
        drop(copy);
        let left: Vec<_> = fs::read_dir(target.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(left, ["copy.db"]);
        assert!(exists(&store, "task-0000").await);
    });
}

#[test]
fn what_is_no_database_of_ours_is_not_copied() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("copy.db");
    let refused = |data_dir: &Path| {
        let error = DatabaseCopy::make(data_dir, &target).unwrap_err();
        assert!(!target.exists(), "{error}");
        error
    };
    let missing = refused(&directory.path().join("none"));
    assert!(matches!(missing, CopyError::Missing { .. }), "{missing}");
    // As one that others may not enter.
    fs::write(directory.path().join("file"), "").unwrap();
    let unknown = refused(&directory.path().join("file"));
    assert!(matches!(unknown, CopyError::Unknown { .. }), "{unknown}");
    let data = directory.path().join("data");
    fs::create_dir(&data).unwrap();
    assert!(matches!(refused(&data), CopyError::Missing { .. }));
    fs::write(data.join("longhaul.db"), "").unwrap();
    assert!(matches!(refused(&data), CopyError::Missing { .. }));
    fs::write(data.join("longhaul.db"), "not a database at all, by any means").unwrap();
    assert!(matches!(
        refused(&data),
        CopyError::Open(SqliteOpenError::Corrupt { .. })
    ));
    fs::remove_file(data.join("longhaul.db")).unwrap();
    let other = rusqlite::Connection::open(data.join("longhaul.db")).unwrap();
    other
        .execute_batch("CREATE TABLE notes (text TEXT); PRAGMA user_version = 3;")
        .unwrap();
    drop(other);
    assert!(matches!(
        refused(&data),
        CopyError::Open(SqliteOpenError::NotOurs { .. })
    ));
}
