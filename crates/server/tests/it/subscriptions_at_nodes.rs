//! Resources that legacy sessions have subscribed to at one node, while their push streams and the updates are at others.

use crate::{
    client::Connection,
    clock::TestClock,
    offers::{prompt, resource},
    other_nodes::{HeldMessages, node_of},
    request::Post,
    server::Server,
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
    call(server, session, "resources/subscribe", uri).await;
}

async fn call(server: &Server, session: &str, method: &str, uri: &str) {
    let call = Post::legacy(Some(session), method, json!({"uri": uri}));
    assert_eq!(server.result(&call).await, json!({}));
}

/// A modern subscription.
async fn listen(server: &Server, filter: Value) -> Connection {
    let listen = Post::modern("subscriptions/listen", json!({"notifications": filter}));
    let mut stream = server.stream(&listen.id(json!("sub-1"))).await;
    stream.next("notifications/subscriptions/acknowledged").await;
    stream
}

/// A session that has subscribed to these at the first node, and its push stream at the second.
async fn subscribed([one, two, _]: &[Server; 3], uris: &[&str]) -> (String, Connection) {
    let session = one.session().await;
    for uri in uris {
        subscribe(one, &session, uri).await;
    }
    let push = two.listen(&session).await;
    (session, push)
}

async fn updated(push: &mut Connection) -> Value {
    push.next(UPDATED).await["params"]["uri"].clone()
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
    let nodes = three().await;
    let (session, mut push) = subscribed(&nodes, &["test://a"]).await;
    let [one, two, three] = &nodes;
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
    let nodes = three().await;
    let (_session, mut push) = subscribed(&nodes, &["test://a", "test://b"]).await;
    let catalog = nodes[2].engine.catalog();
    catalog.resource_updated_for(&Principal::named("somebody"), "test://a");
    catalog.resource_updated_for(&Principal::local(), "test://b");
    assert_eq!(updated(&mut push).await, "test://b");
}

#[tokio::test]
async fn a_modern_subscription_is_notified_of_updates_at_other_nodes() {
    let [one, two, _three] = &three().await;
    let mut stream = listen(two, json!({"resourceSubscriptions": ["test://a"]})).await;
    one.engine.catalog().resource_updated("test://a");
    let told = stream.pushed().await;
    assert_eq!(told["method"], UPDATED);
    assert_eq!(told["params"]["uri"], "test://a");
}

/// The client may have read the list of a node that changes after the one with its push stream.
#[tokio::test]
async fn a_list_that_changes_at_any_node_is_told_to_the_clients_of_all() {
    let [one, two, three] = &three().await;
    let session = one.session().await;
    let mut push = two.listen(&session).await;
    let mut modern = listen(two, json!({"promptsListChanged": true})).await;
    for node in [one, two, three] {
        node.engine.catalog().put_prompt(prompt("late"));
        for stream in [&mut push, &mut modern] {
            stream.next("notifications/prompts/list_changed").await;
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
    let task = three.legacy_task(&session, "wait").await;
    let uri = format!("longhaul://task/{task}/history");
    subscribe(one, &session, &uri).await;
    let mut push = two.listen(&session).await;
    let cancel = Post::on_task(&session, "tasks/cancel", &task);
    three.result(&cancel).await;
    assert_eq!(updated(&mut push).await, uri.as_str());
}

#[tokio::test]
async fn a_subscription_is_ended_at_any_node() {
    let nodes = three().await;
    let (session, mut push) = subscribed(&nodes, &["test://a", "test://b"]).await;
    let [one, _two, three] = &nodes;
    call(three, &session, "resources/unsubscribe", "test://a").await;
    until_only_b(one, &mut push).await;
}

/// Follows resources as the gateway does those of upstreams, for as long as somebody subscribes.
#[derive(Default)]
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
    let following = Arc::<Following>::default();
    server.engine.catalog().set_follower(Arc::clone(&following) as _);
    following
}

#[tokio::test]
async fn an_update_of_an_upstream_keeps_its_params_on_the_way_to_another_node() {
    let nodes = three().await;
    let upstream = following(&nodes[0]);
    let (_session, mut push) = subscribed(&nodes, &["test://a"]).await;
    let params = Json::from(json!({"uri": "test://a", "_meta": {"of": "upstream"}}));
    upstream.subscribers.lock()[0].notify("test://a".into(), Some(params));
    let told = push.next(UPDATED).await;
    assert_eq!(told["params"]["_meta"]["of"], "upstream");
}

#[tokio::test]
async fn a_session_that_ends_at_another_node_follows_nothing_any_more() {
    let [one, two, _three] = &three().await;
    let upstream = following(one);
    let session = one.session().await;
    subscribe(one, &session, "test://a").await;
    assert_eq!(two.delete(&session).await, 204);
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
    assert_eq!(two.delete(&session).await, 204);
    assert_eq!(upstream.ended.get(), 0);
    let subscriber = upstream.subscribers.lock()[0].clone();
    subscriber.notify("test://a".into(), None);
    upstream.ended.reaches(1).await;
}
