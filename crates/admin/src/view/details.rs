//! Reading what is shown.

use super::{
    attempt_view, caller_view, entry_view, failure_view,
    masking::{mask, mask_result, masked_text},
    outcome_view, task_view,
};
use crate::{
    context::AdminContext,
    metrics::{MetricsError, MetricsSnapshot, OfferedTool, Present, queue_age},
    query::{self, InvalidQuery, invalid, whole_id},
    view, words,
};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use longhaul_admin_api::{
    FailureView, QuestionView, SettledQuestionView, StatsView, TaskDetails, TaskPage, TaskQuery, TaskView, ToolView,
};
use longhaul_core::{
    AnsweredBy, Input, Json, Now, State, Task, TaskId, Verdict, plain_line,
    store::{LiveTasks, Record, StoreError, TaskLookup, TaskSearch},
};
use longhaul_runtime::{Engine, QueueWait, Requestor, SlotUse};
use serde_json::{Value, value::RawValue};
use std::{collections::BTreeMap, sync::Arc};

/// Schedules that have metrics: each has four.
const MEASURED_SCHEDULES: usize = 500;

/// Entries of a journal, attempts and children that are shown with a task.
const SHOWN: usize = 100;
/// So many tasks that are to be deleted are counted.
const MOST_BACKLOG: usize = 1_000;

/// Rows of a list that are read at the same time: each failed task takes several queries.
const ROWS_AT_ONCE: usize = 16;

/// Nothing can be shown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error(transparent)]
    Query(#[from] InvalidQuery),
    #[error("task not found")]
    NotFound,
    /// A part of an id may fit several tasks.
    #[error("task not found: {0:?} is not the whole id of a task, which has 36 characters")]
    NotWhole(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The task that a path names.
///
/// # Errors
/// [`ReadError::NotWhole`].
pub(crate) fn task_id(text: &str) -> Result<TaskId, ReadError> {
    whole_id(text).ok_or_else(|| ReadError::NotWhole(text.to_owned()))
}

/// The schemas of a tool, which say what of its arguments and results is secret; none of a tool that is not offered any more.
#[derive(Default)]
struct Schemas {
    input: Value,
    output: Value,
}

impl Schemas {
    fn of(engine: &Engine, tool: &str) -> Self {
        let offered = engine.catalog().snapshot();
        let Some(settings) = offered.tools.get(tool).map(|tool| tool.settings()) else {
            return Self::default();
        };
        match &settings.listed {
            Some(listed) => {
                let mut listed: Value = serde_json::from_str(listed.as_str()).unwrap_or_default();
                Self {
                    input: listed["inputSchema"].take(),
                    output: listed["outputSchema"].take(),
                }
            }
            None => Self {
                input: settings.input_schema.clone(),
                output: settings.output_schema.clone().unwrap_or_default(),
            },
        }
    }
}

/// The arguments of a task, as they are shown.
#[derive(Default)]
struct ShownArguments {
    /// As they came, unless a part of them is secret.
    json: Option<Box<RawValue>>,
    /// Whether a part of them is secret.
    are_masked: bool,
}

impl ShownArguments {
    fn of(json: &str, schemas: &Schemas) -> Self {
        let masked = masked_text(json, |value| mask(value, &schemas.input));
        Self {
            are_masked: masked.is_some(),
            json: view::raw(masked.as_ref().map_or(json, Json::as_str)),
        }
    }
}

impl AdminContext {
    pub(crate) async fn tasks(&self, query: &TaskQuery) -> Result<TaskPage, ReadError> {
        let now = self.engine.ports().clock.read();
        let found = self
            .engine
            .store()
            .search(self.search::<ReadError>(query).await?)
            .await?;
        let rows = stream::iter(found.tasks).map(|task| async move { self.row(&task, now).await });
        let tasks: Vec<TaskView> = rows.buffered(ROWS_AT_ONCE).try_collect().await?;
        Ok(TaskPage {
            hint: match tasks.is_empty() {
                true => self.unknown_tool(&query.tool).await?,
                false => None,
            },
            tasks,
            next: found.next.map(|next| next.to_string()),
        })
    }

    /// The search that a query asks for now.
    ///
    /// # Errors
    /// [`InvalidQuery`] for the first parameter that makes no sense, and the store's.
    pub(crate) async fn search<E>(&self, query: &TaskQuery) -> Result<TaskSearch, E>
    where
        E: From<InvalidQuery> + From<StoreError>,
    {
        let mut search = query::search(query, self.engine.ports().clock.read())?;
        let name = query.upstream.trim();
        if !name.is_empty() {
            if !self.upstream_reports().await.iter().any(|one| one.name == name) {
                return Err(invalid("upstream", name, "the name of an upstream of this server").into());
            }
            search.filter.tools = Some(self.engine.tools_of(name).await?);
        }
        Ok(search)
    }

    /// A task as lists show it.
    async fn row(&self, task: &Task, now: Now) -> Result<TaskView, StoreError> {
        let question = match task.open_inputs.first() {
            Some(key) => self.engine.store().input(&task.id, key).await?,
            None => None,
        };
        let mut view = task_view(task, now);
        view.question = question.map(|input| asked(&question_view(&input, String::new())));
        view.last_line = self.last_line(task).await?;
        (view.retried_as, view.reset_as) = self.successors(task).await?;
        if task.state == State::Queued && self.engine.is_paused(&task.tool) {
            view.status.get_or_insert_with(|| QueueWait::Paused.to_string());
        }
        Ok(view)
    }

    /// The last line that a failed command has written.
    async fn last_line(&self, task: &Task) -> Result<Option<String>, StoreError> {
        if task.state != State::Done(Verdict::ToolError) {
            return Ok(None);
        }
        let record = self.engine.store().get_unscoped(&task.id).await?;
        Ok(record.as_ref().and_then(view::last_line))
    }

    /// The tasks that a retry and a reset have made of a finished one.
    async fn successors(&self, task: &Task) -> Result<(Option<String>, Option<String>), StoreError> {
        let engine = &self.engine;
        let State::Done(verdict) = task.state else {
            return Ok((None, None));
        };
        // Most tasks are such ones, and nothing more is read of them.
        if verdict == Verdict::Succeeded && task.journaled == 0 {
            return Ok((None, None));
        }
        let Some(arguments) = engine.store().arguments(&task.id).await? else {
            return Ok((None, None));
        };
        let retry = engine.find_retry(task, &arguments).await?;
        let reset = engine.find_reset(task, &arguments).await?;
        Ok((
            retry.map(|retry| retry.to_string()),
            reset.map(|reset| reset.to_string()),
        ))
    }

    /// Whether a retry or a reset has made a new task of a finished one.
    pub(crate) async fn goes_on(&self, task: &Task) -> Result<bool, StoreError> {
        let (retried_as, reset_as) = self.successors(task).await?;
        Ok(retried_as.or(reset_as).is_some())
    }

    /// The questions of a task that are not open any more.
    async fn settled_questions(&self, id: &TaskId, now: Now) -> Result<Vec<SettledQuestionView>, StoreError> {
        let inputs = self.engine.store().inputs(id, SHOWN).await?;
        let view = |input: &Input| {
            let how = view::settled(&input.state)?;
            Some(SettledQuestionView {
                key: input.key.as_str().to_owned(),
                question: asked(&question_view(input, String::new())),
                asked_at: words::timestamp(now, input.asked_at),
                settled_at: input.settled_at.map(|at| words::timestamp(now, at)),
                how: how.into(),
                by: input.answered_by.map(|by| AnsweredBy::as_str(by).into()),
            })
        };
        Ok(inputs.iter().filter_map(view).collect())
    }

    /// What to say of a tool of this name, if the server knows none.
    pub(crate) async fn unknown_tool(&self, name: &str) -> Result<Option<String>, StoreError> {
        if name.is_empty() {
            return Ok(None);
        }
        let known = self.tools().await?;
        if known.iter().any(|tool| tool.name == name) {
            return Ok(None);
        }
        let names: Vec<&str> = known.iter().map(|tool| &*tool.name).collect();
        Ok(Some(format!(
            "there is no tool `{}`, and no task of one; the tools are {}",
            plain_line(name),
            names.join(", ")
        )))
    }

    pub(crate) async fn record_of(&self, id: &TaskId) -> Result<Record, ReadError> {
        let record = self.engine.store().get_unscoped(id).await?;
        record.ok_or(ReadError::NotFound)
    }

    pub(crate) async fn task(&self, id: &TaskId) -> Result<TaskDetails, ReadError> {
        let record = self.record_of(id).await?;
        let (engine, store, task) = (&self.engine, self.engine.store(), &record.task);
        let now = engine.ports().clock.read();
        let time = |at| words::timestamp(now, at);
        let requestor = store.requestor(id).await?.map(|json| Requestor::from_json(&json));
        let requestor = requestor.unwrap_or_default();
        let arguments = store.arguments(id).await?;
        let history = engine.history(task, 0, SHOWN).await?;
        let journal_next = (history.next < history.total).then_some(history.next);
        // Another host may have the files.
        let attempts = engine.attempts(task, 0, SHOWN).await.unwrap_or_default();
        let children = store
            .find(
                TaskLookup::StartedBy {
                    parent: id.clone(),
                    after: None,
                },
                SHOWN,
            )
            .await?;
        let (retried_as, reset_as) = self.successors(task).await?;
        let schemas = Schemas::of(engine, &task.tool);
        let waits_for = engine.queue_wait(task).await?;
        let arguments = arguments.map(|json| ShownArguments::of(json.as_str(), &schemas));
        let arguments = arguments.unwrap_or_default();
        Ok(TaskDetails {
            task: TaskView {
                last_line: view::last_line(&record),
                retried_as,
                reset_as,
                ..task_view(task, now)
            },
            runs_at: self.runs_at(task).await?,
            waits_for: match waits_for {
                Some(wait) => Some(self.wait_in_words(task, &wait).await?),
                None => None,
            },
            deadline_at: task.deadline_at().map(time),
            resumes_at: (task.resume_at)
                .filter(|_| !task.is_done() && !task.awaits_confirmation())
                .map(time),
            deleted_at: task.delete_at().map(time),
            client: caller_view(&requestor),
            traceparent: requestor.trace.and_then(|trace| trace.traceparent),
            related_task_ids: requestor.related_task_ids,
            retry_of: requestor.retry_of,
            reset_before: requestor.reset_before,
            arguments: arguments.json,
            outcome: outcome_view(&record, |result| mask_result(result, &schemas.output)),
            questions: record
                .inputs
                .iter()
                .map(|input| question_view(input, time(input.asked_at)))
                .collect(),
            settled_questions: self.settled_questions(id, now).await?,
            attempts: (attempts.iter())
                .map(|attempt| attempt_view(attempt, now, arguments.are_masked))
                .collect(),
            journal: history
                .found
                .into_iter()
                .map(|(position, entry)| entry_view(position, entry))
                .collect(),
            journal_next,
            children: children.iter().map(|child| task_view(child, now)).collect(),
            has_log: self.has_log(task),
        })
    }

    /// What a queued task waits for, and what is before it in all.
    async fn wait_in_words(&self, task: &Task, wait: &QueueWait) -> Result<String, StoreError> {
        let QueueWait::Behind { tasks, or_more } = wait else {
            return Ok(wait.to_string());
        };
        let mut words = match (tasks, or_more) {
            (0, _) => "queued".to_owned(),
            (tasks, false) => format!("queued behind {tasks} of its principal's tasks"),
            (tasks, true) => format!("queued behind over {tasks} of its principal's tasks"),
        };
        if task.waits_for_group {
            words.push_str("; others with the same value of the tool's `concurrency_key` are in progress");
        }
        let tools = self.tools().await?;
        if let Some(tool) = tools.iter().find(|known| known.name == *task.tool) {
            let limit = match tool.concurrency {
                Some(limit) => format!("at most {limit} of its tool run at once, "),
                None => String::new(),
            };
            words.push_str(&format!("; {limit}{} run and {} are queued", tool.running, tool.queued));
        }
        if let Some(full) = full_slots(&self.engine.slots()) {
            words.push_str(&format!("; {full}"));
        }
        Ok(words)
    }

    fn has_log(&self, task: &Task) -> bool {
        task.attempt.as_ref().is_some_and(|attempt| attempt.host.is_some()) && self.engine.keeps_logs()
    }

    pub(crate) async fn tools(&self) -> Result<Vec<ToolView>, StoreError> {
        let present = self.present().await?;
        let now = self.now();
        let mut groups: BTreeMap<String, Vec<LiveTasks>> = BTreeMap::new();
        let offered = self.engine.catalog().snapshot();
        for name in offered.tools.keys() {
            groups.entry(name.to_string()).or_default();
        }
        for group in &present.live {
            groups.entry(group.tool.to_string()).or_default().push(group.clone());
        }
        let mut upstreams: BTreeMap<String, String> = BTreeMap::new();
        for name in groups.keys() {
            if let Some(upstream) = self.engine.upstream_of(&name.as_str().into()).await? {
                upstreams.insert(name.clone(), upstream.to_string());
            }
        }
        let view = |(name, groups): (String, Vec<LiveTasks>)| {
            let tool = offered.tools.get(&*name);
            let of = |state| groups.iter().filter(move |group| group.state == state);
            let count = |state| of(state).map(|group| group.count).sum();
            let totals = self.metrics.totals(&name, now);
            ToolView {
                offered: tool.is_some(),
                paused: self.engine.is_paused(&name),
                paused_upstream: (upstreams.get(&name))
                    .filter(|upstream| self.engine.is_upstream_paused(upstream))
                    .cloned(),
                upstream: upstreams.get(&name).cloned(),
                kind: tool.map(|tool| tool.settings().kind.to_string()),
                concurrency: tool.and_then(|tool| tool.settings().concurrency),
                queued: count(State::Queued),
                running: count(State::Running),
                suspended: count(State::Suspended),
                blocked: count(State::Blocked),
                asking: groups.iter().map(|group| group.asking).sum(),
                queue_age_ms: groups.iter().find_map(|group| queue_age(group, now)),
                succeeded: totals.succeeded,
                failed: totals.failed,
                cancelled: totals.cancelled,
                mean_ms: totals.mean_seconds.map(|seconds| seconds * 1_000.0),
                per_minute: totals.recent.per_minute,
                failed_in_row: totals.recent.failed_in_row,
                last_failure: totals.recent.last_failure.map(|failure| failure_view(&failure, now)),
                name,
            }
        };
        let mut tools: Vec<ToolView> = groups.into_iter().map(view).collect();
        for failure in tools.iter_mut().filter_map(|tool| tool.last_failure.as_mut()) {
            self.add_last_line(failure).await?;
        }
        Ok(tools)
    }

    /// The status line of a command says how it ended, and its last line why.
    async fn add_last_line(&self, failure: &mut FailureView) -> Result<(), StoreError> {
        let Ok(id) = failure.task.parse() else { return Ok(()) };
        let record = self.engine.store().get_unscoped(&id).await?;
        if let Some(line) = record.as_ref().and_then(view::last_line) {
            let reason = failure.reason.get_or_insert_default();
            reason.push_str(if reason.is_empty() { "" } else { ": " });
            reason.push_str(&line);
        }
        Ok(())
    }

    pub(crate) async fn present(&self) -> Result<Arc<Present>, StoreError> {
        let (engine, clock) = (&self.engine, &self.engine.ports().clock);
        let count = async {
            Ok(Present {
                live: engine.store().live_tasks().await?,
                usage: engine.store().usage(None).await?,
                running_attempts: engine.running(),
                nodes: engine.nodes().await?,
                deletion_backlog: engine.store().expired(clock.now(), MOST_BACKLOG).await?.len(),
                now: clock.now(),
            })
        };
        self.counted.known_or(&**clock, count).await
    }

    /// The metrics, as OpenMetrics text.
    pub(crate) async fn metrics_text(&self) -> Result<String, MetricsError> {
        let present = self.present().await?;
        let upstreams = self.upstream_reports().await;
        let offered = self.engine.catalog().snapshot();
        for tool in offered.tools.keys() {
            self.metrics.offered(tool);
        }
        let tools = offered.tools.iter().map(|(name, tool)| OfferedTool {
            name: Arc::clone(name),
            concurrency: tool.settings().concurrency,
            is_paused: self.engine.is_paused(name),
        });
        Ok(self.metrics.encode(&MetricsSnapshot {
            present: &present,
            commits: self.engine.store().commit_counts(),
            health: self.engine.store().health(),
            lease_age: self.engine.lease_age(),
            protocol: self.protocol.as_deref(),
            lost_audit_lines: self.audit.as_ref().map_or(0, |audit| audit.lost().in_all),
            upstreams: &upstreams,
            slots: self.engine.slots(),
            tools: tools.collect(),
            schedules: match self.engine.schedule_count() {
                0 => Vec::new(),
                _ => self.engine.store().schedules(None, MEASURED_SCHEDULES).await?,
            },
        })?)
    }

    pub(crate) async fn stats(&self) -> Result<StatsView, StoreError> {
        let present = self.present().await?;
        let count = |state| {
            let groups = present.live.iter().filter(|group| group.state == state);
            groups.map(|group| group.count).sum()
        };
        let ages = present.live.iter().filter_map(|group| queue_age(group, present.now));
        let slots = self.engine.slots();
        Ok(StatsView {
            name: self.name.clone(),
            queued: count(State::Queued),
            running: count(State::Running),
            suspended: count(State::Suspended),
            blocked: count(State::Blocked),
            asking: present.live.iter().map(|group| group.asking).sum(),
            queue_age_ms: ages.max(),
            stored_bytes: present.usage.bytes,
            running_attempts: present.running_attempts,
            taken_slots: slots.taken,
            max_running: slots.limit,
            stopping: self.stop.is_cancelled(),
            reads_only: self.reads_only.is_some(),
        })
    }
}

/// That nothing can begin because all slots are taken, and which tool has most.
pub(crate) fn full_slots(slots: &SlotUse) -> Option<String> {
    let limit = slots.limit.filter(|_| slots.is_full())?;
    let most = slots.most.as_ref();
    let most = most.map_or_else(String::new, |(tool, count)| format!(", {count} of them by {tool}"));
    Some(format!(
        "all {limit} slots of the server (`max_running`) are taken{most}"
    ))
}

/// What a question asks, in a line.
fn asked(question: &QuestionView) -> String {
    let message = question.params["message"].as_str();
    message.unwrap_or(&question.method).to_owned()
}

fn question_view(input: &longhaul_core::Input, asked_at: String) -> QuestionView {
    let request: Value = serde_json::from_str(input.request.as_str()).unwrap_or_default();
    QuestionView {
        key: input.key.as_str().to_owned(),
        asked_at,
        method: request["method"].as_str().unwrap_or_default().to_owned(),
        params: request["params"].clone(),
    }
}
