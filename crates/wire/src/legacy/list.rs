//! Lists of resources, resource templates and prompts.

use crate::result::{ListKind, push_next_cursor};

/// Appends the result that lists `entries`, each a JSON object. `next` is the cursor of the next page.
pub fn write(out: &mut String, listing: ListKind, entries: &[&str], next: Option<&str>) {
    out.push('{');
    listing.push(out, entries);
    push_next_cursor(out, next);
    out.push('}');
}
