//! Caching hints of modern results: how long a result may be reused, and by whom.

use crate::json;

/// Who may reuse a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheScope {
    /// Anyone.
    Public,
    /// Only the client that requested it.
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

/// The `ttlMs` and `cacheScope` of a result. A task's `ttlMs` is something else: its retention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheHints {
    /// For how many milliseconds the result may be reused; 0 for not at all.
    pub ttl_ms: u64,
    /// Who may reuse it.
    pub scope: CacheScope,
}

impl CacheHints {
    /// Appends `,"ttlMs":…,"cacheScope":…`.
    pub(crate) fn push_members(self, out: &mut String) {
        out.push_str(r#","ttlMs":"#);
        json::push_int(out, self.ttl_ms);
        out.push_str(r#","cacheScope":"#);
        out.push_str(self.scope.as_json());
    }
}
