//! Client capabilities: what a client declares in `initialize`, or in each modern request.

use crate::{json, object::object};
use longhaul_core::ClientCapabilities;
use serde_json::value::RawValue;

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

/// Reads a `capabilities` object; `None` if `raw` is not an object. A capability counts as declared if its
/// member is an object, whatever the object holds.
pub fn read(raw: &RawValue) -> Option<ClientCapabilities> {
    let mut top = Declared::default();
    top.fill(raw.get()).ok()?;
    let requests = read!(Requests, read!(Tasks, top.tasks).requests);
    let modes = read!(Modes, top.elicitation);
    Some(ClientCapabilities {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> ClientCapabilities {
        super::read(serde_json::from_str(text).unwrap()).unwrap()
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
