//! Resources, their templates and prompts, with caching hints.

use super::COMPLETE;
use crate::{
    cache::Cache,
    identity::Identity,
    list::{Listing, push_next_cursor},
};

/// Appends the result that lists `entries`, each a JSON object; `next` is where the list goes on. All pages of a list have one
/// [`CacheScope`](crate::CacheScope) (U-30).
pub fn write(
    out: &mut String,
    listing: Listing,
    entries: &[&str],
    next: Option<&str>,
    cache: Cache,
    identity: &Identity,
) {
    out.push_str(COMPLETE);
    out.push(',');
    listing.push(out, entries);
    push_end(out, next, cache, identity);
}

/// Appends how a cacheable result ends: cursor, caching hints, `_meta` and the brace.
pub(super) fn push_end(out: &mut String, next: Option<&str>, cache: Cache, identity: &Identity) {
    push_next_cursor(out, next);
    cache.push_members(out);
    identity.push_meta(out);
    out.push('}');
}
