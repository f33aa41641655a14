//! Client capabilities: what a client declares in `initialize`, or in each modern request.

use crate::{json, object::object};
use serde_json::value::RawValue;

/// The client capabilities Longhaul acts on. A legacy client declares them for a session, a modern one in each request.
///
/// A capability counts as declared if its member is an object, whatever the object holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct ClientCapabilities {
    /// `extensions["io.modelcontextprotocol/tasks"]`: accepts a task as the answer to a call.
    pub tasks: bool,
    /// `tasks`: the legacy capability. In a modern request it only gives access to the client's own legacy tasks.
    pub legacy_tasks: bool,
    /// `tasks.requests.elicitation.create`: hosts tasks for elicitation itself.
    pub hosts_elicitation: bool,
    /// `tasks.requests.sampling.createMessage`: hosts tasks for sampling itself.
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

/// A client capability that a request or an input request can require.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    /// The tasks extension.
    Tasks,
    /// Elicitation by form.
    ElicitationForm,
    /// Elicitation by URL.
    ElicitationUrl,
    /// Sampling: requests to the client's model.
    Sampling,
    /// Sampling with tools the model may call.
    SamplingTools,
    /// Listing the client's roots.
    Roots,
}

impl Capability {
    pub(crate) fn as_json(self) -> &'static str {
        match self {
            Self::Tasks => r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#,
            Self::ElicitationForm => r#"{"elicitation":{"form":{}}}"#,
            Self::ElicitationUrl => r#"{"elicitation":{"url":{}}}"#,
            Self::Sampling => r#"{"sampling":{}}"#,
            Self::SamplingTools => r#"{"sampling":{"tools":{}}}"#,
            Self::Roots => r#"{"roots":{}}"#,
        }
    }
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

/// Reads the object at `raw` into a struct of [`object!`]. An absent or malformed object reads as empty.
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
            // An empty object means form mode: URL mode was added later.
            elicitation_form: declared(top.elicitation) && (declared(modes.form) || modes.url.is_none()),
            elicitation_url: declared(modes.url),
            sampling: declared(top.sampling),
            sampling_tools: declared(read!(Sampling, top.sampling).tools),
            roots: declared(top.roots),
        })
    }

    /// Whether the client has declared `capability` (for [`Capability::Tasks`]: the modern extension).
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
    fn only_objects_count_as_declared() {
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
    fn empty_elicitation_means_form_and_url_alone_does_not() {
        assert!(read(r#"{"elicitation":{}}"#).elicitation_form);
        let url = read(r#"{"elicitation":{"url":{}}}"#);
        assert!(url.elicitation_url && !url.elicitation_form);
    }
}
