//! Resources that legacy sessions have subscribed to at one node, while their push streams and the updates are at others.

use crate::{
    client::Connection,
    clock::TestClock,
    offers::{prompt, resource},
    other_nodes::{HeldMessages, end, next, node_of},
    request::{Post, act_as_task},
    server::{Server, task_of},
    stage::Counter,
};
use longhaul_core::{BoxFuture, Json, Principal, Store};
use longhaul_runtime::{FollowError, Followed, ResourceFollower, Subscriber};
use longhaul_store::MemoryStore;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::Arc;

const UPDATED: &str = "notifications/resources/updated";

/// Three nodes that offer the same resources.
async fn three() -> [Server; 3] {
    let clock = TestClock::default();
    let store = MemoryStore::of_many_nodes(Arc::new(clock.clone()), 15_000);
    three_of(Arc::new(store), &clock).await
}

async fn three_of(store: Arc<dyn Store>, clock: &TestClock) -> [Server; 3] {
    let node = |host| node_of(&store, clock, host);
    let nodes = [node("one").await, node("two").await, node("three").await];
    for node in &nodes {
        for uri in ["test://a", "test://b"] {
            node.engine.catalog().put_resource(resource(uri));
        }
    }
    nodes
}

async fn subscribe(server: &Server, session: &str, uri: &str) {
    let subscribe = Post::legacy(Some(session), "resources/subscribe", json!({"uri": uri}));
    assert_eq!(server.result(&subscribe).await, json!({}));
}

async fn unsubscribe(server: &Server, session: &str, uri: &str) {
    let unsubscribe = Post::legacy(Some(session), "resources/unsubscribe", json!({"uri": uri}));
    assert_eq!(server.result(&unsubscribe).await, json!({}));
}

async fn updated(push: &mut Connection) -> Value {
    next(push, UPDATED).await["params"]["uri"].clone()
}

/// Updates both resources at `server` until the stream tells of `test://b` alone.
async fn until_only_b(server: &Server, push: &mut Connection) {
    loop {
        server.engine.catalog().resource_updated("test://a");
        server.engine.catalog().resource_updated("test://b");
        let first = updated(push).await;
        if first == "test://b" {
            return;
        }
        while updated(push).await != "test://b" {}
    }
}

#[tokio::test]
async fn an_update_at_any_node_reaches_a_push_stream_at_another_one() {
    let [one, two, three] = &three().await;
    let session = one.session().await;
    subscribe(one, &session, "test://a").await;
    let mut push = two.listen(&session).await;
    for node in [three, two, one] {
        node.engine.catalog().resource_updated("test://a");
        assert_eq!(updated(&mut push).await, "test://a");
    }
    drop(push);
    let mut elsewhere = three.listen(&session).await;
    one.engine.catalog().resource_updated("test://a");
    assert_eq!(updated(&mut elsewhere).await, "test://a");
}

#[tokio::test]
async fn an_update_for_one_principal_is_for_nobody_else_at_other_nodes() {
    let [one, two, three] = &three().await;
    let session = one.session().await;
    subscribe(one, &session, "test://a").await;
    subscribe(one, &session, "test://b").await;
    let mut push = two.listen(&session).await;
    let catalog = three.engine.catalog();
    catalog.resource_updated_for(&Principal::named("somebody"), "test://a");
    catalog.resource_updated_for(&Principal::local(), "test://b");
    assert_eq!(updated(&mut push).await, "test://b");
}

#[tokio::test]
async fn a_modern_subscription_is_notified_of_updates_at_other_nodes() {
    let [one, two, _three] = &three().await;
    let filter = json!({"notifications": {"resourceSubscriptions": ["test://a"]}});
    let listen = Post::modern("subscriptions/listen", filter).id(json!("sub-1"));
    let mut stream = two.connect().await;
    stream.send(&listen.to_bytes()).await;
    stream.head().await;
    stream.pushed().await;
    one.engine.catalog().resource_updated("test://a");
    let told = stream.pushed().await;
    assert_eq!(
        (&told["method"], &told["params"]["uri"]),
        (&json!(UPDATED), &json!("test://a"))
    );
}

/// The client may have read the list of a node that changes after the one with its push stream.
#[tokio::test]
async fn a_list_that_changes_at_any_node_is_told_to_the_clients_of_all() {
    let [one, two, three] = &three().await;
    let session = one.session().await;
    let mut push = two.listen(&session).await;
    let filter = json!({"notifications": {"promptsListChanged": true}});
    let mut modern = two.connect().await;
    modern
        .send(
            &Post::modern("subscriptions/listen", filter)
                .id(json!("sub-1"))
                .to_bytes(),
        )
        .await;
    modern.head().await;
    modern.pushed().await;
    for node in [one, two, three] {
        node.engine.catalog().put_prompt(prompt("late"));
        for stream in [&mut push, &mut modern] {
            next(stream, "notifications/prompts/list_changed").await;
        }
    }
    one.engine.catalog().resource_updated("test://a");
    subscribe(one, &session, "test://b").await;
    one.engine.catalog().resource_updated("test://b");
    let last = push.message().await.unwrap();
    assert_eq!(last["params"]["uri"], "test://b", "each change is told once");
}

#[tokio::test]
async fn a_part_of_a_task_is_told_on_a_push_stream_at_another_node() {
    let [one, two, three] = &three().await;
    let session = one.session().await;
    let call = Post::legacy(Some(&session), "tools/call", act_as_task("optional", "wait"));
    let task = task_of(&three.result(&call).await);
    let uri = format!("longhaul://task/{task}/history");
    subscribe(one, &session, &uri).await;
    let mut push = two.listen(&session).await;
    let cancel = Post::legacy(Some(&session), "tasks/cancel", json!({"taskId": task}));
    three.result(&cancel).await;
    assert_eq!(updated(&mut push).await, uri.as_str());
}

#[tokio::test]
async fn a_subscription_is_ended_at_any_node() {
    let [one, two, three] = &three().await;
    let session = one.session().await;
    subscribe(one, &session, "test://a").await;
    subscribe(one, &session, "test://b").await;
    let mut push = two.listen(&session).await;
    unsubscribe(three, &session, "test://a").await;
    until_only_b(one, &mut push).await;
}

/// Follows resources as the gateway does those of upstreams, for as long as somebody subscribes.
struct Following {
    subscribers: Mutex<Vec<Subscriber>>,
    ended: Counter,
}

struct Guard(Counter);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.count();
    }
}

impl ResourceFollower for Following {
    fn follow(
        self: Arc<Self>,
        _: Arc<str>,
        subscriber: Subscriber,
    ) -> BoxFuture<'static, Result<Followed, FollowError>> {
        self.subscribers.lock().push(subscriber);
        let guard: Followed = Arc::new(Guard(self.ended.clone()));
        Box::pin(async move { Ok(guard) })
    }
}

fn following(server: &Server) -> Arc<Following> {
    let following = Arc::new(Following {
        subscribers: Mutex::default(),
        ended: Counter::new(),
    });
    server.engine.catalog().set_follower(Arc::clone(&following) as _);
    following
}

#[tokio::test]
async fn an_update_of_an_upstream_keeps_its_params_on_the_way_to_another_node() {
    let [one, two, _three] = &three().await;
    let upstream = following(one);
    let session = one.session().await;
    subscribe(one, &session, "test://a").await;
    let mut push = two.listen(&session).await;
    let params = Json::from(json!({"uri": "test://a", "_meta": {"of": "upstream"}}));
    upstream.subscribers.lock()[0].notify("test://a".into(), Some(params));
    let told = next(&mut push, UPDATED).await;
    assert_eq!(told["params"]["_meta"]["of"], "upstream");
}

#[tokio::test]
async fn a_session_that_ends_at_another_node_follows_nothing_any_more() {
    let [one, two, _three] = &three().await;
    let upstream = following(one);
    let session = one.session().await;
    subscribe(one, &session, "test://a").await;
    end(two, &session).await;
    upstream.ended.reaches(1).await;
}

/// The next update finds that the session has ended.
#[tokio::test]
async fn what_an_ended_session_has_followed_ends_although_the_message_of_its_end_was_lost() {
    let clock = TestClock::default();
    let store = Arc::new(HeldMessages::new(&clock));
    let [one, two, _three] = &three_of(Arc::<HeldMessages>::clone(&store), &clock).await;
    let upstream = following(one);
    let session = one.session().await;
    subscribe(one, &session, "test://a").await;
    end(two, &session).await;
    assert_eq!(upstream.ended.get(), 0);
    let subscriber = upstream.subscribers.lock()[0].clone();
    subscriber.notify("test://a".into(), None);
    upstream.ended.reaches(1).await;
}
