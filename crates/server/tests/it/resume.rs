//! Legacy streams beside requests and beyond connections: GET streams, event ids, resumption.

use crate::{
    client::{Connection, Event},
    offers::resource,
    request::Post,
    server::{Server, other, text},
};
use serde_json::json;
use std::{collections::BTreeSet, time::Duration};

async fn refused(server: &Server, session: &str, last_event: Option<&str>) -> (u16, i64) {
    server.get(session, last_event).await.reply().await.error()
}

/// A call whose stream has begun: each figure waits to be released.
async fn begin(server: &Server, session: &str, figures: &str) -> (Post, Connection) {
    let call = Post::legacy_call(Some(session), "optional", &format!("report {figures}"));
    let call = call.progress_token(json!("p"));
    let client = server.stream(&call).await;
    (call, client)
}

/// An answer outlives its connection, wherever that is cut, and each message comes once.
#[tokio::test]
async fn a_call_goes_on_when_its_connection_closes_and_its_stream_is_resumed() {
    let (server, session) = Server::with_session().await;
    let (call, mut client) = begin(&server, &session, "1 2 3").await;
    assert_eq!(client.event().await, Some(Event::Prime));
    for figure in [1, 2, 3] {
        let last = client.last_event_id.take().unwrap();
        drop(client);
        client = server.resume(&session, &last).await;
        let news = client.message().await.unwrap();
        assert_eq!(news["params"]["progress"], json!(figure), "{news}");
        server.stage.released.count();
    }
    let last = client.last_event_id.take().unwrap();
    drop(client);
    server.stage.finished.reaches(1).await;
    let mut client = server.resume(&session, &last).await;
    let result = client.only_result(&call).await;
    assert_eq!(text(&result), "done");
    // The end can be read again, and after it there is nothing.
    let mut again = server.resume(&session, &last).await;
    assert_eq!(again.only_result(&call).await, result);
    let end = again.last_event_id.unwrap();
    assert_eq!(server.resume(&session, &end).await.event().await, None);
}

/// The connection of a silent call is closed, also if the call has sent nothing at all.
#[tokio::test]
async fn a_silent_call_closes_its_stream_until_it_is_resumed() {
    let (server, session) = Server::with_session().await;
    let call = Post::legacy_call(Some(&session), "optional", "close_stream");
    let mut client = server.stream(&call).await;
    // Closed before the response.
    assert_eq!(client.messages(&call).await, [json!(null); 0]);
    let last = client.last_event_id.take().unwrap();
    server.stage.released.count();
    let result = server.resume(&session, &last).await.only_result(&call).await;
    assert_eq!(text(&result), "done");
    // A modern stream cannot be resumed, so it is not left.
    let plain = Post::plain_call("optional", "close_stream");
    assert_eq!(text(&server.result(&plain).await), "done");
}

/// Whoever waits for a call that has said nothing can come back, long before the first keep-alive. The clock is paused.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the test is the outside world")]
async fn a_silent_call_has_an_event_id_before_its_first_keep_alive() {
    let (server, session) = Server::with_session().await;
    let call = Post::legacy_call(Some(&session), "optional", "wait");
    let mut client = server.begin(&call).await;
    tokio::time::pause();
    let since = tokio::time::Instant::now();
    client.stream_head().await;
    let last = client.first_id().await;
    assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
    tokio::time::resume();
    drop(client);
    server.stage.released.count();
    let result = server.resume(&session, &last).await.only_result(&call).await;
    assert_eq!(text(&result), "done");
}

/// A second reader continues, and the first reads no more.
#[tokio::test]
async fn a_stream_has_one_reader() {
    let (server, session) = Server::with_session().await;
    let (call, mut first) = begin(&server, &session, "1").await;
    assert!(first.message().await.is_some());
    let last = first.last_event_id.clone().unwrap();
    let mut second = server.resume(&session, &last).await;
    server.stage.released.count();
    assert_eq!(second.messages(&call).await.len(), 1);
    assert_eq!(first.event().await, None);
}

/// Event ids are valid for their session only; a wrong one does not end the session.
#[tokio::test]
async fn an_event_id_opens_nothing_for_another_session_or_when_it_is_made_up() {
    let server = Server::start().await;
    let (session, other) = (server.session().await, server.session().await);
    let (_, mut client) = begin(&server, &session, "1").await;
    let known = client.first_id().await;
    let task = server.legacy_task(&session, "wait").await;
    let waiting = Post::on_task(&session, "tasks/result", &task);
    let mut waiter = server.stream(&waiting).await;
    let sealed = waiter.first_id().await;
    for id in [known.as_str(), &sealed] {
        assert_eq!(refused(&server, &other, Some(id)).await, (400, -32600));
        server.resume(&session, id).await;
    }
    let ahead = known.replace(".0", ".9");
    for id in ["", "x", "x.0", "..", ahead.as_str(), &"A".repeat(5_000)] {
        assert_eq!(refused(&server, &session, Some(id)).await, (400, -32600), "{id}");
    }
    server.result(&Post::ping(Some(&session))).await;
}

/// Messages to a session are kept on its push stream until it is read.
#[tokio::test]
async fn a_push_stream_keeps_messages_while_its_reader_is_away() {
    for _ in 0..5 {
        let server = Server::one_by_one().await;
        let session = server.session().await;
        let call = Post::legacy_task(Some(&session), "optional", "report 1 2 3");
        let task = server.task(&call.progress_token(json!("p"))).await;
        server.engine.catalog().put_resource(resource("test://watched"));
        let watched = Post::legacy(Some(&session), "resources/subscribe", json!({"uri": "test://watched"}));
        server.result(&watched).await;
        let mut last = None;
        for figure in [2, 3] {
            let mut stream = server.open(&session, last.as_deref()).await;
            if last.is_none() {
                assert_eq!(stream.event().await, Some(Event::Prime));
                server.stage.released.count();
            }
            assert_eq!(stream.pushed().await["params"]["progress"], figure);
            last = stream.last_event_id.take();
            drop(stream);
            // The server has noticed the disconnect: it serves the next connection.
            server.result(&Post::ping(Some(&session))).await;
            server.stage.released.count();
        }
        server.poll(&task, "completed").await;
        server.engine.catalog().resource_updated("test://watched");
        assert!(server.engine.remove_tool("never"));
        let mut stream = server.open(&session, last.as_deref()).await;
        let mut heard = BTreeSet::new();
        while heard.len() < 3 {
            let message = stream.pushed().await;
            assert_ne!(message["params"]["status"], "working", "{message}");
            let is_new = heard.insert(message["method"].as_str().unwrap().to_owned());
            assert!(is_new, "{message}");
        }
        let expected = ["resources/updated", "tasks/status", "tools/list_changed"];
        let expected = expected.map(|method| format!("notifications/{method}"));
        assert_eq!(heard, BTreeSet::from(expected));
    }
}

/// A question that came up meanwhile is asked once the stream is read again, and once only.
#[tokio::test]
async fn a_push_stream_that_is_read_again_asks_what_is_open() {
    let server = Server::one_by_one().await;
    let session = server.session_that_can_be_asked().await;
    let mut stream = server.listen(&session).await;
    let last = stream.first_id().await;
    drop(stream);
    let task = server.legacy_task(&session, "ask").await;
    server.poll(&task, "input_required").await;
    let mut stream = server.resume(&session, &last).await;
    let asked = stream.next("elicitation/create").await;
    drop(stream);
    server.answer(&session, &asked, json!({"action": "decline"})).await;
    server.poll(&task, "completed").await;
    let mut stream = server.resume(&session, &last).await;
    let mut questions = 0;
    loop {
        let message = stream.pushed().await;
        questions += u32::from(message["method"] == "elicitation/create");
        if message["params"]["status"] == "completed" {
            break;
        }
    }
    assert_eq!(questions, 1);
}

#[tokio::test]
async fn push_streams_belong_to_a_session_and_end_with_it() {
    let (server, session) = Server::with_session().await;
    let mut streams = [server.listen(&session).await, server.listen(&session).await];
    for stream in &mut streams {
        assert_eq!(stream.event().await, Some(Event::Prime));
    }
    assert_ne!(streams[0].last_event_id, streams[1].last_event_id);
    let accept = format!("Mcp-Session-Id: {session}\r\nAccept: application/json\r\n");
    let mut client = server.connect().await;
    client.send(other("GET", &accept).as_bytes()).await;
    assert_eq!(client.reply().await.status(), 406);
    assert_eq!(server.delete(&session).await, 204);
    for stream in &mut streams {
        assert_eq!(stream.event().await, None);
    }
    assert_eq!(refused(&server, &session, None).await.0, 404);
}

#[tokio::test]
async fn the_streams_of_a_session_are_limited() {
    let (server, session) = Server::with_session().await;
    let mut streams = Vec::new();
    for _ in 0..64 {
        let mut stream = server.listen(&session).await;
        stream.first_id().await;
        streams.push(stream);
    }
    assert_eq!(refused(&server, &session, None).await.0, 429);
    // An answer comes all the same; it can only not be resumed.
    let (call, mut client) = begin(&server, &session, "1").await;
    assert!(client.message().await.is_some());
    assert_eq!(client.last_event_id, None);
    server.stage.released.count();
    assert_eq!(client.messages(&call).await.len(), 1);
    server.listen(&server.session().await).await;
}

/// A client of an earlier revision takes every event without a name for a message, and reads the id of any.
#[tokio::test]
async fn older_sessions_are_told_the_first_event_id_in_a_named_event() {
    let server = Server::start().await;
    let session = server.session_of("2025-06-18").await;
    let call = Post::legacy_call(Some(&session), "optional", "report 1").progress_token(json!("p"));
    let call = call.with("MCP-Protocol-Version", "2025-06-18");
    let mut client = server.stream(&call).await;
    assert_eq!(client.event().await, Some(Event::Named("ready".to_owned())));
    let first = client.last_event_id.take().unwrap();
    drop(client);
    let mut client = server.resume(&session, &first).await;
    assert!(matches!(client.event().await, Some(Event::Message(_))));
    drop(client);
    server.stage.released.count();
    let messages = server.resume(&session, &first).await.messages(&call).await;
    assert_eq!(messages.len(), 2);
}

/// A client whose request is open when it resumes a stream of an earlier process would wait until its own time limit if it were refused.
#[tokio::test(flavor = "multi_thread")]
async fn the_streams_of_an_earlier_process_answer_their_requests() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::on_disk(folder.path()).await;
    let session = server.session().await;
    let (call, mut client) = begin(&server, &session, "1").await;
    assert!(client.message().await.is_some());
    let last = client.last_event_id.take().unwrap();
    // It is told why it ended; this client does not hear that.
    drop(client);
    server.stage.released.count();
    server.stage.finished.reaches(1).await;
    server.stop().await;

    let server = Server::on_disk(folder.path()).await;
    let stranger = server.session().await;
    assert_eq!(refused(&server, &stranger, Some(&last)).await, (400, -32600));
    let mut client = server.resume(&session, &last).await;
    let rest = client.messages(&call).await;
    assert_eq!((rest.len(), &rest[0]["id"]), (1, &call.body["id"]), "{rest:?}");
    assert_eq!(rest[0]["error"]["data"]["reason"], "interrupted");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_for_a_result_is_resumed_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::on_disk(folder.path()).await;
    let session = server.session().await;
    let task = server.legacy_task(&session, "wait").await;
    let waiting = Post::on_task(&session, "tasks/result", &task).id(json!("w\"1"));
    let mut client = server.stream(&waiting).await;
    let last = client.first_id().await;
    server.stop().await;

    let server = Server::on_disk(folder.path()).await;
    let mut client = server.resume(&session, &last).await;
    // The attempt could not be adopted, which is the outcome of the wait.
    let response = client.message().await.unwrap();
    assert_eq!(response["id"], waiting.body["id"]);
    let message = response["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("interrupted"), "{response}");
    assert_ne!(client.last_event_id, Some(last), "the count goes on");
    assert_eq!(client.event().await, None);
}
