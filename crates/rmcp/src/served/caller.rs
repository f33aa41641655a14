//! On whose behalf the handler works, and how what it says and asks gets there.

use longhaul_core::{Json, LogLevel, StopReason};
use longhaul_runtime::{AskError, Question, RequestContext, Requestor, TaskContext, Trace};
use rmcp::model::{ClientCapabilities, Implementation, InitializeRequestParams, ProtocolVersion};
use serde_json::{Map, Value, json};
use std::{sync::Arc, time::Duration};

/// The sender of a request.
pub(super) enum Caller {
    /// Of a tool's call, which may outlast the connection it came by.
    Task(TaskContext),
    /// Of a request that is answered while it lasts.
    Request(RequestContext),
    /// Nobody: we want to know it ourselves.
    Us,
}

impl Caller {
    fn requestor(&self) -> Option<&Arc<Requestor>> {
        match self {
            Self::Task(cx) => Some(cx.requestor()),
            Self::Request(cx) => Some(cx.requestor()),
            Self::Us => None,
        }
    }

    /// As the handler sees it: a client of 2025-11-25, since that is the revision in which rmcp lets a handler both ask and be asked.
    pub(super) fn introduction(&self) -> InitializeRequestParams {
        let requestor = self.requestor();
        let client = requestor.and_then(|requestor| serde_json::from_value(requestor.client.clone()?).ok());
        let client = client.unwrap_or_else(|| Implementation::new("longhaul", env!("CARGO_PKG_VERSION")));
        let abilities = requestor.map(|requestor| capabilities(requestor)).unwrap_or_default();
        InitializeRequestParams::new(abilities, client).with_protocol_version(ProtocolVersion::V_2025_11_25)
    }

    /// `_meta` of the handler's request: the caller's, as far as it is no business of the connection it came by.
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
            Self::Us => Err(AskError::Withdrawn),
        }
    }

    pub(super) fn report(&self, current: f64, total: Option<f64>, message: Option<&str>) {
        match self {
            Self::Task(cx) => cx.report(current, total, message),
            Self::Request(cx) => cx.progress(current, total, message),
            Self::Us => {}
        }
    }

    pub(super) fn page_done(&self, id: &str) {
        match self {
            Self::Task(cx) => cx.elicitation_complete(&id.into()),
            Self::Request(cx) => cx.elicitation_complete(&id.into()),
            Self::Us => {}
        }
    }

    pub(super) fn log(&self, level: LogLevel, logger: Option<&str>, data: Value) {
        match self {
            Self::Task(cx) => cx.log(level, logger, data.into()),
            Self::Request(cx) => cx.log(level, logger, data.into()),
            Self::Us => {}
        }
    }

    /// Completes when the work is asked to stop. A request that nobody waits for any more is dropped instead.
    pub(super) async fn stopped(&self) -> StopReason {
        match self {
            Self::Task(cx) => cx.stopped().await,
            Self::Request(_) | Self::Us => std::future::pending().await,
        }
    }

    pub(super) async fn sleep(&self, time: Duration) {
        match self {
            Self::Task(cx) => cx.ports().clock.sleep(time).await,
            Self::Request(cx) => cx.ports().clock.sleep(time).await,
            Self::Us => {}
        }
    }
}

/// What the caller has declared. Tasks are not among it: they are Longhaul's business, and the handler is to answer with results.
fn capabilities(requestor: &Requestor) -> ClientCapabilities {
    let has = requestor.abilities;
    let mut declared = Map::new();
    let mut elicitation = Map::new();
    if has.elicit_form {
        elicitation.insert("form".to_owned(), json!({}));
    }
    if has.elicit_url {
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
