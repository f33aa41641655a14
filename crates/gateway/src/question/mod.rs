//! Questions of an upstream, as they are put to the client of its call.

mod askers;
mod checkpoint;
mod open_questions;

pub(crate) use askers::{Askers, ClientsOfConnection, Context, Listeners, Registration};
pub(crate) use checkpoint::UpstreamTask;

use longhaul_client::InputRequest;
use longhaul_core::{Capability, Json, JsonMembers, canonical_digest};
use longhaul_runtime::Question;
use longhaul_wire::relayed;
use serde_json::Value;

/// What an upstream asks, without what belongs to its connection.
pub(crate) struct UpstreamQuestion {
    request: Json,
    /// The digest of the text.
    pub(crate) digest: String,
    /// The upstream's name for it, which it uses once in a task.
    key: Option<String>,
    of_task: bool,
}

impl UpstreamQuestion {
    pub(crate) fn of(asked: &InputRequest) -> Self {
        let method = Value::from(asked.method.as_str());
        let request = match asked.params.is_null() {
            true => format!(r#"{{"method":{method}}}"#),
            false => {
                let params = relayed::question(asked.params.as_json());
                format!(r#"{{"method":{method},"params":{}}}"#, params.as_str())
            }
        };
        let request = Json::trusted(request);
        let digest = canonical_digest(&request);
        Self {
            digest: digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect(),
            request,
            key: asked.key.clone(),
            of_task: asked.task.is_some(),
        }
    }

    /// The key of a question in a round of a request. Such a key is unique in its round only.
    pub(crate) fn round_key(&self) -> Option<&str> {
        self.key.as_deref().filter(|_| !self.of_task)
    }

    /// As the client is asked. `nth` counts the questions with this text that have no key, or those with another text that have this key in a round.
    pub(crate) fn put(&self, nth: u32) -> Question {
        let name = match (&self.key, self.of_task) {
            (Some(key), true) => format!("task {key}"),
            // The client of a round sees the name. As far as it can be, it is that of the upstream.
            (Some(key), false) if nth == 1 => key.clone(),
            (Some(key), false) => format!("{key} {nth}"),
            (None, _) => format!("asked {} {nth}", self.digest),
        };
        let request = self.request.clone();
        Question {
            name: Some(name.into()),
            needs: Capability::needed_by(&request),
            ..Question::new(request)
        }
    }

    /// Whether it needs to be counted.
    pub(crate) fn has_key(&self) -> bool {
        self.key.is_some()
    }
}

/// The members of a `_meta` without those that MCP and Longhaul define, and without the progress token, which is that of the sender's connection.
pub(crate) fn foreign_meta(meta: &JsonMembers) -> JsonMembers {
    let is_foreign = |key: &str| {
        key != "progressToken" && !key.starts_with("io.modelcontextprotocol/") && !key.starts_with("dev.longhaul/")
    };
    let foreign = meta.iter().filter(|(key, _)| is_foreign(key));
    foreign.map(|(key, value)| (key.clone(), value.clone())).collect()
}
