//! The sender of a request to the handler: it gets the progress, log messages and questions.

use longhaul_core::{Json, LogLevel, StopReason};
use longhaul_runtime::{AskError, Question, RequestContext, Requestor, TaskContext, Trace};
use rmcp::model::{ClientCapabilities, Implementation, InitializeRequestParams, ProtocolVersion};
use serde_json::{Map, Value, json};
use std::{sync::Arc, time::Duration};

/// The sender of a request.
pub(super) enum Caller {
    /// The client of a tool call, which may outlive its connection.
    Task(TaskContext),
    /// The client of a request that is answered on its connection.
    Request(RequestContext),
    /// The adapter itself: there is no client.
    Adapter,
}

impl Caller {
    fn requestor(&self) -> Option<&Arc<Requestor>> {
        match self {
            Self::Task(cx) => Some(cx.requestor()),
            Self::Request(cx) => Some(cx.requestor()),
            Self::Adapter => None,
        }
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
        let mut meta = self
            .requestor()
            .map(|requestor| requestor.meta.clone())
            .unwrap_or_default();
        let trace = self.requestor().and_then(|requestor| requestor.trace.as_ref());
        if let Some(Trace {
            traceparent,
            tracestate,
            baggage,
        }) = trace
        {
            let parts = [
                ("traceparent", traceparent),
                ("tracestate", tracestate),
                ("baggage", baggage),
            ];
            let parts = parts
                .into_iter()
                .filter_map(|(name, part)| Some((name.to_owned(), part.as_deref()?.into())));
            meta.extend(parts);
        }
        meta
    }

    pub(super) async fn ask(&self, question: Question) -> Result<Json, AskError> {
        match self {
            Self::Task(cx) => cx.ask(question).await,
            Self::Request(cx) => cx.ask(question).await,
            Self::Adapter => Err(AskError::Withdrawn),
        }
    }

    pub(super) fn report(&self, current: f64, total: Option<f64>, message: Option<&str>) {
        match self {
            Self::Task(cx) => cx.report(current, total, message),
            Self::Request(cx) => cx.progress(current, total, message),
            Self::Adapter => {}
        }
    }

    pub(super) fn elicitation_complete(&self, id: &str) {
        match self {
            Self::Task(cx) => cx.elicitation_complete(&id.into()),
            Self::Request(cx) => cx.elicitation_complete(&id.into()),
            Self::Adapter => {}
        }
    }

    pub(super) fn log(&self, level: LogLevel, logger: Option<&str>, data: Value) {
        match self {
            Self::Task(cx) => cx.log(level, logger, data.into()),
            Self::Request(cx) => cx.log(level, logger, data.into()),
            Self::Adapter => {}
        }
    }

    /// Completes when the task is to stop. A request whose client has gone is dropped instead.
    pub(super) async fn stopped(&self) -> StopReason {
        match self {
            Self::Task(cx) => cx.stopped().await,
            Self::Request(_) | Self::Adapter => std::future::pending().await,
        }
    }

    pub(super) async fn sleep(&self, time: Duration) {
        match self {
            Self::Task(cx) => cx.ports().clock.sleep(time).await,
            Self::Request(cx) => cx.ports().clock.sleep(time).await,
            Self::Adapter => {}
        }
    }
}

/// The client's capabilities, without tasks: Longhaul makes the tasks, and the handler returns results.
fn capabilities(requestor: &Requestor) -> ClientCapabilities {
    let has = requestor.capabilities;
    let mut declared = Map::new();
    let mut elicitation = Map::new();
    if has.elicitation_form {
        elicitation.insert("form".to_owned(), json!({}));
    }
    if has.elicitation_url {
        elicitation.insert("url".to_owned(), json!({}));
    }
    if !elicitation.is_empty() {
        declared.insert("elicitation".to_owned(), elicitation.into());
    }
    if has.sampling {
        let sampling = if has.sampling_tools {
            json!({"tools": {}})
        } else {
            json!({})
        };
        declared.insert("sampling".to_owned(), sampling);
    }
    if has.roots {
        declared.insert("roots".to_owned(), json!({}));
    }
    serde_json::from_value(declared.into()).unwrap_or_default()
}
