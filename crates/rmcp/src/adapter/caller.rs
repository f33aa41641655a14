//! The sender of a request to the handler: it gets the progress, log messages and questions.

use longhaul_core::{Json, LogLevel, ParsedJson, StopReason};
use longhaul_runtime::{AskError, HandlerContext, Question, RequestContext, Requestor, TaskContext};
use rmcp::model::{ClientCapabilities, Implementation, InitializeRequestParams, ProtocolVersion};
use serde_json::{Map, Value};
use std::{sync::Arc, time::Duration};

/// The sender of a request: a client, or the adapter itself, which has no context.
pub(super) struct Caller(Option<HandlerContext>);

impl Caller {
    /// The client of a tool call, which may outlive its connection.
    pub(super) fn of_task(cx: TaskContext) -> Self {
        Self(Some(HandlerContext::Task(cx)))
    }

    /// The client of a request that is answered on its connection.
    pub(super) fn of_request(cx: RequestContext) -> Self {
        Self(Some(HandlerContext::Request(cx)))
    }

    /// The adapter itself.
    pub(super) fn adapter() -> Self {
        Self(None)
    }

    fn requestor(&self) -> Option<&Arc<Requestor>> {
        self.0.as_ref().map(HandlerContext::requestor)
    }

    /// The client as the handler sees it: of 2025-11-25, the revision in which rmcp lets a handler ask either by requests or in its result.
    pub(super) fn initialize_params(&self) -> InitializeRequestParams {
        let requestor = self.requestor();
        let client = requestor.and_then(|requestor| serde_json::from_str(requestor.client.as_ref()?.as_str()).ok());
        let client = client.unwrap_or_else(|| Implementation::new("longhaul", env!("CARGO_PKG_VERSION")));
        let declared = requestor.map(|requestor| capabilities(requestor)).unwrap_or_default();
        InitializeRequestParams::new(declared, client).with_protocol_version(ProtocolVersion::V_2025_11_25)
    }

    /// `_meta` of the handler's request: that of the client, without the members that concern its connection to Longhaul.
    pub(super) fn meta(&self) -> Map<String, Value> {
        let Some(requestor) = self.requestor() else {
            return Map::new();
        };
        let mut meta = requestor.meta.clone();
        requestor.add_context(&mut meta);
        // rmcp holds values: a number that no Rust type holds is null.
        let value = |json: Json| ParsedJson::from(json).as_value().clone();
        meta.into_iter().map(|(name, json)| (name, value(json))).collect()
    }

    pub(super) async fn ask(&self, question: Question) -> Result<Json, AskError> {
        match &self.0 {
            Some(cx) => cx.ask(question).await,
            None => Err(AskError::Withdrawn),
        }
    }

    pub(super) fn report(&self, current: f64, total: Option<f64>, message: Option<&str>) {
        if let Some(cx) = &self.0 {
            cx.report(current, total, message);
        }
    }

    pub(super) fn elicitation_complete(&self, id: &str) {
        if let Some(cx) = &self.0 {
            cx.elicitation_complete(&id.into());
        }
    }

    pub(super) fn log(&self, level: LogLevel, logger: Option<&str>, data: Value) {
        if let Some(cx) = &self.0 {
            cx.log(level, logger, data.into());
        }
    }

    /// Completes when the task is to stop.
    pub(super) async fn stopped(&self) -> StopReason {
        match &self.0 {
            Some(cx) => cx.stopped().await,
            None => std::future::pending().await,
        }
    }

    pub(super) async fn sleep(&self, time: Duration) {
        if let Some(cx) = &self.0 {
            cx.ports().clock.sleep(time).await;
        }
    }
}

/// The client's capabilities, without tasks: Longhaul makes the tasks, and the handler returns results.
fn capabilities(requestor: &Requestor) -> ClientCapabilities {
    serde_json::from_value(requestor.capabilities.declaration().into()).unwrap_or_default()
}
