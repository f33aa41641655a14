//! The parts of list results that are the same in both generations: entries and `nextCursor`.

use crate::json;

/// A kind of list whose entries are the same in both generations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListKind {
    /// `resources/list`
    Resources,
    /// `resources/templates/list`
    ResourceTemplates,
    /// `prompts/list`
    Prompts,
}

impl ListKind {
    /// Appends `"resources":[…]` or its counterpart. Each entry is JSON text: a Resource, a ResourceTemplate or a Prompt.
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

/// Appends `,"nextCursor":…` if there is a next page.
pub(crate) fn push_next_cursor(out: &mut String, next: Option<&str>) {
    if let Some(next) = next {
        out.push_str(r#","nextCursor":"#);
        json::push_string(out, next);
    }
}
