//! Another process that holds a write transaction, such as an open `sqlite3` shell.

use crate::task::{block_on, create, exists, open};
use futures_util::future::{join_all, poll_immediate};
use longhaul_core::store::StoreError;
use longhaul_store::{SqliteOpenError, SqliteOptions, SqliteStore};
use rusqlite::Connection;
use std::pin::pin;

/// So many changes that trying each alone, with SQLite's busy timeout each, would take minutes.
const CHANGES: usize = 60;

#[test]
fn changes_are_refused_together_while_another_process_writes_and_made_when_it_has_done() {
    block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let (store, node) = open(directory.path(), SqliteOptions::default()).await;
        create(&store, "before", node, 10).await.unwrap();
        let shell = Connection::open(directory.path().join("longhaul.db")).unwrap();
        for round in 0..1 {
            shell.execute_batch("BEGIN IMMEDIATE").unwrap();
            let name = |nth| format!("refused-{round}-{nth}");
            let changes = (0..CHANGES).map(async |nth| create(&store, &name(nth), node, 10).await);
            for refused in join_all(changes).await {
                assert_eq!(refused.err(), Some(StoreError::Locked));
            }
            assert!(exists(&store, "before").await, "reading goes on");
            // A change that is sent in time is not refused.
            let waits = format!("waits-{round}");
            let mut waiting = pin!(create(&store, &waits, node, 10));
            assert!(poll_immediate(&mut waiting).await.is_none());
            shell.execute_batch("ROLLBACK").unwrap();
            waiting.await.unwrap();
            for nth in 0..CHANGES {
                assert!(!exists(&store, &name(nth)).await, "what was refused was not made");
            }
            create(&store, &format!("after-{round}"), node, 10).await.unwrap();
        }
        drop(store);
    });
}

/// A start that has nothing to write is not disturbed; one that has fails with an error that names the cause.
#[test]
fn a_start_that_has_to_write_names_the_other_process() {
    let directory = tempfile::tempdir().unwrap();
    let open = || SqliteStore::open(directory.path(), SqliteOptions::default());
    drop(open().unwrap());
    let shell = Connection::open(directory.path().join("longhaul.db")).unwrap();
    shell.execute_batch("BEGIN IMMEDIATE").unwrap();
    drop(open().unwrap());
    // Statistics that somebody took are removed at each start.
    shell.execute_batch("COMMIT; ANALYZE; BEGIN IMMEDIATE").unwrap();
    let refused = open().err().unwrap();
    assert!(matches!(refused, SqliteOpenError::Locked { .. }), "{refused}");
    shell.execute_batch("ROLLBACK").unwrap();
    drop(open().unwrap());
}
