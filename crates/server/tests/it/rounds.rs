//! Plain calls of modern clients that ask: kept between the rounds for their clients.

use crate::{
    clock::TestClock,
    request::{Post, act, everything, everything_and_tasks},
    server::{self, Options, Server, get, task_of, text},
};
use longhaul_store::MemoryStore;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// A call by a client that can be asked everything but does not support tasks.
fn call(acting: &str) -> Post {
    call_of("optional", acting)
}

fn call_of(tool: &str, acting: &str) -> Post {
    Post::modern_with("tools/call", act(tool, acting), everything())
}

/// The same request again, with answers and the state of the last round.
fn retry(first: &Post, round: &Value, answers: Value) -> Post {
    first.retry(round, answers).id(json!("again"))
}

/// An answer under the name of its question.
pub(crate) fn answer(name: &str, value: &str) -> Value {
    json!({name: accept(name, value)})
}

/// The answers of Ann in Ulm.
fn ann_in_ulm() -> Value {
    json!([accept("name", "Ann"), accept("town", "Ulm")])
}

pub(crate) fn accept(name: &str, value: &str) -> Value {
    json!({"action": "accept", "content": {name: value}})
}

fn keys(round: &Value) -> Vec<&str> {
    assert_eq!(round["resultType"], "input_required", "{round}");
    let requests = round["inputRequests"].as_object().unwrap();
    requests.keys().map(String::as_str).collect()
}

fn text_of(result: &Value) -> Value {
    assert_eq!(result["resultType"], "complete", "{result}");
    serde_json::from_str(text(result)).unwrap()
}

/// The message of the −32602 that answers a request.
async fn refusal(server: &Server, post: &Post) -> String {
    let reply = server.exchange(post).await;
    assert_eq!(reply.error(), (200, -32602));
    reply.json()["error"]["message"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn concurrent_questions_are_shown_together_and_answered_in_one_retry() {
    let server = Server::start().await;
    let first = call("ask_all name town");
    let round = server.result(&first).await;
    assert_eq!(keys(&round), ["name", "town"], "by their author's names");
    let question = &round["inputRequests"]["name"];
    assert_eq!(question["method"], "elicitation/create");
    assert!(round.get("taskId").is_none());
    let answers = json!({"name": accept("name", "Ann"), "town": accept("town", "Ulm")});
    let result = server.result(&retry(&first, &round, answers)).await;
    assert_eq!(text_of(&result), ann_in_ulm());
    assert_eq!(server.stage.begun.get(), 1, "it is the same call");
}

#[tokio::test]
async fn each_round_has_a_state_of_its_own() {
    let server = Server::start().await;
    let first = call("ask_each name town");
    let one = server.result(&first).await;
    assert_eq!(keys(&one), ["name"]);
    let two = server.result(&retry(&first, &one, answer("name", "Ann"))).await;
    assert_eq!(keys(&two), ["town"]);
    assert_ne!(one["requestState"], two["requestState"]);
    // The state of an earlier round leads to the current one, and what was answered is answered for good.
    let late = json!({"name": accept("name", "Eve"), "town": accept("town", "Rom")});
    let again = server.result(&retry(&first, &one, late)).await;
    assert_eq!(keys(&again), ["town"]);
    let result = server.result(&retry(&first, &two, answer("town", "Ulm"))).await;
    assert_eq!(text_of(&result), ann_in_ulm());
}

#[tokio::test]
async fn u_14_missing_answers_are_asked_again_and_others_are_ignored() {
    let server = Server::start().await;
    let first = call("ask_all name town");
    let round = server.result(&first).await;
    let round = server.result(&retry(&first, &round, answer("name", "Ann"))).await;
    assert_eq!(keys(&round), ["town"]);
    let wrong = json!({"name": accept("name", "Bob"), "other": {}, "in-2": accept("town", "Rom")});
    let round = server.result(&retry(&first, &round, wrong)).await;
    assert_eq!(keys(&round), ["town"], "keys are by the name they were shown under");
    let result = server.result(&retry(&first, &round, answer("town", "Ulm"))).await;
    assert_eq!(text_of(&result), ann_in_ulm());
}

#[tokio::test]
async fn answers_may_come_before_they_are_asked_for_and_count_once() {
    let server = Server::start().await;
    let mut early = call("ask_each name town name");
    early.body["params"]["inputResponses"] = json!({"name": accept("name", "Ann"), "extra": {"action": "decline"}});
    let round = server.result(&early).await;
    assert_eq!(keys(&round), ["town"]);
    let round = server.result(&retry(&early, &round, answer("town", "Ulm"))).await;
    assert_eq!(keys(&round), ["name"], "it is asked anew");
    let result = server.result(&retry(&early, &round, answer("name", "Eve"))).await;
    assert_eq!(text_of(&result)[2], accept("name", "Eve"));
}

#[tokio::test]
async fn a_garbled_answer_is_refused_and_its_round_stays_open() {
    let server = Server::start().await;
    let first = call("ask_all name");
    for garbled in [
        json!(12345),
        json!({}),
        json!({"action": "maybe"}),
        json!({"action": "accept", "content": 1}),
        json!({"action": "accept", "content": {"name": 5}}),
        json!({"action": "accept"}),
    ] {
        let mut early = first.clone();
        early.body["params"]["inputResponses"] = json!({"name": garbled});
        refusal(&server, &early).await;
        let round = server.result(&first).await;
        refusal(&server, &retry(&first, &round, json!({"name": garbled}))).await;
        let result = server.result(&retry(&first, &round, answer("name", "Ann"))).await;
        assert_eq!(text_of(&result), json!([accept("name", "Ann")]));
    }
    let mut null = first.clone();
    null.body["params"]["inputResponses"] = json!(null);
    keys(&server.result(&null).await);
}

/// Neither rounds nor sessions end early.
#[tokio::test]
async fn setting_the_clock_ends_no_round_and_no_session() {
    const DAY: i64 = 24 * 3_600_000;
    for set in [-40 * DAY, 40 * DAY] {
        let clock = TestClock::default();
        let server = Server::with(Options::with_clock(&clock)).await;
        let session = server.session().await;
        let first = call("ask_all name");
        let round = server.result(&first).await;
        clock.set(set);
        server.result(&Post::ping(Some(&session))).await;
        let result = server.result(&retry(&first, &round, answer("name", "Ann"))).await;
        assert_eq!(text_of(&result), json!([accept("name", "Ann")]));
    }
}

#[tokio::test]
async fn an_expired_state_is_refused_and_its_call_abandoned() {
    let clock = TestClock::default();
    let server = Server::with(Options::with_clock(&clock)).await;
    let first = call("ask_all name");
    let round = server.result(&first).await;
    assert_eq!(server.stage.stopped.get(), 0, "no connection counts");
    clock.advance(Duration::from_secs(15 * 60));
    server.stage.stopped.reaches(1).await;
    let late = retry(&first, &round, answer("name", "Ann"));
    assert!(refusal(&server, &late).await.contains("expired"));
}

#[tokio::test]
async fn after_a_restart_the_client_learns_what_became_of_its_call() {
    let store = Arc::new(MemoryStore::default());
    let options = || Options::with_store(Arc::clone(&store) as _);
    let server = Server::with(options()).await;
    let first = call("ask_all name");
    let round = server.result(&first).await;
    server.stop().await;
    let server = Server::with(options()).await;
    let again = retry(&first, &round, answer("name", "Ann"));
    let reply = server.exchange(&again).await;
    assert_eq!(reply.error(), (200, -32603));
    assert_eq!(reply.json()["error"]["data"]["reason"], "interrupted");
    assert_eq!(server.stage.begun.get(), 0);
}

#[tokio::test]
async fn a_retry_that_is_sent_again_gets_the_same_result() {
    let server = Server::start().await;
    let first = call("ask_all name");
    let round = server.result(&first).await;
    let answered = retry(&first, &round, answer("name", "Ann"));
    let result = server.result(&answered).await;
    assert_eq!(text_of(&result), json!([accept("name", "Ann")]));
    assert_eq!(text_of(&server.result(&answered).await), text_of(&result));
    assert_eq!(server.stage.begun.get(), 1);
}

#[tokio::test]
async fn two_retries_at_once_wait_for_the_same_call() {
    let server = Server::start().await;
    let first = call("ask_each name town");
    let one = server.result(&first).await;
    let answered = retry(&first, &one, answer("name", "Ann"));
    let (left, right) = tokio::join!(server.result(&answered), server.result(&answered));
    assert_eq!((keys(&left), keys(&right)), (vec!["town"], vec!["town"]));
    let answered = retry(&first, &left, answer("town", "Ulm"));
    let result = server.result(&answered).await;
    assert_eq!(text_of(&result), ann_in_ulm());
    assert_eq!(server.stage.begun.get(), 1);
}

/// The first round of a call that works on after its answer, and the retry that answers it.
async fn answered_once(server: &Server) -> Post {
    let first = call("ask_then_wait name town");
    let round = server.result(&first).await;
    retry(&first, &round, answer("name", "Ann"))
}

#[tokio::test]
async fn t_34_a_client_that_leaves_while_its_retry_waits_cancels_the_call() {
    let server = Server::start().await;
    let answered = answered_once(&server).await;
    let client = server.send(&answered).await;
    server.stage.answered.reaches(1).await;
    drop(client);
    server.stage.stopped.reaches(1).await;
    assert!(refusal(&server, &answered).await.contains("no longer there"));
}

#[tokio::test]
async fn one_of_two_that_wait_may_leave_and_the_other_is_answered() {
    let server = Server::start().await;
    let answered = answered_once(&server).await;
    let mut stays = server.send(&answered).await;
    server.stage.answered.reaches(1).await;
    // Whether or not the server has begun to wait for it.
    drop(server.send(&answered).await);
    server.stage.released.count();
    let round = stays.reply().await.json()["result"].clone();
    assert_eq!(keys(&round), ["town"]);
    let result = server.result(&retry(&answered, &round, answer("town", "Ulm"))).await;
    assert_eq!(text_of(&result), ann_in_ulm());
    assert_eq!(server.stage.stopped.get(), 0);
}

#[tokio::test]
async fn g2_05_a_client_that_cannot_be_asked_gets_the_capability_to_declare() {
    let server = Server::start().await;
    let call = |acting, capabilities| Post::modern_with("tools/call", act("optional", acting), capabilities);
    for (acting, required) in [
        ("ask_all name", json!({"elicitation": {"form": {}}})),
        ("sample", json!({"sampling": {}})),
    ] {
        let reply = server.exchange(&call(acting, json!({"roots": {}}))).await;
        assert_eq!(reply.error(), (400, -32021));
        assert_eq!(reply.json()["error"]["data"]["requiredCapabilities"], required);
    }
    let round = server.result(&call("sample", json!({"sampling": {}}))).await;
    assert_eq!(keys(&round), ["capital"]);
}

#[tokio::test]
async fn a_call_that_is_promoted_after_a_round_keeps_its_questions() {
    let server = Server::start().await;
    let call = |tool, acting| Post::modern_with("tools/call", act(tool, acting), everything_and_tasks());
    let first = call("after_an_hour", "ask_each name wait town");
    let round = server.result(&first).await;
    assert_eq!(keys(&round), ["name"], "rounds come before a task");
    let round = server.result(&retry(&first, &round, answer("name", "Ann"))).await;
    assert_eq!(keys(&round), ["wait"]);
    // A call that runs long after its rounds becomes a task, and asks as one.
    let first = call("after_a_moment", "ask_then_wait name town");
    let round = server.result(&first).await;
    let created = server.result(&retry(&first, &round, answer("name", "Ann"))).await;
    assert_eq!(created["resultType"], "task");
    let task = task_of(&created);
    server.stage.released.count();
    let asking = server.poll(&task, "input_required").await;
    let asked: Vec<_> = asking["inputRequests"].as_object().unwrap().keys().collect();
    assert_eq!(asked, ["in-2"]);
    let second = json!({"in-2": accept("town", "Ulm")});
    server.result(&server::update(&task, second)).await;
    let done = server.poll(&task, "completed").await;
    let answers: Value = serde_json::from_str(text(&done["result"])).unwrap();
    assert_eq!(answers, ann_in_ulm());
    assert!(server.result(&get(&task)).await.get("requestState").is_none());
}

#[tokio::test]
async fn messages_come_in_order_and_before_questions() {
    let server = Server::start().await;
    let mut post = Post::plain_call("optional", "tell 1 info 2 debug 2 1 warning 3").progress_token(json!("t"));
    post.body["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = json!("info");
    let mut client = server.stream(&post).await;
    let messages = client.messages(&post).await;
    let sent: Vec<Value> = messages[..messages.len() - 1]
        .iter()
        .map(|message| match message["method"].as_str().unwrap() {
            "notifications/progress" => message["params"]["message"].clone(),
            _ => message["params"]["data"].clone(),
        })
        .collect();
    assert_eq!(sent, ["1", "info", "2", "warning", "3"]);
    assert_eq!(text(&messages.last().unwrap()["result"]), "done");
}

#[tokio::test]
async fn u_09_no_log_message_is_sent_without_a_level() {
    let server = Server::start().await;
    let post = Post::plain_call("optional", "tell emergency 1");
    let result = server.result(&post).await;
    assert_eq!(text(&result), "done", "one message, no stream");
    let mut bad = post;
    bad.body["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = json!("loud");
    assert_eq!(server.error(&bad).await, (400, -32602));
}

#[tokio::test]
async fn a_call_under_an_idempotency_key_is_found_again_and_waits_for_its_client() {
    let clock = TestClock::default();
    let server = Server::with(Options::with_clock(&clock)).await;
    let keyed = |tool, more: Value| {
        let mut post = call_of(tool, "ask_all name");
        post.body["params"]["arguments"]["more"] = more;
        post.keyed("k")
    };
    let first = keyed("optional", json!({"a": 1, "b": 2}));
    keys(&server.result(&first).await);
    assert!(refusal(&server, &keyed("optional", json!(1))).await.contains("key"));
    clock.advance(Duration::from_secs(16 * 60));
    // Not the same bytes, but the same call.
    let text = first.body.to_string();
    let text = text.replace(r#"{"a":1,"b":2}"#, r#"{"b":2.0, "a":1}"#);
    let mut client = server.connect().await;
    client.send(&first.to_bytes_with(text.as_bytes())).await;
    let round = client.reply().await.json()["result"].clone();
    assert_eq!(keys(&round), ["name"]);
    // Also when it is over.
    for again in [retry(&first, &round, answer("name", "Ann")), first] {
        assert_eq!(text_of(&server.result(&again).await), json!([accept("name", "Ann")]));
    }
    assert_eq!((server.stage.begun.get(), server.stage.stopped.get()), (1, 0));
    keys(&server.result(&keyed("never", json!(1))).await);
    assert_eq!(server.stage.begun.get(), 2, "a key is its tool's");
}

#[tokio::test]
async fn a_call_that_reports_without_a_pause_can_ask() {
    let server = Server::start().await;
    let post = call("ask_while_talking name").progress_token(json!("t"));
    let mut client = server.stream(&post).await;
    for _ in 0..5_000 {
        let message = client.message().await.unwrap();
        if message.get("id").is_some() {
            assert_eq!(keys(&message["result"]), ["name"]);
            return;
        }
    }
    panic!("it was not asked");
}

#[tokio::test]
async fn u_01_a_flood_is_cut_and_the_result_comes() {
    let server = Server::start().await;
    let post = Post::plain_call("optional", "flood 100000").progress_token(json!("t"));
    let mut client = server.stream(&post).await;
    let messages = client.messages(&post).await;
    let figures = messages.iter().map(|message| &message["params"]["progress"]);
    let figures: Vec<f64> = figures.filter_map(Value::as_f64).collect();
    let rise = figures.is_sorted_by(|one, next| one < next);
    assert!(rise && figures.len() < 1_000, "{}", figures.len());
    assert_eq!(figures.last(), Some(&100_000.0), "the latest");
    assert_eq!(text(&messages.last().unwrap()["result"]), "done");
}

#[tokio::test]
async fn g2_42_an_update_with_a_garbled_answer_is_refused_whole() {
    let server = Server::start().await;
    let task = server.task(&Post::call("optional", "ask_two")).await;
    server.poll(&task, "input_required").await;
    let update = |answers: Value| server::update(&task, answers);
    let decline = json!({"action": "decline"});
    let unfit = json!({"action": "accept", "content": {"sure": "yes"}});
    for garbled in [json!({}), json!({"action": "maybe"}), unfit] {
        let post = update(json!({"in-1": decline, "in-2": garbled}));
        assert_eq!(server.error(&post).await, (200, -32602));
        let open = server.result(&get(&task)).await["inputRequests"].clone();
        assert_eq!(open.as_object().map(serde_json::Map::len), Some(2), "{open}");
    }
    let sound = json!({"in-1": decline, "in-2": decline, "in-9": {}});
    server.result(&update(sound)).await;
    server.poll(&task, "completed").await;
}
