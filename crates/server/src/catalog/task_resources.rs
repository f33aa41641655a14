//! The log, output, history and artifacts of a task, as resources for its owner.

use crate::{
    admission::request::AdmittedRequest,
    response::{Answer, store_failed},
};
use longhaul_core::{StopReason, Task, UnixMillis, push_timestamp};
use longhaul_runtime::{
    Artifact, ArtifactChunk, AttemptExit, AttemptFilesError, Engine, EntryStatus, EntrySummary, JournalPage, LogRange,
    MAX_ARTIFACT_READ, PastAttempt, Snapshot, Tool,
};
use longhaul_wire::{
    CacheHints, CacheScope, ContentBody, ContentPage, Generation, InvalidTaskUri, LogPage, OutputPage, ResourceContent,
    RpcError, ServerInfo, TaskPart, TaskUri, legacy, modern,
};
use serde_json::{Value, json};
use std::sync::Arc;
use tracing::{error, info};

/// How logs are listed.
const LOG_TEMPLATE: &str = concat!(
    r#"{"uriTemplate":"longhaul://task/{id}/log{?attempt,offset,limit}","name":"task_log","title":"Log of a task","mimeType":"text/plain","#,
    r#""description":"What a task's command has written so far, standard output and error in order of arrival. "#,
    "Of its latest attempt, or of an attempt (1 is the first). Without a range: the last 64 KiB. _meta dev.longhaul/log tells which part it is (offset), where to read on (next) ",
    r#"and how much there is (total), in bytes."}"#,
);

/// How the outputs of durable tools are listed.
const OUTPUT_TEMPLATE: &str = concat!(
    r#"{"uriTemplate":"longhaul://task/{id}/output{?after,limit}","name":"task_output","title":"Output of a task","#,
    r#""description":"What a task's code has given out so far, block by block, in order: texts, images, sounds, resources; anything else "#,
    "as JSON. At most 100 at once. The result's _meta dev.longhaul/output tells where to read on (next, which is the next after) and ",
    r#"where it ends (total)."}"#,
);

/// How the journals of durable tools, and the attempts of commands, are listed.
const HISTORY_TEMPLATE: &str = concat!(
    r#"{"uriTemplate":"longhaul://task/{id}/history{?after,limit}","name":"task_history","title":"History of a task","#,
    r#""mimeType":"application/json","description":"What a task's code has done, entry by entry, without values, or the attempts of its command: place, what, at, state "#,
    "(done, failed, cancelled, deadline, running, waiting, unanswered, given up), tookMs, question, exit (code or signal), until, why, lastLine (what a failed command wrote last), by (what ended a failed attempt: crash, panic, error, store, non_determinism), and the ",
    r#"tries that failed. At most 100 at once; read on after next, until that is total."}"#,
);

/// How the lists of artifacts are listed.
const ARTIFACTS_TEMPLATE: &str = concat!(
    r#"{"uriTemplate":"longhaul://task/{id}/artifacts{?attempt}","name":"task_artifacts","title":"Files of a task","#,
    r#""mimeType":"application/json","description":"The files that a task's command has left: uri, name, size, mimeType and sha256 of each, "#,
    r#"and as problems and notes what was left out, and why. Of its latest attempt, or of an attempt (1 is the first)."}"#,
);

/// How artifacts are listed.
const ARTIFACT_TEMPLATE: &str = concat!(
    r#"{"uriTemplate":"longhaul://task/{id}/artifacts/{+name}{?attempt,offset,limit}","name":"task_artifact","title":"File of a task","#,
    r#""description":"A file that a task's command has left, whole up to 8 MiB, or in parts with offset and limit (in bytes, at most 1 MiB). Text if it is UTF-8 and whole, else a blob. "#,
    r#"_meta dev.longhaul/artifact tells which part it is (offset), where to read on (next), the size of the whole file (total) and its sha256."}"#,
);

/// The largest artifact that is sent without a range.
const MAX_WHOLE: u64 = 8 << 20;

/// How many blocks or entries are shown at once.
const MOST: usize = 100;

/// It may grow at any moment, and only its owner may read it.
const CACHE: CacheHints = CacheHints {
    ttl_ms: 0,
    scope: CacheScope::Private,
};

fn any_keeps_artifacts(offered: &Snapshot) -> bool {
    let mut tools = offered.tools.values();
    tools.any(|tool| tool.settings().executor.keeps_artifacts())
}

/// Whether the tasks of any of these tools have resources.
pub(crate) fn are_kept(engine: &Engine, offered: &Snapshot) -> bool {
    keeps_logs(engine, offered) || any_keeps_a_journal(offered)
}

/// Calls of upstreams have no log here.
fn keeps_logs(engine: &Engine, offered: &Snapshot) -> bool {
    let is_own = |tool: &Arc<Tool>| tool.settings().executor.upstream().is_none();
    engine.keeps_logs() && (offered.tools.is_empty() || offered.tools.values().any(is_own))
}

fn any_keeps_a_journal(offered: &Snapshot) -> bool {
    offered.tools.values().any(|tool| tool.settings().executor.replays())
}

/// The families of resources that there may be.
pub(crate) fn templates(engine: &Engine, offered: &Snapshot) -> impl Iterator<Item = &'static str> + use<> {
    let log = keeps_logs(engine, offered).then_some(LOG_TEMPLATE);
    let output = any_keeps_a_journal(offered).then_some(OUTPUT_TEMPLATE);
    let history = (log.is_some() || output.is_some()).then_some(HISTORY_TEMPLATE);
    let artifacts = any_keeps_artifacts(offered).then_some([ARTIFACTS_TEMPLATE, ARTIFACT_TEMPLATE]);
    let artifacts = artifacts.into_iter().flatten();
    log.into_iter().chain(output).chain(history).chain(artifacts)
}

/// Whether it is the template of one of these families.
pub(crate) fn is_template(engine: &Engine, offered: &Snapshot, uri: &str) -> bool {
    templates(engine, offered).any(|template| {
        let template: Value = serde_json::from_str(template).unwrap_or_default();
        template["uriTemplate"] == uri
    })
}

/// Whether it is the URI of a resource of a task, which there may not be.
pub(crate) fn is_uri(uri: &str) -> bool {
    !matches!(uri.parse::<TaskUri>(), Err(InvalidTaskUri::NotATaskUri))
}

/// An unknown task, another principal's and one without the resource are answered alike.
pub(crate) async fn read(
    engine: &Engine,
    server_info: &ServerInfo,
    request: &AdmittedRequest<'_>,
    uri: &str,
) -> Result<Answer, RpcError> {
    let not_found = || RpcError::resource_not_found(request.caller.generation, uri);
    let part: TaskUri = uri.parse().map_err(|why: InvalidTaskUri| match why {
        InvalidTaskUri::NotATaskUri => not_found(),
        wrong_range => RpcError::invalid_params(wrong_range.to_string()),
    })?;
    let record = engine.get(&request.caller.scope(), &part.task).await;
    let task = record.map_err(store_failed)?.ok_or_else(not_found)?.task;
    let reading = TaskReadRequest {
        engine,
        server_info,
        request,
        uri,
        parsed: &part,
        task: &task,
    };
    match part.part {
        TaskPart::Log => reading.log().await,
        TaskPart::Output => reading.output().await,
        TaskPart::History => reading.history().await,
        TaskPart::Artifacts => match &part.artifact {
            Some(name) => reading.artifact(name).await,
            None => reading.artifacts().await,
        },
    }
}

/// A request for a part of its sender's task.
struct TaskReadRequest<'a> {
    engine: &'a Engine,
    server_info: &'a ServerInfo,
    request: &'a AdmittedRequest<'a>,
    uri: &'a str,
    parsed: &'a TaskUri,
    task: &'a Task,
}

impl TaskReadRequest<'_> {
    fn not_found(&self) -> RpcError {
        RpcError::resource_not_found(self.request.caller.generation, self.uri)
    }

    /// The error for a client, which is not told the names of hosts.
    fn unreadable(&self, what: &str, error: &AttemptFilesError) -> RpcError {
        let task = self.task.id.short();
        if let AttemptFilesError::OnHost(host) = error {
            info!(
                task,
                host = &*host.0,
                "the {what} of a task was asked for on another host than it is on"
            );
            return RpcError::internal(format!(
                "The {what} of this task is on another host of this service, and can only be read there. \
                 The server's log names the host"
            ));
        }
        error!(task, %error, "the {what} of a task could not be read");
        RpcError::internal(format!("The {what} cannot be read"))
    }

    async fn log(&self) -> Result<Answer, RpcError> {
        let range = LogRange {
            offset: self.parsed.from,
            limit: self.parsed.limit,
        };
        let read = self.engine.read_log(self.task, self.parsed.attempt, range).await;
        let chunk = read.map_err(|error| self.unreadable("log", &error))?;
        let chunk = chunk.ok_or_else(|| self.not_found())?;
        Ok(self.content(&ResourceContent {
            uri: self.uri,
            mime_type: Some("text/plain"),
            body: ContentBody::Text(&chunk.text),
            page: Some(ContentPage::Log(LogPage {
                offset: chunk.offset,
                next: chunk.next,
                total: chunk.total,
            })),
        }))
    }

    /// A task without a journal has no output.
    async fn output(&self) -> Result<Answer, RpcError> {
        let (after, limit) = self.range();
        let page = self.engine.output(self.task, after, limit).await;
        let page = page.map_err(store_failed)?;
        let blocks: Vec<_> = page
            .found
            .iter()
            .map(|(place, block)| (*place, block.as_str()))
            .collect();
        let page = OutputPage {
            task: &self.task.id,
            blocks: &blocks,
            next: page.next,
            total: page.total,
        };
        Ok(Answer::result(self.request.id, |out| {
            match self.request.caller.generation {
                Generation::Legacy => legacy::resources::write_output(out, &page),
                Generation::Modern => modern::resources::write_output(out, &page, CACHE, self.server_info),
            }
        }))
    }

    async fn history(&self) -> Result<Answer, RpcError> {
        let (after, limit) = self.range();
        let text = if self.task.journaled == 0 {
            let read = self.engine.attempts(self.task, after, limit).await;
            let attempts = read.map_err(|error| self.unreadable("history", &error))?;
            shown_attempts(self.task, after, &attempts).to_string()
        } else {
            let page = self.engine.history(self.task, after, limit).await;
            shown(self.task, &page.map_err(store_failed)?).to_string()
        };
        Ok(self.json(&text))
    }

    async fn artifacts(&self) -> Result<Answer, RpcError> {
        let read = self.engine.artifacts(self.task, self.parsed.attempt).await;
        let list = read.map_err(|error| self.unreadable("artifacts", &error))?;
        let list = list.ok_or_else(|| self.not_found())?;
        let shown = |artifact: &Artifact| {
            let uri = TaskUri {
                artifact: Some(artifact.name.clone()),
                attempt: self.parsed.attempt,
                ..TaskUri::of(self.task.id.clone(), TaskPart::Artifacts)
            };
            json!({
                "uri": uri.to_string(),
                "name": artifact.name,
                "size": artifact.size,
                "mimeType": artifact.media_type(),
                "sha256": artifact.sha256,
            })
        };
        let artifacts: Vec<Value> = list.kept.iter().map(shown).collect();
        let task = self.task.id.as_str();
        let shown = json!({"task": task, "artifacts": artifacts, "problems": list.problems, "notes": list.notes});
        Ok(self.json(&shown.to_string()))
    }

    async fn artifact(&self, name: &str) -> Result<Answer, RpcError> {
        let (from, limit) = (self.parsed.from, self.parsed.limit);
        let is_whole = from.is_none() && limit.is_none();
        let mut chunk = self
            .artifact_part(name, from.unwrap_or(0), limit.unwrap_or(u64::MAX))
            .await?;
        let total = chunk.artifact.size;
        if is_whole && total > MAX_WHOLE {
            return Err(RpcError::invalid_params(format!(
                "This file has {total} bytes, and at most {MAX_WHOLE} are sent at once. Read it in parts: {}?offset=0&limit={MAX_ARTIFACT_READ}",
                self.uri.split('?').next().unwrap_or_default()
            )));
        }
        while is_whole && chunk.next() < total {
            let more = self.artifact_part(name, chunk.next(), u64::MAX).await?;
            // It is another one, of a later attempt.
            if more.bytes.is_empty() || more.artifact != chunk.artifact {
                return Err(RpcError::internal(
                    "The artifact has changed while it was read. Read it again",
                ));
            }
            chunk.bytes.extend(more.bytes);
        }
        let is_text = chunk.bytes.len() as u64 == total && !chunk.bytes.contains(&0);
        let text = std::str::from_utf8(&chunk.bytes).ok().filter(|_| is_text);
        Ok(self.content(&ResourceContent {
            uri: self.uri,
            mime_type: Some(chunk.artifact.media_type()),
            body: text.map_or(ContentBody::Blob(&chunk.bytes), ContentBody::Text),
            page: Some(ContentPage::Artifact {
                page: LogPage {
                    offset: chunk.offset,
                    next: chunk.next(),
                    total,
                },
                sha256: &chunk.artifact.sha256,
            }),
        }))
    }

    async fn artifact_part(&self, name: &str, offset: u64, limit: u64) -> Result<ArtifactChunk, RpcError> {
        let attempt = self.parsed.attempt;
        let read = self.engine.read_artifact(self.task, attempt, name, offset, limit).await;
        let chunk = read.map_err(|error| self.unreadable("artifact", &error))?;
        chunk.ok_or_else(|| self.not_found())
    }

    fn json(&self, text: &str) -> Answer {
        self.content(&ResourceContent {
            uri: self.uri,
            mime_type: Some("application/json"),
            body: ContentBody::Text(text),
            page: None,
        })
    }

    /// The range of a journal. No journal has entries beyond a `u32`.
    fn range(&self) -> (u32, usize) {
        let after = self.parsed.from.unwrap_or(0);
        let limit = self.parsed.limit.and_then(|limit| usize::try_from(limit).ok());
        (
            u32::try_from(after).unwrap_or(u32::MAX),
            limit.unwrap_or(MOST).min(MOST),
        )
    }

    fn content(&self, content: &ResourceContent<'_>) -> Answer {
        Answer::result(self.request.id, |out| match self.request.caller.generation {
            Generation::Legacy => legacy::resources::write_content(out, content),
            Generation::Modern => modern::resources::write_content(out, content, CACHE, self.server_info),
        })
    }
}

fn shown(task: &Task, page: &JournalPage<EntrySummary>) -> Value {
    let entries: Vec<Value> = page
        .found
        .iter()
        .map(|(place, summary)| entry(*place, summary))
        .collect();
    json!({"task": task.id.as_str(), "entries": entries, "next": page.next, "total": page.total})
}

/// Of work that keeps no journal: its attempts.
fn shown_attempts(task: &Task, after: u32, attempts: &[PastAttempt]) -> Value {
    let total = task.attempt.as_ref().map_or(0, |attempt| attempt.epoch);
    let last = attempts.last().map_or(total, |last| last.epoch);
    let entries: Vec<Value> = attempts.iter().map(|attempt| past(task, attempt)).collect();
    json!({"task": task.id.as_str(), "entries": entries, "next": last.max(after.min(total)), "total": total})
}

fn past(task: &Task, attempt: &PastAttempt) -> Value {
    let is_current = task
        .active_attempt()
        .is_some_and(|active| active.epoch == attempt.epoch);
    // Only the latest attempt can have been stopped. One that ended before that had failed.
    let stop = task.stop.filter(|stop| {
        let is_latest = task
            .attempt
            .as_ref()
            .is_some_and(|latest| latest.epoch == attempt.epoch);
        // One whose own timeout passed was stopped for that.
        is_latest && !attempt.timed_out && attempt.ended.is_none_or(|ended| ended >= stop.at)
    });
    let failed = match stop.map(|stop| stop.reason) {
        Some(StopReason::Cancel) => "cancelled",
        Some(StopReason::Deadline) => "deadline",
        None => "failed",
    };
    let (state, why) = match &attempt.exit {
        Some(_) if attempt.succeeded => ("done", None),
        Some(AttemptExit::NotStarted(_)) => ("failed", attempt.exit_words()),
        Some(_) => (failed, attempt.exit_words()),
        None if is_current && attempt.began.is_some() => ("running", None),
        None if is_current => ("waiting", None),
        None if attempt.began.is_some() => ("failed", Some("its end was not recorded".to_owned())),
        None => ("given up", None),
    };
    // An attempt that has not started has no other time.
    let at = attempt.began.or(attempt.ended).unwrap_or(task.updated_at);
    let mut shown = json!({
        "place": attempt.epoch,
        "what": format!("attempt {}", attempt.epoch),
        "at": timestamp(at),
        "state": state,
    });
    let took = attempt
        .began
        .zip(attempt.ended)
        .map(|(began, ended)| ended.since(began));
    for (name, value) in [
        ("why", why.map(Value::from)),
        ("lastLine", attempt.last_line.as_deref().map(Value::from)),
        ("exit", attempt.exit_json()),
        ("tookMs", took.map(Value::from)),
    ] {
        if let Some(value) = value {
            shown[name] = value;
        }
    }
    shown
}

fn entry(place: u32, summary: &EntrySummary) -> Value {
    let mut what = summary.key.to_string();
    if summary.is_join {
        what = what.replacen("select", "join", 1);
    }
    let mut shown = json!({"place": place, "what": what, "at": timestamp(summary.at)});
    let (state, detail) = match &summary.status {
        EntryStatus::Done => ("done", None),
        EntryStatus::Failed(why) => ("failed", Some(("why", json!(why)))),
        EntryStatus::Waiting(until) => ("waiting", until.map(|until| ("until", json!(timestamp(until))))),
        EntryStatus::Unanswered => ("unanswered", None),
        EntryStatus::Withdrawn => ("given up", None),
        EntryStatus::Unreadable => ("unreadable", None),
    };
    shown["state"] = json!(state);
    if let Some((name, value)) = detail {
        shown[name] = value;
    }
    if let Some(took) = summary.took {
        shown["tookMs"] = json!(took);
    }
    if let Some(question) = &summary.question {
        shown["question"] = json!(question);
    }
    if let Some(by) = summary.ended_by {
        shown["by"] = json!(by.as_str());
    }
    if let Some(child) = &summary.child {
        shown["task"] = json!(child.as_str());
    }
    if summary.failed_count > 0 {
        let tries = summary.failed.iter();
        let tries: Vec<Value> = tries
            .map(|failed| json!({"at": timestamp(UnixMillis(failed.at)), "why": failed.why}))
            .collect();
        shown["failed"] = json!({"tries": summary.failed_count, "last": tries});
    }
    shown
}

fn timestamp(at: UnixMillis) -> String {
    let mut text = String::new();
    push_timestamp(&mut text, at);
    text
}
