//! Requests on one connection: eras, ids, cancellation, questions and subscriptions.

use super::{Client, cancelled, discover, ping};
use crate::{
    clock::until,
    request::Post,
    server::{Server, get, text},
};
use serde_json::json;

/// Invariant 7.
#[tokio::test]
async fn both_eras_are_served_on_one_connection_message_by_message() {
    let server = Server::start().await;
    let mut client = Client::connect(&server);
    client.result(&discover()).await;
    client.result(&ping()).await;
    let before = client.answer(&Post::legacy(None, "tools/list", json!({}))).await;
    assert_eq!(before["error"]["code"], -32600, "not initialized: {before}");
    let session = client.result(&Post::initialize("2025-06-18")).await;
    assert_eq!(session["protocolVersion"], "2025-06-18");
    client.result(&ping()).await;
    client.result(&discover()).await;

    // Legacy tasks need their revision. A list here is the whole principal's, whichever era created what.
    let modern = client.task(&Post::call("optional", "say")).await;
    let listing = Post::legacy(None, "tasks/list", json!({}));
    assert_eq!(client.answer(&listing).await["error"]["code"], -32601);
    client.result(&Post::initialize("2025-11-25")).await;
    let legacy = client.task(&Post::legacy_task(None, "optional", "say")).await;
    let listed = client.result(&listing).await;
    let ids = listed["tasks"].as_array().unwrap().iter().map(|task| &task["taskId"]);
    assert_eq!(ids.collect::<Vec<_>>(), [&json!(legacy), &json!(modern)]);
    client.result(&get(&modern)).await;
}

#[tokio::test]
async fn answers_do_not_wait_for_each_other_and_ids_are_not_used_twice_at_once() {
    let server = Server::start().await;
    let mut client = Client::initialized(&server).await;
    let call = Post::legacy_call(None, "optional", "wait").id(json!("slow"));
    client.send_post(&call).await;
    client.result(&ping()).await;
    assert_eq!(client.answer(&call).await["error"]["code"], -32600);
    server.stage.released.count();
    assert_eq!(text(&client.answer_to(&call).await["result"]), "done");
    client.result(&call).await;
}

/// Also when the cancellation follows at once.
#[tokio::test]
async fn a_request_is_cancelled_by_message_in_either_era() {
    for modern in [true, false] {
        let server = Server::start().await;
        let mut client = Client::initialized(&server).await;
        let call = match modern {
            true => Post::plain_call("optional", "wait"),
            false => Post::legacy_call(None, "optional", "wait"),
        };
        let call = call.id(json!("a\u{e9}"));
        let cancelled = cancelled(&json!("a\u{e9}"));
        let both = format!("{}\n{}\n", call.body, cancelled.body);
        client.send(both.as_bytes()).await;
        client.result(&ping()).await;
        until(async || server.engine.running() == 0).await;
        // It may not even have begun; and its id is free again.
        let (begun, stopped) = (server.stage.begun.get(), server.stage.stopped.get());
        client.send_post(&call).await;
        server.stage.begun.reaches(begun + 1).await;
        client.send_post(&cancelled).await;
        server.stage.stopped.reaches(stopped + 1).await;
        client.finish().await;
        assert_eq!(client.line().await, None, "no answer: modern {modern}");
    }
}

/// The connection is the push stream: a question comes once, whatever the client asks meanwhile.
#[tokio::test]
async fn a_question_comes_once_on_the_connection() {
    let server = Server::start().await;
    let mut client = Client::that_can(&server, json!({"elicitation": {}})).await;
    let create = Post::legacy_task(None, "optional", "ask");
    let task = client.task(&create).await;
    let mut asked = Vec::new();
    let mut pings = 0;
    let end = loop {
        let message = client.line().await.unwrap();
        match (&message["id"], message["method"].as_str()) {
            (id, None) if id == "wait" => break message,
            // Time enough for a second delivery to come, if there is one.
            (_, None) if pings < 20 => {
                pings += 1;
                client.send_post(&ping()).await;
            }
            (_, None) => {
                let accept = json!({"action": "accept", "content": {"sure": true}});
                let answer = json!({"jsonrpc": "2.0", "id": asked[0], "result": accept});
                client.send_post(&Post::of(answer)).await;
            }
            (id, Some("elicitation/create")) => {
                asked.push(id.clone());
                let wait = Post::legacy(None, "tasks/result", json!({"taskId": task})).id(json!("wait"));
                client.send_post(&wait).await;
                client.send_post(&ping()).await;
            }
            (_, Some(method)) => assert_eq!(method, "notifications/tasks/status", "no other delivery to take back"),
        }
    };
    assert_eq!(asked.len(), 1);
    assert!(text(&end["result"]).contains("accept"), "{end}");
}

/// There is only one user, so a client finds the tasks of an earlier one; over HTTP it is the session's alone.
#[tokio::test]
async fn the_only_user_can_list_all_tasks() {
    let server = Server::start().await;
    let create = Post::legacy_task(None, "optional", "wait");
    let task = Client::initialized(&server).await.task(&create).await;
    let list = Post::legacy(None, "tasks/list", json!({}));
    let listed = Client::initialized(&server).await.result(&list).await;
    assert_eq!(listed["tasks"][0]["taskId"], task.as_str());
    assert_eq!(server.listed(&server.session().await).await, json!([]));
}

#[tokio::test]
async fn a_subscription_ends_by_message_from_either_side() {
    let server = Server::start().await;
    let mut client = Client::connect(&server);
    let listen = |id: &str| {
        let wanted = json!({"notifications": {"toolsListChanged": true}});
        Post::modern("subscriptions/listen", wanted).id(json!(id))
    };
    for id in ["one", "two"] {
        client.send_post(&listen(id)).await;
        let acknowledged = client.line().await.unwrap();
        let of = &acknowledged["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
        assert_eq!(*of, json!(id), "{acknowledged}");
    }
    client.send_post(&cancelled(&json!("one"))).await;
    client.result(&discover()).await;
    server.stop().await;
    let cancelled = client.line().await.unwrap();
    assert_eq!(cancelled["method"], "notifications/cancelled");
    // The other one had ended.
    assert_eq!(cancelled["params"]["requestId"], "two", "{cancelled}");
    client.answer_to(&listen("two")).await;
    assert_eq!(client.line().await, None);
}
