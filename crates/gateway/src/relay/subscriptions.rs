//! Subscriptions to resources of upstreams. Changes are told to the principal of the connection on which they were seen.

use super::requests;
use crate::upstream::{Upstream, UpstreamConnection, Upstreams, public};
use longhaul_client::{RequestError, ServerChange, Watch, WatchFilter};
use longhaul_core::{BoxFuture, Json, Millis};
use longhaul_runtime::{Catalog, FollowError, Followed, ResourceFollower, Subscriber};
use longhaul_wire::relayed;
use serde_json::json;
use std::sync::{Arc, Weak};

/// How often a subscription is made again, in milliseconds: a server of 2025-11-25 forgets it with the session, and does not say so.
const AGAIN_EVERY: Millis = 30_000;

/// Subscribes at upstreams.
pub(crate) struct UpstreamResources {
    pub(crate) upstreams: Arc<Upstreams>,
    /// Where the resources of this server are. They are not followed.
    pub(crate) catalog: Weak<Catalog>,
}

impl ResourceFollower for UpstreamResources {
    fn follow(
        self: Arc<Self>,
        uri: Arc<str>,
        subscriber: Subscriber,
    ) -> BoxFuture<'static, Result<Followed, FollowError>> {
        Box::pin(async move {
            let own = self.catalog.upgrade().map(|catalog| catalog.snapshot());
            if own.is_some_and(|own| own.find_resource(&uri).is_some()) {
                return Ok(Arc::new(()) as Followed);
            }
            let mut why_not = FollowError::NotFound;
            for upstream in requests::may_have(&self.upstreams, &uri) {
                let lists = upstream.lists();
                if lists.is_none_or(|lists| lists.capabilities["resources"]["subscribe"] != true) {
                    why_not = FollowError::Refused(format!(
                        "upstream `{}` does not tell of changes of its resources",
                        upstream.name()
                    ));
                    continue;
                }
                match follow_at(&upstream, &uri, &subscriber).await {
                    // It has no such resource.
                    Err(FollowError::Refused(why)) => why_not = FollowError::Refused(why),
                    followed => return followed,
                }
            }
            Err(why_not)
        })
    }
}

async fn follow_at(upstream: &Arc<Upstream>, uri: &Arc<str>, subscriber: &Subscriber) -> Result<Followed, FollowError> {
    let failed = |why: String| FollowError::Failed(format!("upstream `{}`: {why}", upstream.name()));
    let Subscriber { owner, requestor, .. } = subscriber;
    let connection = upstream
        .connections
        .of_client(&owner.principal, owner.session.as_ref(), requestor)
        .map_err(|error| failed(error.to_string()))?;
    if let Some(followed) = connection.followed.get(uri) {
        return Ok(followed);
    }
    let watch = subscribe(&connection, uri).await.map_err(|error| match error {
        RequestError::Rpc(failure) => FollowError::Refused(failure.message.to_string()),
        error => failed(public(upstream.name(), &error, &owner.principal)),
    })?;
    let (followed, until) = connection.followed.begin(uri);
    if let Some(until) = until {
        let subscription = ResourceSubscription {
            upstream: Arc::clone(upstream),
            connection,
            subscriber: subscriber.clone(),
            uri: Arc::clone(uri),
        };
        let removed = upstream.removed.clone();
        upstream.ports.spawner.spawn(Box::pin(async move {
            let following = until.run_until_cancelled_owned(subscription.run(watch));
            removed.run_until_cancelled(following).await;
        }));
    }
    Ok(followed)
}

async fn subscribe(connection: &UpstreamConnection, uri: &str) -> Result<Watch, RequestError> {
    let filter = WatchFilter {
        uris: vec![uri.to_owned()],
        ..WatchFilter::default()
    };
    connection.connection.watch(filter).await
}

/// A resource that is followed on a connection.
struct ResourceSubscription {
    upstream: Arc<Upstream>,
    connection: Arc<UpstreamConnection>,
    subscriber: Subscriber,
    uri: Arc<str>,
}

impl ResourceSubscription {
    /// Reports changes. It ends only by being dropped: the upstream may come back.
    async fn run(self, watch: Watch) {
        let mut watch = Some(watch);
        let mut handshakes = self.handshakes();
        loop {
            let is_over = match &mut watch {
                Some(watch) => tokio::select! {
                    biased;
                    change = watch.next() => match change {
                        Some(change) => {
                            self.report(match &change {
                                ServerChange::Resource { params, .. } => params.as_ref(),
                                _ => None,
                            });
                            false
                        }
                        None => true,
                    },
                    () = self.upstream.pause(AGAIN_EVERY) => {
                        let is_lost = self.is_lost().await;
                        if !is_lost && handshakes != self.handshakes() {
                            // It may have changed before the new session was subscribed to it.
                            handshakes = self.handshakes();
                            self.report(None);
                        }
                        is_lost
                    }
                },
                None => {
                    self.upstream.pause(AGAIN_EVERY).await;
                    true
                }
            };
            if is_over {
                watch = subscribe(&self.connection, &self.uri).await.ok();
                if watch.is_some() {
                    // It may have changed meanwhile.
                    handshakes = self.handshakes();
                    self.report(None);
                }
            }
        }
    }

    fn handshakes(&self) -> u64 {
        self.connection.connection.handshakes()
    }

    fn report(&self, params: Option<&Json>) {
        self.subscriber
            .notify(Arc::clone(&self.uri), params.map(relayed::params));
    }

    /// Subscribes again at a server of 2025-11-25. Whether that failed.
    async fn is_lost(&self) -> bool {
        let connection = &self.connection.connection;
        match connection.server().await {
            Ok(server) if server.is_modern() => false,
            Ok(_) => {
                let params = json!({"uri": self.uri.as_ref()});
                connection.send("resources/subscribe", params).await.is_err()
            }
            Err(_) => true,
        }
    }
}
