//! What outlives a connection.

use crate::{
    BoxFuture, SessionKey, UnixMillis,
    store::{SigningKey, StoreError},
};

/// Ended sessions, and the keys that sign what clients carry. See the [module](crate::store) for what all methods promise together.
pub trait SessionStore: Send + Sync + 'static {
    /// Remembers at least until `until` that a legacy session was ended by its client: until a later
    /// [`delete`](super::TaskStore::delete) or [`open_node`](super::LeaseStore::open_node) says that this time has come. [`StoreError::TooManySessions`] when
    /// [`MAX_ENDED_SESSIONS`](crate::store::MAX_ENDED_SESSIONS) others are remembered, or a few more that came at the same time.
    fn end_session(&self, session: &SessionKey, until: UnixMillis) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Whether the session was ended by its client. Asked on every legacy request; costs no disk access. Where [many nodes](crate::store::StoreCapabilities::many_nodes)
    /// share the store, a node may learn up to five seconds late of a session that was ended at another one.
    fn session_ended(&self, session: &SessionKey) -> BoxFuture<'_, Result<bool, StoreError>>;

    /// The keys that sign for `purpose`, newest first, after [`SigningKey::rotate`] with `fresh`, in one step.
    fn signing_keys(&self, purpose: &str, fresh: SigningKey) -> BoxFuture<'_, Result<Vec<SigningKey>, StoreError>>;
}
