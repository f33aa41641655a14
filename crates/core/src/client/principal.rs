//! Who owns a task, and who asks for it.

use std::sync::Arc;

/// Who acts: (issuer, subject, client) of a verified token, the name of an API key, or [`Principal::local`]. Never a raw token.
///
/// One opaque text, which nothing in Longhaul parses: two principals are the same or they are not. Their order
/// means nothing, and is for indices.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Principal(Arc<str>);

impl Principal {
    /// Everyone who reaches an endpoint without authentication.
    pub fn local() -> Self {
        Self("local".into())
    }

    /// A principal by the text that names it in the store.
    pub fn named(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// The text that names it in the store.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The unguessable name of a legacy session. Without authentication it stands for the requestor in `tasks/list`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionKey(Arc<str>);

impl SessionKey {
    /// A session by its name.
    pub fn named(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// The session of one connection, which it ends with.
    pub fn of_connection(name: &str) -> Self {
        Self([OF_CONNECTION, name].concat().into())
    }

    /// Whether it ends with its connection, so that its client cannot come back.
    pub fn ends_with_connection(&self) -> bool {
        self.0.starts_with(OF_CONNECTION)
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What the names of sessions begin with that end with their connection.
const OF_CONNECTION: &str = "connection-";

/// The principal that a task belongs to, and the session that created it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Bound at creation; every read and write asks for it (invariant 5).
    pub principal: Principal,
    /// The creating legacy session: `tasks/list` without authentication lists its tasks, and the client of a plain call may come back in it.
    pub session: Option<SessionKey>,
}

/// Which tasks a reader may see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// Only this principal's tasks exist.
    pub principal: Principal,
    /// If set, lists are narrowed to what this session created. Reading by id is not: an id works as a bearer token.
    pub session: Option<SessionKey>,
}

impl Scope {
    /// All that `principal` owns.
    pub fn of(principal: Principal) -> Self {
        Self {
            principal,
            session: None,
        }
    }
}
