//! Following resources whose changes are seen only while somebody asks for them.

use crate::question::Requestor;
use longhaul_core::{BoxFuture, Json, Owner, Principal, RpcFailure, SessionKey};
use std::sync::Arc;
use tokio::sync::broadcast;

/// Who subscribes to a resource.
#[derive(Debug, Clone)]
pub struct Subscriber {
    /// The principal, and the legacy session that subscribes.
    pub owner: Owner,
    /// What is known of it.
    pub requestor: Arc<Requestor>,
    pub(super) updated: broadcast::Sender<ResourceUpdate>,
}

impl Subscriber {
    /// Notifies the principal, and nobody else, that the content of a resource has changed. Only its subscriptions to this resource are notified. `relayed` are
    /// the params of the notification, if another server sent one.
    pub fn notify(&self, uri: Arc<str>, relayed: Option<Json>) {
        let principal = Some(self.owner.principal.clone());
        // Nobody may be listening.
        let _ = self.updated.send(ResourceUpdate {
            uri,
            principal,
            relayed,
            audience: Audience::Node,
        });
    }
}

/// Why a resource cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FollowError {
    /// There is no such resource.
    #[error("not found")]
    NotFound,
    /// Its changes cannot be followed.
    #[error("{0}")]
    Refused(String),
    /// As [`Refused`](Self::Refused), with this error. A modern client is told neither: its subscription leaves the resource out.
    #[error("{}", .0.message)]
    Rpc(RpcFailure),
    /// Not now.
    #[error("{0}")]
    Failed(String),
}

/// A resource is followed until this is dropped.
pub type Followed = Arc<dyn Send + Sync>;

/// Follows resources for subscribers: see [`Catalog::set_follower`](super::Catalog::set_follower).
pub trait ResourceFollower: Send + Sync + 'static {
    /// Begins to follow the resource, and reports its changes by [`Subscriber::notify`].
    ///
    /// # Errors
    /// [`FollowError`], which the subscriber is told.
    fn follow(
        self: Arc<Self>,
        uri: Arc<str>,
        subscriber: Subscriber,
    ) -> BoxFuture<'static, Result<Followed, FollowError>>;
}

/// A resource has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceUpdate {
    /// Which one.
    pub uri: Arc<str>,
    /// For whom; `None` for everybody.
    pub principal: Option<Principal>,
    /// The params of the notification, if another server sent it.
    pub relayed: Option<Json>,
    /// Whose subscriptions it is for.
    pub audience: Audience,
}

/// Whose subscriptions an update is for. Legacy sessions and their push streams may be at several nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Audience {
    /// Those at all nodes.
    AllNodes,
    /// Those at this node: at others the resource is followed, too, or the update came from another one.
    Node,
    /// Those that these sessions have at another node.
    Sessions(Arc<[SessionKey]>),
}

impl ResourceUpdate {
    /// Whether it is one for what this principal has subscribed to at this node.
    pub fn concerns(&self, principal: &Principal) -> bool {
        !matches!(self.audience, Audience::Sessions(_)) && self.principal.as_ref().is_none_or(|of| of == principal)
    }
}
