//! How long a modern result may be reused, and by whom (U-30).

use crate::json;

/// Who may reuse a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheScope {
    /// Anyone.
    Public,
    /// Only who was authorized for it.
    Private,
}

impl CacheScope {
    pub(crate) const fn as_json(self) -> &'static str {
        match self {
            Self::Public => r#""public""#,
            Self::Private => r#""private""#,
        }
    }
}

/// The freshness of a result. Not to be confused with a task's `ttlMs`, which is its retention (C-16).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cache {
    /// For how many milliseconds it may be reused; 0 for not at all.
    pub ttl_ms: u64,
    /// By whom.
    pub scope: CacheScope,
}

impl Cache {
    /// Appends `,"ttlMs":…,"cacheScope":…`.
    pub(crate) fn push_members(self, out: &mut String) {
        out.push_str(r#","ttlMs":"#);
        json::push_int(out, self.ttl_ms);
        out.push_str(r#","cacheScope":"#);
        out.push_str(self.scope.as_json());
    }
}
