//! What a server offers, before a generation gives it its shape.

use crate::json;

/// What a server offers, for both handshakes. Only what is served may be set (U-24).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Features {
    /// `tools/*`
    pub tools: bool,
    /// `resources/*`
    pub resources: bool,
    /// `prompts/*`
    pub prompts: bool,
    /// `completion/complete`
    pub completions: bool,
    /// `tasks/*`, each generation's own.
    pub tasks: bool,
}

impl Features {
    /// Appends the capabilities both generations name alike, each with a leading comma but for the first; returns whether any was written.
    pub(crate) fn push_shared(&self, out: &mut String) -> bool {
        let shared = [
            ("tools", self.tools),
            ("resources", self.resources),
            ("prompts", self.prompts),
            ("completions", self.completions),
        ];
        let mut any = false;
        for (name, _) in shared.into_iter().filter(|(_, offered)| *offered) {
            if std::mem::replace(&mut any, true) {
                out.push(',');
            }
            json::push_string(out, name);
            out.push_str(":{}");
        }
        any
    }
}
