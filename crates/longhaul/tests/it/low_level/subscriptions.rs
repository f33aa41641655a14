//! Subscriptions to resources that the author is asked about.

use super::{Members, connect_http};
use crate::{ERAS, connect, start};
use longhaul::{Era, Error, RequestContext, Resource, Server, ServerHandle};
use longhaul_client::{ServerChange, WatchFilter};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tokio::sync::watch;

/// The URIs that are watched, in the order of their subscriptions.
#[derive(Clone)]
struct Watched(Arc<watch::Sender<Vec<String>>>);

impl Watched {
    fn new() -> Self {
        Self(Arc::new(watch::Sender::new(Vec::new())))
    }

    fn begin(&self, uri: String) -> Subscribed {
        self.0.send_modify(|all| all.push(uri.clone()));
        Subscribed(self.clone(), uri)
    }

    async fn are(&self, uris: &[&str]) {
        let mut changes = self.0.subscribe();
        changes.wait_for(|all| all == uris).await.unwrap();
    }
}

/// A subscription; dropped at its end.
struct Subscribed(Watched, String);

impl Drop for Subscribed {
    fn drop(&mut self) {
        self.0.0.send_modify(|all| {
            let at = all.iter().position(|uri| *uri == self.1).unwrap();
            all.remove(at);
        });
    }
}

fn watching(server: Server, watched: &Watched) -> Server {
    let watched = watched.clone();
    server
        .resource(Resource::text("docs://readme", "Read me."))
        .method("resources/read", async |_: RequestContext, params: Members| {
            let contents = json!([{"uri": params["uri"], "text": "t"}]);
            Ok::<_, Error>(Members::from_iter([("contents".to_owned(), contents)]))
        })
        .on_subscribe(move |_: RequestContext, uri: String| {
            let watched = watched.clone();
            async move {
                match &*uri {
                    "docs://secret" => Err(Error::new("docs://secret is not for you")),
                    "docs://coded" => Err(Error::rpc(7, "not now").with_data(json!({"later": true}))),
                    "docs://internal" => Err(Error::rpc(9, "broken")),
                    "docs://none" => Err(Error::not_found()),
                    _ => Ok(watched.begin(uri)),
                }
            }
        })
}

fn updated(server: &ServerHandle, uri: &str) {
    server.resource_updated(uri);
}

#[tokio::test]
async fn a_legacy_session_subscribes_as_its_author_allows() {
    let watched = Watched::new();
    let server = start(|server| watching(server, &watched)).await;
    let client = connect(&server, Era::Legacy).await;
    let subscribe = |uri: &'static str| client.request("resources/subscribe", json!({"uri": uri}));
    subscribe("docs://readme").await.unwrap();
    subscribe("docs://made-up").await.unwrap();
    // A second time it is the same subscription.
    subscribe("docs://readme").await.unwrap();
    watched.are(&["docs://readme", "docs://made-up"]).await;

    let refused = subscribe("docs://secret").await.unwrap_err();
    assert_eq!(
        (refused.code, &*refused.message),
        (-32602, "docs://secret is not for you")
    );
    let coded = subscribe("docs://coded").await.unwrap_err();
    assert_eq!(
        (coded.code, &*coded.message, &coded.data),
        (7, "not now", &json!({"later": true}))
    );
    assert_eq!(subscribe("docs://none").await.unwrap_err().code, -32002);
    // Those of tasks are the server's.
    let task = subscribe("longhaul://task/01m8514byrekt12gx25rp99jvn3gry8gh1hw/log")
        .await
        .unwrap_err();
    assert_eq!(task.code, -32002);
    watched.are(&["docs://readme", "docs://made-up"]).await;

    updated(&server, "docs://secret");
    updated(&server, "docs://made-up");
    let update = client.notification("notifications/resources/updated").await.unwrap();
    assert_eq!(update["uri"], "docs://made-up");
    let unsubscribe = json!({"uri": "docs://readme"});
    client.request("resources/unsubscribe", unsubscribe).await.unwrap();
    watched.are(&["docs://made-up"]).await;
    drop(client);
    watched.are(&[]).await;
}

#[tokio::test]
async fn a_modern_subscription_has_what_its_author_allows() {
    let watched = Watched::new();
    let server = start(|server| watching(server, &watched)).await;
    let client = connect(&server, Era::Modern).await;
    let uris = [
        "docs://readme",
        "docs://secret",
        "docs://coded",
        "docs://internal",
        "docs://none",
        "docs://b",
    ];
    let listening = client.request(
        "subscriptions/listen",
        json!({"notifications": {"resourceSubscriptions": uris}}),
    );
    let following = async {
        let acknowledged = client
            .notification("notifications/subscriptions/acknowledged")
            .await
            .unwrap();
        assert_eq!(
            acknowledged["notifications"]["resourceSubscriptions"],
            json!(["docs://readme", "docs://b"]),
            "{acknowledged}"
        );
        watched.are(&["docs://readme", "docs://b"]).await;
        updated(&server, "docs://secret");
        updated(&server, "docs://b");
        let update = client.notification("notifications/resources/updated").await.unwrap();
        assert_eq!(update["uri"], "docs://b");
    };
    tokio::select! {
        ended = listening => panic!("{ended:?}"),
        () = following => {}
    }
    drop(client);
    watched.are(&[]).await;
}

#[tokio::test]
async fn subscriptions_are_asked_about_over_http() {
    for era in ERAS {
        let watched = Watched::new();
        let server = start(|server| watching(server, &watched)).await;
        let (client, _) = connect_http(&server, era).await;
        let filter = |uri: &str| WatchFilter {
            uris: vec![uri.to_owned()],
            ..WatchFilter::default()
        };
        let mut watch = client.watch(filter("docs://a")).await.unwrap();
        watched.are(&["docs://a"]).await;
        updated(&server, "docs://a");
        let change = watch.next().await.unwrap();
        assert!(
            matches!(&change, ServerChange::Resource { uri, .. } if uri == "docs://a"),
            "{change:?}"
        );
        if era == Era::Legacy {
            let refused = client
                .send("resources/subscribe", json!({"uri": "docs://secret"}))
                .await;
            assert!(
                refused
                    .unwrap_err()
                    .to_string()
                    .contains("docs://secret is not for you")
            );
        }
        drop(watch);
        client.close().await;
        watched.are(&[]).await;
    }
}

/// Where the author does not read resources, only those that there are can be subscribed to. The author learns who subscribes, and may notify that principal alone.
#[tokio::test]
async fn only_resources_that_exist_are_asked_about() {
    let asked: Arc<Mutex<Vec<Value>>> = Arc::default();
    let recorded = Arc::clone(&asked);
    let server = start(|server| {
        server
            .resource(Resource::text("docs://readme", "Read me."))
            .on_subscribe(move |cx: RequestContext, uri: String| {
                let principal = cx.principal().clone();
                let who = json!([uri, cx.client().unwrap().name, principal.as_str()]);
                recorded.lock().unwrap().push(who);
                async move {
                    cx.server().resource_updated_for(&principal, uri);
                    Ok(())
                }
            })
    })
    .await;
    let client = connect(&server, Era::Legacy).await;
    let unknown = client
        .request("resources/subscribe", json!({"uri": "docs://other"}))
        .await
        .unwrap_err();
    assert_eq!(unknown.code, -32002);
    client
        .request("resources/subscribe", json!({"uri": "docs://readme"}))
        .await
        .unwrap();
    let principal = longhaul::Principal::local();
    let expected = json!(["docs://readme", "longhaul-testing", principal.as_str()]);
    assert_eq!(*asked.lock().unwrap(), [expected]);
    server.resource_updated_for(&longhaul::Principal::named("another"), "docs://readme");
    server.resource_updated_for(&principal, "docs://readme");
    client.notification("notifications/resources/updated").await.unwrap();
}
