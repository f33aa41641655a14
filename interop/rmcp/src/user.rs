//! Who answers what the server asks.

// Sampling and roots are deprecated, and answered as long as there are servers that ask.
#![allow(deprecated)]

use rmcp::{
    ClientHandler, ErrorData,
    model::{
        ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams,
        ElicitResult, ElicitationAction, ElicitationCapability, Implementation, JsonObject, ListRootsResult,
        ProgressNotificationParam, RootsCapabilities, SamplingCapability, SamplingMessage, TASKS_EXTENSION_ID,
    },
    service::{NotificationContext, RequestContext, RoleClient},
};
use serde_json::{Map, Value, json};
use std::sync::{Arc, Mutex};

/// Answers every question, and remembers what it saw. Copies share their memory.
#[derive(Clone, Default)]
pub(crate) struct User {
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    asked: Vec<String>,
    progress: Vec<f64>,
}

impl User {
    /// The messages of the questions so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.seen.lock().map(|seen| seen.asked.clone()).unwrap_or_default()
    }

    /// The progress so far.
    pub(crate) fn progress(&self) -> Vec<f64> {
        self.seen.lock().map(|seen| seen.progress.clone()).unwrap_or_default()
    }

    /// What it would answer to a question, as the protocol has it.
    pub(crate) fn answer(&self, question: &ElicitRequestParams) -> ElicitResult {
        let ElicitRequestParams::FormElicitationParams {
            message,
            requested_schema,
            ..
        } = question
        else {
            return ElicitResult::new(ElicitationAction::Decline);
        };
        if let Ok(mut seen) = self.seen.lock() {
            seen.asked.push(message.clone());
        }
        let schema = serde_json::to_value(requested_schema).unwrap_or_default();
        let properties = schema["properties"].as_object().cloned().unwrap_or_default();
        let content: Map<String, Value> = properties
            .into_iter()
            .map(|(name, schema)| (name, filled_in(&schema)))
            .collect();
        ElicitResult::new(ElicitationAction::Accept).with_content(content.into())
    }
}

/// Something of the kind that the schema wants.
fn filled_in(schema: &Value) -> Value {
    match schema["type"].as_str() {
        Some("boolean") => json!(true),
        Some("integer") => json!(42),
        Some("number") => json!(4.2),
        _ => json!("Ada"),
    }
}

impl ClientHandler for User {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(ElicitationCapability::default());
        capabilities.sampling = Some(SamplingCapability::default());
        capabilities.roots = Some(RootsCapabilities::default());
        capabilities.extensions = Some([(TASKS_EXTENSION_ID.to_owned(), JsonObject::new())].into());
        ClientConfig::new(capabilities, Implementation::new("interop", "1.0.0"))
    }

    async fn create_elicitation(
        &self,
        question: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Ok(self.answer(&question))
    }

    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        Ok(CreateMessageResult::new(
            SamplingMessage::assistant_text("Paris"),
            "a-model".into(),
        ))
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(Vec::new()))
    }

    async fn on_progress(&self, progress: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        if let Ok(mut seen) = self.seen.lock() {
            seen.progress.push(progress.progress);
        }
    }
}
