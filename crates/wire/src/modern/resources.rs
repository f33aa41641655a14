//! A resource's content with caching hints.

use super::{COMPLETE, list::push_end};
use crate::{
    cache::Cache,
    identity::Identity,
    resource::{self, TextContent},
};

/// Appends the ReadResourceResult.
pub fn write_content(out: &mut String, content: &TextContent<'_>, cache: Cache, identity: &Identity) {
    out.push_str(COMPLETE);
    out.push(',');
    resource::push_contents(out, content);
    push_end(out, None, cache, identity);
}
