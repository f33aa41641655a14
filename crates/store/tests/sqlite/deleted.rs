//! Deletion leaves nothing behind.

use crate::task::{create, finish, journal, open};
use longhaul_core::{Event, InputKey, Json, NodeId, Store, UnixMillis, store::Change};
use longhaul_store::{SqliteOptions, SqliteStore};
use rusqlite::Connection;
use std::path::Path;

const FAR: UnixMillis = UnixMillis(1 << 50);

fn number(directory: &Path, sql: &str) -> i64 {
    let observer = Connection::open(directory.join("longhaul.db")).unwrap();
    observer.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Fifty tasks with arguments, a question, its answer, a journal and an outcome.
async fn fill(store: &SqliteStore, node: NodeId, round: usize) {
    for n in 0..50 {
        let task = create(store, &format!("r{round}-{n}"), node, 20_000).await.unwrap();
        let key = InputKey::nth(1);
        let events = vec![
            Event::InputRequested {
                key: key.clone(),
                name: None,
                request: Json::trusted("{}"),
            },
            Event::InputAnswered {
                key,
                answer: Json::trusted("{}"),
            },
        ];
        let fence = task.active_attempt().map(|attempt| attempt.fence());
        store
            .apply(Change {
                task: task.id.clone(),
                fence,
                events,
                at: UnixMillis(1_500),
                number: None,
                can_wait: false,
            })
            .await
            .unwrap();
        for seq in 1..4 {
            journal(store, &task, seq, 1_000 * seq as usize).await.unwrap();
        }
        finish(store, &task).await.unwrap();
    }
}

/// No row of a deleted task stays, and its pages are reused, so the file does not grow with deleted tasks.
#[tokio::test]
async fn deleted_tasks_leave_no_rows_and_their_pages_are_used_again() {
    let directory = tempfile::tempdir().unwrap();
    let (store, node) = open(directory.path(), SqliteOptions::default()).await;
    let mut pages = Vec::new();
    for round in 0..6 {
        fill(&store, node, round).await;
        pages.push(number(directory.path(), "PRAGMA page_count"));
        loop {
            let expired = store.expired(FAR, 7).await.unwrap();
            if expired.is_empty() {
                break;
            }
            store
                .delete(&longhaul_core::HostId("here".into()), expired, FAR)
                .await
                .unwrap();
        }
        for table in ["tasks", "arguments", "outcomes", "inputs", "journal"] {
            assert_eq!(
                number(directory.path(), &format!("SELECT count(*) FROM {table}")),
                0,
                "{table}"
            );
        }
    }
    let (first, last) = (pages[0], pages[5]);
    assert!(last <= first + first / 10, "{pages:?}");
}
