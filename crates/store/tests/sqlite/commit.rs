//! Nothing is acknowledged before it is committed; and what happens when a commit fails.

use crate::task::{create, exists, finish, open};
use longhaul_core::{
    Store, TaskId, UnixMillis,
    store::{LeaseStore, QueueStore, SearchStore, StoreError, StoreEvent, TaskStore},
};
use longhaul_store::{SqliteOptions, sqlite::InjectedFault};
use rusqlite::{Connection, OpenFlags};
use std::{
    path::Path,
    sync::{Arc, Mutex},
};

/// Creates tasks, and asks after each acknowledgement, over a connection of its own, whether the task is
/// there. Returns how many were acknowledged too early. Events are checked in the same way.
async fn acknowledged_too_early(plant: Option<InjectedFault>) -> usize {
    let directory = tempfile::tempdir().unwrap();
    let options = SqliteOptions {
        injected_fault: plant,
        ..SqliteOptions::default()
    };
    let (store, node) = open(directory.path(), options).await;
    let observer = observer(directory.path());
    let hinted_too_early = Arc::new(Mutex::new(Vec::new()));
    let (found, other) = (hinted_too_early.clone(), Mutex::new(self::observer(directory.path())));
    store.listen(Arc::new(move |events: &[StoreEvent]| {
        let observer = other.lock().unwrap();
        let early = events.iter().filter(|event| match event {
            StoreEvent::TaskChanged(hint) => version(&observer, &hint.task) < Some(hint.version as i64),
            _ => false,
        });
        found.lock().unwrap().extend(early.cloned());
    }));
    let mut early = 0;
    for n in 0..100 {
        let task = create(&store, &format!("t{n:03}"), node, 10).await.unwrap();
        early += usize::from(version(&observer, &task.id).is_none());
    }
    drop(store);
    assert_eq!(
        *hinted_too_early.lock().unwrap(),
        [],
        "hints come after the commit, whatever is planted"
    );
    early
}

fn observer(directory: &Path) -> Connection {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(directory.join("longhaul.db"), flags).unwrap()
}

fn version(observer: &Connection, id: &TaskId) -> Option<i64> {
    let mut statement = observer
        .prepare_cached("SELECT version FROM tasks WHERE id = ?")
        .unwrap();
    statement.query_row([id.as_str()], |row| row.get(0)).ok()
}

#[tokio::test]
async fn invariant_1_nothing_is_acknowledged_before_it_is_committed() {
    assert_eq!(acknowledged_too_early(None).await, 0);
}

/// Changes that are sent together share commits.
#[tokio::test]
async fn commits_and_the_changes_in_them_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    let (store, node) = open(directory.path(), SqliteOptions::default()).await;
    let before = store.commit_counts();
    let created = (0..50).map(async |n| create(&store, &format!("t{n}"), node, 10).await.unwrap());
    futures_util::future::join_all(created).await;
    let after = store.commit_counts();
    let (commits, changes) = (after.commits - before.commits, after.changes - before.changes);
    assert_eq!(changes, 50);
    assert!((1..50).contains(&commits), "{commits}");
}

/// Proves that the test above can fail.
#[tokio::test]
async fn invariant_1_a_planted_early_acknowledgement_is_seen() {
    assert_ne!(
        acknowledged_too_early(Some(InjectedFault::AcknowledgeBeforeCommit)).await,
        0
    );
}

/// A failed commit acknowledges nothing, nor does any later one, and `on_fatal` is called.
#[test]
fn a_failed_commit_acknowledges_nothing_and_is_fatal() {
    crate::task::block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let reasons = Arc::new(Mutex::new(Vec::new()));
        let fatal_reasons = reasons.clone();
        let options = SqliteOptions {
            on_fatal: Arc::new(move |reason| fatal_reasons.lock().unwrap().push(reason.to_owned())),
            injected_fault: Some(InjectedFault::CommitFailsAfter(8)),
            ..SqliteOptions::default()
        };
        let (store, node) = open(directory.path(), options).await;
        let mut running = tokio::task::JoinSet::new();
        for worker in 0..16 {
            let store = store.clone();
            running.spawn(async move {
                let mut acknowledged = Vec::new();
                for n in 0..1_000 {
                    let name = format!("w{worker}-{n}");
                    match create(&store, &name, node, 10).await {
                        Ok(_) => acknowledged.push(name),
                        Err(error) => return (acknowledged, error),
                    }
                }
                panic!("the commit should have failed long ago");
            });
        }
        let ends = running.join_all().await;
        assert_eq!(reasons.lock().unwrap().len(), 1, "called once");
        assert!(reasons.lock().unwrap()[0].contains("commit failed"));
        for (_, error) in &ends {
            assert!(
                matches!(error, StoreError::OutcomeUnknown(_) | StoreError::Closed),
                "{error:?}"
            );
        }
        // A change that is sent while the writer stops may get the answer "unknown"; from then on the store is closed.
        while create(&store, "later", node, 1).await != Err(StoreError::Closed) {}
        let spec = store
            .spec(&longhaul_core::SpecId::named("spec"))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(store.put_spec(spec).await, Err(StoreError::Closed));
        drop(store);
        let (store, _) = open(directory.path(), SqliteOptions::default()).await;
        let mut kept = 0;
        for name in ends.iter().flat_map(|(acknowledged, _)| acknowledged) {
            assert!(exists(&store, name).await, "{name} was acknowledged");
            kept += 1;
        }
        let page = store
            .list(
                &longhaul_core::Scope::of(longhaul_core::Principal::local()),
                None,
                100_000,
            )
            .await
            .unwrap();
        assert_eq!(page.tasks.len(), kept, "and what was not acknowledged is not there");
    });
}

/// A refusal in the middle of a batch does not affect the others.
#[tokio::test]
async fn one_refused_change_does_not_fail_others() {
    let directory = tempfile::tempdir().unwrap();
    let (store, node) = open(directory.path(), SqliteOptions::default()).await;
    create(&store, "taken", node, 1).await.unwrap();
    let names = ["a", "taken", "b", "taken", "c"];
    let all = names.map(|name| create(&store, name, node, 1));
    let [a, again, b, once_more, c] = all;
    let (a, again, b, once_more, c) = tokio::join!(a, again, b, once_more, c);
    assert!(a.is_ok() && b.is_ok() && c.is_ok());
    assert!(again.is_err() && once_more.is_err());
    for name in ["a", "b", "c"] {
        assert!(exists(&store, name).await);
    }
}

/// A change is made whether or not someone still waits for its answer.
#[tokio::test]
async fn a_caller_that_stops_waiting_does_not_affect_others() {
    let directory = tempfile::tempdir().unwrap();
    let (store, node) = open(directory.path(), SqliteOptions::default()).await;
    let task = create(&store, "a", node, 1).await.unwrap();
    {
        let forgotten = finish(&store, &task);
        let mut forgotten = std::pin::pin!(forgotten);
        std::future::poll_fn(|context| {
            let _ = forgotten.as_mut().poll(context);
            std::task::Poll::Ready(())
        })
        .await;
    }
    // Queued behind the abandoned change, so when this is answered, that one is done.
    store
        .open_node(&longhaul_core::HostId("here".into()).into(), UnixMillis(1))
        .await
        .unwrap();
    assert!(store.get_unscoped(&task.id).await.unwrap().unwrap().task.is_done());
}
