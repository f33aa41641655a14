//! The JSON API. `assets/openapi.json` describes it, and a test compares the two.

use crate::{
    access::Actor,
    action::TaskAction,
    api_body::{ApiBody, RequestBody},
    api_error::ApiError,
    api_query::ApiQuery,
    audit_view::{AuditLines, AuditQuery},
    bulk::{BulkAction, BulkPreview, BulkReport},
    context::AdminContext,
    details::{Stats, TaskPage, task_id},
    metrics::MetricsError,
    nodes::NodesView,
    principals::PrincipalsView,
    query::{self, TaskQuery},
    upstreams::UpstreamView,
    view::{EntryView, TaskDetails, ToolView},
};
use axum::{
    Extension, Json, Router,
    extract::{Path, State},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use http::{StatusCode, header};
use longhaul_core::{InputKey, whole_millis};
use longhaul_runtime::{AttemptFilesError, LogRange};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::RawValue};
use std::{sync::Arc, time::Duration};

/// Of metrics in the format of OpenMetrics.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Entries of a journal in one answer.
const ENTRIES: usize = 100;

pub(crate) fn router() -> Router<Arc<AdminContext>> {
    Router::new()
        .route("/openapi.json", get(open_api))
        .route("/stats", get(stats))
        .route("/events", get(events))
        .route("/tools", get(tools))
        .route("/tools/{name}/call", post(call_tool))
        .route("/tools/{name}/pause", post(pause))
        .route("/tools/{name}/resume", post(resume))
        .route("/audit", get(audit))
        .route("/upstreams", get(upstreams))
        .route("/upstreams/{name}/pause", post(pause_upstream))
        .route("/upstreams/{name}/resume", post(resume_upstream))
        .route("/nodes", get(nodes))
        .route("/nodes/{node}/give-up", post(give_up_host))
        .route("/nodes/{node}/cordon", post(cordon))
        .route("/nodes/{node}/uncordon", post(uncordon))
        .route("/problems", get(problems))
        .route("/principals", get(principals))
        .route("/bulk/{action}", get(preview_bulk).post(bulk))
        .route("/drain", post(drain))
        .route("/tasks", get(tasks))
        .route("/tasks/{id}", get(task).delete(delete_task))
        .route("/tasks/{id}/journal", get(journal))
        .route("/tasks/{id}/log", get(log))
        .route("/tasks/{id}/cancel", post(cancel))
        .route("/tasks/{id}/retry", post(retry))
        .route("/tasks/{id}/reset", post(reset))
        .route("/tasks/{id}/release", post(release))
        .route("/tasks/{id}/raise", post(raise))
        .route("/tasks/{id}/answer", post(answer))
        .fallback(async || {
            ApiError::of(
                StatusCode::NOT_FOUND,
                "not_found",
                "the API has no such address; see /api/openapi.json",
            )
        })
}

async fn open_api() -> Response {
    let json = [(header::CONTENT_TYPE, "application/json")];
    (json, include_str!("../assets/openapi.json")).into_response()
}

async fn stats(State(context): State<Arc<AdminContext>>) -> Result<Json<Stats>, ApiError> {
    Ok(Json(context.stats().await?))
}

async fn events(State(context): State<Arc<AdminContext>>) -> impl IntoResponse {
    context.live.events(context.stop.clone())
}

async fn tools(State(context): State<Arc<AdminContext>>) -> Result<Json<Vec<ToolView>>, ApiError> {
    Ok(Json(context.tools().await?))
}

/// The arguments of a call.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallBody {
    arguments: Box<RawValue>,
}

impl RequestBody for CallBody {
    const EXAMPLE: &str = r#"{"arguments": {"name": "value"}}"#;
}

async fn call_tool(
    State(context): State<Arc<AdminContext>>,
    Extension(actor): Extension<Actor>,
    Path(name): Path<String>,
    ApiBody(CallBody { arguments }): ApiBody<CallBody>,
) -> Result<Json<Value>, ApiError> {
    let arguments = longhaul_core::Json::from(&*arguments);
    let task = context.call_tool(&actor, &name, arguments).await?;
    Ok(Json(json!({"done": true, "task": task.id.as_str()})))
}

async fn pause(
    State(context): State<Arc<AdminContext>>,
    Extension(actor): Extension<Actor>,
    Path(name): Path<String>,
) -> Result<Json<Value>, ApiError> {
    context.set_paused(&actor, &name, true).await?;
    Ok(Json(json!({"done": true})))
}

async fn resume(
    State(context): State<Arc<AdminContext>>,
    Extension(actor): Extension<Actor>,
    Path(name): Path<String>,
) -> Result<Json<Value>, ApiError> {
    context.set_paused(&actor, &name, false).await?;
    Ok(Json(json!({"done": true})))
}

async fn audit(
    State(context): State<Arc<AdminContext>>,
    ApiQuery(query): ApiQuery<AuditQuery>,
) -> Result<Json<AuditLines>, ApiError> {
    Ok(Json(context.audit_lines(&query)?))
}

async fn upstreams(State(context): State<Arc<AdminContext>>) -> Result<Json<Vec<UpstreamView>>, ApiError> {
    Ok(Json(context.upstreams().await?))
}

async fn pause_upstream(
    State(context): State<Arc<AdminContext>>,
    Extension(actor): Extension<Actor>,
    Path(name): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let tools = context.set_upstream_paused(&actor, &name, true).await?;
    Ok(Json(json!({"done": true, "tools": tools})))
}

async fn resume_upstream(
    State(context): State<Arc<AdminContext>>,
    Extension(actor): Extension<Actor>,
    Path(name): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let tools = context.set_upstream_paused(&actor, &name, false).await?;
    Ok(Json(json!({"done": true, "tools": tools})))
}

async fn problems(State(context): State<Arc<AdminContext>>) -> Result<Json<Value>, ApiError> {
    let problems = context.problems().await?;
    Ok(Json(json!({"problems": *problems})))
}

async fn nodes(State(context): State<Arc<AdminContext>>) -> Result<Json<NodesView>, ApiError> {
    Ok(Json(context.nodes().await?))
}

async fn give_up_host(
    State(context): State<Arc<AdminContext>>,
    Extension(actor): Extension<Actor>,
    Path(node): Path<i64>,
) -> Result<Json<Value>, ApiError> {
    context.give_up_host(&actor, node).await?;
    Ok(Json(json!({"done": true})))
}

async fn cordon(
    State(context): State<Arc<AdminContext>>,
    Extension(actor): Extension<Actor>,
    Path(node): Path<i64>,
) -> Result<Json<Value>, ApiError> {
    context.set_cordoned(&actor, node, true).await?;
    Ok(Json(json!({"done": true})))
}

async fn uncordon(
    State(context): State<Arc<AdminContext>>,
    Extension(actor): Extension<Actor>,
    Path(node): Path<i64>,
) -> Result<Json<Value>, ApiError> {
    context.set_cordoned(&actor, node, false).await?;
    Ok(Json(json!({"done": true})))
}

async fn principals(State(context): State<Arc<AdminContext>>) -> Result<Json<PrincipalsView>, ApiError> {
    Ok(Json(context.principals().await?.as_ref().clone()))
}

fn bulk_action(name: &str) -> Result<BulkAction, ApiError> {
    BulkAction::named(name).ok_or_else(|| {
        let names = BulkAction::ALL.map(BulkAction::name).join(", ");
        let message = format!("there is no such action on many tasks; there are {names}");
        ApiError::of(StatusCode::NOT_FOUND, "not_found", message)
    })
}

async fn preview_bulk(
    State(context): State<Arc<AdminContext>>,
    Path(name): Path<String>,
    ApiQuery(query): ApiQuery<TaskQuery>,
) -> Result<Json<BulkPreview>, ApiError> {
    Ok(Json(context.preview(bulk_action(&name)?, &query).await?))
}

async fn bulk(
    State(context): State<Arc<AdminContext>>,
    Extension(actor): Extension<Actor>,
    Path(name): Path<String>,
    ApiQuery(query): ApiQuery<TaskQuery>,
) -> Result<Json<BulkReport>, ApiError> {
    Ok(Json(context.act_on_all(&actor, bulk_action(&name)?, &query).await?))
}

/// How a server is drained.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct DrainQuery {
    /// How long what runs may take to end; empty for the server's own setting.
    timeout: String,
}

/// As SIGTERM.
async fn drain(
    State(context): State<Arc<AdminContext>>,
    Extension(actor): Extension<Actor>,
    ApiQuery(DrainQuery { timeout }): ApiQuery<DrainQuery>,
) -> Result<Json<Value>, ApiError> {
    let timeout = query::span("timeout", &timeout)?.map_or(context.drain_timeout, Duration::from_millis);
    context.drain(&actor, Duration::ZERO, timeout);
    Ok(Json(match timeout.is_zero() {
        true => json!({"stopping": true}),
        false => json!({"stopping": true, "timeoutMs": whole_millis(timeout)}),
    }))
}

async fn tasks(
    State(context): State<Arc<AdminContext>>,
    ApiQuery(query): ApiQuery<TaskQuery>,
) -> Result<Json<TaskPage>, ApiError> {
    Ok(Json(context.tasks(&query).await?))
}

async fn task(
    State(context): State<Arc<AdminContext>>,
    Path(text): Path<String>,
) -> Result<Json<TaskDetails>, ApiError> {
    Ok(Json(context.task(&task_id(&text)?).await?))
}

/// Where a part of a journal begins.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct After {
    after: String,
}

/// A part of a journal.
#[derive(Serialize)]
struct JournalPart {
    entries: Vec<EntryView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<u32>,
}

async fn journal(
    State(context): State<Arc<AdminContext>>,
    Path(text): Path<String>,
    ApiQuery(After { after }): ApiQuery<After>,
) -> Result<Json<JournalPart>, ApiError> {
    let record = context.record_of(&task_id(&text)?).await?;
    let after = query::number("after", &after, .., "the position of an entry, such as 100")?.unwrap_or_default();
    let page = context.engine.history(&record.task, after, ENTRIES).await?;
    Ok(Json(JournalPart {
        next: (page.next < page.total).then_some(page.next),
        entries: page
            .found
            .into_iter()
            .map(|(position, entry)| EntryView::of(position, entry))
            .collect(),
    }))
}

/// A part of a log; its end if nothing is said.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct LogPart {
    attempt: String,
    offset: String,
    limit: String,
}

async fn log(
    State(context): State<Arc<AdminContext>>,
    Path(text): Path<String>,
    ApiQuery(LogPart { attempt, offset, limit }): ApiQuery<LogPart>,
) -> Result<Json<Value>, ApiError> {
    let attempt = query::number("attempt", &attempt, 1.., "the number of an attempt, such as 1")?;
    let offset = query::number("offset", &offset, .., "a number of bytes")?;
    let limit = query::number("limit", &limit, .., "a number of bytes")?;
    let record = context.record_of(&task_id(&text)?).await?;
    let range = LogRange { offset, limit };
    let read = context.engine.read_log(&record.task, attempt, range).await;
    let chunk = match read {
        Err(AttemptFilesError::OnHost(host)) => {
            let message = context.where_files_are(&host).await?;
            return Err(ApiError::of(StatusCode::CONFLICT, "other_host", message));
        }
        Err(AttemptFilesError::Store(error)) => return Err(error.into()),
        Err(error) => return Err(ApiError::of(StatusCode::SERVICE_UNAVAILABLE, "log", error.to_string())),
        Ok(chunk) => chunk,
    };
    let chunk = chunk.ok_or_else(|| ApiError::of(StatusCode::NOT_FOUND, "no_log", no_log(attempt)))?;
    Ok(Json(json!({
        "text": chunk.text,
        "offset": chunk.offset,
        "next": chunk.next,
        "total": chunk.total,
    })))
}

fn no_log(attempt: Option<u32>) -> String {
    match attempt {
        Some(attempt) => format!("this task has no log of an attempt {attempt}"),
        None => "this task has no log".to_owned(),
    }
}

/// Does an action on the task of the path.
async fn act(context: &AdminContext, actor: &Actor, text: &str, action: TaskAction) -> Result<Json<Value>, ApiError> {
    let new = context.act(actor, &task_id(text)?, action).await?;
    Ok(Json(match new {
        Some(new) => json!({"done": true, "task": new.id.as_str()}),
        None => json!({"done": true}),
    }))
}

async fn cancel(
    State(context): State<Arc<AdminContext>>,
    Extension(actor): Extension<Actor>,
    Path(text): Path<String>,
) -> Result<Json<Value>, ApiError> {
    act(&context, &actor, &text, TaskAction::Cancel).await
}

async fn retry(
    State(context): State<Arc<AdminContext>>,
    Extension(actor): Extension<Actor>,
    Path(text): Path<String>,
) -> Result<Json<Value>, ApiError> {
    act(&context, &actor, &text, TaskAction::Retry).await
}

/// The first entry that is dropped.
#[derive(Deserialize)]
struct Before {
    before: u32,
}

impl RequestBody for Before {
    const EXAMPLE: &str = r#"{"before": 3}"#;
}

async fn reset(
    State(context): State<Arc<AdminContext>>,
    Extension(actor): Extension<Actor>,
    Path(text): Path<String>,
    ApiBody(Before { before }): ApiBody<Before>,
) -> Result<Json<Value>, ApiError> {
    act(&context, &actor, &text, TaskAction::Reset { before }).await
}

async fn release(
    State(context): State<Arc<AdminContext>>,
    Extension(actor): Extension<Actor>,
    Path(text): Path<String>,
) -> Result<Json<Value>, ApiError> {
    act(&context, &actor, &text, TaskAction::Release).await
}

async fn raise(
    State(context): State<Arc<AdminContext>>,
    Extension(actor): Extension<Actor>,
    Path(text): Path<String>,
) -> Result<Json<Value>, ApiError> {
    act(&context, &actor, &text, TaskAction::Raise).await
}

async fn delete_task(
    State(context): State<Arc<AdminContext>>,
    Extension(actor): Extension<Actor>,
    Path(text): Path<String>,
) -> Result<Json<Value>, ApiError> {
    act(&context, &actor, &text, TaskAction::Delete).await
}

/// An answer as MCP has it, such as `{"action": "accept", "content": {…}}`.
#[derive(Deserialize)]
struct AnswerBody {
    key: String,
    answer: Box<RawValue>,
}

impl RequestBody for AnswerBody {
    const EXAMPLE: &str = r#"{"key": "in-1", "answer": {"action": "accept", "content": {"name": "value"}}}"#;
}

async fn answer(
    State(context): State<Arc<AdminContext>>,
    Extension(actor): Extension<Actor>,
    Path(text): Path<String>,
    ApiBody(AnswerBody { key, answer }): ApiBody<AnswerBody>,
) -> Result<Json<Value>, ApiError> {
    let key = InputKey::named(key.as_str());
    act(&context, &actor, &text, TaskAction::Answer { key, answer }).await
}

pub(crate) async fn metrics(State(context): State<Arc<AdminContext>>) -> Result<Response, ApiError> {
    let text = context.metrics_text().await.map_err(|error| match error {
        MetricsError::Store(error) => ApiError::from(error),
        MetricsError::Text(error) => ApiError::of(StatusCode::INTERNAL_SERVER_ERROR, "metrics", error.to_string()),
    })?;
    Ok(([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response())
}
