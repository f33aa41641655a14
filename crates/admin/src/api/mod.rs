//! The JSON API. `assets/openapi.json` describes it, and a test compares the two.

mod artifacts;
mod body;
pub(crate) mod error;
pub(crate) mod framework_error;
mod parameters;

use crate::{
    access::Actor,
    action::{BULK_ACTIONS, BulkAction, NodeAction, ScheduleAction, TaskAction, pauses},
    context::AdminContext,
    metrics::MetricsError,
    query,
    view::{details::task_id, entry_view},
};
use axum::{
    Extension, Json, Router,
    extract::{FromRequest as _, Path, Request, State},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use body::{ApiBody, RequestBody};
use error::ApiError;
use http::{StatusCode, header};
use longhaul_admin_api::{
    ActionReport, AnswerBody, AuditLines, AuditQuery, BulkPreview, BulkReport, CallBody, DrainQuery, DrainReport,
    JournalPart, JournalQuery, LogPart, LogQuery, NodesView, PrincipalsView, ProblemsView, ResetBody, SchedulePage,
    ScheduleQuery, StatsView, TaskDetails, TaskPage, TaskQuery, ToolView, UpstreamPause, UpstreamView,
};
use longhaul_core::{InputKey, Task, whole_millis};
use longhaul_runtime::{AttemptFilesError, LogRange};
use parameters::ApiQuery;
use serde_json::Value;
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
        .route("/tools/{name}/{action}", post(act_on_tool))
        .route("/audit", get(audit))
        .route("/schedules", get(schedules))
        .route("/schedules/{name}/{action}", post(act_on_schedule))
        .route("/upstreams", get(upstreams))
        .route("/upstreams/{name}/{action}", post(act_on_upstream))
        .route("/nodes", get(nodes))
        .route("/nodes/{node}/{action}", post(act_on_node))
        .route("/problems", get(problems))
        .route("/principals", get(principals))
        .route("/bulk/{action}", get(preview_bulk).post(bulk))
        .route("/drain", post(drain))
        .route("/tasks", get(tasks))
        .route("/tasks/{id}", get(task).delete(delete_task))
        .route("/tasks/{id}/journal", get(journal))
        .route("/tasks/{id}/log", get(log))
        .route("/tasks/{id}/artifacts", get(artifacts::list))
        .route("/tasks/{id}/artifacts/{*name}", get(artifacts::download))
        .route("/tasks/{id}/{action}", post(act_on_task))
        .fallback(async || no_such_address())
}

fn no_such_address() -> ApiError {
    ApiError::of(
        StatusCode::NOT_FOUND,
        "not_found",
        "the API has no such address; see /api/openapi.json",
    )
}

/// What an action answers that may have made a new task.
fn done(new: Option<&Task>) -> Json<ActionReport> {
    Json(ActionReport {
        done: true,
        task: new.map(|new| new.id.to_string()),
    })
}

async fn open_api() -> Response {
    let json = [(header::CONTENT_TYPE, "application/json")];
    (json, include_str!("../../assets/openapi.json")).into_response()
}

async fn stats(State(context): State<Arc<AdminContext>>) -> Result<Json<StatsView>, ApiError> {
    Ok(Json(context.stats().await?))
}

async fn events(State(context): State<Arc<AdminContext>>) -> impl IntoResponse {
    context.live.events(context.stop.clone())
}

async fn tools(State(context): State<Arc<AdminContext>>) -> Result<Json<Vec<ToolView>>, ApiError> {
    Ok(Json(context.tools().await?))
}

impl RequestBody for CallBody {
    const EXAMPLE: &str = r#"{"arguments": {"name": "value"}}"#;
}

async fn call_tool(
    State(context): State<Arc<AdminContext>>,
    Extension(actor): Extension<Actor>,
    Path(name): Path<String>,
    ApiBody(CallBody { arguments }): ApiBody<CallBody>,
) -> Result<Json<ActionReport>, ApiError> {
    let arguments = longhaul_core::Json::from(&*arguments);
    let task = context.call_tool(&actor, &name, arguments).await?;
    Ok(done(Some(&task)))
}

async fn act_on_tool(
    State(context): State<Arc<AdminContext>>,
    Extension(actor): Extension<Actor>,
    Path((name, action)): Path<(String, String)>,
) -> Result<Json<ActionReport>, ApiError> {
    let paused = pauses(&action).ok_or_else(no_such_address)?;
    context.set_paused(&actor, &name, paused).await?;
    Ok(done(None))
}

async fn audit(
    State(context): State<Arc<AdminContext>>,
    ApiQuery(query): ApiQuery<AuditQuery>,
) -> Result<Json<AuditLines<Value>>, ApiError> {
    Ok(Json(context.audit_lines(&query)?))
}

async fn upstreams(State(context): State<Arc<AdminContext>>) -> Result<Json<Vec<UpstreamView>>, ApiError> {
    Ok(Json(context.upstreams().await?))
}

async fn act_on_upstream(
    State(context): State<Arc<AdminContext>>,
    Extension(actor): Extension<Actor>,
    Path((name, action)): Path<(String, String)>,
) -> Result<Json<UpstreamPause>, ApiError> {
    let paused = pauses(&action).ok_or_else(no_such_address)?;
    let tools = context.set_upstream_paused(&actor, &name, paused).await?;
    Ok(Json(UpstreamPause { done: true, tools }))
}

async fn schedules(
    State(context): State<Arc<AdminContext>>,
    ApiQuery(query): ApiQuery<ScheduleQuery>,
) -> Result<Json<SchedulePage>, ApiError> {
    Ok(Json(context.schedules(&query).await?))
}

async fn act_on_schedule(
    State(context): State<Arc<AdminContext>>,
    Extension(actor): Extension<Actor>,
    Path((name, action)): Path<(String, String)>,
) -> Result<Json<ActionReport>, ApiError> {
    let action = ScheduleAction::named(&action).ok_or_else(no_such_address)?;
    let started = context.act_on_schedule(&actor, &name, action).await?;
    Ok(done(started.as_ref()))
}

async fn problems(State(context): State<Arc<AdminContext>>) -> Result<Json<ProblemsView>, ApiError> {
    let problems = context.problems().await?.as_ref().clone();
    Ok(Json(ProblemsView { problems }))
}

async fn nodes(State(context): State<Arc<AdminContext>>) -> Result<Json<NodesView>, ApiError> {
    Ok(Json(context.nodes().await?))
}

async fn act_on_node(
    State(context): State<Arc<AdminContext>>,
    Extension(actor): Extension<Actor>,
    Path((node, action)): Path<(i64, String)>,
) -> Result<Json<ActionReport>, ApiError> {
    let action = NodeAction::named(&action).ok_or_else(no_such_address)?;
    context.act_on_node(&actor, node, action).await?;
    Ok(done(None))
}

async fn principals(State(context): State<Arc<AdminContext>>) -> Result<Json<PrincipalsView>, ApiError> {
    Ok(Json(context.principals().await?.as_ref().clone()))
}

fn bulk_action(name: &str) -> Result<&'static BulkAction, ApiError> {
    BulkAction::named(name).ok_or_else(|| {
        let names = BULK_ACTIONS.each_ref().map(|action| action.name).join(", ");
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

/// As SIGTERM.
async fn drain(
    State(context): State<Arc<AdminContext>>,
    Extension(actor): Extension<Actor>,
    ApiQuery(DrainQuery { timeout }): ApiQuery<DrainQuery>,
) -> Result<Json<DrainReport>, ApiError> {
    let timeout = query::span("timeout", &timeout)?.map_or(context.drain_timeout, Duration::from_millis);
    context.drain(&actor, Duration::ZERO, timeout);
    Ok(Json(DrainReport {
        stopping: true,
        timeout_ms: Some(whole_millis(timeout)).filter(|timeout| *timeout > 0),
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

async fn journal(
    State(context): State<Arc<AdminContext>>,
    Path(text): Path<String>,
    ApiQuery(JournalQuery { after }): ApiQuery<JournalQuery>,
) -> Result<Json<JournalPart>, ApiError> {
    let record = context.record_of(&task_id(&text)?).await?;
    let after = query::number("after", &after, .., "the position of an entry, such as 100")?.unwrap_or_default();
    let page = context.engine.history(&record.task, after, ENTRIES).await?;
    Ok(Json(JournalPart {
        next: (page.next < page.total).then_some(page.next),
        entries: page
            .found
            .into_iter()
            .map(|(position, entry)| entry_view(position, entry))
            .collect(),
    }))
}

async fn log(
    State(context): State<Arc<AdminContext>>,
    Path(text): Path<String>,
    ApiQuery(LogQuery { attempt, offset, limit }): ApiQuery<LogQuery>,
) -> Result<Json<LogPart>, ApiError> {
    let attempt = query::number("attempt", &attempt, 1.., "the number of an attempt, such as 1")?;
    let offset = query::number("offset", &offset, .., "a number of bytes")?;
    let limit = query::number("limit", &limit, .., "a number of bytes")?;
    let record = context.record_of(&task_id(&text)?).await?;
    let range = LogRange { offset, limit };
    let read = context.engine.read_log(&record.task, attempt, range).await;
    let chunk = match read {
        Err(error) => return Err(files_error(&context, error).await),
        Ok(chunk) => chunk,
    };
    let chunk = chunk.ok_or_else(|| ApiError::of(StatusCode::NOT_FOUND, "no_log", no_log(attempt)))?;
    Ok(Json(LogPart {
        text: chunk.text,
        offset: chunk.offset,
        next: chunk.next,
        total: chunk.total,
    }))
}

/// Why files of an attempt cannot be read.
async fn files_error(context: &AdminContext, error: AttemptFilesError) -> ApiError {
    match error {
        AttemptFilesError::OnHost(host) => match context.where_files_are(&host).await {
            Ok(message) => ApiError::of(StatusCode::CONFLICT, "other_host", message),
            Err(error) => error.into(),
        },
        AttemptFilesError::Store(error) => error.into(),
        error => ApiError::of(StatusCode::SERVICE_UNAVAILABLE, "log", error.to_string()),
    }
}

fn no_log(attempt: Option<u32>) -> String {
    match attempt {
        Some(attempt) => format!("this task has no log of an attempt {attempt}"),
        None => "this task has no log".to_owned(),
    }
}

/// Does an action on the task of the path.
async fn act_on_task(
    State(context): State<Arc<AdminContext>>,
    Extension(actor): Extension<Actor>,
    Path((text, action)): Path<(String, String)>,
    request: Request,
) -> Result<Json<ActionReport>, ApiError> {
    let action = task_action(&action, request).await?;
    let new = context.act(&actor, &task_id(&text)?, action).await?;
    Ok(done(new.as_ref()))
}

/// The action of this name, with what the request says of it.
async fn task_action(name: &str, request: Request) -> Result<TaskAction, ApiError> {
    match name {
        "reset" => {
            let ApiBody(ResetBody { before }) = ApiBody::from_request(request, &()).await?;
            Ok(TaskAction::Reset { before })
        }
        "answer" => {
            let ApiBody(AnswerBody { key, answer }) = ApiBody::from_request(request, &()).await?;
            let key = InputKey::named(key.as_str());
            Ok(TaskAction::Answer { key, answer })
        }
        // Tasks are deleted by DELETE.
        "delete" => Err(no_such_address()),
        name => TaskAction::named(name).ok_or_else(no_such_address),
    }
}

impl RequestBody for ResetBody {
    const EXAMPLE: &str = r#"{"before": 3}"#;
}

impl RequestBody for AnswerBody {
    const EXAMPLE: &str = r#"{"key": "in-1", "answer": {"action": "accept", "content": {"name": "value"}}}"#;
}

async fn delete_task(
    State(context): State<Arc<AdminContext>>,
    Extension(actor): Extension<Actor>,
    Path(text): Path<String>,
) -> Result<Json<ActionReport>, ApiError> {
    context.act(&actor, &task_id(&text)?, TaskAction::Delete).await?;
    Ok(done(None))
}

pub(crate) async fn metrics(State(context): State<Arc<AdminContext>>) -> Result<Response, ApiError> {
    let text = context.metrics_text().await.map_err(|error| match error {
        MetricsError::Store(error) => ApiError::from(error),
        MetricsError::Text(error) => ApiError::of(StatusCode::INTERNAL_SERVER_ERROR, "metrics", error.to_string()),
    })?;
    Ok(([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response())
}
