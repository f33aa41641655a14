//! What a node learns of the changes of others.

use crate::{
    server::{Schema, Server},
    tasks::{id, new_task, open_node},
};
use longhaul_core::{
    NodeId, Store,
    store::{LeaseStore, StoreEvent, StoreListener, TaskStore},
};
use longhaul_store_postgres::PostgresStore;
use std::{sync::Arc, time::Duration};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// What a store tells from now on.
pub(crate) fn listen(store: &PostgresStore) -> UnboundedReceiver<StoreEvent> {
    let (tell, told) = unbounded_channel();
    let listener: StoreListener = Arc::new(move |events: &[StoreEvent]| {
        events.iter().for_each(|event| drop(tell.send(event.clone())));
    });
    store.listen(listener);
    told
}

pub(crate) async fn until(
    told: &mut UnboundedReceiver<StoreEvent>,
    is_wanted: impl Fn(&StoreEvent) -> bool,
) -> StoreEvent {
    loop {
        let event = told.recv().await.unwrap();
        if is_wanted(&event) {
            return event;
        }
    }
}

/// A node may listen a little after it was opened: changes until one is told.
async fn until_it_listens(at: &PostgresStore, node: NodeId, told: &mut UnboundedReceiver<StoreEvent>) {
    let mut nth = 0;
    loop {
        nth += 1;
        at.create(new_task(&format!("first-{nth}"), node)).await.unwrap();
        let heard = tokio::time::timeout(Duration::from_millis(200), told.recv()).await;
        if matches!(heard, Ok(Some(StoreEvent::TaskChanged(_)))) {
            return;
        }
    }
}

pub(crate) fn is_of(event: &StoreEvent, name: &str) -> bool {
    matches!(event, StoreEvent::TaskChanged(hint) if hint.task == id(name))
}

/// Changes at one node are told at the other one, also after its connection for events was lost; then it is first told that it may have missed some.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_reach_other_nodes() {
    // All connections for events there are those of this test.
    let server = Server::private().await;
    let schema = Schema::new(&server);
    let one = schema.open().await;
    let node = open_node(&one, "here").await;
    let other = schema.open().await;
    let mut told = listen(&other);
    until_it_listens(&one, node, &mut told).await;
    let created = one.create(new_task("second", node)).await.unwrap().into_task();
    let event = until(&mut told, |event| is_of(event, "second")).await;
    assert!(matches!(event, StoreEvent::TaskChanged(hint) if hint.version == created.version && hint.ended.is_none()));
    let queue = until(&mut told, |event| matches!(event, StoreEvent::QueueReady { .. })).await;
    assert!(matches!(queue, StoreEvent::QueueReady { tool, .. } if *tool == *"tool"));

    let (client, connection) = tokio_postgres::connect(&schema.address, tokio_postgres::NoTls)
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    let listening = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'longhaul events'";
    assert_eq!(client.query(listening, &[]).await.unwrap().len(), 2);
    until(&mut told, |event| *event == StoreEvent::Resync).await;
    connection.abort();
    one.create(new_task("third", node)).await.unwrap();
    until(&mut told, |event| is_of(event, "third")).await;
}

/// Many events are told as one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_fit_is_told_as_a_resync() {
    let server = Server::find().await;
    let schema = Schema::new(&server);
    let one = schema.open().await;
    let node = open_node(&one, "here").await;
    let other = schema.open().await;
    let mut told = listen(&other);
    until_it_listens(&one, node, &mut told).await;
    let creates = (0..600).map(|nth| one.create(new_task(&format!("task-of-many-{nth:03}"), node)));
    futures_util::future::try_join_all(creates).await.unwrap();
    until(&mut told, |event| *event == StoreEvent::Resync).await;
}

/// Messages reach the process that has opened the node, whatever their length, in their order. Others do not see them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_reach_their_node() {
    let server = Server::find().await;
    let schema = Schema::new(&server);
    let one = schema.open().await;
    let node = open_node(&one, "here").await;
    let other = schema.open().await;
    let there = open_node(&other, "there").await;
    let mut told = listen(&other);
    until_it_listens(&one, node, &mut told).await;
    let texts: Vec<Arc<str>> = [3, 7_900, 20_000, 2, 7_000, 7_000, 100_000, 1]
        .into_iter()
        .map(|length| format!("{length}{}", "\"\u{1}ü".repeat(length / 4)).into())
        .collect();
    for text in &texts {
        one.send(Some(NodeId(there.0 + 1)), Arc::clone(text)).await.unwrap();
        one.send(Some(there), Arc::clone(text)).await.unwrap();
        one.send(None, Arc::clone(text)).await.unwrap();
    }
    for (sent, to) in texts.iter().flat_map(|text| [(text, Some(there)), (text, None)]) {
        let event = until(&mut told, |event| matches!(event, StoreEvent::Message { .. })).await;
        let text = Arc::clone(sent);
        assert_eq!(event, StoreEvent::Message { to, text });
    }
    let mut here = listen(&other);
    other.send(Some(there), "to itself".into()).await.unwrap();
    assert!(matches!(here.recv().await.unwrap(), StoreEvent::Message { to, .. } if to == Some(there)));
}
