//! The result of `resources/read`, with caching hints.

use super::{COMPLETE, list::push_end};
use crate::result::{CacheHints, OutputPage, ResourceContent, ServerInfo, resource};

/// Appends the ReadResourceResult.
pub fn write_content(out: &mut String, content: &ResourceContent<'_>, cache: CacheHints, server_info: &ServerInfo) {
    out.push_str(COMPLETE);
    out.push(',');
    resource::push_contents(out, content);
    push_end(out, None, cache, server_info);
}

/// Appends the ReadResourceResult of a task's output.
pub fn write_output(out: &mut String, page: &OutputPage<'_>, cache: CacheHints, server_info: &ServerInfo) {
    out.push_str(COMPLETE);
    out.push(',');
    page.push_contents(out);
    cache.push_members(out);
    server_info.push_meta_with(out, |out| page.push_position(out));
    out.push('}');
}
