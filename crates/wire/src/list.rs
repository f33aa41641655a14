//! What both generations write alike of their lists: entries that are whole objects, and where the list goes on.

use crate::json;

/// A list whose entries are the same objects in both generations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listing {
    /// `resources/list`
    Resources,
    /// `resources/templates/list`
    ResourceTemplates,
    /// `prompts/list`
    Prompts,
}

impl Listing {
    /// Appends `"resources":[…]` or the like. Each entry is JSON text: a Resource, a ResourceTemplate, a Prompt.
    pub(crate) fn push(self, out: &mut String, entries: &[&str]) {
        out.push_str(match self {
            Self::Resources => r#""resources":["#,
            Self::ResourceTemplates => r#""resourceTemplates":["#,
            Self::Prompts => r#""prompts":["#,
        });
        for (nth, entry) in entries.iter().enumerate() {
            out.push_str(if nth == 0 { "" } else { "," });
            out.push_str(entry);
        }
        out.push(']');
    }
}

/// Appends `,"nextCursor":…` if there is more (G1-47, U-07).
pub(crate) fn push_next_cursor(out: &mut String, next: Option<&str>) {
    if let Some(next) = next {
        out.push_str(r#","nextCursor":"#);
        json::push_string(out, next);
    }
}
