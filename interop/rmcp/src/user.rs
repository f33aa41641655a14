//! Answers the server's requests.

// Sampling and roots are deprecated, but servers still use them.
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

/// Answers every request and records it. Clones share the record.
#[derive(Clone, Default)]
pub(crate) struct User {
    record: Arc<Mutex<Record>>,
}

#[derive(Default)]
struct Record {
    asked: Vec<String>,
    progress: Vec<f64>,
}

impl User {
    /// The messages of the elicitations so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.record
            .lock()
            .map(|record| record.asked.clone())
            .unwrap_or_default()
    }

    /// The progress so far.
    pub(crate) fn progress(&self) -> Vec<f64> {
        self.record
            .lock()
            .map(|record| record.progress.clone())
            .unwrap_or_default()
    }

    /// Fills in the form; other elicitations are declined.
    pub(crate) fn answer(&self, question: &ElicitRequestParams) -> ElicitResult {
        let ElicitRequestParams::FormElicitationParams {
            message,
            requested_schema,
            ..
        } = question
        else {
            return ElicitResult::new(ElicitationAction::Decline);
        };
        if let Ok(mut record) = self.record.lock() {
            record.asked.push(message.clone());
        }
        let schema = serde_json::to_value(requested_schema).unwrap_or_default();
        let properties = schema["properties"].as_object().cloned().unwrap_or_default();
        let content: Map<String, Value> = properties
            .into_iter()
            .map(|(name, schema)| (name, example_value(&schema)))
            .collect();
        ElicitResult::new(ElicitationAction::Accept).with_content(content.into())
    }
}

/// A value of the type that the schema requires.
fn example_value(schema: &Value) -> Value {
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
        if let Ok(mut record) = self.record.lock() {
            record.progress.push(progress.progress);
        }
    }
}
