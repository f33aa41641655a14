//! How a call of a tool starts: as a task, or waited for; after what is missing was asked for, if the tool does that.

use super::{
    Calls,
    blocking::{self, Asks, Plain, Surroundings},
    mirrored_headers,
    policy::{Asking, Patience, Route, Unroutable},
};
use crate::{
    admission::request::AdmittedRequest,
    handler,
    interaction::{
        exchange::{self, Response, Turn},
        notifications::Telling,
        push::session_stream,
        rounds::{Asked, Round, State, gone},
    },
    response::{Answer, KeptId, create_failed, store_failed},
    session::Session,
};
use longhaul_core::{BoxFuture, Json, Outcome, Task};
use longhaul_runtime::{Call as ToolCall, HandlerError, Tool};
use longhaul_wire::{
    Capability, Generation, RpcError, jsonrpc::write_result, legacy as wire, modern, params::TaskMetadata,
};
use serde_json::value::RawValue;
use std::{borrow::Cow, sync::Arc};

/// Starts a call of `tool`, or rejoins the one that the request comes back to.
///
/// The order of the checks is X-12's, with the mirrored headers where 2.6 has them: the tool exists → headers → gating → arguments.
pub(crate) async fn answer(
    calls: &Arc<Calls>,
    request: &AdmittedRequest<'_>,
    tool: Arc<Tool>,
    raw_arguments: Option<&RawValue>,
    asked: Asked<'_>,
) -> Result<Answer, RpcError> {
    mirrored_headers::check(calls, request, &tool, raw_arguments)?;
    let task_metadata = task_metadata(request)?;
    let asking = asking(request, task_metadata.as_ref());
    let route = Route::of(tool.settings().policy, tool.settings().handoff, asking)
        .map_err(|why| unroutable(why, asked.target))?;
    let arguments = asked.arguments.clone().unwrap_or_else(|| Json::trusted("{}"));
    let interaction = &calls.interaction;
    let round = Round::of(interaction, request, asked)?;
    let checked = tool.check(arguments.as_str());
    let mut requestor = request.caller.requestor(&request.meta)?;
    if route != Route::Task {
        // The token of a waiting call is good for as long as the call is; that of a task for the task's life (G1-46).
        requestor.progress_token = None;
    }
    // Read before anything starts: a call that is refused for it must not run.
    let telling = Telling::wanted(interaction, request)?;
    let start = Start {
        calls: Arc::clone(calls),
        id: KeptId::of(request.id),
        generation: request.caller.generation,
        session: request.caller.session().cloned(),
        route,
        asks: Asks::of(request, round.as_ref().map(Round::anew)),
        call: ToolCall {
            tool: Arc::clone(&tool),
            arguments,
            owner: request.caller.owner(),
            origin: request.caller.origin(),
            requestor,
            idempotency_key: request.meta.idempotency_key()?.map(Arc::from),
            ttl: task_metadata.and_then(|task| task.ttl),
            cancel_if_caller_leaves: request.caller.generation == Generation::Modern,
        },
    };
    let turn = match (checked, round, &tool.settings().intake) {
        // A result the model can act on.
        (Err(wrong), ..) => start.fail(Outcome::tool_error(&wrong.to_string())).await?,
        (Ok(()), Some(round), _) if round.is_of_a_call() => start.rejoin(round, telling).await?,
        // Its client is owed the task before anything else (G1-11), and is asked within it.
        (Ok(()), None, Some(_)) if start.is_task_of_legacy() => start.asking_first().run(telling).await?,
        (Ok(()), round, Some(intake)) => {
            let (intake, arguments) = (Arc::clone(intake), start.call.arguments.clone());
            let take = Box::new(move |cx| intake.take(arguments, cx));
            Turn::Next(handler::talk(
                interaction,
                request,
                telling,
                round,
                take,
                Box::new(|taken, telling| start.after_intake(taken, telling)),
            )?)
        }
        (Ok(()), Some(round), None) => start.with_answers(round).run(telling).await?,
        (Ok(()), None, None) => start.run(telling).await?,
    };
    Ok(match turn {
        Turn::Next(talk) => exchange::answer(interaction, request, talk),
        Turn::Response(response) => response.into(),
        Turn::Notice(_) | Turn::Question(_) | Turn::Quiet => unreachable!("a start is no message"),
    })
}

fn unroutable(why: Unroutable, tool: &str) -> RpcError {
    match why {
        Unroutable::MustBeTask => RpcError::must_be_task(tool),
        Unroutable::CannotBeTask => RpcError::cannot_be_task(tool),
        Unroutable::MustDeclare => RpcError::missing_capability(Capability::Tasks),
    }
}

fn asking(request: &AdmittedRequest<'_>, task_metadata: Option<&TaskMetadata>) -> Asking {
    match request.caller.generation {
        Generation::Modern if request.caller.declares_tasks => Asking::ModernDeclaring,
        Generation::Modern => Asking::ModernPlain,
        Generation::Legacy if task_metadata.is_some() => Asking::LegacyTask,
        Generation::Legacy => Asking::LegacyPlain,
    }
}

/// What the client would have of a task. Revisions without tasks ignore the member (G1-05, G2-18).
fn task_metadata(request: &AdmittedRequest<'_>) -> Result<Option<TaskMetadata>, RpcError> {
    match request.caller.has_core_tasks() {
        true => request.params.task_metadata(),
        false => Ok(None),
    }
}

/// A call about to begin.
struct Start {
    calls: Arc<Calls>,
    id: KeptId,
    generation: Generation,
    session: Option<Session>,
    route: Route,
    asks: Asks,
    call: ToolCall,
}

impl Start {
    async fn run(self, telling: Telling) -> Result<Turn, RpcError> {
        match self.route {
            Route::Task => {
                let tool = Arc::clone(&self.call.tool);
                let task = self.calls.engine.create(self.call).await.map_err(create_failed)?;
                if let Some(session) = &self.session {
                    session_stream::follow(&self.calls.interaction, session, &task);
                }
                Ok(created(
                    &self.calls,
                    &self.id,
                    self.generation,
                    &task,
                    Some(&meanwhile(&tool)),
                ))
            }
            Route::Wait(_) => {
                let (around, call) = self.surroundings(telling);
                let waiting = around.calls.engine.begin(call).await.map_err(create_failed)?;
                Ok(Turn::Next(Box::new(Plain::begun(around, waiting))))
            }
        }
    }

    fn is_task_of_legacy(&self) -> bool {
        (self.route, self.generation) == (Route::Task, Generation::Legacy)
    }

    /// What is missing is asked for at the beginning of the task.
    fn asking_first(mut self) -> Self {
        self.call.requestor.asks_first = true;
        self
    }

    /// The answers that came with a first request.
    fn with_answers(self, round: Round) -> Self {
        Self {
            asks: Asks::Rounds(round),
            ..self
        }
    }

    /// Nothing is run: the call has ended before it began.
    async fn fail(self, outcome: Outcome) -> Result<Turn, RpcError> {
        // An accepted augmented call is owed a task, also one that can never run.
        if self.is_task_of_legacy() {
            let task = self.calls.engine.create_ended(self.call, outcome).await;
            return Ok(created(
                &self.calls,
                &self.id,
                self.generation,
                &task.map_err(create_failed)?,
                None,
            ));
        }
        let response = blocking::response(&self.calls, &self.id, self.generation, &outcome);
        Ok(Turn::Response(response))
    }

    /// Goes on with the arguments that the intake gives. Nothing of its rounds is known to what follows (G2-19).
    fn after_intake(
        mut self,
        taken: Result<Json, HandlerError>,
        telling: Telling,
    ) -> BoxFuture<'static, Result<Turn, RpcError>> {
        Box::pin(async move {
            match taken {
                Ok(arguments) => {
                    self.call.arguments = arguments;
                    self.run(telling).await
                }
                Err(error) => {
                    let outcome = error.into_outcome(&self.call.requestor);
                    self.fail(outcome).await
                }
            }
        })
    }

    /// Waits again for the call that `round` comes back to.
    async fn rejoin(self, round: Round, telling: Telling) -> Result<Turn, RpcError> {
        let Some(State::Call { task, round: nth, .. }) = &round.state else {
            return Err(gone());
        };
        let (task, nth) = (task.parse().map_err(|_| gone())?, *nth);
        let (around, _) = self.with_answers(round).surroundings(telling);
        let calls = &around.calls;
        let waiting = calls
            .engine
            .rejoin(&task)
            .await
            .map_err(store_failed)?
            .ok_or_else(gone)?;
        let hold = calls.between_rounds.again(waiting.begun(), nth).ok_or_else(gone)?;
        Ok(Turn::Next(Box::new(Plain::rejoined(around, waiting, hold))))
    }

    fn surroundings(self, telling: Telling) -> (Surroundings, ToolCall) {
        let patience = match self.route {
            Route::Wait(patience) => patience,
            // A client that copes with tasks by now comes back to a call that it began without.
            Route::Task => Patience::Endless,
        };
        let around = Surroundings {
            calls: self.calls,
            generation: self.generation,
            id: self.id,
            telling,
            patience,
            asks: self.asks,
        };
        (around, self.call)
    }
}

/// What a host may tell its model while the task runs (G1-15).
fn meanwhile(tool: &Tool) -> Cow<'_, str> {
    let settings = tool.settings();
    match &settings.immediate_response {
        Some(text) => text.into(),
        None => {
            let name = settings.title.as_deref().unwrap_or(&settings.name);
            format!("{name} has begun and goes on in the background; its result is not here yet.").into()
        }
    }
}

fn created(calls: &Calls, id: &KeptId, generation: Generation, task: &Task, hint: Option<&str>) -> Turn {
    let now = calls.engine.ports().clock.read();
    let mut text = String::with_capacity(512);
    write_result(&mut text, id.get(), |out| match generation {
        Generation::Legacy => wire::tasks::write_created(out, task, hint, now),
        Generation::Modern => modern::tasks::write_created(out, task, &calls.identity, now),
    });
    Turn::Response(Response::of(text))
}
