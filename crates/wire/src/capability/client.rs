//! Client capabilities: what a client declares in `initialize`, or in each modern request.

use crate::json::{
    self,
    object::{self, object},
};
use longhaul_core::ClientCapabilities;
use serde::de::{IgnoredAny, MapAccess};
use serde_json::value::RawValue;

object! {
    /// The members of a `capabilities` object that are read.
    pub(crate) struct DeclaredCapabilities {
        extensions: Extensions = "extensions",
        tasks: Tasks = "tasks",
        elicitation: Modes = "elicitation",
        sampling: Sampling = "sampling",
        roots = "roots",
        experimental = "experimental",
    }
}
object! { struct KnownExtensions { tasks = "io.modelcontextprotocol/tasks", } }
object! { struct Tasks { requests: Requests = "requests", } }
object! { struct Requests { elicitation: Modes = "elicitation", sampling: Sampling = "sampling", } }
object! { struct Modes { form = "form", url = "url", create = "create", } }
object! { struct Sampling { tools = "tools", create_message = "createMessage", } }

/// The extensions that a client declares.
#[derive(Debug, Clone, Copy, Default)]
struct Extensions<'a> {
    known: KnownExtensions<'a>,
    has_others: bool,
}

impl<'a> object::Members<'a> for Extensions<'a> {
    fn read<M: MapAccess<'a>>(&mut self, key: &str, values: &mut M) -> Result<Option<&'static str>, M::Error> {
        match self.known.read_known(key, values)? {
            Some(twice) => Ok(twice),
            None => {
                self.has_others = true;
                values.next_value::<IgnoredAny>().map(|_| None)
            }
        }
    }
}

fn declared(raw: Option<&RawValue>) -> bool {
    raw.is_some_and(json::is_object)
}

/// Reads a `capabilities` object; `None` if `raw` is not an object. A capability counts as declared if its
/// member is an object, whatever the object holds.
pub fn read(raw: &RawValue) -> Option<ClientCapabilities> {
    let mut top = DeclaredCapabilities::default();
    top.fill(raw.get()).ok()?;
    Some(top.capabilities())
}

impl DeclaredCapabilities<'_> {
    /// Whether [`relayed::capabilities`](crate::meta::relayed::capabilities) may find something. Most clients declare no extension but tasks, and a modern one declares it in each request.
    pub(crate) fn may_relay(&self) -> bool {
        self.extensions.members().has_others || self.experimental.is_some()
    }

    /// What is declared. Objects that are absent or malformed count as empty.
    pub(crate) fn capabilities(&self) -> ClientCapabilities {
        let requests = self.tasks.members().requests.members();
        let modes = self.elicitation.members();
        ClientCapabilities {
            tasks: declared(self.extensions.members().known.tasks),
            legacy_tasks: self.tasks.is_object(),
            elicitation_tasks: declared(requests.elicitation.members().create),
            sampling_tasks: declared(requests.sampling.members().create_message),
            // An empty object means form mode: URL mode was added later.
            elicitation_form: self.elicitation.is_object() && (declared(modes.form) || modes.url.is_none()),
            elicitation_url: declared(modes.url),
            sampling: self.sampling.is_object(),
            sampling_tools: declared(self.sampling.members().tools),
            roots: declared(self.roots),
        }
    }
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
        assert!(all.tasks && all.legacy_tasks && all.elicitation_tasks && all.sampling_tasks);
        assert!(all.elicitation_form && all.elicitation_url && all.sampling && all.sampling_tools && all.roots);
    }

    #[test]
    fn what_is_declared_is_read_again() {
        for bits in 0..32_u8 {
            let has = |bit: u8| bits & (1 << bit) != 0;
            let capabilities = ClientCapabilities {
                elicitation_form: has(0),
                elicitation_url: has(1),
                sampling: has(2),
                sampling_tools: has(2) && has(3),
                roots: has(4),
                ..ClientCapabilities::default()
            };
            assert_eq!(
                read(&serde_json::Value::from(capabilities.declaration()).to_string()),
                capabilities
            );
        }
    }

    #[test]
    fn empty_elicitation_means_form_and_url_alone_does_not() {
        assert!(read(r#"{"elicitation":{}}"#).elicitation_form);
        let url = read(r#"{"elicitation":{"url":{}}}"#);
        assert!(url.elicitation_url && !url.elicitation_form);
    }
}
