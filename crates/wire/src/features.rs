//! What a server offers, before a generation gives it its shape.

use crate::json;

/// What a server offers, for both handshakes. Only what is served may be set (U-24): a kind that is absent is refused with −32601.
///
/// ```
/// use longhaul_wire::{Features, Listed, Watched};
/// let features = Features {
///     tools: Some(Listed { list_changed: true }),
///     resources: Some(Watched { list_changed: false, subscribe: true }),
///     ..Features::default()
/// };
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Features {
    /// `tools/*`
    pub tools: Option<Listed>,
    /// `resources/*`
    pub resources: Option<Watched>,
    /// `prompts/*`
    pub prompts: Option<Listed>,
    /// `completion/complete`
    pub completions: bool,
    /// `notifications/message`, on the wish of a request in the modern generation and of a session in the legacy one, which has
    /// `logging/setLevel` too (U-08, U-09).
    pub logging: bool,
    /// `tasks/*`, each generation's own.
    pub tasks: bool,
}

/// A kind of thing that can be listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Listed {
    /// Whether the server tells when the list changes.
    pub list_changed: bool,
}

/// A kind of thing that can be listed, and watched one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Watched {
    /// Whether the server tells when the list changes.
    pub list_changed: bool,
    /// Whether the server tells when one of them changes: `resources/subscribe`, or a modern subscription's `resourceSubscriptions`.
    pub subscribe: bool,
}

impl Features {
    /// Appends the capabilities both generations name alike, each with a leading comma but for the first; returns whether any was written.
    pub(crate) fn push_shared(&self, out: &mut String) -> bool {
        let mut any = false;
        let mut offer = |name, flags: &[(&str, bool)]| {
            out.push_str(if std::mem::replace(&mut any, true) { "," } else { "" });
            json::push_string(out, name);
            out.push(':');
            push_flags(out, flags);
        };
        if let Some(Listed { list_changed }) = self.tools {
            offer("tools", &[("listChanged", list_changed)]);
        }
        if let Some(Watched {
            list_changed,
            subscribe,
        }) = self.resources
        {
            offer("resources", &[("listChanged", list_changed), ("subscribe", subscribe)]);
        }
        if let Some(Listed { list_changed }) = self.prompts {
            offer("prompts", &[("listChanged", list_changed)]);
        }
        if self.completions {
            offer("completions", &[]);
        }
        if self.logging {
            offer("logging", &[]);
        }
        any
    }
}

/// Appends an object of the flags that are set; an absent one means no.
fn push_flags(out: &mut String, flags: &[(&str, bool)]) {
    out.push('{');
    for (nth, (name, _)) in flags.iter().filter(|(_, set)| *set).enumerate() {
        out.push_str(if nth == 0 { "" } else { "," });
        json::push_string(out, name);
        out.push_str(":true");
    }
    out.push('}');
}
