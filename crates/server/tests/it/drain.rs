//! The end of a server: streams end, waits end, tasks do not.

use crate::{
    client::Connection,
    clock::{TestClock, until},
    other_nodes::node_of,
    request::Post,
    server::{Options, Server, get},
};
use longhaul_core::Store;
use longhaul_store::MemoryStore;
use serde_json::json;
use std::{sync::Arc, time::Duration};

#[tokio::test]
async fn everything_open_ends_when_the_server_is_asked_to_stop() {
    let store = Arc::new(MemoryStore::default());
    let server = Server::with(Options::with_store(Arc::clone(&store) as _)).await;
    let session = server.session().await;
    let done = server.legacy_task(&session, "say").await;
    server.poll(&done, "completed").await;
    let task = server.legacy_task(&session, "wait").await;

    let result = Post::on_task(&session, "tasks/result", &task);
    let call = Post::plain_call("optional", "report 1").progress_token(json!(1));
    let (mut idle, mut used) = (server.connect().await, server.connect().await);
    used.result(&get(&done)).await;
    let mut stream = server.stream(&result).await;
    stream.first_id().await;
    let mut held = server.send(&result.json_only()).await;
    let mut calling = server.send(&Post::plain_call("optional", "wait")).await;
    let mut telling = server.stream(&call).await;
    server.stage.begun.reaches(4).await;

    let stopped = server.stop();
    let seen = async {
        // An error would read as the task's own end.
        assert_eq!(stream.event().await, None, "no response");
        assert_eq!(held.reply().await.error(), (503, -32603));
        let called = calling.reply().await;
        assert_eq!(called.error(), (500, -32603), "with 503 clients make the call again");
        assert!(called.body.contains("may have run"), "{}", called.body);
        let messages = telling.messages(&call).await;
        assert_eq!(messages.last().unwrap()["error"]["code"], -32603);
        assert_eq!((idle.read_to_close().await, used.read_to_close().await), (0, 0));
    };
    tokio::join!(stopped, seen);

    let server = Server::with(Options::with_store(store)).await;
    assert_eq!(server.result(&get(&done)).await["status"], "completed");
    let failed = server.poll(&task, "failed").await;
    let message = failed["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("interrupted"), "{failed}");
}

#[tokio::test]
async fn a_connection_that_does_not_finish_in_time_is_dropped() {
    let server = Server::start().await;
    let mut half_a_head = server.connect().await;
    half_a_head.send(b"POST /mcp HTTP/1.1\r\nHost: loc").await;
    let mut half_a_body = server.connect().await;
    let whole = Post::ping(None).to_bytes();
    half_a_body.send(&whole[..whole.len() - 5]).await;
    // Both have been read: a later connection is answered.
    server.result(&Post::ping(None)).await;
    tokio::time::pause();
    server.stop().await;
}

/// Lets an engine begin a drain that no test waits for.
fn drain(server: &Server) {
    let engine = server.engine.clone();
    let drain = async move { engine.drain(Duration::from_secs(3_600)).await };
    server.engine.spawn(drain);
}

/// A server that runs one call at a time.
async fn one_at_a_time(store: &Arc<dyn Store>) -> Server {
    let mut options = Options::with_store(Arc::clone(store));
    options.max_running = Some(1);
    Server::with(options).await
}

/// A call that runs, and one that is queued behind it.
async fn running_and_queued(server: &Server) -> (Connection, Connection) {
    let plain = Post::plain_call("never", "wait");
    let (running, queued) = (server.begin(&plain).await, server.send(&plain).await);
    until(async || server.engine.store().counts().await.unwrap().queued > 0).await;
    (running, queued)
}

/// It may be repeated, since it is not left for the next start.
#[tokio::test]
async fn a_server_that_stops_at_once_refuses_plain_calls_that_have_not_begun() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let server = one_at_a_time(&store).await;
    let (mut running, mut queued) = running_and_queued(&server).await;
    let (stage, store) = (server.stage.clone(), Arc::clone(server.engine.store()));
    let seen = async {
        let refused = queued.reply().await;
        assert_eq!(refused.error(), (503, -32603));
        assert!(refused.body.contains("was not started"), "{}", refused.body);
        stage.released.count();
        assert_eq!(running.reply().await.status(), 200);
    };
    tokio::join!(server.stop(), seen);
    assert_eq!(stage.begun.get(), 1);
    assert_eq!(store.counts().await.unwrap().queued, 0);
}

/// A caller that repeats a refused call must not run it twice: nothing of it is left for the next start.
#[tokio::test]
async fn a_drain_refuses_plain_calls_that_have_not_begun() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let server = one_at_a_time(&store).await;
    let (mut running, mut queued) = running_and_queued(&server).await;
    drain(&server);
    let late = server.exchange(&Post::plain_call("never", "wait")).await;
    for reply in [queued.reply().await, late] {
        assert_eq!(reply.error(), (503, -32603));
        assert_eq!(reply.head.header("retry-after"), Some("5"));
        assert!(reply.body.contains("was not started"), "{}", reply.body);
    }
    // It may be a task, which the next start runs.
    let task = server.task(&Post::call("after_an_hour", "say")).await;
    server.stage.released.count();
    assert_eq!(running.reply().await.status(), 200);
    server.stop().await;

    let server = one_at_a_time(&store).await;
    server.poll(&task, "completed").await;
    server.result(&Post::plain_call("never", "say")).await;
    assert_eq!(server.stage.begun.get(), 2, "the task and the last call");
}

#[tokio::test]
async fn a_plain_call_at_a_server_that_drains_is_run_by_another_one() {
    let clock = TestClock::default();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::of_many_nodes(Arc::new(clock.clone()), 15_000));
    let here = node_of(&store, &clock, "here").await;
    let there = node_of(&store, &clock, "there").await;
    drain(&here);
    here.engine.drain_begun().await;
    here.result(&Post::plain_call("never", "say")).await;
    assert_eq!((here.stage.begun.get(), there.stage.begun.get()), (0, 1));
}
