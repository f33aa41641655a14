//! Server capabilities: what a server declares in `initialize` and `server/discover`.

use crate::{
    json,
    protocol::meta_keys::{DELETION, IDEMPOTENCY},
};
use longhaul_core::{Json, Millis};
use std::sync::Arc;

/// What a server declares. Set only what is served: the methods of an absent capability are answered with −32601.
///
/// ```
/// use longhaul_wire::{ServerCapabilities, ListCapability, ResourcesCapability};
/// let features = ServerCapabilities {
///     tools: Some(ListCapability { list_changed: true }),
///     resources: Some(ResourcesCapability { list_changed: false, subscribe: true }),
///     ..ServerCapabilities::default()
/// };
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerCapabilities {
    /// `tools/*`
    pub tools: Option<ListCapability>,
    /// `resources/*`
    pub resources: Option<ResourcesCapability>,
    /// `prompts/*`
    pub prompts: Option<ListCapability>,
    /// `completion/complete`
    pub completions: bool,
    /// `notifications/message`, at the level that a modern request names or a legacy session has set with `logging/setLevel`.
    pub logging: bool,
    /// `tasks/*`, those of each generation.
    pub tasks: bool,
    /// `tasks/list`, which only the legacy generation has.
    pub task_list: bool,
    /// Whether a call that is repeated under its idempotency key is the same call. Declared with `tasks`.
    pub idempotency: bool,
    /// How long such a key is known at least after the end of its task, in milliseconds.
    pub idempotency_retention: Option<Millis>,
    /// Extensions of the author, by name, each with its settings, an object.
    pub extensions: Arc<[(Arc<str>, Json)]>,
    /// What another server declares behind this one.
    pub relayed: RelayedCapabilities,
}

/// What another server declares, and only its clients act on: by name, each with its settings, an object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RelayedCapabilities {
    /// Of `extensions`.
    pub extensions: Arc<[(Arc<str>, Json)]>,
    /// Of `experimental`.
    pub experimental: Arc<[(Arc<str>, Json)]>,
}

/// The capability of `tools` or `prompts`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ListCapability {
    /// Whether the server notifies clients when the list changes.
    pub list_changed: bool,
}

/// The capability of `resources`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResourcesCapability {
    /// Whether the server notifies clients when the list changes.
    pub list_changed: bool,
    /// Whether the server notifies when a resource changes: `resources/subscribe`, or a modern subscription's `resourceSubscriptions`.
    pub subscribe: bool,
}

impl ServerCapabilities {
    /// Appends the capabilities that both generations write alike. Returns whether any was written.
    pub(crate) fn push_shared(&self, out: &mut String) -> bool {
        let mut any = false;
        let mut offer = |name, flags: &[(&str, bool)]| {
            out.push_str(if std::mem::replace(&mut any, true) { "," } else { "" });
            json::push_string(out, name);
            out.push(':');
            push_flags(out, flags);
        };
        if let Some(ListCapability { list_changed }) = self.tools {
            offer("tools", &[("listChanged", list_changed)]);
        }
        if let Some(ResourcesCapability {
            list_changed,
            subscribe,
        }) = self.resources
        {
            offer("resources", &[("listChanged", list_changed), ("subscribe", subscribe)]);
        }
        if let Some(ListCapability { list_changed }) = self.prompts {
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

/// The largest integer that every JSON parser reads exactly.
const MAX_INTEGER: u64 = (1 << 53) - 1;

impl ServerCapabilities {
    /// Appends the extensions as the member `name`, with `tasks` before those of Longhaul, and with those that are `relayed`, if there are any. `any` says whether a
    /// member comes before. Returns whether one does now.
    pub(crate) fn push_extensions(
        &self,
        out: &mut String,
        any: bool,
        (name, tasks): (&str, &str),
        relayed: &[(Arc<str>, Json)],
    ) -> bool {
        if !self.tasks && self.extensions.is_empty() && relayed.is_empty() {
            return any;
        }
        out.push_str(if any { "," } else { "" });
        json::push_string(out, name);
        out.push_str(":{");
        if self.tasks {
            out.push_str(tasks);
            self.push_own_extensions(out);
        }
        for (nth, (name, settings)) in self.extensions.iter().chain(relayed).enumerate() {
            out.push_str(if nth > 0 || self.tasks { "," } else { "" });
            json::push_string(out, name);
            out.push(':');
            out.push_str(settings.as_str());
        }
        out.push('}');
        true
    }

    /// Appends what is relayed as the member `name`, if there is anything.
    pub(crate) fn push_relayed(out: &mut String, any: bool, name: &str, relayed: &[(Arc<str>, Json)]) {
        Self::default().push_extensions(out, any, (name, ""), relayed);
    }

    /// Appends the members that declare idempotency keys, if there are any, and the deletion of tasks.
    fn push_own_extensions(&self, out: &mut String) {
        if self.idempotency {
            json::push_string(out, IDEMPOTENCY);
            match self.idempotency_retention {
                Some(retention) => out.push_str(&format!(
                    r#":{{"cancel":true,"retentionMs":{}}},"#,
                    retention.min(MAX_INTEGER)
                )),
                None => out.push_str(r#":{"cancel":true},"#),
            }
        }
        json::push_string(out, DELETION);
        out.push_str(":{}");
    }
}

/// Appends an object of the flags that are set.
fn push_flags(out: &mut String, flags: &[(&str, bool)]) {
    out.push('{');
    for (nth, (name, _)) in flags.iter().filter(|(_, set)| *set).enumerate() {
        out.push_str(if nth == 0 { "" } else { "," });
        json::push_string(out, name);
        out.push_str(":true");
    }
    out.push('}');
}
