//! Groups of tasks in a file that something else has written, too.

use crate::task::{id, new_task, open};
use longhaul_core::{
    ConcurrencyGroup, UnixMillis,
    store::{Claim, QueueStore, TaskStore},
};
use longhaul_store::SqliteOptions;
use rusqlite::Connection;

/// Whatever has ended a task without letting in the next one: a start does it.
#[tokio::test]
async fn a_task_that_waits_beside_nobody_is_let_in() {
    let directory = tempfile::tempdir().unwrap();
    let (store, node) = open(directory.path(), SqliteOptions::default()).await;
    store.put_limit("tool", None, Some(1)).await.unwrap();
    for (name, value) in [("a", 1), ("b", 1), ("c", 1), ("d", 2), ("e", 2)] {
        let mut new = new_task(name, node, 10);
        new.header.group = Some(ConcurrencyGroup([value; 32]));
        store.create(new).await.unwrap();
    }
    drop(store);
    let file = Connection::open(directory.path().join("longhaul.db")).unwrap();
    let ended = file.execute(
        "UPDATE tasks SET state = 6, ended_at = 1 WHERE id = ?1",
        [id("a").as_str()],
    );
    assert_eq!(ended, Ok(1));
    drop(file);
    let (store, node) = open(directory.path(), SqliteOptions::default()).await;
    assert_eq!((store.fill_groups().await, store.fill_groups().await), (Ok(1), Ok(0)));
    let claim = Claim {
        tool: "tool".into(),
        node,
        host: None,
        limit: 9,
        at: UnixMillis(5_000),
        rate: None,
    };
    let claimed = store.claim(claim).await.unwrap();
    let claimed: Vec<&str> = claimed.iter().map(|claimed| claimed.task.id.as_str()).collect();
    assert_eq!(claimed, ["b", "d"]);
}
