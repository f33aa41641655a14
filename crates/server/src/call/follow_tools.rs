//! Hand-off: how a client without tasks follows a call that takes longer than the client waits.
//!
//! A plain call of a tool with `handoff`, or on a connection with one, is answered after that long with what runs and how to follow it: with the tools
//! `task_wait`, `task_status`, `task_cancel` and `task_list`, which are listed as soon as one tool hands off, except for clients that declare tasks. Tools of the
//! catalog with their names cannot be called then.

use super::handoff_schema;
use crate::{
    admission::{
        handoff::ConnectionHandoff, identity::Identity, limits::Busy, permissions::Permission, request::AdmittedRequest,
    },
    audit::{AuditAction, AuditOutcome, RequestAudit},
    handler,
    interaction::{
        Interaction,
        rounds::{Round, RoundRequest},
    },
    response::{Answer, credentials_ended},
};
use longhaul_core::{
    BoxFuture, CancelMode, Capability, InputKey, Json, Outcome, Scope, State, Task, TaskId, TaskPolicy, UnixMillis,
    Verdict, approximate_duration,
    store::{Page, Record, StoreError},
    text_result,
};
use longhaul_runtime::{
    AskError, CancelError, FOLLOW_TOOLS, HandlerError, Question, RequestContext, Snapshot, Tool, ToolMessage,
};
use longhaul_wire::{Generation, OutputSchema, RpcError, ToolEntry, legacy, modern};
use serde::Deserialize;
use serde_json::json;
use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Arc, OnceLock},
    time::Duration,
};

/// How long `task_wait` waits by default, at most: below the 60 s after which many clients give up. Who has set a shorter hand-off has clients that give up earlier.
const DEFAULT_WAIT: u64 = 45;
const LONGEST_WAIT: u64 = 3600;

const _: () = assert!(FOLLOW_TOOLS.len() == TOOLS.len());

/// A tool of the server's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FollowTool {
    Wait,
    Status,
    Cancel,
    List,
}

/// In the order in which they are listed.
const TOOLS: [FollowTool; 4] = [
    FollowTool::Wait,
    FollowTool::Status,
    FollowTool::Cancel,
    FollowTool::List,
];

/// How many tasks `task_list` shows.
const LISTED: usize = 20;

const TASK_SCHEMA: &str = r#"{"type":"object","properties":{"task":{"type":"string","description":"The task's id"}},"required":["task"],"additionalProperties":false}"#;
const WAIT_SCHEMA: &str = r#"{"type":"object","properties":{"task":{"type":"string","description":"The task's id"},"seconds":{"type":"integer","minimum":1,"maximum":3600,"description":"How long to wait; without it, below the time after which the client gives up"},"waited":{"type":"integer","minimum":0,"description":"As the last answer says"}},"required":["task"],"additionalProperties":false}"#;
const NO_ARGUMENTS: &str = r#"{"type":"object","additionalProperties":false}"#;

/// One of these tools, as it is listed.
pub(crate) struct FollowToolTexts {
    pub(crate) tool: FollowTool,
    title: String,
    description: String,
}

impl FollowToolTexts {
    /// Names the server: a client has several, and the tools of all of them have these names.
    fn of(tool: FollowTool, server: &str) -> Self {
        let (title, description) = match tool {
            FollowTool::Wait => (
                "Wait for a task",
                "Waits for work that an earlier call handed off, and gives its result. If it is not over in time, says how it stands: call this again then.",
            ),
            FollowTool::Status => (
                "Show how a task stands",
                "Says at once how work stands that an earlier call handed off: whether it runs, how far it is, or how it ended. task_wait gives its result.",
            ),
            FollowTool::Cancel => (
                "Cancel a task",
                "Asks work that an earlier call handed off to stop. task_wait then shows how it ended.",
            ),
            FollowTool::List => (
                "List tasks",
                "Lists the latest tasks with their ids, tools and states, newest first: use it if the id of a task is lost.",
            ),
        };
        Self {
            tool,
            title: format!("{title} of {server}"),
            description: format!("{description} Only for tasks of the server {server}."),
        }
    }

    pub(crate) fn entry(&self) -> ToolEntry<'_> {
        ToolEntry {
            name: self.tool.name(),
            title: Some(&self.title),
            description: Some(&self.description),
            input_schema: match self.tool {
                FollowTool::Wait => WAIT_SCHEMA,
                FollowTool::Status | FollowTool::Cancel => TASK_SCHEMA,
                FollowTool::List => NO_ARGUMENTS,
            },
            output_schema: OutputSchema::None,
            annotations: Some(match self.tool {
                FollowTool::Cancel => r#"{"readOnlyHint":false,"destructiveHint":true,"idempotentHint":true}"#,
                _ => r#"{"readOnlyHint":true,"idempotentHint":true}"#,
            }),
            icons: None,
            meta: None,
            listed: None,
            policy: TaskPolicy::Never,
        }
    }
}

impl FollowTool {
    /// What its caller needs. It is no tool of the catalog, so no pattern of tools counts.
    pub(crate) fn needs(self) -> Permission<'static> {
        match self {
            Self::Wait | Self::Status | Self::List => Permission::ReadTasks,
            Self::Cancel => Permission::WriteTasks,
        }
    }

    /// What the audit log calls its use.
    pub(crate) fn audited_as(self) -> AuditAction {
        match self {
            Self::Wait | Self::Status | Self::List => AuditAction::Read,
            Self::Cancel => AuditAction::Cancel,
        }
    }

    /// The tool of this name, if some tool hands off. It takes precedence over a tool of the catalog with this name: what was handed off names it.
    pub(crate) fn named(name: &str, snapshot: &Snapshot, handoff: ConnectionHandoff) -> Option<Self> {
        let tool = TOOLS.into_iter().find(|tool| tool.name() == name)?;
        handoff.is_of_any(snapshot).then_some(tool)
    }

    const fn name(self) -> &'static str {
        FOLLOW_TOOLS[self as usize]
    }
}

/// The tools that are listed after the catalog's.
pub(crate) fn listed(snapshot: &Snapshot, handoff: ConnectionHandoff, server: &str) -> Vec<FollowToolTexts> {
    match handoff.is_of_any(snapshot) {
        true => TOOLS.map(|tool| FollowToolTexts::of(tool, server)).into(),
        false => Vec::new(),
    }
}

/// What the model is told of these tools, since servers beside this one may have tools of the same names; `None` if nothing hands off.
pub(crate) fn instructions(snapshot: &Snapshot, handoff: ConnectionHandoff, server: &str) -> Option<String> {
    let [wait, status, cancel, list] = FOLLOW_TOOLS;
    handoff.is_of_any(snapshot).then(|| format!(
        "A call that takes long is answered before its work has ended, with the id of a task. {wait} then gets its result; {status}, {cancel} and {list} are for such tasks, \
         too. They know the tasks of {server} alone."
    ))
}

/// The longest hand-off, in whole seconds.
fn default_wait(snapshot: &Snapshot, handoff: ConnectionHandoff) -> u64 {
    let longest = handoff.longest(snapshot).map(|longest| longest / 1_000);
    longest.unwrap_or(DEFAULT_WAIT).clamp(1, DEFAULT_WAIT)
}

/// The response to a call whose work continues after it. If its tool has an output schema, the response has structured content.
pub(crate) fn handed_off(task: &Task, tool: Option<&Tool>) -> Outcome {
    let (name, id) = (&task.tool, &task.id);
    let stands = match task.awaits_confirmation() {
        true => {
            let waits = task.status.as_deref().unwrap_or("waits for its confirmation");
            format!("{name} has not begun: task {id} {waits}. Then it runs whether or not anyone waits.")
        }
        false => format!("{name} is still running, as task {id}. It goes on whether or not anyone waits."),
    };
    let text = format!(
        "{stands} To get its result, call task_wait with {{\"task\": \"{id}\"}}; task_status says how it stands, and task_cancel stops it, with the same."
    );
    let has_schema = tool.is_some_and(|tool| tool.settings().output_schema.is_some());
    Outcome::result(match has_schema {
        false => text_result(&text, false),
        true => Json::from(json!({
            "content": [{"type": "text", "text": text}],
            "structuredContent": handoff_schema::handed_off(id.as_str(), &text),
            "isError": false,
        })),
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    #[serde(alias = "task_id", alias = "taskId")]
    task: String,
    seconds: Option<u64>,
    /// Read by nobody: hosts stop a model that repeats a call with the same arguments, so each answer names another value.
    #[serde(default, rename = "waited")]
    _waited: Option<u64>,
}

/// `task_list` takes none.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoArguments {}

pub(crate) fn call(
    interaction: &Arc<Interaction>,
    request: &AdmittedRequest<'_>,
    tool: FollowTool,
    asked: RoundRequest<'_>,
) -> Result<Answer, RpcError> {
    if tool == FollowTool::List {
        return list(interaction, request, asked);
    }
    let arguments: Result<Arguments, String> = read_arguments(&asked);
    let lookup = Lookup {
        interaction: Arc::clone(interaction),
        sender: Arc::clone(request.caller.identity()),
        address: request.address,
        scope: request.caller.scope(),
        audit: request.audit.clone(),
        limit: Arc::default(),
    };
    let (limit, handoff) = (Arc::clone(&lookup.limit), request.caller.mode.handoff);
    if let Some(audit) = &request.audit {
        audit.defer();
    }
    let handler: handler::Handler = Box::new(move |cx| -> BoxFuture<'static, _> {
        let lookup = lookup.clone();
        match &arguments {
            Err(wrong) => refused(&format!("The arguments do not fit: {wrong}")),
            Ok(Arguments {
                seconds: Some(seconds), ..
            }) if !(1..=LONGEST_WAIT).contains(seconds) => {
                refused("The arguments do not fit: seconds must be from 1 to 3600")
            }
            Ok(Arguments { task, seconds, .. }) => match task.parse() {
                Err(_) => Box::pin(std::future::ready(lookup.unknown())),
                Ok(id) => match tool {
                    FollowTool::Wait => {
                        let seconds = seconds
                            .unwrap_or_else(|| default_wait(&lookup.interaction.engine.catalog().snapshot(), handoff));
                        Box::pin(wait(lookup, id, seconds, cx))
                    }
                    FollowTool::Status | FollowTool::List => Box::pin(status(lookup, id)),
                    FollowTool::Cancel => {
                        let ports = lookup.interaction.engine.ports().clone();
                        Box::pin(async move { ports.run_to_completion(cancel(lookup, id)).await })
                    }
                },
            },
        }
    });
    let failed = move || limit.get().cloned().map(RpcError::from);
    answer_with(interaction, request, asked, handler, failed)
}

fn read_arguments<T: serde::de::DeserializeOwned>(asked: &RoundRequest<'_>) -> Result<T, String> {
    serde_json::from_str(asked.arguments.as_ref().map_or("{}", Json::as_str)).map_err(|error| error.to_string())
}

fn answer_with(
    interaction: &Arc<Interaction>,
    request: &AdmittedRequest<'_>,
    asked: RoundRequest<'_>,
    handler: handler::Handler,
    failed: impl Fn() -> Option<RpcError> + Send + 'static,
) -> Result<Answer, RpcError> {
    let (server_info, generation) = (Arc::clone(&interaction.server_info), request.caller.generation);
    handler::answer_with(
        interaction,
        request,
        Round::of(interaction, request, asked)?,
        handler,
        Box::new(move |_| failed()),
        Box::new(move |out, id, result| match generation {
            Generation::Legacy => legacy::tools::write_called(out, id, result),
            Generation::Modern => modern::tools::write_called(out, id, result, &server_info),
        }),
    )
}

/// Lists the latest tasks that the caller may list.
fn list(
    interaction: &Arc<Interaction>,
    request: &AdmittedRequest<'_>,
    asked: RoundRequest<'_>,
) -> Result<Answer, RpcError> {
    let (engine, scope) = (interaction.engine.clone(), request.caller.list_scope());
    let arguments: Result<NoArguments, String> = read_arguments(&asked);
    let handler: handler::Handler = Box::new(move |cx| -> BoxFuture<'static, _> {
        match (&arguments, &scope) {
            (Err(wrong), _) => refused(&format!("The arguments do not fit: {wrong}")),
            (_, Err(_)) => refused(
                "This server does not know whose tasks to list: it has neither a session nor a login of this client.",
            ),
            (Ok(_), Ok(scope)) => {
                let (engine, scope) = (engine.clone(), scope.clone());
                Box::pin(async move {
                    let page = engine.list(&scope, None, LISTED).await.map_err(store_failed)?;
                    Ok(text_result(&describe_all(&page, cx.ports().clock.now()), false))
                })
            }
        }
    });
    answer_with(interaction, request, asked, handler, || None)
}

/// Unknown and foreign ids alike.
const NO_SUCH_TASK: &str = "There is no such task: it was deleted some time after its end, or its id is that of another server or another user. \
     task_list shows the tasks that are known.";

/// Something the model can act on.
fn refused(text: &str) -> BoxFuture<'static, Result<Json, HandlerError>> {
    Box::pin(std::future::ready(Ok(text_result(text, true))))
}

/// Whose task is looked for, and what is recorded of it.
#[derive(Clone)]
struct Lookup {
    interaction: Arc<Interaction>,
    sender: Arc<Identity>,
    address: Option<IpAddr>,
    scope: Scope,
    audit: Option<Arc<RequestAudit>>,
    /// The limit that was reached. It is answered as for each other request, which an error of a handler cannot say.
    limit: Arc<OnceLock<Busy>>,
}

impl Lookup {
    fn record(&self, outcome: AuditOutcome) {
        if let Some(audit) = &self.audit {
            audit.record(outcome);
        }
    }

    /// The answer for an unknown id; of too many in a second, an error.
    fn unknown(&self) -> Result<Json, HandlerError> {
        match self.interaction.admission.meter.unknown_id(&self.sender, self.address) {
            Ok(()) => {
                self.record(AuditOutcome::Unknown);
                Ok(text_result(NO_SUCH_TASK, true))
            }
            Err(busy) => {
                self.record(AuditOutcome::Limited);
                Err(self.too_busy(busy))
            }
        }
    }

    fn too_busy(&self, busy: Busy) -> HandlerError {
        let error = HandlerError::Rpc(longhaul_core::RpcFailure::new(429, busy.to_string()));
        let _ = self.limit.set(busy);
        error
    }
}

async fn status(lookup: Lookup, id: TaskId) -> Result<Json, HandlerError> {
    let record = lookup.interaction.engine.get(&lookup.scope, &id).await;
    let Some(record) = record.map_err(store_failed)? else {
        return lookup.unknown();
    };
    lookup.record(AuditOutcome::Ok);
    Ok(text_result(&describe(&record), false))
}

async fn cancel(lookup: Lookup, id: TaskId) -> Result<Json, HandlerError> {
    let cancelled = lookup
        .interaction
        .engine
        .cancel(&lookup.scope, &id, CancelMode::Cooperative)
        .await;
    if matches!(cancelled, Ok(_) | Err(CancelError::Done(_))) {
        lookup.record(AuditOutcome::Ok);
    }
    match cancelled {
        Ok(task) => Ok(text_result(&format!("{} was asked to stop.", task.tool), false)),
        Err(CancelError::Done(task)) => Ok(text_result(&format!("{} was over already.", task.tool), false)),
        Err(CancelError::NotFound) => lookup.unknown(),
        Err(CancelError::Store(error)) => Err(store_failed(error)),
    }
}

async fn wait(lookup: Lookup, id: TaskId, seconds: u64, cx: RequestContext) -> Result<Json, HandlerError> {
    let (engine, scope) = (lookup.interaction.engine.clone(), lookup.scope.clone());
    let (mut is_recorded, mut permit) = (false, None);
    let (mut watch, mut tool_messages) = (engine.watch(&id), engine.subscribe(&id));
    let time_is_up = cx.ports().clock.sleep(Duration::from_secs(seconds));
    tokio::pin!(time_is_up);
    // The question is open for as long as this is held.
    let mut relayed: Option<RelayedQuestion> = None;
    loop {
        let record = engine.get(&scope, &id).await.map_err(store_failed)?;
        let Some(record) = record else {
            return lookup.unknown();
        };
        if !std::mem::replace(&mut is_recorded, true) {
            lookup.record(AuditOutcome::Ok);
        }
        if let Some(outcome) = &record.outcome {
            return Ok(result_of(&record.task, outcome));
        }
        if permit.is_none() {
            let permitted = lookup.interaction.admission.meter.stream(lookup.sender.principal());
            permit = Some(permitted.map_err(|busy| lookup.too_busy(busy))?);
        }
        if !(relayed.as_ref()).is_some_and(|relayed| record.task.open_inputs.contains(&relayed.key)) {
            relayed = RelayedQuestion::of(&record, &cx);
        }
        tokio::select! {
            biased;
            answer = RelayedQuestion::answered(&mut relayed) => {
                let (key, answer) = answer?;
                relayed = None;
                engine.answer(&scope, &id, BTreeMap::from([(key, answer)])).await.map_err(store_failed)?;
            }
            () = &mut time_is_up => {
                let waited = cx.ports().clock.now().since(record.task.created_at) / 1_000;
                return Ok(text_result(&describe_running(&record, relayed.is_some(), seconds, waited), false));
            }
            // As a wait for the result of the task.
            () = lookup.sender.ended(&*cx.ports().clock), if lookup.sender.can_end() => {
                return Err(HandlerError::Rpc(longhaul_core::RpcFailure::new(-32603, credentials_ended().message())));
            }
            () = watch.changed() => {}
            message = tool_messages.next() => match message {
                message @ (ToolMessage::Progress { .. } | ToolMessage::ElicitationComplete { .. }) => cx.send(message),
                ToolMessage::Log { .. } | ToolMessage::CloseStream | ToolMessage::Begins | ToolMessage::BecomesTask => {}
            },
        }
    }
}

/// A question of the work that this client is asked.
struct RelayedQuestion {
    key: InputKey,
    answer: BoxFuture<'static, Result<Json, AskError>>,
}

impl RelayedQuestion {
    /// Asks this client what the work has asked, if it can be asked that; otherwise another client must answer.
    fn of(record: &Record, cx: &RequestContext) -> Option<Self> {
        let capabilities = &cx.requestor().capabilities;
        let input = (record.inputs.iter()).find(|input| {
            Capability::needed_by(&input.request).is_some_and(|capability| capabilities.has(capability))
        })?;
        let question = Question {
            name: Some(input.key.as_str().into()),
            needs: Capability::needed_by(&input.request),
            request: input.request.clone(),
            within: None,
        };
        let cx = cx.clone();
        Some(Self {
            key: input.key.clone(),
            answer: Box::pin(async move { cx.ask(question).await }),
        })
    }

    async fn answered(relayed: &mut Option<Self>) -> Result<(InputKey, Json), AskError> {
        match relayed {
            Some(Self { key, answer }) => Ok((key.clone(), answer.await?)),
            None => std::future::pending().await,
        }
    }
}

/// The work's own result, or its failure in words.
fn result_of(task: &Task, outcome: &Outcome) -> Json {
    match outcome {
        Outcome::Result { json, .. } => json.clone(),
        Outcome::RpcError(failure) => text_result(&format!("{} failed: {}", task.tool, failure.message), true),
        Outcome::Cancelled => text_result(&format!("{} was cancelled.", task.tool), true),
    }
}

/// A line for each task.
fn describe_all(page: &Page, now: UnixMillis) -> String {
    if page.tasks.is_empty() {
        return "There are no tasks.".to_owned();
    }
    let mut text = String::new();
    for task in &page.tasks {
        let state = match task.state {
            State::Done(Verdict::Succeeded) => "has ended",
            State::Done(Verdict::Cancelled) => "was cancelled",
            State::Done(_) => "has failed",
            _ if !task.open_inputs.is_empty() => "waits for an answer",
            _ if task.awaits_confirmation() => "has not begun",
            State::Queued => "is queued",
            _ => "is running",
        };
        let age = approximate_duration(now.since(task.created_at) / 1_000 * 1_000);
        let line = task.status.as_deref().map(says).unwrap_or_default();
        text.push_str(&format!("{}: {} {state}, begun {age} ago.{line}\n", task.id, task.tool));
    }
    if page.more {
        text.push_str("There are older ones.\n");
    }
    text
}

/// How work stands, without its result.
fn describe(Record { task, inputs, outcome }: &Record) -> String {
    let tool = &task.tool;
    let call = json!({"task": task.id.as_str()});
    let mut text = match outcome {
        None if task.stop.is_some() => format!("{tool} was asked to stop."),
        None if inputs.is_empty() && task.awaits_confirmation() => format!("{tool} has not begun."),
        None if inputs.is_empty() => format!("{tool} is still running."),
        None => format!("{tool} waits for an answer to its question: call task_wait with {call} to be asked."),
        Some(Outcome::Result { is_error: false, .. }) => {
            format!("{tool} has ended: call task_wait with {call} to get its result.")
        }
        Some(Outcome::Result { .. } | Outcome::RpcError(_)) => {
            format!("{tool} has failed: call task_wait with {call} to see why.")
        }
        Some(Outcome::Cancelled) => format!("{tool} was cancelled."),
    };
    if let Some(progress) = task.progress.filter(|_| outcome.is_none()) {
        let total = progress.total.map(|total| format!(" of {total}")).unwrap_or_default();
        text.push_str(&format!(" It is at {}{total}.", progress.current));
    }
    if let Some(line) = task.status.as_deref() {
        text.push_str(&says(line));
    }
    text
}

fn describe_running(Record { task, inputs, .. }: &Record, asked: bool, seconds: u64, waited: u64) -> String {
    let line = task.status.as_deref().map(says).unwrap_or_default();
    let waits = match inputs.as_slice() {
        [] => "",
        _ if asked => " It waits for an answer to its question.",
        _ => " It waits for an answer that this client cannot be asked for.",
    };
    let stands = match task.awaits_confirmation() {
        true => "has not begun",
        false => "is still running",
    };
    format!(
        "{} {stands} after these {seconds} s.{line}{waits} Call task_wait with {} again to go on waiting.",
        task.tool,
        json!({"task": task.id.as_str(), "waited": waited})
    )
}

/// What work says of itself, as a sentence of its own.
fn says(line: &str) -> String {
    let end = if line.ends_with(['.', '!', '?', '…']) {
        ""
    } else {
        "."
    };
    format!(" It says: {line}{end}")
}

fn store_failed(error: StoreError) -> HandlerError {
    let error = crate::response::store_failed(error);
    HandlerError::Rpc(longhaul_core::RpcFailure::new(-32603, error.message()))
}
