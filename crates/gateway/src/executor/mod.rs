//! Runs the calls of an upstream's tool.

mod cancelled_calls;
pub(crate) mod progress;
mod send_state;
mod task_on_upstream;

pub(crate) use send_state::{SendState, is_unsent};

use crate::{
    question::{Context, Registration, UpstreamTask, foreign_meta},
    remote_job::states::text_at,
    upstream::{Purpose, SignOfLife, Upstream, UpstreamConnection, logged, loops, public},
};
use longhaul_client::{CallOptions, CallResponse, Connection, Event, RequestError, TaskHandle};
use longhaul_core::{
    BoxFuture, Failure, Json, JsonMembers, MISSING_CAPABILITY, Outcome, RpcFailure, StopReason, whole_millis,
};
use longhaul_runtime::{ExecutionEnd, Executor, ExecutorAttempt, STOP_GRACE, TaskContext};
use longhaul_wire::relayed;
use progress::report;
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use task_on_upstream::FollowOutcome;
use tokio::sync::OwnedSemaphorePermit;

/// The pause before a call that is known not to run is sent again, or a task read again that cannot be read now, in milliseconds.
pub(crate) const PAUSE: u64 = 1_000;

/// How long the answer of a cancelled call that submits a job is waited for: it names the job, which is cancelled then.
pub(crate) const SUBMIT_GRACE: Duration = Duration::from_secs(60);

/// A tool of an upstream.
pub(crate) struct UpstreamExecutor {
    pub(crate) upstream: Arc<Upstream>,
    /// The upstream's name for it.
    pub(crate) tool: String,
    /// Whether a call may be made again when it is not known what became of it.
    pub(crate) idempotent: bool,
    pub(crate) purpose: Purpose,
}

/// What became of a call.
enum UpstreamOutcome {
    Ended(ExecutionEnd),
    /// The upstream has made a task of it.
    Task(TaskHandle),
    /// The upstream has not received it, since it cannot be reached.
    Unsent(RequestError),
    /// It is not known whether it has run.
    Unknown(RequestError),
    /// The upstream answers nothing any more: why it counts as hung.
    Hung(String),
    /// This task was asked to stop. If the call was sent, the upstream was asked to cancel it.
    Stopped(StopReason),
}

impl Executor for UpstreamExecutor {
    fn upstream(&self) -> Option<&str> {
        Some(self.upstream.name())
    }

    fn prepares(&self) -> bool {
        true
    }

    fn may_log(&self) -> bool {
        let lists = self.upstream.last_lists();
        lists.is_none_or(|lists| lists.declares("logging"))
    }

    fn asks_again(&self) -> bool {
        true
    }

    fn run(self: Arc<Self>, attempt: ExecutorAttempt, cx: TaskContext) -> BoxFuture<'static, ExecutionEnd> {
        Box::pin(async move {
            match self.slot(&attempt, &cx).await {
                Ok(_slot) => self.call_to_end(&attempt, &cx).await,
                Err(end) => end,
            }
        })
    }

    fn resume(self: Arc<Self>, attempt: ExecutorAttempt, cx: TaskContext) -> BoxFuture<'static, ExecutionEnd> {
        Box::pin(async move {
            // What runs on the upstream does not wait for a slot.
            let slot =
                (self.upstream.running.as_ref()).and_then(|running| Arc::clone(running).try_acquire_owned().ok());
            let stored = attempt.checkpoint.as_ref().and_then(UpstreamTask::from_json);
            let mut has_asked = false;
            if let Some(UpstreamTask { task, delivered, open }) = stored {
                let (connection, registration) = match self.register(&cx, &delivered).await {
                    Ok(registered) => registered,
                    // Its task runs there.
                    Err(ExecutionEnd::Errored(outcome)) => return ExecutionEnd::Finished(outcome),
                    Err(end) => return end,
                };
                registration.begins();
                registration.asker.resume(&open);
                let handle = connection.connection.resume_task(&task).await;
                let handle = handle.with_earlier_requests(open.into_iter().map(|open| open.request));
                match self.follow(&handle, &registration, &cx).await {
                    FollowOutcome::Ended(end) => return end,
                    FollowOutcome::Lost(error) => {
                        has_asked = !registration.asker.open.is_empty();
                        tracing::warn!(
                            upstream = self.upstream.name(),
                            error = logged(&error),
                            task = cx.task().short(),
                            "the upstream does not know a task of before the restart any more"
                        );
                    }
                }
            }
            drop(slot);
            match cx.stop_requested() {
                Some(reason) => ExecutionEnd::Stopped(reason),
                // Nothing was sent.
                None if is_unsent(&attempt) => self.run(attempt, cx).await,
                None if self.idempotent => self.run(attempt, cx).await,
                None if has_asked => self.lost(
                    "the gateway was stopped while it asked something, and the upstream knows its task, or its session, no more: it did not get the answer",
                ),
                None => self.lost("the gateway was stopped while it ran"),
            }
        })
    }
}

impl UpstreamExecutor {
    /// Waits until a call of this upstream may run, and says so on the task.
    pub(crate) async fn slot(
        &self,
        attempt: &ExecutorAttempt,
        cx: &TaskContext,
    ) -> Result<Option<OwnedSemaphorePermit>, ExecutionEnd> {
        let Some(running) = &self.upstream.running else {
            return Ok(None);
        };
        if let Ok(slot) = Arc::clone(running).try_acquire_owned() {
            return Ok(Some(slot));
        }
        let _waiting = self.upstream.begin_waiting();
        let (name, most) = (self.upstream.name(), self.upstream.options().concurrency);
        let most = most.unwrap_or_default();
        cx.status(format!(
            "waits: {most} of at most {most} calls of upstream `{name}` run"
        ));
        let send_state = SendState::of(attempt);
        let slot = tokio::select! {
            biased;
            reason = cx.stopped() => return Err(ExecutionEnd::Stopped(reason)),
            end = send_state.must_not_begin(self, cx) => return Err(end),
            slot = Arc::clone(running).acquire_owned() => slot.ok(),
        };
        cx.status(format!("sent to upstream `{name}`"));
        Ok(slot)
    }

    /// Makes the call until it has an end.
    pub(crate) async fn call_to_end(&self, attempt: &ExecutorAttempt, cx: &TaskContext) -> ExecutionEnd {
        let (send_state, delivered) = (SendState::of(attempt), BTreeMap::new());
        let registered = tokio::select! {
            biased;
            registered = self.register(cx, &delivered) => registered,
            end = send_state.must_not_begin(self, cx) => Err(end),
        };
        let (connection, registration) = match registered {
            Ok(registered) => registered,
            Err(end) => return end,
        };
        let asker = Arc::clone(&registration.asker);
        match self.call_and_follow(&connection, registration, attempt, cx).await {
            ExecutionEnd::Stopped(_) if asker.is_given_up() && cx.stop_requested().is_none() => {
                let text = format!(
                    "upstream `{}`: its question was not answered, and the call was cancelled since another call of this client needs the connection",
                    self.upstream.name()
                );
                ExecutionEnd::Finished(Outcome::tool_error(&text))
            }
            end => end,
        }
    }

    /// The end of a call whose tool was switched off before it was sent.
    fn end_if_refused(&self) -> Option<ExecutionEnd> {
        let refusal = self.upstream.refusal(&self.tool, self.purpose)?;
        Some(ExecutionEnd::Finished(Failure::Unavailable(refusal).into()))
    }

    /// Completes when the call is to stop.
    async fn stopped(&self, registration: &Registration, cx: &TaskContext) -> StopReason {
        tokio::select! {
            biased;
            reason = cx.stopped() => reason,
            () = registration.asker.given_up() => StopReason::Cancel,
        }
    }

    pub(crate) async fn register(
        &self,
        cx: &TaskContext,
        delivered: &BTreeMap<String, u32>,
    ) -> Result<(Arc<UpstreamConnection>, Registration), ExecutionEnd> {
        let context = Context::Task(cx.clone());
        tokio::select! {
            biased;
            registered = self.upstream.register(&context, delivered) => {
                registered.map_err(|error| self.failed(&error.to_string()))
            }
            reason = cx.stopped() => Err(ExecutionEnd::Stopped(reason)),
        }
    }

    /// Makes the call, and follows the task that the upstream makes of it. If it is not known what became of an idempotent call, another attempt makes it again,
    /// as the retry policy says.
    async fn call_and_follow(
        &self,
        connection: &Arc<UpstreamConnection>,
        registration: Registration,
        attempt: &ExecutorAttempt,
        cx: &TaskContext,
    ) -> ExecutionEnd {
        let error = match self.call(connection, &registration, attempt, cx).await {
            UpstreamOutcome::Ended(end) => return end,
            UpstreamOutcome::Task(handle) => {
                registration.is_task(&handle);
                if let Err(error) = registration.asker.store().await {
                    // Nobody would find it again: the attempt has ended, or is another node's by now.
                    tracing::warn!(%error, task = cx.task().short(), "a task of an upstream was not recorded");
                }
                // Only now: a client that has the task finds it again after a crash.
                cx.becomes_task();
                match self.follow(&handle, &registration, cx).await {
                    FollowOutcome::Ended(end) => return end,
                    FollowOutcome::Lost(error) => error,
                }
            }
            UpstreamOutcome::Unsent(error) => return self.failed_with(&error, cx),
            UpstreamOutcome::Unknown(error) => error,
            // It is not made again: it may be what the upstream hangs in.
            UpstreamOutcome::Hung(why) => {
                registration.ends();
                drop(registration);
                self.upstream.connections.end_child(connection);
                return self.lost(&why);
            }
            UpstreamOutcome::Stopped(reason) => {
                if registration.runs() {
                    self.end_cancelled(connection, registration, cx).await;
                }
                return ExecutionEnd::Stopped(reason);
            }
        };
        // It has answered: the call is over, and made again it would be answered so again.
        if let RequestError::TooLarge { limit } = &error {
            let why = format!(
                "it has answered with more than {limit} bytes, which cannot be passed on; ask for less at once"
            );
            return self.over(&why);
        }
        tracing::warn!(
            upstream = self.upstream.name(),
            tool = self.tool,
            task = cx.task().short(),
            error = logged(&error),
            "it is not known whether a call has run on its upstream"
        );
        match cx.stop_requested() {
            Some(reason) => ExecutionEnd::Stopped(reason),
            None if self.idempotent => ExecutionEnd::OutcomeUnknown(self.unknown(&self.public(&error, cx))),
            None => self.lost(&self.public(&error, cx)),
        }
    }

    /// Makes the call, once the upstream can be reached. It is sent again only while the upstream has not received it, or has refused it because it is busy.
    async fn call(
        &self,
        connection: &Arc<UpstreamConnection>,
        registration: &Registration,
        attempt: &ExecutorAttempt,
        cx: &TaskContext,
    ) -> UpstreamOutcome {
        let life = SignOfLife::new(&self.upstream);
        let send_state = SendState::of(attempt);
        let called = async {
            let mut backoff = self.upstream.backoff();
            let mut was_refused = false;
            loop {
                if let Err(down) = self.upstream.connect(connection, &mut backoff, Some(cx)).await {
                    return UpstreamOutcome::Ended(self.failed_with(&down.error, cx));
                }
                // A child may have taken long to start.
                cx.begins();
                // What it waited for must not stay its status, and not be the last one of a task that has ended.
                if backoff.has_paused() {
                    let name = self.upstream.name();
                    // A call that was refused may be refused again.
                    cx.status(match was_refused {
                        true => format!("sent to upstream `{name}` again"),
                        false => format!("sent to upstream `{name}`"),
                    });
                }
                connection.give_roots(&Context::Task(cx.clone())).await;
                match self
                    .send(connection, registration, attempt, cx, (&life, &send_state))
                    .await
                {
                    UpstreamOutcome::Unknown(error) if !error.is_refusal() || !error.is_transient() => {
                        return UpstreamOutcome::Unknown(error);
                    }
                    UpstreamOutcome::Unsent(error) | UpstreamOutcome::Unknown(error) => {
                        send_state.was_refused(attempt, cx).await;
                        if !backoff.pause(&self.upstream, Some(cx), &error).await {
                            return UpstreamOutcome::Unsent(error);
                        }
                        was_refused = true;
                    }
                    called => return called,
                }
            }
        };
        tokio::pin!(called);
        let reason = tokio::select! {
            biased;
            called = &mut called => return called,
            why = life.ends(connection, cx) => return UpstreamOutcome::Hung(why),
            end = send_state.must_not_begin(self, cx) => return UpstreamOutcome::Ended(end),
            reason = self.stopped(registration, cx) => reason,
        };
        // Its task, if the upstream makes one of it, runs on unless it is cancelled; so does its job.
        let ended = UpstreamOutcome::Stopped(reason);
        let is_work = |called: &UpstreamOutcome| match called {
            UpstreamOutcome::Task(_) => true,
            UpstreamOutcome::Ended(ExecutionEnd::Finished(_)) => self.purpose == Purpose::Submit,
            _ => false,
        };
        let work = async {
            let longest = self.longest_wait_for_work(connection, cx).await;
            tokio::select! {
                biased;
                called = called => Some(called).filter(is_work),
                // Dropping the call cancels it on the upstream.
                () = self.upstream.pause(longest) => None,
            }
        };
        tokio::select! {
            biased;
            work = work => work.unwrap_or(ended),
            () = self.upstream.pause(whole_millis(SUBMIT_GRACE.max(STOP_GRACE))) => ended,
        }
    }

    async fn send(
        &self,
        connection: &UpstreamConnection,
        registration: &Registration,
        attempt: &ExecutorAttempt,
        cx: &TaskContext,
        (life, send_state): (&SignOfLife<'_>, &SendState),
    ) -> UpstreamOutcome {
        let tool = match connection.connection.tool(&self.tool).await {
            Ok(Some(tool)) => tool,
            Ok(None) => return UpstreamOutcome::Ended(self.unknown_tool()),
            // Nothing of the call was sent.
            Err(error) if error.is_transient() || error.is_unsent() => return UpstreamOutcome::Unsent(error),
            Err(error) => return UpstreamOutcome::Ended(self.failed_with(&error, cx)),
        };
        let mut options = CallOptions::default();
        options.source = Some(registration.number);
        // A job has a handle of its own.
        options.without_task = self.purpose != Purpose::Tool || !may_become_task(cx).await;
        options.arguments_text = Some(attempt.arguments.clone());
        options.meta = meta_of(cx);
        if let Err(why) = loops::count_hop(&cx.requestor().meta, &mut options.meta) {
            return UpstreamOutcome::Ended(self.failed(&why));
        }
        // For the headers that mirror arguments.
        let arguments: Map<String, Value> = serde_json::from_str(attempt.arguments.as_str()).unwrap_or_default();
        let on_event = &mut |event: Event<'_>| {
            life.seen();
            report(cx, &event);
        };
        let refused = self.end_if_refused();
        if let Some(end) = refused.or_else(|| send_state.end_unless_it_may_begin(cx)) {
            return UpstreamOutcome::Ended(end);
        }
        if let Err(error) = send_state.begins(cx).await {
            return UpstreamOutcome::Ended(self.failed(&error.to_string()));
        }
        // From here on a later process does not take it for one that was never sent.
        if let Err(end) = cx.record_start().await {
            return UpstreamOutcome::Ended(end);
        }
        registration.begins();
        let mut called = (connection.connection)
            .call_tool_with(&tool, &arguments, &options, on_event)
            .await;
        if options.without_task && matches!(&called, Err(RequestError::Rpc(failure)) if needs_task(failure)) {
            options.without_task = false;
            called = (connection.connection)
                .call_tool_with(&tool, &arguments, &options, on_event)
                .await;
        }
        let called = match called {
            Ok(CallResponse::Done(outcome)) => UpstreamOutcome::Ended(ExecutionEnd::Finished(passed_on(outcome))),
            Ok(CallResponse::Task(handle)) => return UpstreamOutcome::Task(handle),
            Err(error) => self.of_error(error, &connection.connection, cx),
        };
        if matches!(called, UpstreamOutcome::Ended(_) | UpstreamOutcome::Unsent(_)) {
            registration.ends();
        }
        called
    }

    /// The end of a call of a tool that its client's connection to the upstream does not have.
    fn unknown_tool(&self) -> ExecutionEnd {
        let tool = self.upstream.offered_name(&self.tool);
        let is_listed = self.upstream.lists().is_some_and(|lists| lists.has_tool(&self.tool));
        let why = match is_listed {
            true => ": the upstream offers it to clients with other capabilities",
            false => "",
        };
        let message = format!("Unknown tool: {tool}{why}");
        ExecutionEnd::Finished(rpc_error(-32602, &message, None))
    }

    /// What an error of a call says of it.
    fn of_error(&self, error: RequestError, connection: &Connection, cx: &TaskContext) -> UpstreamOutcome {
        match error {
            // The client of the call decides what it thinks of the result.
            RequestError::InvalidOutput { result, .. } => {
                UpstreamOutcome::Ended(ExecutionEnd::Finished(passed_on(Outcome::result(result))))
            }
            RequestError::Rpc(failure) => UpstreamOutcome::Ended(ExecutionEnd::Finished(Outcome::RpcError(failure))),
            RequestError::PageRequired { .. } => UpstreamOutcome::Ended(self.failed_with(&error, cx)),
            RequestError::Unanswered { .. } => UpstreamOutcome::Ended(self.over(&self.public(&error, cx))),
            error @ (RequestError::Unreachable { .. } | RequestError::NotStarted { .. }) if error.is_unsent() => {
                UpstreamOutcome::Unsent(error)
            }
            // On a pipe nobody else answers: the tool has run, and would be answered in the same way again.
            RequestError::Invalid(_) if connection.is_pipe() => {
                UpstreamOutcome::Ended(self.over(&self.public(&error, cx)))
            }
            error if error.is_refusal() && !error.is_transient() => {
                UpstreamOutcome::Ended(self.failed_with(&error, cx))
            }
            error => UpstreamOutcome::Unknown(error),
        }
    }

    fn public(&self, error: &RequestError, cx: &TaskContext) -> String {
        public(self.upstream.name(), error, cx.principal())
    }

    fn failed_with(&self, error: &RequestError, cx: &TaskContext) -> ExecutionEnd {
        self.failed(&self.public(error, cx))
    }

    /// The end of a call that the upstream has not carried out.
    pub(crate) fn failed(&self, why: &str) -> ExecutionEnd {
        ExecutionEnd::Errored(Outcome::tool_error(&self.told(why)))
    }

    /// The end of a call that the upstream has accepted: it is not made again, whatever the retry policy says.
    pub(crate) fn over(&self, why: &str) -> ExecutionEnd {
        ExecutionEnd::Finished(Outcome::tool_error(&self.told(why)))
    }

    fn told(&self, why: &str) -> String {
        format!("upstream `{}`: {why}", self.upstream.name())
    }

    /// The end of a call that may have run, and must not be made again.
    pub(crate) fn lost(&self, why: &str) -> ExecutionEnd {
        ExecutionEnd::Lost(self.unknown(why))
    }

    /// How the message of a call begins that may have run.
    fn interrupted(&self) -> String {
        format!("Interrupted: it is not known whether `{}` has run on ", self.tool)
    }

    /// Why a call has failed or may have run, beginning with the upstream, whether or not it has run.
    pub(crate) fn why(&self, end: &ExecutionEnd) -> Option<String> {
        match end {
            ExecutionEnd::Errored(Outcome::Result { json, .. }) => text_at(json, "/content/0/text"),
            ExecutionEnd::OutcomeUnknown(Outcome::RpcError(failure))
            | ExecutionEnd::Lost(Outcome::RpcError(failure)) => {
                failure.message.strip_prefix(&self.interrupted()).map(str::to_owned)
            }
            _ => None,
        }
    }

    /// The outcome of a call that may have run.
    fn unknown(&self, why: &str) -> Outcome {
        let message = self.interrupted() + &self.told(why);
        rpc_error(-32603, &message, Some(json!({"reason": "interrupted"})))
    }
}

/// Whether the client of the call has a task of it, or can be given one. One that waits is sent progress and log messages, which no upstream sends for a task.
pub(crate) async fn may_become_task(cx: &TaskContext) -> bool {
    // Only this process knows the latter.
    cx.requestor().capabilities.tasks || cx.is_announced().await
}

/// Whether a modern upstream runs the tool only as a task.
fn needs_task(failure: &RpcFailure) -> bool {
    let data = failure.data.as_ref();
    failure.code == MISSING_CAPABILITY
        && data.is_some_and(|data| data.as_str().contains("io.modelcontextprotocol/tasks"))
}

/// An outcome of the upstream without what belongs to its connection.
fn passed_on(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Result { json, is_error } => Outcome::Result {
            json: relayed::result(&json),
            is_error,
        },
        other => other,
    }
}

/// What the caller has put into `_meta`, the trace that the call belongs to, and the related tasks.
pub(crate) fn meta_of(cx: &TaskContext) -> JsonMembers {
    let requestor = cx.requestor();
    let mut meta = foreign_meta(&requestor.meta);
    requestor.add_context(&mut meta);
    meta
}

fn rpc_error(code: i32, message: &str, data: Option<Value>) -> Outcome {
    Outcome::RpcError(RpcFailure {
        code,
        message: message.into(),
        data: data.map(Json::from),
    })
}
