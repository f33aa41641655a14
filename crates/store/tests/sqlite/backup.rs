//! A copy while work goes on.

use crate::task::{create, exists, finish, open};
use longhaul_store::{Disagreement, SqliteOptions, SqliteStore};
use std::{fs, os::unix::fs::PermissionsExt};

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
