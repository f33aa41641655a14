//! Resources, their templates and prompts, without caching hints.

use crate::list::{Listing, push_next_cursor};

/// Appends the result that lists `entries`, each a JSON object; `next` is where the list goes on.
pub fn write(out: &mut String, listing: Listing, entries: &[&str], next: Option<&str>) {
    out.push('{');
    listing.push(out, entries);
    push_next_cursor(out, next);
    out.push('}');
}
