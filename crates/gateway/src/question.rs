//! Questions of an upstream, as they are put to the client of its call.

use longhaul_client::InputRequest;
use longhaul_core::{Capability, Json, canonical_digest};
use longhaul_runtime::Question;
use serde_json::{Map, Value, json};

/// What an upstream asks, without what belongs to its connection.
pub(crate) struct UpstreamQuestion {
    request: Value,
    /// The digest of the text.
    pub(crate) digest: String,
    /// The upstream's name for it, which it uses once in a task.
    key: Option<String>,
    of_task: bool,
}

impl UpstreamQuestion {
    pub(crate) fn of(asked: &InputRequest) -> Self {
        let mut params = asked.params.clone();
        if let Some(params) = params.as_object_mut() {
            // How the upstream wants to be answered is for the gateway.
            params.remove("task");
            strip_meta(params);
        }
        let mut request = json!({"method": asked.method});
        if !params.is_null() {
            request["params"] = params;
        }
        let digest = canonical_digest(&Json::from(&request));
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
        let request = Json::from(&self.request);
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

/// Removes what MCP and Longhaul define in `_meta`, and the progress token, which is that of the upstream's connection.
pub(crate) fn strip_meta(params: &mut Map<String, Value>) {
    let Some(meta) = params.get_mut("_meta").and_then(Value::as_object_mut) else {
        return;
    };
    meta.retain(|key, _| {
        key != "progressToken" && !key.starts_with("io.modelcontextprotocol/") && !key.starts_with("dev.longhaul/")
    });
    if meta.is_empty() {
        params.remove("_meta");
    }
}
