//! Resources without caching hints.

use super::push_next_cursor;
use crate::resource::{self, TemplateEntry, TextContent};

/// Appends a ListResourcesResult that lists none: logs are found through their template.
pub fn write_empty_list(out: &mut String) {
    out.push_str(r#"{"resources":[]}"#);
}

/// Appends the ListResourceTemplatesResult.
pub fn write_templates(out: &mut String, templates: &[TemplateEntry<'_>], next: Option<&str>) {
    out.push('{');
    resource::push_templates(out, templates);
    push_next_cursor(out, next);
    out.push('}');
}

/// Appends the ReadResourceResult.
pub fn write_content(out: &mut String, content: &TextContent<'_>) {
    out.push('{');
    resource::push_contents(out, content);
    out.push('}');
}
