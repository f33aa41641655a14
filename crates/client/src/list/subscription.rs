//! Streams of notifications that a modern server is asked for.

use crate::{
    Connection, RequestError,
    connect::{
        connection::WeakConnection,
        era::{self, Era},
    },
    transport::{Outgoing, Reply},
};
use longhaul_core::JsonMembers;
use longhaul_wire::Method;
use serde_json::{Map, Value};
use std::sync::Arc;

/// A stream of notifications that a modern server was asked for. Dropping it ends the subscription.
pub(crate) struct OpenSubscription {
    pub(crate) reply: Reply,
    _subscribed: Option<SubscriptionGuard>,
}

impl Connection {
    /// Opens a stream of notifications.
    pub(crate) async fn open_subscription(
        &self,
        era: &Arc<Era>,
        params: Map<String, Value>,
    ) -> Result<OpenSubscription, RequestError> {
        let id = self.next_id();
        let (method, mut meta) = (Method::SubscriptionsListen.as_str(), JsonMembers::new());
        era.add_meta(&mut meta, self.options(), true);
        let outgoing = Outgoing {
            headers: era.headers(method, &params),
            body: era::build_written(method, Some(id), params, &JsonMembers::new(), &meta),
            id: Some(id),
            timeout: None,
        };
        let reply = self.transport().send(outgoing).await?;
        // Over HTTP the disconnection ends it.
        let subscribed = self.transport().is_session().then(|| SubscriptionGuard {
            connection: self.downgrade(),
            era: Arc::clone(era),
            id,
        });
        Ok(OpenSubscription {
            reply,
            _subscribed: subscribed,
        })
    }
}

/// Ends a subscription on a pipe when it is dropped.
struct SubscriptionGuard {
    connection: WeakConnection,
    era: Arc<Era>,
    id: u64,
}

impl Drop for SubscriptionGuard {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.upgrade() {
            connection.cancel_by_message(&self.era, self.id, None);
        }
    }
}
