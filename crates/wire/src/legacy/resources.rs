//! The result of `resources/read`.

use crate::result::{OutputPage, ResourceContent, resource};

/// Appends the ReadResourceResult.
pub fn write_content(out: &mut String, content: &ResourceContent<'_>) {
    out.push('{');
    resource::push_contents(out, content);
    out.push('}');
}

/// Appends the ReadResourceResult of a task's output.
pub fn write_output(out: &mut String, page: &OutputPage<'_>) {
    out.push('{');
    page.push_contents(out);
    out.push_str(r#","_meta":{"#);
    page.push_position(out);
    out.push_str("}}");
}
