//! Notifications to a session: progress, log messages, statuses, changes.

use super::{Client, RELATED, form, next, next_status, result};
use crate::{client::Connection, offers::resource, request::Post};
use serde_json::{Value, json};

/// The creating call's token, rising, on any stream of its session; never for another session.
#[tokio::test]
async fn progress_goes_on_after_the_task_was_created() {
    let (client, mut push, task) = Client::listening(form(), "report 1 2 2 3").await;
    let figure = async |stream: &mut Connection, figure: u64| {
        let news = next(stream, "notifications/progress").await;
        assert_eq!(news["params"]["progress"], figure, "{news}");
        assert_eq!(news["params"]["progressToken"], "p-1");
        assert_eq!(news["params"]["_meta"][RELATED]["taskId"], task.as_str());
        client.server.stage.released.count();
    };
    figure(&mut push, 1).await;
    let stranger = client.another(json!({})).await;
    let (post, mut strange) = stranger.wait(&task).await;
    figure(&mut push, 2).await;
    // The second 2 is not sent.
    let (_, mut stream) = client.wait(&task).await;
    client.server.stage.released.count();
    figure(&mut stream, 3).await;
    assert_eq!(result(&mut stream, &post).await, "done");
    assert_eq!(result(&mut strange, &post).await, "done");
}

/// A cancelled wait no longer carries messages; they go to the push stream again.
#[tokio::test]
async fn the_push_stream_carries_again_when_a_wait_is_over() {
    let (client, mut push, task) = Client::listening(json!({}), "report 1 2").await;
    assert_eq!(next(&mut push, "notifications/progress").await["params"]["progress"], 1);
    let (_, mut stream) = client.wait(&task).await;
    let id = json!({"requestId": "wait"});
    let cancelled = Post::legacy(Some(&client.session), "notifications/cancelled", id);
    client.server.accepted(&cancelled.without_id()).await;
    assert_eq!(stream.message().await, None);
    client.server.stage.released.count();
    assert_eq!(next(&mut push, "notifications/progress").await["params"]["progress"], 2);
}

/// From the level on that the session has set, tied to the task.
#[tokio::test]
async fn log_messages_are_sent_from_the_level_on_that_a_session_has_set() {
    let (client, mut push, task) = Client::listening(json!({}), "log 3").await;
    let heard = async |stream: &mut Connection, nth: u64, level: &str| {
        let log = next(stream, "notifications/message").await;
        assert_eq!(log["params"]["level"], level, "{log}");
        assert_eq!(log["params"]["data"]["nth"], nth, "{log}");
        assert_eq!(log["params"]["_meta"][RELATED]["taskId"], task.as_str());
    };
    let set = async |level: Value| {
        let post = Post::legacy(Some(&client.session), "logging/setLevel", json!({"level": level}));
        client.server.exchange(&post).await
    };
    // Whoever gets the messages of the task gets its log.
    next(&mut push, "notifications/tasks/status").await;
    client.server.stage.released.count();
    heard(&mut push, 1, "info").await;
    heard(&mut push, 1, "error").await;
    assert_eq!(set(json!("error")).await.json()["result"], json!({}));
    assert_eq!(set(json!("loud")).await.error(), (200, -32602));
    client.server.stage.released.count();
    heard(&mut push, 2, "error").await;
    assert_eq!(set(json!("debug")).await.json()["result"], json!({}));
    let (_, mut stream) = client.wait(&task).await;
    client.server.stage.released.count();
    for level in ["debug", "info", "error"] {
        heard(&mut stream, 3, level).await;
    }
}

/// Not every change, but the last one always; and nothing for tasks of others.
#[tokio::test]
async fn statuses_are_sent_while_a_push_stream_is_open() {
    let client = Client::with(json!({})).await;
    let mut push = client.listen().await;
    let other = client.another(json!({})).await;
    other.create("status other").await;
    let task = client.create("status hello").await;
    let news = next(&mut push, "notifications/tasks/status").await;
    assert_eq!(news["params"]["taskId"], task.as_str());
    assert_eq!(news["params"]["statusMessage"], "hello");
    client.server.stage.released.count();
    assert_eq!(next_status(&mut push, &task).await, "completed");
    let failed = client.create("refuse").await;
    assert_eq!(next_status(&mut push, &failed).await, "failed");
}

/// Lists that change and resources that are watched.
#[tokio::test]
async fn changes_of_lists_and_resources_are_sent_on_a_push_stream() {
    let client = Client::with(json!({})).await;
    let server = &client.server;
    let capabilities = server.result(&Post::initialize("2025-11-25")).await["capabilities"].clone();
    assert_eq!(capabilities["tools"], json!({"listChanged": true}));
    let resources = json!({"listChanged": true, "subscribe": true});
    assert_eq!(capabilities["resources"], resources);
    assert_eq!(capabilities["logging"], json!({}));
    let about = |method: &str, uri: &str| Post::legacy(Some(&client.session), method, json!({"uri": uri}));
    let catalog = server.engine.catalog();
    let (longest, too_long) = ("u".repeat(2048), "u".repeat(2049));
    for uri in ["test://watched", "test://dropped", "test://other", &longest, &too_long] {
        catalog.put_resource(resource(uri));
    }
    for uri in ["test://watched", "test://dropped"] {
        assert_eq!(server.result(&about("resources/subscribe", uri)).await, json!({}));
    }
    let unsubscribe = about("resources/unsubscribe", "test://dropped");
    assert_eq!(server.result(&unsubscribe).await, json!({}));
    let refused = server.exchange(&about("resources/subscribe", &too_long)).await;
    assert_eq!(refused.error(), (200, -32602));
    let message = refused.json()["error"]["message"].to_string();
    assert!(message.contains("at most 2048"), "{message}");
    server.result(&about("resources/subscribe", &longest)).await;
    let mut push = client.listen().await;
    for uri in ["test://other", "test://dropped", "test://watched"] {
        catalog.resource_updated(uri);
    }
    let updated = push.pushed().await;
    assert_eq!(updated["method"], "notifications/resources/updated");
    assert_eq!(updated["params"]["uri"], "test://watched");
    assert!(server.engine.remove_tool("never"));
    assert_eq!(push.pushed().await["method"], "notifications/tools/list_changed");
}
