//! Another process that writes, such as a shell somebody has left open.

use crate::task::{block_on, create, exists, open};
use futures_util::future::{join_all, poll_immediate};
use longhaul_core::store::StoreError;
use longhaul_store::{OpenError, SqliteOptions, SqliteStore};
use rusqlite::Connection;
use std::pin::pin;

/// Each of so many changes alone would wait for as long as SQLite waits, one after the other.
const CROWD: usize = 60;

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
            let crowd = (0..CROWD).map(async |nth| create(&store, &name(nth), node, 10).await);
            for refused in join_all(crowd).await {
                assert_eq!(refused.err(), Some(StoreError::Locked));
            }
            assert!(exists(&store, "before").await, "reading goes on");
            // Whoever comes in time is not refused.
            let waits = format!("waits-{round}");
            let mut waiting = pin!(create(&store, &waits, node, 10));
            assert!(poll_immediate(&mut waiting).await.is_none());
            shell.execute_batch("ROLLBACK").unwrap();
            waiting.await.unwrap();
            for nth in 0..CROWD {
                assert!(!exists(&store, &name(nth)).await, "what was refused was not made");
            }
            create(&store, &format!("after-{round}"), node, 10).await.unwrap();
        }
        drop(store);
    });
}

/// A start that has nothing to write on the way is none of its business; one that has is told.
#[test]
fn a_start_that_has_to_write_says_who_is_in_the_way() {
    let directory = tempfile::tempdir().unwrap();
    let open = || SqliteStore::open(directory.path(), SqliteOptions::default());
    drop(open().unwrap());
    let shell = Connection::open(directory.path().join("longhaul.db")).unwrap();
    shell.execute_batch("BEGIN IMMEDIATE").unwrap();
    drop(open().unwrap());
    // Statistics that somebody took are removed at each start.
    shell.execute_batch("COMMIT; ANALYZE; BEGIN IMMEDIATE").unwrap();
    let refused = open().err().unwrap();
    assert!(matches!(refused, OpenError::Locked { .. }), "{refused}");
    shell.execute_batch("ROLLBACK").unwrap();
    drop(open().unwrap());
}
