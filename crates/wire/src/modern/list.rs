//! Lists of resources, resource templates and prompts, with caching hints.

use super::COMPLETE;
use crate::result::{CacheHints, ListKind, ServerInfo, push_next_cursor};

/// Appends the result that lists `entries`, each a JSON object. `next` is the cursor of the next page. All pages of a list must have
/// the same [`CacheScope`](crate::CacheScope).
pub fn write(
    out: &mut String,
    listing: ListKind,
    entries: &[&str],
    next: Option<&str>,
    cache: CacheHints,
    server_info: &ServerInfo,
) {
    out.push_str(COMPLETE);
    out.push(',');
    listing.push(out, entries);
    push_end(out, next, cache, server_info);
}

/// Appends the end of a cacheable result: cursor, caching hints, `_meta` and the brace.
pub(super) fn push_end(out: &mut String, next: Option<&str>, cache: CacheHints, server_info: &ServerInfo) {
    push_next_cursor(out, next);
    cache.push_members(out);
    server_info.push_meta(out);
    out.push('}');
}
