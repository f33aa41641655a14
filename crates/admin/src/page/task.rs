//! One task, and the actions on it.

use super::{
    Frame, PageError, drawn, filters,
    question::{self, AnswerProblem, Question, RefusedAnswer},
    render, shown,
    tasks::LabelLink,
};
use crate::{
    access::Actor,
    action::{ActionError, TaskAction},
    context::AdminContext,
    view::details::task_id,
};
use askama::Template;
use axum::{
    Extension, Form,
    extract::{Path, Query, State},
    response::{IntoResponse, Redirect, Response},
};
use http::{StatusCode, header};
use longhaul_admin_api::{AttemptView, BlockView, EntryView, OutcomeView, TaskDetails, TaskQuery};
use longhaul_core::{EntryKind, InputKey, ParsedJson, TaskId, approximate_duration, plain_line, uri_path};
use longhaul_runtime::{Artifact, LogRange};
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;

/// The end of a log that is shown, in bytes.
const SHOWN_LOG: u64 = 64 << 10;
/// A whole log is read in parts of this length.
const LOG_PART: u64 = 1 << 20;
/// Of a log that is longer the end is shown.
const MOST_LOG: u64 = 8 << 20;

#[derive(Template)]
#[template(path = "task.html")]
struct TaskPage {
    frame: Frame,
    age: String,
    progress: Option<f64>,
    questions: Vec<Question>,
    blocked: Option<BlockView>,
    outcome: Option<Ending>,
    client: String,
    related: String,
    principal: String,
    labels: Vec<LabelLink>,
    arguments: String,
    attempts: Vec<AttemptRow>,
    journal: Vec<EntryRow>,
    files: Vec<FileRow>,
    file_notes: Vec<String>,
    log: Option<LogView>,
    can_cancel: bool,
    can_retry: bool,
    can_release: bool,
    can_raise: bool,
    can_delete: bool,
    can_reset: bool,
    task: TaskDetails,
}

struct Ending {
    title: &'static str,
    text: String,
}

struct AttemptRow {
    epoch: u32,
    began: String,
    ended: String,
    exit: String,
    last_line: String,
    /// Its command line.
    runs: String,
    pid: Option<u32>,
}

pub(super) struct EntryRow {
    pub(super) position: u32,
    pub(super) what: String,
    pub(super) at: String,
    pub(super) took: String,
    pub(super) status: String,
    child: Option<String>,
}

/// A file that the latest attempt has left.
struct FileRow {
    name: String,
    path: String,
    size: u64,
    sha256: String,
}

struct LogView {
    text: String,
    is_cut: bool,
    shown: u64,
    total: u64,
}

pub(super) fn id(text: &str) -> Result<TaskId, PageError> {
    Ok(task_id(text)?)
}

pub(super) async fn show(State(context): State<Arc<AdminContext>>, Path(id): Path<String>) -> Response {
    let draw = async { Ok(drawn(&page(&context, &id, None).await?)) };
    shown(&context, format!("/tasks/{id}"), draw).await
}

/// `refused` is an answer to one of its questions.
async fn page(
    context: &AdminContext,
    text_of_id: &str,
    refused: Option<&RefusedAnswer>,
) -> Result<TaskPage, PageError> {
    let frame = Frame::of(context, "tasks");
    let id = id(text_of_id)?;
    let task = context.task(&id).await?;
    let log = if task.has_log {
        log_end(context, &id).await?
    } else {
        None
    };
    let (files, file_notes) = files(context, &id).await?;
    let state = task.task.state.clone();
    let is_live = task.task.ended_at.is_none();
    let acts = !frame.reads_only;
    Ok(TaskPage {
        files,
        file_notes,
        frame,
        age: approximate_duration(task.task.age_ms),
        progress: task.task.fraction(),
        questions: (task.questions.iter())
            .map(|question| Question::of(question, refused))
            .collect(),
        blocked: task.task.blocked.clone(),
        outcome: task.outcome.as_ref().map(ending),
        client: plain_line(&client(&task)),
        related: plain_line(&task.related_task_ids.join(" ")),
        principal: plain_line(&task.task.principal),
        labels: LabelLink::all(&task.task, &TaskQuery::default()),
        arguments: task
            .arguments
            .as_ref()
            .map_or_else(String::new, |json| indented(json.get())),
        attempts: task.attempts.iter().map(attempt).collect(),
        journal: task.journal.iter().map(entry).collect(),
        log,
        can_cancel: acts && is_live,
        can_retry: acts
            && ["failed", "cancelled"].contains(&&*state)
            && task.task.parent.is_none()
            && task.task.retried_as.is_none()
            && task.task.reset_as.is_none(),
        can_release: acts && state == "blocked",
        can_raise: acts && state == "queued",
        can_delete: acts && !is_live && task.task.announced,
        can_reset: acts
            && (context.engine.catalog().tool(&task.task.tool)).is_some_and(|tool| tool.settings().executor.replays())
            && state != "running"
            && task.task.parent.is_none()
            && task.task.reset_as.is_none()
            && task
                .journal
                .iter()
                .all(|entry| entry.kind != EntryKind::Checkpoint.name()),
        task,
    })
}

fn client(task: &TaskDetails) -> String {
    let Some(client) = &task.client else {
        return "unnamed".to_owned();
    };
    let words = [&client.name, &client.version].map(|word| word.as_deref().unwrap_or_default());
    words.join(" ").trim().to_owned()
}

/// JSON with line breaks, its strings and numbers as they are written.
fn indented(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let (mut depth, mut is_first, mut in_string, mut is_escaped) = (0_usize, false, false, false);
    for letter in json.chars() {
        if in_string {
            out.push(letter);
            in_string = is_escaped || letter != '"';
            is_escaped = !is_escaped && letter == '\\';
            continue;
        }
        match letter {
            ' ' | '\t' | '\r' | '\n' => continue,
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                if !is_first {
                    new_line(&mut out, depth);
                }
            }
            _ if is_first => new_line(&mut out, depth),
            _ => {}
        }
        is_first = matches!(letter, '{' | '[');
        in_string = letter == '"';
        out.push(letter);
        match letter {
            '{' | '[' => depth += 1,
            ',' => new_line(&mut out, depth),
            ':' => out.push(' '),
            _ => {}
        }
    }
    out
}

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth));
}

/// The texts of a result if it is nothing else, else its JSON.
fn ending(outcome: &OutcomeView) -> Ending {
    let (title, text) = match &*outcome.kind {
        "result" => (
            match outcome.is_error {
                Some(true) => "The tool failed",
                _ => "Result",
            },
            outcome
                .result
                .as_ref()
                .map_or_else(String::new, |written| result_text(written.get())),
        ),
        "error" => (
            "It could not be carried through",
            outcome.message.clone().unwrap_or_default(),
        ),
        _ => ("It was cancelled", String::new()),
    };
    Ending { title, text }
}

fn result_text(written: &str) -> String {
    let result = ParsedJson::of(written);
    let blocks = result["content"]
        .as_array()
        .filter(|_| result["structuredContent"].is_null());
    let texts: Option<Vec<&str>> = blocks.and_then(|blocks| {
        blocks
            .iter()
            .filter(|block| !is_link(block))
            .map(|block| block["text"].as_str())
            .collect()
    });
    texts.map_or_else(|| indented(written), |texts| texts.join("\n"))
}

/// Files of the task are listed by themselves.
fn is_link(block: &Value) -> bool {
    let uri = block["uri"].as_str().unwrap_or_default();
    block["type"] == "resource_link" && uri.starts_with("longhaul://task/")
}

fn attempt(attempt: &AttemptView) -> AttemptRow {
    AttemptRow {
        epoch: attempt.epoch,
        began: attempt.began.clone().unwrap_or_default(),
        ended: attempt.ended.clone().unwrap_or_default(),
        exit: attempt.exit.as_ref().map(words).unwrap_or_default(),
        last_line: attempt.last_line.clone().unwrap_or_default(),
        runs: command_line(attempt),
        pid: attempt.pid,
    }
}

/// The words of its command, with spaces between them.
fn command_line(attempt: &AttemptView) -> String {
    let words = attempt.command.as_deref().unwrap_or_default();
    let mut line = plain_line(&words.join(" "));
    if attempt.hides_arguments {
        line.push_str(" (arguments hidden)");
    }
    line
}

/// An object as `key: value` with commas.
fn words(object: &Value) -> String {
    let word = |(key, value): (&String, &Value)| match value.as_str() {
        Some(text) => format!("{key}: {text}"),
        None => format!("{key}: {value}"),
    };
    let members = object.as_object().into_iter().flatten();
    members.map(word).collect::<Vec<_>>().join(", ")
}

pub(super) fn entry(entry: &EntryView) -> EntryRow {
    let mut what = entry.kind.to_string();
    if !entry.name.is_empty() {
        what = format!("{what} {}", entry.name);
    }
    if entry.ordinal > 1 {
        what = format!("{what} ({})", entry.ordinal);
    }
    if !entry.branch.is_empty() {
        what = format!("{what}, in {}", entry.branch);
    }
    let mut status = entry.status.clone();
    if let Some(question) = &entry.question {
        status = format!("{status}: {question}");
    }
    if entry.failed_attempts > 0 {
        let error = entry.last_error.as_deref().unwrap_or_default();
        status = format!(
            "{status}; failed {} times, the last time: {error}",
            entry.failed_attempts
        );
    }
    EntryRow {
        position: entry.position,
        what,
        at: entry.at.clone(),
        took: entry.took_ms.map_or_else(String::new, approximate_duration),
        status,
        child: entry.child.clone(),
    }
}

/// Files that cannot be read hide nothing else of the task.
async fn files(context: &AdminContext, id: &TaskId) -> Result<(Vec<FileRow>, Vec<String>), PageError> {
    let record = context.record_of(id).await?;
    let list = context.engine.artifacts(&record.task, None).await.ok().flatten();
    let list = list.unwrap_or_default();
    let row = |file: Artifact| FileRow {
        path: uri_path(&file.name),
        name: plain_line(&file.name),
        size: file.size,
        sha256: file.sha256,
    };
    let notes = list.problems.into_iter().chain(list.notes).collect();
    Ok((list.kept.into_iter().map(row).collect(), notes))
}

async fn log_end(context: &AdminContext, id: &TaskId) -> Result<Option<LogView>, PageError> {
    let record = context.record_of(id).await?;
    let range = LogRange {
        offset: None,
        limit: Some(SHOWN_LOG),
    };
    // A log that cannot be read hides nothing else of the task.
    let read = context.engine.read_log(&record.task, None, range).await.ok().flatten();
    Ok(read.filter(|chunk| chunk.total > 0).map(|chunk| LogView {
        is_cut: chunk.offset > 0,
        shown: chunk.next - chunk.offset,
        total: chunk.total,
        text: chunk.text,
    }))
}

/// Whose log is shown: that of the latest attempt if nothing is said.
#[derive(Deserialize)]
pub(super) struct OfAttempt {
    attempt: Option<u32>,
}

/// The whole log as text.
pub(super) async fn log(
    State(context): State<Arc<AdminContext>>,
    Path(text_of_id): Path<String>,
    Query(OfAttempt { attempt }): Query<OfAttempt>,
) -> Response {
    match whole_log(&context, &text_of_id, attempt).await {
        Ok(text) => ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response(),
        Err(error) => error.show(&context, &format!("/tasks/{text_of_id}")),
    }
}

/// All of it, or what it says at its end if that would be too much.
async fn whole_log(context: &AdminContext, text_of_id: &str, attempt: Option<u32>) -> Result<String, PageError> {
    let record = context.record_of(&id(text_of_id)?).await?;
    let unreadable = |text: String| PageError {
        status: StatusCode::SERVICE_UNAVAILABLE,
        text,
    };
    let read = async |offset, limit| {
        let range = LogRange {
            offset: Some(offset),
            limit: Some(limit),
        };
        let read = context.engine.read_log(&record.task, attempt, range).await;
        read.map_err(|error| unreadable(error.to_string()))
    };
    let total = read(0, 1).await?.map_or(0, |chunk| chunk.total);
    let mut offset = total.saturating_sub(MOST_LOG);
    let mut whole = match offset {
        0 => String::new(),
        left_out => format!("[the first {left_out} bytes are left out; the API has them]\n"),
    };
    while let Some(chunk) = read(offset, LOG_PART).await? {
        whole.push_str(&chunk.text);
        if chunk.next <= offset || chunk.next >= chunk.total {
            break;
        }
        offset = chunk.next;
    }
    Ok(whole)
}

pub(super) async fn act(
    State(context): State<Arc<AdminContext>>,
    Extension(actor): Extension<Actor>,
    Path((text_of_id, action)): Path<(String, String)>,
) -> Response {
    let Some(action) = TaskAction::named(&action) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    perform_and_redirect(&context, &actor, &text_of_id, action).await
}

pub(super) async fn perform_and_redirect(
    context: &AdminContext,
    actor: &Actor,
    text_of_id: &str,
    action: TaskAction,
) -> Response {
    let is_deletion = matches!(action, TaskAction::Delete);
    let acted = match id(text_of_id) {
        Ok(id) => context.act(actor, &id, action).await.map_err(PageError::from),
        Err(error) => Err(error),
    };
    match acted {
        Ok(Some(new)) => Redirect::to(&format!("/tasks/{}", new.id)).into_response(),
        Ok(None) if is_deletion => Redirect::to("/").into_response(),
        Ok(None) => Redirect::to(&format!("/tasks/{text_of_id}")).into_response(),
        Err(error) => error.show(context, &format!("/tasks/{text_of_id}")),
    }
}

pub(super) async fn answer(
    State(context): State<Arc<AdminContext>>,
    Extension(actor): Extension<Actor>,
    Path(text_of_id): Path<String>,
    Form(form): Form<Vec<(String, String)>>,
) -> Response {
    let address = format!("/tasks/{text_of_id}");
    let why = match submit_answer(&context, &actor, &text_of_id, &form).await {
        Ok(()) => return Redirect::to(&address).into_response(),
        Err(NotAnswered::DoesNotFit(why)) => why,
        Err(NotAnswered::Page(error)) => return error.show(&context, &address),
    };
    let refused = RefusedAnswer { form, why };
    match page(&context, &text_of_id, Some(&refused)).await {
        Ok(mut page) => {
            page.frame.source = Some(address);
            (StatusCode::BAD_REQUEST, render(&page)).into_response()
        }
        Err(error) => error.show(&context, &address),
    }
}

/// Why an answer was not given.
enum NotAnswered {
    /// It can be put right.
    DoesNotFit(AnswerProblem),
    Page(PageError),
}

impl From<PageError> for NotAnswered {
    fn from(error: PageError) -> Self {
        Self::Page(error)
    }
}

impl From<ActionError> for NotAnswered {
    fn from(error: ActionError) -> Self {
        match error {
            ActionError::DoesNotFit(mistakes) => Self::DoesNotFit(AnswerProblem::Fields(mistakes)),
            error => Self::Page(error.into()),
        }
    }
}

async fn submit_answer(
    context: &AdminContext,
    actor: &Actor,
    text_of_id: &str,
    form: &[(String, String)],
) -> Result<(), NotAnswered> {
    let id = id(text_of_id)?;
    let task = context.task(&id).await.map_err(PageError::from)?;
    let key = form.iter().find(|(name, _)| name == "key").map(|(_, key)| key.as_str());
    let question = task
        .questions
        .iter()
        .find(|question| Some(question.key.as_str()) == key);
    let question = question.ok_or_else(ActionError::not_asked)?;
    let whole = |why| NotAnswered::DoesNotFit(AnswerProblem::Whole(why));
    let answer = question::answer(question, form).map_err(whole)?;
    let answer = serde_json::value::to_raw_value(&answer).map_err(|error| ActionError::Invalid(error.to_string()))?;
    let action = TaskAction::Answer {
        key: InputKey::named(question.key.as_str()),
        answer,
    };
    context.act(actor, &id, action).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::indented;
    use serde_json::{Value, json};

    #[test]
    fn json_is_indented_and_its_numbers_stay() {
        let nested = json!({"a": [], "b": {}, "c": [1, {"d": "x: [y, \\\"z\\\\"}, null], "e": "{\n}"});
        for value in [nested, json!([]), json!("a b"), json!(5), json!([[[]], [{}]])] {
            let pretty = serde_json::to_string_pretty(&value).unwrap();
            assert_eq!(indented(&value.to_string()), pretty);
            assert_eq!(indented(&pretty), pretty);
        }
        assert_eq!(
            indented(r#"{"n":[1e400,1.10]}"#),
            "{\n  \"n\": [\n    1e400,\n    1.10\n  ]\n}"
        );
        assert!(
            serde_json::from_str::<Value>(&indented("{\"a\"")).is_err(),
            "any text is taken"
        );
    }
}
