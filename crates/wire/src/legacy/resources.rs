//! A resource's content without caching hints.

use crate::resource::{self, TextContent};

/// Appends the ReadResourceResult.
pub fn write_content(out: &mut String, content: &TextContent<'_>) {
    out.push('{');
    resource::push_contents(out, content);
    out.push('}');
}
