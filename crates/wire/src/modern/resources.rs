//! Resources with caching hints.

use super::COMPLETE;
use crate::{
    cache::Cache,
    identity::Identity,
    json,
    resource::{self, TemplateEntry, TextContent},
};

/// Appends a ListResourcesResult that lists none: logs are found through their template.
pub fn write_empty_list(out: &mut String, cache: Cache, identity: &Identity) {
    out.push_str(COMPLETE);
    out.push_str(r#","resources":[]"#);
    push_end(out, None, cache, identity);
}

/// Appends the ListResourceTemplatesResult.
pub fn write_templates(
    out: &mut String,
    templates: &[TemplateEntry<'_>],
    next: Option<&str>,
    cache: Cache,
    identity: &Identity,
) {
    out.push_str(COMPLETE);
    out.push(',');
    resource::push_templates(out, templates);
    push_end(out, next, cache, identity);
}

/// Appends the ReadResourceResult.
pub fn write_content(out: &mut String, content: &TextContent<'_>, cache: Cache, identity: &Identity) {
    out.push_str(COMPLETE);
    out.push(',');
    resource::push_contents(out, content);
    push_end(out, None, cache, identity);
}

/// Appends how a cacheable result ends: cursor, caching hints, `_meta` and the brace.
pub(super) fn push_end(out: &mut String, next: Option<&str>, cache: Cache, identity: &Identity) {
    if let Some(next) = next {
        out.push_str(r#","nextCursor":"#);
        json::push_string(out, next);
    }
    cache.push_members(out);
    identity.push_meta(out);
    out.push('}');
}
