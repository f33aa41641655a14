//! Two principals on one upstream.

use crate::{
    client::{Client, end},
    upstream::{Tasks, Upstream},
    world::{RunningGateway, guarded, options},
};
use longhaul::auth::{AuthDecision, Authenticator, Denied, Identity, Permissions, RequestHead};
use longhaul_client::WatchFilter;
use longhaul_core::{Owner, Principal};
use serde_json::json;
use std::sync::Arc;

/// Takes the sender's word for who it is.
pub(crate) struct ByHeader;

impl Authenticator for ByHeader {
    fn authenticate<'a>(&'a self, head: &'a RequestHead<'a>) -> AuthDecision<'a> {
        let user = head.headers.get("x-user").and_then(|user| user.to_str().ok());
        AuthDecision::Known(match user {
            Some(user) => Ok(Arc::new(Identity::verified(
                Principal::named(format!("user:{user}")),
                Permissions::all(),
            ))),
            None => Err(Denied::invalid("who are you?")),
        })
    }
}

/// Both run the same tool at the same time, in all kinds of upstreams; each answers its own question, and sees its own task only.
#[tokio::test]
async fn s_01_one_principal_learns_nothing_of_anothers_calls() {
    for upstream_tasks in Tasks::ALL {
        let upstream = Upstream::start(upstream_tasks).await;
        let directory = tempfile::tempdir().unwrap();
        let gateway = RunningGateway::start_with(directory.path(), options(&[("up", &upstream)]), Some(ByHeader)).await;
        for client_tasks in Tasks::ALL {
            let [alice, bob] = ["alice", "bob"].map(|user| Client::connect_as(&gateway.url, client_tasks, Some(user)));
            let both = guarded("both calls", async {
                tokio::join!(alice.text("confirm", json!({})), bob.text("echo", json!({"a": 1})))
            });
            assert_eq!(both.await.0, "confirmed: true");
            assert_eq!(
                (alice.asked.lock().unwrap().len(), bob.asked.lock().unwrap().len()),
                (1, 0),
                "client {client_tasks:?} x upstream {upstream_tasks:?}"
            );
            if client_tasks == Tasks::None {
                continue;
            }
            let task = alice.task("hold", json!({})).await;
            let foreign = bob.connection.task(task.id()).get().await;
            assert!(foreign.unwrap_err().is_unknown_task());
            upstream.release();
            end(&task).await;
        }
        gateway.stop().await;
    }
}

/// Both subscribe to the same resources. What the upstream tells on the connection of one is not told to the other.
#[tokio::test]
async fn s_01_changes_of_resources_are_told_to_their_principal_alone() {
    let upstream = Upstream::start(Tasks::Modern).await;
    let directory = tempfile::tempdir().unwrap();
    let gateway = RunningGateway::start_with(directory.path(), options(&[("up", &upstream)]), Some(ByHeader)).await;
    let engine = gateway.server.engine().unwrap();
    let subscriber = |user: &str| {
        let principal = Principal::named(format!("user:{user}"));
        let owner = Owner {
            principal,
            session: None,
        };
        engine.catalog().subscriber(owner, Arc::default())
    };
    for client_tasks in [Tasks::Legacy, Tasks::Modern] {
        let bob = Client::connect_as(&gateway.url, client_tasks, Some("bob"));
        let filter = WatchFilter {
            uris: vec!["note://1".to_owned(), "note://2".to_owned()],
            ..WatchFilter::default()
        };
        let mut watch = guarded("the subscription", bob.connection.watch(filter)).await.unwrap();
        subscriber("alice").notify("note://1".into(), None);
        subscriber("bob").notify("note://2".into(), None);
        let change = guarded("the change", watch.next()).await;
        assert_eq!(change.unwrap().uri(), Some("note://2"));
    }
    drop(engine);
    gateway.stop().await;
}
