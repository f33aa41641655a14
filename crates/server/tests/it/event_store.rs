//! Streams whose events are in an event store: a client resumes them in a later process.

use crate::{
    client::Connection,
    request::Post,
    server::{Options, Server},
};
use longhaul_core::{EventLimits, EventStore, EventStream, SessionKey, UnixMillis};
use longhaul_store::{SqliteEventStore, SqliteOptions, SqliteStore};
use serde_json::{Value, json};
use std::{path::Path, sync::Arc};

/// A server on this directory, whose tasks and events outlive it, and its event store.
async fn server(folder: &Path) -> (Server, Arc<dyn EventStore>) {
    let events = SqliteEventStore::open(&folder.join("events"), EventLimits::default()).unwrap();
    let events: Arc<dyn EventStore> = Arc::new(events);
    let server = Server::with(Options {
        store: Arc::new(SqliteStore::open(folder, SqliteOptions::default()).unwrap()),
        events: Some(Arc::clone(&events)),
        ..Options::default()
    });
    (server.await, events)
}

/// Stops a server when its events are on disk: a read waits for what was appended before.
async fn stop(server: Server, events: Arc<dyn EventStore>) {
    let any = EventStream {
        session: SessionKey::named("any"),
        name: "any".into(),
    };
    events.read(&any, UnixMillis(0)).await.unwrap();
    server.stop().await;
}

/// Creates a task that ends at once, and waits for its end.
async fn task(server: &Server, session: &str) -> String {
    let task = server.legacy_task(session, "say").await;
    server.poll(&task, "completed").await;
    task
}

/// Reads a stream until it says that the task has completed.
async fn until_completed(stream: &mut Connection, task: &str) {
    loop {
        let news = stream.message().await.unwrap();
        if news["params"]["taskId"] == task && news["params"]["status"] == "completed" {
            return;
        }
    }
}

/// Opening a store blocks until its last owner closes it.
#[tokio::test(flavor = "multi_thread")]
async fn a_push_stream_goes_on_in_the_next_process() {
    let folder = tempfile::tempdir().unwrap();
    let (before, events) = server(folder.path()).await;
    let session = before.session().await;
    let mut push = before.listen(&session).await;
    let seen = task(&before, &session).await;
    until_completed(&mut push, &seen).await;
    let last = push.last_event_id.take().unwrap();
    drop(push);
    // It is sent while nobody reads. A second reader shows that it was written.
    let missed = task(&before, &session).await;
    until_completed(&mut before.resume(&session, &last).await, &missed).await;
    stop(before, events).await;

    let (after, later_events) = server(folder.path()).await;
    let stranger = after.session().await;
    let mut others = after.resume(&stranger, &last).await;
    let theirs = task(&after, &stranger).await;
    let first = others.message().await.unwrap();
    assert_eq!(first["params"]["taskId"], theirs.as_str(), "nothing of another session");
    let mut push = after.resume(&session, &last).await;
    until_completed(&mut push, &missed).await;
    let next = task(&after, &session).await;
    until_completed(&mut push, &next).await;
    let number = |id: &str| id.rsplit_once('.').unwrap().1.parse::<u64>().unwrap();
    let latest = push.last_event_id.take().unwrap();
    assert!(number(&latest) > number(&last), "{latest} comes after {last}");
    drop(push);
    // The stream has the same name in both processes, so any of its ids is good for it.
    until_completed(&mut after.resume(&session, &last).await, &next).await;
    stop(after, later_events).await;
}

/// Opening a store blocks until its last owner closes it.
#[tokio::test(flavor = "multi_thread")]
async fn the_response_of_a_call_is_read_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (before, events) = server(folder.path()).await;
    let session = before.session().await;
    let call = Post::legacy_call(Some(&session), "optional", "report 1 2").progress_token(json!("p"));
    let mut client = before.stream(&call).await;
    assert_eq!(client.message().await.unwrap()["params"]["progress"], 1);
    let last = client.last_event_id.take().unwrap();
    drop(client);
    before.stage.released.count();
    before.stage.released.count();
    let read = before.resume(&session, &last).await.messages(&call).await;
    stop(before, events).await;

    let (after, later_events) = server(folder.path()).await;
    let mut client = after.resume(&session, &last).await;
    let rest: Vec<Value> = client.messages(&call).await;
    assert_eq!(rest, read);
    assert_eq!(rest.last().unwrap()["result"]["content"][0]["text"], "done");
    let end = client.last_event_id.take().unwrap();
    let more = after.resume(&session, &end).await.messages(&call).await;
    let reason = &more[0]["error"]["data"]["reason"];
    assert_eq!(reason, "interrupted", "nothing more is kept");
    assert_eq!(after.delete(&session).await, 204);
    stop(after, later_events).await;

    // The session is gone, and so is what was kept for it.
    let file = folder.path().join("events/events.db");
    let kept = rusqlite::Connection::open(file).unwrap();
    let events = kept.query_row("SELECT count(*) FROM event", [], |row| row.get::<_, i64>(0));
    assert_eq!(events.unwrap(), 0);
}

/// Opening a store blocks until its last owner closes it.
#[tokio::test(flavor = "multi_thread")]
async fn without_an_event_store_a_push_stream_opens_anew_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let before = Server::on_disk(folder.path()).await;
    let session = before.session().await;
    let mut push = before.listen(&session).await;
    let seen = task(&before, &session).await;
    until_completed(&mut push, &seen).await;
    let last = push.last_event_id.take().unwrap();
    before.stop().await;
    let after = Server::on_disk(folder.path()).await;
    let mut push = after.resume(&session, &last).await;
    let next = task(&after, &session).await;
    until_completed(&mut push, &next).await;
}
