//! Sessions with live tasks are used now and then.

use crate::{
    peer::{Peer, RecordingClock, legacy, modern, plain},
    task::{created, legacy_task, modern_task},
};
use longhaul_client::{CallResponse, Client, TaskHandle};
use longhaul_ledger::ClientJournal;
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// A legacy server whose task ends when `ends` is set. It knows the session until `is_gone` is set.
fn server(ends: &Arc<AtomicBool>, is_gone: &Arc<AtomicBool>) -> Peer {
    let (ends, is_gone) = (Arc::clone(ends), Arc::clone(is_gone));
    legacy(json!({"requests": {"tools": {"call": {}}}}), move |seen| {
        match seen.method() {
            _ if is_gone.load(Ordering::SeqCst) => plain(404, ""),
            "tools/call" => seen.result(json!({"task": legacy_task("working", json!({}))})),
            "tasks/get" if ends.load(Ordering::SeqCst) => seen.result(legacy_task("completed", json!({}))),
            "tasks/get" => seen.result(legacy_task("working", json!({}))),
            "ping" => seen.result(json!({})),
            _ => plain(405, ""),
        }
    })
}

async fn detached(client: &Client) -> TaskHandle {
    let call = client.start("optional", Value::Null).await.unwrap();
    match call.detach().await.unwrap() {
        CallResponse::Task(task) => task,
        CallResponse::Done(outcome) => panic!("{outcome:?}"),
    }
}

/// Ends one pause, and waits until the connection has looked.
async fn look(peer: &Peer, clock: &RecordingClock, pings: usize) {
    let looked = clock.idle_times();
    clock.end_idle_time();
    while clock.idle_times() == looked || peer.calls_of("ping").len() < pings {
        tokio::task::yield_now().await;
    }
    assert_eq!(peer.calls_of("ping").len(), pings);
}

#[tokio::test]
async fn a_session_with_a_live_task_is_pinged_while_nothing_else_is_sent() {
    let (ends, is_gone) = (Arc::default(), Arc::default());
    let peer = server(&ends, &is_gone);
    let directory = tempfile::tempdir().unwrap();
    let journal = ClientJournal::open(&directory.path().join("client/handles.db"))
        .await
        .unwrap();
    let (connection, clock) = peer.connection();
    let client = Client::recorded(connection, journal);
    let task = detached(&client).await;
    look(&peer, &clock, 1).await;
    look(&peer, &clock, 2).await;
    // Something else flows.
    client.connection().list_tools().await.unwrap();
    look(&peer, &clock, 2).await;
    look(&peer, &clock, 3).await;
    let pings = peer.calls_of("ping");
    assert!(
        pings
            .iter()
            .all(|ping| ping.header("mcp-session-id") == Some("session-1"))
    );

    // Nothing is kept warm for a task that has ended.
    ends.store(true, Ordering::SeqCst);
    assert!(task.get().await.unwrap().status.is_final());
    let looked = clock.idle_times();
    clock.end_idle_time();
    while clock.is_idle_time_left() {
        tokio::task::yield_now().await;
    }
    client.connection().list_tools().await.unwrap();
    assert_eq!((clock.idle_times(), peer.calls_of("ping").len()), (looked, 3));
    // Another task begins it anew.
    ends.store(false, Ordering::SeqCst);
    detached(&client).await;
    while clock.idle_times() == looked {
        tokio::task::yield_now().await;
    }
    look(&peer, &clock, 4).await;
}

/// The session of an earlier process is kept warm too, once its task is known here; and a session that is gone is not replaced by a `ping`.
#[tokio::test]
async fn a_resumed_session_is_kept_warm_and_not_opened_anew() {
    let (ends, is_gone) = (Arc::default(), Arc::new(AtomicBool::new(false)));
    let peer = server(&ends, &is_gone);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("client/handles.db");
    let first = Client::recorded(peer.connection().0, ClientJournal::open(&path).await.unwrap());
    detached(&first).await;
    drop(first);

    let (connection, clock) = peer.connection();
    let second = Client::recorded(connection, ClientJournal::open(&path).await.unwrap());
    assert_eq!(second.tasks().await.unwrap().len(), 1);
    while clock.idle_times() == 0 {
        tokio::task::yield_now().await;
    }
    look(&peer, &clock, 1).await;
    assert_eq!(peer.calls_of("ping")[0].header("mcp-session-id"), Some("session-1"));
    is_gone.store(true, Ordering::SeqCst);
    look(&peer, &clock, 2).await;
    assert_eq!(peer.calls_of("initialize").len(), 1);
}

#[tokio::test]
async fn a_modern_server_has_no_session_to_keep_warm() {
    let peer = modern(|seen| match seen.method() {
        "tools/call" => seen.result(created()),
        "tasks/get" => seen.result(modern_task("working", json!({}))),
        _ => plain(404, ""),
    });
    let (connection, clock) = peer.connection();
    let client = Client::new(connection);
    let task = detached(&client).await;
    task.get().await.unwrap();
    assert_eq!(clock.idle_times(), 0);
}
