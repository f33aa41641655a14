//! What a client says it can do.

use crate::{error::Capability, json, object::object};
use serde_json::value::RawValue;

/// The declarations Longhaul acts on: per request in the modern generation, per session in the legacy one.
///
/// A declaration is an object; any object counts, anything else does not (C-22).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct ClientCapabilities {
    /// `extensions["io.modelcontextprotocol/tasks"]`: can cope with a task as an answer (G2).
    pub tasks: bool,
    /// `tasks`: the legacy declaration. A modern request counts as one that declares nothing (G2-09), but for tasks of its own that are
    /// legacy too (C-12).
    pub legacy_tasks: bool,
    /// `tasks.requests.elicitation.create`: hosts tasks for elicitation itself (G1-03).
    pub hosts_elicitation: bool,
    /// `tasks.requests.sampling.createMessage`: hosts tasks for sampling itself (G1-03).
    pub hosts_sampling: bool,
    /// `elicitation`, empty or with `form`.
    pub elicitation_form: bool,
    /// `elicitation.url`.
    pub elicitation_url: bool,
    /// `sampling`.
    pub sampling: bool,
    /// `sampling.tools`.
    pub sampling_tools: bool,
    /// `roots`.
    pub roots: bool,
}

object! {
    struct Declared {
        extensions = "extensions",
        tasks = "tasks",
        elicitation = "elicitation",
        sampling = "sampling",
        roots = "roots",
    }
}
object! { struct Extensions { tasks = "io.modelcontextprotocol/tasks", } }
object! { struct Tasks { requests = "requests", } }
object! { struct Requests { elicitation = "elicitation", sampling = "sampling", } }
object! { struct Modes { form = "form", url = "url", create = "create", } }
object! { struct Sampling { tools = "tools", create_message = "createMessage", } }

/// Reads the object at `raw` into a struct of [`object!`]; what is absent, no object, or garbled reads as empty.
macro_rules! read {
    ($name:ident, $raw:expr) => {{
        let mut read = $name::default();
        if let Some(raw) = $raw
            && read.fill(raw.get()).is_err()
        {
            read = $name::default();
        }
        read
    }};
}

fn declared(raw: Option<&RawValue>) -> bool {
    raw.is_some_and(json::is_object)
}

impl ClientCapabilities {
    /// Reads a `capabilities` object; `None` if `raw` is not an object.
    pub fn read(raw: &RawValue) -> Option<Self> {
        let mut top = Declared::default();
        top.fill(raw.get()).ok()?;
        let requests = read!(Requests, read!(Tasks, top.tasks).requests);
        let modes = read!(Modes, top.elicitation);
        Some(Self {
            tasks: declared(read!(Extensions, top.extensions).tasks),
            legacy_tasks: declared(top.tasks),
            hosts_elicitation: declared(read!(Modes, requests.elicitation).create),
            hosts_sampling: declared(read!(Sampling, requests.sampling).create_message),
            // An empty object means form: URL mode came later.
            elicitation_form: declared(top.elicitation) && (declared(modes.form) || modes.url.is_none()),
            elicitation_url: declared(modes.url),
            sampling: declared(top.sampling),
            sampling_tools: declared(read!(Sampling, top.sampling).tools),
            roots: declared(top.roots),
        })
    }

    /// Whether `capability` was declared in the modern way.
    pub fn has(&self, capability: Capability) -> bool {
        match capability {
            Capability::Tasks => self.tasks,
            Capability::ElicitationForm => self.elicitation_form,
            Capability::ElicitationUrl => self.elicitation_url,
            Capability::Sampling => self.sampling,
            Capability::SamplingTools => self.sampling_tools,
            Capability::Roots => self.roots,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> ClientCapabilities {
        ClientCapabilities::read(serde_json::from_str(text).unwrap()).unwrap()
    }

    #[test]
    fn declarations_are_objects() {
        assert_eq!(read("{}"), ClientCapabilities::default());
        assert_eq!(
            read(r#"{"elicitation":null,"sampling":true,"roots":[],"tasks":1}"#),
            ClientCapabilities::default()
        );
        let all = read(
            r#"{"extensions":{"x":1,"io.modelcontextprotocol/tasks":{}},"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},
                "roots":{"listChanged":true},"tasks":{"list":{},"requests":{"elicitation":{"create":{}},"sampling":{"createMessage":{}}}}}"#,
        );
        assert!(all.tasks && all.legacy_tasks && all.hosts_elicitation && all.hosts_sampling);
        assert!(all.elicitation_form && all.elicitation_url && all.sampling && all.sampling_tools && all.roots);
    }

    #[test]
    fn an_empty_elicitation_means_form_and_url_alone_does_not() {
        assert!(read(r#"{"elicitation":{}}"#).elicitation_form);
        let url = read(r#"{"elicitation":{"url":{}}}"#);
        assert!(url.elicitation_url && !url.elicitation_form);
    }
}
