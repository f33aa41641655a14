//! Starting a call of a tool: as a task or as a plain call, after the tool's intake if it has one.

use super::{
    Calls,
    blocking::{self, BlockingCall, CallContext, QuestionChannel},
    mirrored_headers,
    policy::{CallerMode, Route, RouteError, WaitPolicy},
};
use crate::{
    admission::{handoff::ConnectionHandoff, identity::Identity, permissions::Permission, request::AdmittedRequest},
    audit::{AuditOutcome, RequestAudit},
    handler,
    interaction::{
        exchange::{self, FinalResponse, ResponderEvent},
        legacy::push_stream,
        notifications::RequestNotifications,
        rounds::{Round, RoundRequest, RoundState, call_ended},
    },
    response::{Answer, OwnedRequestId, answer_lost, create_failed, draining, store_failed},
    session::Session,
};
use longhaul_core::{BoxFuture, Json, Millis, Origin, Outcome, Owner, Priority, SessionKey, Task, TaskId};
use longhaul_runtime::{Call as ToolCall, HandlerError, Requestor, Tool};
use longhaul_wire::{Generation, RpcError, jsonrpc::write_result, legacy, modern, params::TaskMetadata};
use serde_json::value::RawValue;
use std::{borrow::Cow, sync::Arc};

/// Starts a call of `tool`, or rejoins the call that the request retries.
///
/// The order of the checks: the tool exists → headers → task support and capability → arguments.
pub(crate) async fn start_or_rejoin(
    calls: &Arc<Calls>,
    request: &AdmittedRequest<'_>,
    tool: Arc<Tool>,
    raw_arguments: Option<&RawValue>,
    asked: RoundRequest<'_>,
) -> Result<Answer, RpcError> {
    mirrored_headers::check(calls, request, &tool, raw_arguments)?;
    let caller = CallOrigin::of(calls, request)?;
    let route = caller.route(&tool).map_err(|why| unroutable(why, asked.target))?;
    let arguments = asked.arguments.clone().unwrap_or_else(|| Json::trusted("{}"));
    let interaction = &calls.interaction;
    let round = Round::of(interaction, request, asked)?;
    let checked = tool.check(&arguments).await;
    // Read before anything starts: a call that is refused for it must not run.
    let notifications = RequestNotifications::requested_by(interaction, request)?;
    let questions = QuestionChannel::of(request, round.as_ref().map(Round::anew));
    let start = caller.start(route, questions, (Arc::clone(&tool), arguments));
    let event = match (checked, round, &tool.settings().intake) {
        // A result the model can act on.
        // Rare branches are boxed: this future is as large as its largest branch.
        (Err(wrong), ..) => Box::pin(start.fail(Outcome::tool_error(&wrong.to_string()))).await?,
        (Ok(()), Some(round), _) if round.is_of_a_call() => Box::pin(start.rejoin(round, notifications)).await?,
        // Its client must be given the task before anything else, and is asked within the task.
        // If the call has to be confirmed, that is asked with the arguments that the intake returns.
        (Ok(()), None, Some(_)) if start.is_task_of_legacy() && tool.settings().confirm.is_none() => {
            start.with_intake_in_task().run(notifications).await?
        }
        (Ok(()), round, Some(intake)) => {
            let (intake, arguments) = (Arc::clone(intake), start.call.arguments.clone());
            let take = Box::new(move |cx| intake.take(arguments, cx));
            ResponderEvent::Continue(handler::run(
                interaction,
                request,
                notifications,
                round,
                take,
                Box::new(|arguments, notifications| start.after_intake(arguments, notifications)),
            )?)
        }
        (Ok(()), Some(round), None) => start.with_answers(round).run(notifications).await?,
        (Ok(()), None, None) => start.run(notifications).await?,
    };
    Ok(match event {
        ResponderEvent::Continue(responder) => exchange::answer_with(interaction, request, responder),
        ResponderEvent::Response(response) => response.into(),
        ResponderEvent::Notification(_)
        | ResponderEvent::Request(_)
        | ResponderEvent::CloseStream
        | ResponderEvent::SenderRevoked => {
            unreachable!("a start is no message")
        }
    })
}

/// Whether the call becomes a task at once.
pub(crate) fn is_task(request: &AdmittedRequest<'_>, tool: &Tool) -> bool {
    let Ok(task_metadata) = task_metadata(request) else {
        return false;
    };
    let mode = caller_mode(request, task_metadata.as_ref());
    // A hand-off is no task at once.
    Route::of(tool.settings().policy, None, mode) == Ok(Route::Task)
}

/// Why a call cannot be a task, or must be one.
pub(super) fn unroutable(why: RouteError, tool: &str) -> RpcError {
    match why {
        RouteError::MustBeTask => RpcError::must_be_task(tool),
        RouteError::CannotBeTask => RpcError::cannot_be_task(tool),
        RouteError::MustDeclare => RpcError::must_declare_tasks(tool),
    }
}

pub(super) fn caller_mode(request: &AdmittedRequest<'_>, task_metadata: Option<&TaskMetadata>) -> CallerMode {
    match request.caller.generation {
        Generation::Modern if request.caller.declares_tasks => match request.meta.is_detached() {
            true => CallerMode::ModernDetached,
            false => CallerMode::ModernDeclaring,
        },
        Generation::Modern => CallerMode::ModernPlain,
        Generation::Legacy if task_metadata.is_some() => CallerMode::LegacyTask,
        Generation::Legacy => CallerMode::LegacyPlain,
    }
}

/// The `task` member of the request. Revisions without tasks ignore it.
pub(super) fn task_metadata(request: &AdmittedRequest<'_>) -> Result<Option<TaskMetadata>, RpcError> {
    match request.caller.has_legacy_tasks() {
        true => request.params.task_metadata(),
        false => Ok(None),
    }
}

/// What a call needs of its request, whichever tool it is of.
pub(super) struct CallOrigin {
    pub(super) calls: Arc<Calls>,
    pub(super) sender: Arc<Identity>,
    pub(super) id: OwnedRequestId,
    pub(super) generation: Generation,
    session: Option<Session>,
    pub(super) resumable_session: Option<SessionKey>,
    mode: CallerMode,
    handoff: ConnectionHandoff,
    owner: Owner,
    origin: Origin,
    requestor: Requestor,
    idempotency_key: Option<Arc<str>>,
    priority: Option<Priority>,
    ttl: Option<Millis>,
    pub(super) audit: Option<Arc<RequestAudit>>,
}

impl CallOrigin {
    /// # Errors
    /// −32602 if `_meta` or `task` is malformed.
    pub(super) fn of(calls: &Arc<Calls>, request: &AdmittedRequest<'_>) -> Result<Self, RpcError> {
        let task_metadata = task_metadata(request)?;
        Ok(Self {
            calls: Arc::clone(calls),
            sender: Arc::clone(request.caller.identity()),
            id: OwnedRequestId::of(request.id),
            generation: request.caller.generation,
            session: request.caller.session().cloned(),
            resumable_session: request.resumable_session().cloned(),
            mode: caller_mode(request, task_metadata.as_ref()),
            handoff: request.caller.mode.handoff,
            owner: request.caller.owner(),
            origin: request.caller.origin(),
            requestor: request.caller.requestor(request.meta)?,
            idempotency_key: request.meta.idempotency_key()?.map(Arc::from),
            priority: request.meta.priority()?,
            ttl: task_metadata.and_then(|task| task.ttl),
            audit: request.audit.clone(),
        })
    }

    /// Whether its client can be answered with a task.
    pub(super) fn takes_task(&self) -> bool {
        self.mode.takes_task()
    }

    pub(super) fn route(&self, tool: &Tool) -> Result<Route, RouteError> {
        // Who may not read tasks could do nothing with one.
        let reads_tasks = self.sender.permissions().allows(Permission::ReadTasks);
        let handoff = self.handoff.of_tool(tool, &self.calls.engine.catalog().snapshot());
        Ok(
            match Route::of(tool.settings().policy, handoff.filter(|_| reads_tasks), self.mode)? {
                Route::Wait(_) if !reads_tasks => Route::Wait(WaitPolicy::Unlimited),
                // A client without tasks has a time limit of its own, which counts from its request: so its hand-off does, too.
                Route::Wait(WaitPolicy::Promote(millis)) if tool.settings().executor.prepares() => {
                    Route::Wait(WaitPolicy::PromoteOnceBegun(millis))
                }
                route => route,
            },
        )
    }

    pub(super) fn start(self, route: Route, questions: QuestionChannel, (tool, arguments): (Arc<Tool>, Json)) -> Start {
        let mut requestor = self.requestor;
        if route != Route::Task {
            // Only a task stores its progress token: the token of a plain call is valid only until its response.
            requestor.progress_token = None;
        }
        Start {
            calls: self.calls,
            sender: self.sender,
            id: self.id,
            generation: self.generation,
            session: self.session,
            route,
            questions,
            call: ToolCall {
                tool,
                arguments,
                owner: self.owner,
                origin: self.origin,
                requestor: Arc::new(requestor),
                idempotency_key: self.idempotency_key,
                ttl: self.ttl,
                priority: self.priority,
                cancel_if_caller_leaves: match self.generation {
                    Generation::Modern => true,
                    Generation::Legacy => route != Route::Task && self.resumable_session.is_none(),
                },
            },
            resumable_session: self.resumable_session,
            audit: self.audit,
        }
    }
}

/// A call that is about to start.
pub(super) struct Start {
    calls: Arc<Calls>,
    sender: Arc<Identity>,
    id: OwnedRequestId,
    generation: Generation,
    session: Option<Session>,
    resumable_session: Option<SessionKey>,
    route: Route,
    questions: QuestionChannel,
    call: ToolCall,
    audit: Option<Arc<RequestAudit>>,
}

impl Start {
    pub(super) async fn run(self, notifications: RequestNotifications) -> Result<ResponderEvent, RpcError> {
        match self.route {
            Route::Task => {
                let tool = Arc::clone(&self.call.tool);
                let task = self.calls.engine.create(self.call).await.map_err(create_failed)?;
                if let Some(audit) = &self.audit {
                    audit.created(&task.id);
                }
                if let Some(session) = &self.session {
                    push_stream::follow_created(&self.calls.interaction, session, &task);
                }
                let hint = immediate_response_text(&tool);
                let response = created(&self.calls, &self.id, self.generation, &task, Some(&hint));
                Ok(ResponderEvent::Response(response))
            }
            // A caller that makes it again runs it once.
            Route::Wait(WaitPolicy::Unlimited)
                if !self.call.can_be_made_again()
                    && self.calls.engine.drains_alone().await.map_err(store_failed)? =>
            {
                Err(draining())
            }
            Route::Wait(_) => {
                let (context, call) = self.context(notifications);
                let waiting = context.calls.engine.begin(call).await.map_err(create_failed)?;
                Ok(ResponderEvent::Continue(Box::new(BlockingCall::begun(
                    context, waiting,
                ))))
            }
        }
    }

    fn is_task_of_legacy(&self) -> bool {
        (self.route, self.generation) == (Route::Task, Generation::Legacy)
    }

    /// The intake is run at the start of each attempt.
    pub(super) fn with_intake_in_task(mut self) -> Self {
        Arc::make_mut(&mut self.call.requestor).asks_first = true;
        self
    }

    /// With the answers that came with a first request.
    fn with_answers(self, round: Round) -> Self {
        Self {
            questions: QuestionChannel::in_rounds(round),
            ..self
        }
    }

    /// Nothing is run: the call has failed before its start.
    pub(super) async fn fail(self, outcome: Outcome) -> Result<ResponderEvent, RpcError> {
        // An accepted augmented call gets a task, even if it can never run.
        if self.is_task_of_legacy() {
            let task = self.calls.engine.create_ended(self.call, outcome).await;
            let task = task.map_err(create_failed)?;
            if let Some(audit) = &self.audit {
                audit.created(&task.id);
            }
            let response = created(&self.calls, &self.id, self.generation, &task, None);
            return Ok(ResponderEvent::Response(response));
        }
        let response = blocking::response(&self.calls, &self.id, self.generation, &outcome);
        Ok(ResponderEvent::Response(response))
    }

    /// Continues with the arguments that the intake returns. The call itself starts without its rounds.
    fn after_intake(
        mut self,
        arguments: Result<Json, HandlerError>,
        notifications: RequestNotifications,
    ) -> BoxFuture<'static, Result<ResponderEvent, RpcError>> {
        Box::pin(async move {
            match arguments {
                // Nobody is left who may call it. Only the intake was admitted so far.
                Ok(_) if self.sender.is_revoked() => {
                    // When the intake began it was recorded as accepted.
                    if let Some(audit) = &self.audit {
                        audit.record(AuditOutcome::Denied);
                    }
                    let response = FinalResponse::credentials_ended(&self.calls.interaction, &self.id);
                    Ok(ResponderEvent::Response(response))
                }
                Ok(arguments) => {
                    self.call.arguments = arguments;
                    self.run(notifications).await
                }
                Err(error) => {
                    let outcome = error.into_outcome(&self.call.requestor);
                    self.fail(outcome).await
                }
            }
        })
    }

    /// Waits again for the call that `round` belongs to.
    async fn rejoin(self, round: Round, notifications: RequestNotifications) -> Result<ResponderEvent, RpcError> {
        let task = task_of(&round)?;
        let (context, _) = self.with_answers(round).context(notifications);
        Ok(ResponderEvent::Continue(Box::new(rejoin(context, &task).await?)))
    }

    fn context(self, notifications: RequestNotifications) -> (CallContext, ToolCall) {
        let wait_policy = match self.route {
            Route::Wait(wait_policy) => wait_policy,
            // The client declares tasks now, and did not when it started the call.
            Route::Task => WaitPolicy::Unlimited,
        };
        let context = CallContext {
            calls: self.calls,
            tool: Arc::clone(&self.call.tool.settings().name),
            sender: self.sender,
            generation: self.generation,
            id: self.id,
            notifications,
            resumable_session: self.resumable_session,
            wait_policy,
            questions: self.questions,
            audit: self.audit,
        };
        (context, self.call)
    }
}

/// The plain call that a round belongs to.
pub(super) fn task_of(round: &Round) -> Result<TaskId, RpcError> {
    match &round.state {
        Some(RoundState::Call { task, .. }) => task.parse().map_err(|_| call_ended()),
        _ => Err(call_ended()),
    }
}

/// Waits again for a plain call that asked its client something.
pub(super) async fn rejoin(context: CallContext, task: &TaskId) -> Result<BlockingCall, RpcError> {
    let calls = &context.calls;
    let waiting = calls.engine.rejoin(task).await.map_err(store_failed)?;
    let waiting = waiting.ok_or_else(call_ended)?;
    let hold = calls.between_rounds.again(waiting.handle(), calls.engine.ports());
    let hold = hold.await.map_err(store_failed)?;
    Ok(BlockingCall::rejoined(context, waiting, hold))
}

/// Waits again for a plain call whose client comes back in its session: to another process, or after the call's stream was dropped.
///
/// # Errors
/// That the answer is lost, if the call is not known or was cancelled; the store's.
pub(crate) async fn resume(
    calls: &Arc<Calls>,
    request: &AdmittedRequest<'_>,
    name: &str,
    call: &TaskId,
) -> Result<Answer, RpcError> {
    let notifications = RequestNotifications::requested_by(&calls.interaction, request)?;
    let origin = CallOrigin::of(calls, request)?;
    let tool = calls.engine.catalog().tool(name);
    let route = tool.as_deref().and_then(|tool| origin.route(tool).ok());
    let wait_policy = match route {
        Some(Route::Wait(policy)) => policy,
        Some(Route::Task) | None => WaitPolicy::Unlimited,
    };
    let waiting = calls.engine.rejoin(call).await.map_err(store_failed)?;
    let waiting = waiting.ok_or_else(answer_lost)?;
    let context = CallContext {
        calls: origin.calls,
        tool: name.into(),
        sender: origin.sender,
        generation: origin.generation,
        id: origin.id,
        notifications,
        resumable_session: origin.resumable_session,
        wait_policy,
        questions: QuestionChannel::of(request, None),
        audit: origin.audit,
    };
    let responder = Box::new(BlockingCall::resumed(context, waiting));
    Ok(exchange::answer_with(&calls.interaction, request, responder))
}

/// The text for the model while the task runs.
pub(super) fn immediate_response_text(tool: &Tool) -> Cow<'_, str> {
    let settings = tool.settings();
    match &settings.immediate_response {
        Some(text) => text.into(),
        None => {
            let name = settings.title.as_deref().unwrap_or(&settings.name);
            match settings.confirm {
                Some(_) => format!(
                    "{name} begins once it is confirmed, and goes on in the background; its result is not here yet."
                ),
                None => format!("{name} has begun and goes on in the background; its result is not here yet."),
            }
            .into()
        }
    }
}

/// A task that awaits its confirmation is created as `working`: its client is asked when it reads the task.
pub(super) fn as_created(task: &Task) -> Cow<'_, Task> {
    let mut task = Cow::Borrowed(task);
    if task.awaits_confirmation() {
        task.to_mut().hide_confirmation();
    }
    task
}

pub(super) fn created(
    calls: &Calls,
    id: &OwnedRequestId,
    generation: Generation,
    task: &Task,
    hint: Option<&str>,
) -> FinalResponse {
    let now = calls.engine.ports().clock.read();
    let mut text = String::with_capacity(512);
    let task = as_created(task);
    write_result(&mut text, id.get(), |out| match generation {
        Generation::Legacy => legacy::tasks::write_created(out, &task, hint, now),
        Generation::Modern => modern::tasks::write_created(out, &task, &calls.server_info, now),
    });
    FinalResponse::of(text)
}
