//! The list of tasks. Its filter is in the address, so that it can be kept and sent.

use super::{Frame, PageError, drawn, filters};
use crate::{action::BULK_ACTIONS, context::AdminContext, view::details::ReadError};
use askama::Template;
use axum::{
    extract::{OriginalUri, Query, State},
    response::{IntoResponse, Response},
};
use http::StatusCode;
use longhaul_admin_api::{ProblemView, TaskQuery, TaskView, Word, labels, labels_text, to_url};
use longhaul_core::{Label, approximate_duration, plain_line};
use std::sync::Arc;

#[derive(Template)]
#[template(path = "tasks.html")]
struct TasksPage {
    frame: Frame,
    problems: Arc<Vec<ProblemView>>,
    tabs: Vec<Tab>,
    queue_age: Option<String>,
    is_filtered: bool,
    query: TaskQuery,
    tools: Vec<String>,
    upstreams: Vec<String>,
    error: Option<String>,
    hint: Option<String>,
    tasks: Vec<TaskRow>,
    next: Option<String>,
    /// What can be done to all tasks that the filter finds: the words, and the page that asks.
    bulk: Vec<(&'static str, String)>,
}

/// A filter that is one click away.
struct Tab {
    label: &'static str,
    href: String,
    count: Option<u64>,
    is_chosen: bool,
}

struct TaskRow {
    id: String,
    tool: String,
    state: Word,
    asks: bool,
    principal: String,
    labels: Vec<LabelLink>,
    created_at: String,
    age: String,
    status: String,
    /// What was made of it: `retried` or `reset`, and the new task.
    successor: Option<(&'static str, String)>,
    /// Which attempt it is, if it was tried before.
    attempt: Option<u32>,
    progress: Option<f64>,
}

/// A label, and the address of the list of the tasks that also have it.
pub(super) struct LabelLink {
    pub(super) text: String,
    pub(super) href: String,
}

impl LabelLink {
    /// Those of a task that `query` has found.
    pub(super) fn all(task: &TaskView, query: &TaskQuery) -> Vec<Self> {
        let chosen = labels(&query.label).unwrap_or_default();
        let labels = task.labels.iter().filter_map(|(name, value)| Label::new(name, value));
        let link = |label: Label| {
            let others = chosen.iter().filter(|other| **other != label);
            let text = label.to_string();
            let wanted = TaskQuery {
                label: labels_text(others.chain([&label])),
                after: String::new(),
                ..query.clone()
            };
            let href = address(&wanted);
            Self { text, href }
        };
        labels.map(link).collect()
    }
}

impl TaskRow {
    fn of(task: TaskView, query: &TaskQuery) -> Self {
        Self {
            labels: LabelLink::all(&task, query),
            age: match task.ended_ms_ago {
                Some(ago) => format!(
                    "ended {} ago, took {}",
                    approximate_duration(ago),
                    approximate_duration(task.age_ms)
                ),
                None => approximate_duration(task.age_ms),
            },
            progress: task.fraction(),
            attempt: Some(task.attempts_used).filter(|attempt| *attempt > 1),
            status: match (task.question, task.last_line) {
                (Some(question), _) => plain_line(&format!("asks: {question}")),
                (None, None) => plain_line(&task.status.unwrap_or_default()),
                (None, Some(line)) => plain_line(&format!("{}: {line}", task.status.unwrap_or_default())),
            },
            successor: (task.retried_as.map(|retry| ("retried", retry)))
                .or_else(|| task.reset_as.map(|reset| ("reset", reset))),
            id: task.id,
            tool: task.tool,
            state: task.state,
            asks: task.asks,
            principal: plain_line(&task.principal),
            created_at: task.created_at,
        }
    }
}

pub(super) async fn show(
    State(context): State<Arc<AdminContext>>,
    OriginalUri(uri): OriginalUri,
    Query(query): Query<TaskQuery>,
) -> Response {
    let drawn = context.drawn.page(
        &context.live,
        &*context.engine.ports().clock,
        uri.to_string(),
        draw(&context, query),
    );
    match drawn.await {
        Ok(page) => page,
        Err(Refusal::Invalid(page)) => (StatusCode::BAD_REQUEST, axum::response::Html(page)).into_response(),
        Err(Refusal::Page(error)) => error.show_for_now(&context),
    }
}

/// No page to keep.
enum Refusal {
    /// The page, which says what is wrong with the filter.
    Invalid(String),
    Page(PageError),
}

async fn draw(context: &AdminContext, query: TaskQuery) -> Result<String, Refusal> {
    let frame = Frame::of(context, "tasks");
    let failed = |error| Refusal::Page(PageError::from(ReadError::Store(error)));
    let stats = context.stats().await.map_err(failed)?;
    let (page, error) = match context.tasks(&query).await {
        Ok(page) => (Some(page), None),
        Err(ReadError::Query(error)) => (None, Some(error.to_string())),
        Err(error) => return Err(Refusal::Page(error.into())),
    };
    let live = stats.queued + stats.running + stats.suspended + stats.blocked;
    let tab = |label, change: fn(&mut TaskQuery), count| {
        let mut wanted = TaskQuery::default();
        change(&mut wanted);
        let is_chosen = TaskQuery {
            after: String::new(),
            ..query.clone()
        } == wanted;
        Tab {
            label,
            href: address(&wanted),
            count,
            is_chosen,
        }
    };
    let tabs = vec![
        tab("All", |_| {}, None),
        tab("Live", |query| query.state = "live".into(), Some(live)),
        tab("Queued", |query| query.state = "queued".into(), Some(stats.queued)),
        tab("Running", |query| query.state = "running".into(), Some(stats.running)),
        tab("Asking", |query| query.asks = "yes".into(), Some(stats.asking)),
        tab("Blocked", |query| query.state = "blocked".into(), Some(stats.blocked)),
        tab("Failed", |query| query.state = "failed".into(), None),
    ];
    let is_filtered = !tabs.iter().any(|tab| tab.is_chosen);
    let (tasks, next, hint) = page.map_or((Vec::new(), None, None), |page| (page.tasks, page.next, page.hint));
    let next = next.map(|after| address(&TaskQuery { after, ..query.clone() }));
    let is_invalid = error.is_some();
    let frame = match is_invalid {
        true => Frame::of_result(context, "tasks"),
        false => frame,
    };
    let bulk = if tasks.is_empty() || frame.reads_only {
        Vec::new()
    } else {
        bulk_actions(&query)
    };
    let page = TasksPage {
        bulk,
        frame,
        problems: context.problems().await.map_err(|error| Refusal::Page(error.into()))?,
        tabs,
        queue_age: stats
            .queue_age_ms
            .filter(|age| *age >= 60_000)
            .map(approximate_duration),
        is_filtered,
        tools: (context.engine.catalog().snapshot().tools.keys())
            .map(ToString::to_string)
            .collect(),
        upstreams: (context.upstream_reports().await.into_iter())
            .map(|upstream| upstream.name)
            .collect(),
        tasks: tasks.into_iter().map(|task| TaskRow::of(task, &query)).collect(),
        query,
        error,
        hint,
        next,
    };
    let text = drawn(&page);
    if is_invalid {
        Err(Refusal::Invalid(text))
    } else {
        Ok(text)
    }
}

/// Those that fit the states that are shown. A list of everything has none.
fn bulk_actions(query: &TaskQuery) -> Vec<(&'static str, String)> {
    let query = TaskQuery {
        order: String::new(),
        after: String::new(),
        limit: String::new(),
        ..query.clone()
    };
    if query == TaskQuery::default() {
        return Vec::new();
    }
    let fits = BULK_ACTIONS.iter().filter(|action| action.fits(&query));
    fits.map(|action| (action.title, format!("/bulk/{}?{}", action.name, to_url(&query))))
        .collect()
}

fn address(query: &TaskQuery) -> String {
    match to_url(query) {
        text if text.is_empty() => "/".to_owned(),
        text => format!("/?{text}"),
    }
}
