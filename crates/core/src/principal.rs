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

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The principal that a task belongs to, and the session that created it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Bound at creation; every read and write asks for it (invariant 5).
    pub principal: Principal,
    /// The creating legacy session; only `tasks/list` without authentication uses it.
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
