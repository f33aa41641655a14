//! Groups of tasks that several nodes work on.

use crate::{
    server::{Schema, Server},
    tasks::{id, new_task, open_node},
};
use longhaul_core::{
    AttemptEnd, CancelMode, ConcurrencyGroup, Event, Json, NodeId, Outcome, TaskId, UnixMillis,
    store::{ApplyError, Change, Claim, Claimed, NewTask, QueueStore, SearchStore, TaskStore},
};
use longhaul_store_postgres::PostgresStore;
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc};
use tokio::task::JoinSet;

/// How many tasks of a group may be in progress, how many groups there are, and how many tasks each node makes.
const LIMIT: usize = 2;
const GROUPS: u8 = 3;
const TASKS: usize = 60;

fn of_group(name: &str, node: NodeId, value: u8) -> NewTask {
    let mut new = new_task(name, node);
    new.header.group = Some(ConcurrencyGroup([value; 32]));
    new
}

async fn claim(store: &PostgresStore, node: NodeId) -> Vec<Claimed> {
    let claim = Claim {
        tool: "tool".into(),
        node,
        host: None,
        limit: 3,
        at: UnixMillis(2),
        rate: None,
    };
    store.claim(claim).await.unwrap()
}

fn end(claimed: &Claimed) -> Change {
    let outcome = Outcome::result(Json::trusted("{}"));
    let event = Event::AttemptEnded(AttemptEnd::Finished(outcome));
    let fence = claimed.task.active_attempt().map(|attempt| attempt.fence());
    Change {
        fence,
        ..Change::of(&claimed.task.id, event, UnixMillis(3))
    }
}

/// Creates, claims, cancels and ends at three nodes, in batches of many groups: no transaction is the victim of another, no group has too many tasks, and none is forgotten.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_together_keep_to_the_limits_of_groups() {
    let server = Server::find().await;
    let schema = Schema::new(&server);
    let stores = [schema.open().await, schema.open().await, schema.open().await].map(Arc::new);
    stores[0].put_limit("tool", None, Some(LIMIT)).await.unwrap();
    let in_progress: Arc<Mutex<BTreeMap<ConcurrencyGroup, usize>>> = Arc::default();
    let mut working = JoinSet::new();
    for (nth, store) in stores.iter().enumerate() {
        let node = open_node(&**store, &format!("host{nth}")).await;
        let creating = Arc::clone(store);
        working.spawn(async move {
            let create = |task: usize| {
                let new = of_group(&format!("t-{nth}-{task}"), node, (task % usize::from(GROUPS)) as u8);
                creating.create(new)
            };
            for batch in 0..TASKS / 6 {
                let created = futures_util::future::join_all((batch * 6..batch * 6 + 6).map(create)).await;
                assert!(created.iter().all(Result::is_ok), "{created:?}");
                // One that waits, most probably, or runs at another node.
                let gone: TaskId = id(&format!("t-{nth}-{}", batch * 6 + 5));
                let cancel = Event::CancelRequested(CancelMode::Cooperative);
                match creating.apply(Change::of(&gone, cancel, UnixMillis(3))).await {
                    Ok(_) | Err(ApplyError::Illegal(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        });
        let (store, in_progress) = (Arc::clone(store), Arc::clone(&in_progress));
        working.spawn(async move {
            let is_over = async || {
                let live = store.counts().await.unwrap();
                let made = store
                    .get_unscoped(&id(&format!("t-{nth}-{}", TASKS - 1)))
                    .await
                    .unwrap();
                made.is_some() && live.queued + live.running == 0
            };
            while !is_over().await {
                let claimed = claim(&store, node).await;
                for Claimed { task, .. } in &claimed {
                    let mut in_progress = in_progress.lock();
                    let count = in_progress.entry(task.group.unwrap()).or_default();
                    *count += 1;
                    assert!(*count <= LIMIT, "{}", task.id);
                }
                tokio::task::yield_now().await;
                let ends = claimed.iter().map(|claimed| {
                    *in_progress.lock().get_mut(&claimed.task.group.unwrap()).unwrap() -= 1;
                    store.apply(end(claimed))
                });
                let ended = futures_util::future::join_all(ends).await;
                assert!(ended.iter().all(Result::is_ok), "{ended:?}");
            }
        });
    }
    while let Some(worked) = working.join_next().await {
        worked.unwrap();
    }
    assert_eq!(
        stores[0].fill_groups().await,
        Ok(0),
        "each end has let in what there was room for"
    );
}

/// A node of an earlier release ends tasks, and does not know that others wait for them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_earlier_release_has_left_waiting_is_let_in() {
    let server = Server::find().await;
    let schema = Schema::new(&server);
    let store = schema.open().await;
    let node = open_node(&store, "here").await;
    store.put_limit("tool", None, Some(1)).await.unwrap();
    for value in 0..4 {
        for nth in 0..3 {
            store
                .create(of_group(&format!("t-{value}-{nth}"), node, value))
                .await
                .unwrap();
        }
    }
    let (session, connection) = tokio_postgres::connect(&schema.address, tokio_postgres::NoTls)
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    let ended = format!(
        "UPDATE {}.tasks SET state = 6, ended_at = 1 WHERE id IN ('t-1-0', 't-2-0')",
        schema.name
    );
    session.batch_execute(&ended).await.unwrap();
    assert_eq!(store.fill_groups().await, Ok(2));
    assert_eq!(store.fill_groups().await, Ok(0));
    let mut claimed: Vec<String> = Vec::new();
    loop {
        let more = claim(&store, node).await;
        if more.is_empty() {
            break;
        }
        claimed.extend(more.iter().map(|claimed| claimed.task.id.to_string()));
    }
    claimed.sort();
    assert_eq!(claimed, ["t-0-0", "t-1-1", "t-2-1", "t-3-0"]);
    connection.abort();
}
