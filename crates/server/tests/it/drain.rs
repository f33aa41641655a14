//! The end of a server: streams end, waits end, tasks do not.

use crate::{
    client::Event,
    clock::TestClock,
    other_nodes::node_of,
    request::{Post, act, act_as_task},
    server::{Options, Server, get, task_of},
};
use longhaul_core::Store;
use longhaul_store::MemoryStore;
use serde_json::json;
use std::{sync::Arc, time::Duration};

#[tokio::test]
async fn everything_open_ends_when_the_server_is_asked_to_stop() {
    let store = Arc::new(MemoryStore::default());
    let server = Server::with(Options {
        store: Arc::clone(&store) as _,
        ..Options::default()
    })
    .await;
    let session = server.session().await;
    let create = Post::legacy(Some(&session), "tools/call", act_as_task("optional", "say"));
    let done = task_of(&server.result(&create).await);
    server.poll(&done, "completed").await;
    let create = Post::legacy(Some(&session), "tools/call", act_as_task("optional", "wait"));
    let task = task_of(&server.result(&create).await);

    let result = Post::legacy(Some(&session), "tasks/result", json!({"taskId": task}));
    let call = Post::modern_plain("tools/call", act("optional", "report 1")).progress_token(json!(1));
    let (mut idle, mut used) = (server.connect().await, server.connect().await);
    used.result(&get(&done)).await;
    let (mut stream, mut held, mut calling, mut telling) = (
        server.connect().await,
        server.connect().await,
        server.connect().await,
        server.connect().await,
    );
    stream.send(&result.to_bytes()).await;
    stream.head().await;
    assert_eq!(stream.event().await, Some(Event::Prime));
    held.send(&result.clone().with("Accept", "application/json").to_bytes())
        .await;
    calling
        .send(&Post::modern_plain("tools/call", act("optional", "wait")).to_bytes())
        .await;
    telling.send(&call.to_bytes()).await;
    telling.head().await;
    server.stage.begun.reaches(4).await;

    let stopped = server.stop();
    let seen = async {
        assert_eq!(
            stream.event().await,
            None,
            "no response: an error would read as the task's own end"
        );
        assert_eq!(held.reply().await.error(), (503, -32603));
        let called = calling.reply().await;
        assert_eq!(called.error(), (500, -32603), "with 503 clients make the call again");
        assert!(called.body.contains("may have run"), "{}", called.body);
        let messages = telling.messages(&call).await;
        assert_eq!(messages.last().unwrap()["error"]["code"], -32603);
        assert_eq!((idle.read_to_close().await, used.read_to_close().await), (0, 0));
    };
    tokio::join!(stopped, seen);

    let server = Server::with(Options {
        store,
        ..Options::default()
    })
    .await;
    assert_eq!(server.result(&get(&done)).await["status"], "completed");
    let interrupted = server.poll(&task, "failed").await;
    assert!(
        interrupted["error"]["message"]
            .as_str()
            .unwrap()
            .starts_with("interrupted"),
        "{interrupted}"
    );
}

#[tokio::test]
async fn a_connection_that_does_not_finish_in_time_is_dropped() {
    let server = Server::start().await;
    let mut half_a_head = server.connect().await;
    half_a_head.send(b"POST /mcp HTTP/1.1\r\nHost: loc").await;
    let mut half_a_body = server.connect().await;
    let whole = Post::legacy(None, "ping", json!({})).to_bytes();
    half_a_body.send(&whole[..whole.len() - 5]).await;
    // Both have been read: a later connection is answered.
    server.result(&Post::legacy(None, "ping", json!({}))).await;
    tokio::time::pause();
    server.stop().await;
}

/// Lets an engine begin a drain that no test waits for.
fn drain(server: &Server) {
    let engine = server.engine.clone();
    server
        .engine
        .spawn(async move { engine.drain(Duration::from_secs(3_600)).await });
}

/// It may be repeated, since it is not left for the next start.
#[tokio::test]
async fn a_server_that_stops_at_once_refuses_plain_calls_that_have_not_begun() {
    let server = Server::with(Options {
        max_running: Some(1),
        ..Options::default()
    })
    .await;
    let (mut running, mut queued) = (server.connect().await, server.connect().await);
    let waits = Post::modern_plain("tools/call", act("never", "wait"));
    running.send(&waits.to_bytes()).await;
    server.stage.begun.reaches(1).await;
    queued.send(&waits.to_bytes()).await;
    while server.engine.store().counts().await.unwrap().queued < 1 {
        tokio::task::yield_now().await;
    }
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
    let options = || Options {
        store: Arc::clone(&store),
        max_running: Some(1),
        ..Options::default()
    };
    let server = Server::with(options()).await;
    let plain = Post::modern_plain("tools/call", act("never", "wait"));
    let (mut running, mut queued) = (server.connect().await, server.connect().await);
    running.send(&plain.to_bytes()).await;
    server.stage.begun.reaches(1).await;
    queued.send(&plain.to_bytes()).await;
    while server.engine.store().counts().await.unwrap().queued < 1 {
        tokio::task::yield_now().await;
    }
    drain(&server);
    let refused = [queued.reply().await, server.connect().await.exchange(&plain).await];
    for reply in refused {
        assert_eq!(
            (reply.error(), reply.head.header("retry-after")),
            ((503, -32603), Some("5"))
        );
        assert!(reply.body.contains("was not started"), "{}", reply.body);
    }
    // It may be a task, which the next start runs.
    let promoted = server
        .result(&Post::modern("tools/call", act("after_an_hour", "say")))
        .await;
    let task = task_of(&promoted);
    server.stage.released.count();
    assert_eq!(running.reply().await.status(), 200);
    server.stop().await;

    let server = Server::with(options()).await;
    server.poll(&task, "completed").await;
    server
        .result(&Post::modern_plain("tools/call", act("never", "say")))
        .await;
    assert_eq!(server.stage.begun.get(), 2, "the task and the last call");
}

#[tokio::test]
async fn a_plain_call_at_a_server_that_drains_is_run_by_another_one() {
    let clock = TestClock::default();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::of_many_nodes(Arc::new(clock.clone()), 15_000));
    let (here, there) = (
        node_of(&store, &clock, "here").await,
        node_of(&store, &clock, "there").await,
    );
    drain(&here);
    here.engine.drain_begun().await;
    here.result(&Post::modern_plain("tools/call", act("never", "say")))
        .await;
    assert_eq!((here.stage.begun.get(), there.stage.begun.get()), (0, 1));
}
