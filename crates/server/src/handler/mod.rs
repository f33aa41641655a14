//! Runs handlers that answer while their request is open: prompts, resources, completions, intakes, methods that the author answers.
//!
//! A legacy client is asked by requests of ours (`client_requests`), a modern one in the response to its request (`replay`).

mod client_requests;
mod outbox;
mod replay;

use crate::{
    admission::{identity::Identity, request::AdmittedRequest},
    interaction::{
        Interaction,
        exchange::{self, FinalResponse, Responder, ResponderEvent},
        notifications::RequestNotifications,
        rounds::Round,
    },
    response::{Answer, OwnedRequestId},
};
use client_requests::ClientRequests;
use futures_util::FutureExt;
use longhaul_core::{BoxFuture, Capability, Json, RpcFailure};
use longhaul_runtime::{
    AskError, HandlerError, Question, RequestChannel, RequestContext, Requestor, ToolMessage, Unreachable,
    why_not_asked,
};
use longhaul_wire::{CacheHints, Generation, RequestId, RpcError, ServerInfo, legacy, modern};
use outbox::{Outbox, OutboxItem};
use replay::Replay;
use std::{panic::AssertUnwindSafe, sync::Arc};
use tracing::error;

/// Appends the whole response to a request whose handler returned a result.
pub(crate) type Writer = Box<dyn FnOnce(&mut String, RequestId<'_>, &Json) + Send>;

/// A handler to be run. A retry of a modern request runs it again.
pub(crate) type Handler<T = Json> =
    Box<dyn FnOnce(RequestContext) -> BoxFuture<'static, Result<T, HandlerError>> + Send>;

/// What is done with the handler's result. It continues with the same notifications.
pub(crate) type Finish<T = Json> = Box<
    dyn FnOnce(Result<T, HandlerError>, RequestNotifications) -> BoxFuture<'static, Result<ResponderEvent, RpcError>>
        + Send,
>;

/// Writes a handler's result as it is.
pub(crate) fn result_writer(server_info: &Arc<ServerInfo>, generation: Generation) -> Writer {
    let server_info = Arc::clone(server_info);
    Box::new(move |out, id, result| match generation {
        Generation::Legacy => legacy::result::write(out, id, result),
        Generation::Modern => modern::result::write(out, id, result, None, &server_info),
    })
}

/// Writes the result of a cacheable method, with these caching hints unless the handler has set others.
pub(crate) fn cacheable_result_writer(
    server_info: &Arc<ServerInfo>,
    generation: Generation,
    default: CacheHints,
) -> Writer {
    let server_info = Arc::clone(server_info);
    Box::new(move |out, id, result| match generation {
        Generation::Legacy => legacy::result::write_cacheable(out, id, result),
        Generation::Modern => modern::result::write(out, id, result, Some(default), &server_info),
    })
}

/// What a handler's error means for its request, if not what it says.
pub(crate) type Meaning = Box<dyn FnOnce(&HandlerError) -> Option<RpcError> + Send>;

/// What [`HandlerError::NotFound`] means.
pub(crate) fn not_found(error: RpcError) -> Meaning {
    Box::new(|of| matches!(of, HandlerError::NotFound).then_some(error))
}

/// Runs a handler and answers with its result; `meaning` is that of its errors for this request. `round` is a modern request's place in a series of rounds; a request without one may not ask anything.
///
/// # Errors
/// −32602 if the request's progress token or log level is not valid.
pub(crate) fn answer_with(
    interaction: &Arc<Interaction>,
    request: &AdmittedRequest<'_>,
    round: Option<Round>,
    handler: Handler,
    meaning: Meaning,
    write: Writer,
) -> Result<Answer, RpcError> {
    let id = OwnedRequestId::of(request.id);
    let failure = FailureWriter::of(request, meaning);
    let finish = move |result, _| {
        let response = match result {
            Ok(result) => {
                let mut text = String::new();
                write(&mut text, id.get(), &result);
                FinalResponse::of(text)
            }
            Err(error) => failure.response(error),
        };
        Box::pin(std::future::ready(Ok(ResponderEvent::Response(response)))) as _
    };
    let notifications = RequestNotifications::requested_by(interaction, request)?;
    let responder = run(interaction, request, notifications, round, handler, Box::new(finish))?;
    Ok(exchange::answer_with(interaction, request, responder))
}

/// What answers a request whose handler fails.
pub(crate) struct FailureWriter {
    id: OwnedRequestId,
    generation: Generation,
    unreachable: Option<Unreachable>,
    meaning: Meaning,
}

impl FailureWriter {
    pub(crate) fn of(request: &AdmittedRequest<'_>, meaning: Meaning) -> Self {
        Self {
            id: OwnedRequestId::of(request.id),
            generation: request.caller.generation,
            unreachable: request.caller.unreachable(),
            meaning,
        }
    }

    pub(crate) fn response(self, error: HandlerError) -> FinalResponse {
        match ((self.meaning)(&error), error) {
            (Some(error), _) => FinalResponse::error(&self.id, &error),
            (None, HandlerError::Lacks(capability)) => {
                let error = cannot_ask(capability, self.generation, self.unreachable);
                FinalResponse::error(&self.id, &error)
            }
            (None, HandlerError::Rpc(failure)) => FinalResponse::of(failed(&self.id, self.generation, &failure)),
            (None, HandlerError::NotFound) => {
                FinalResponse::error(&self.id, &RpcError::internal("The handler found nothing"))
            }
        }
    }
}

/// Runs a handler, and continues with what `finish` does with its result.
///
/// # Errors
/// As [`answer_with`].
pub(crate) fn run<T: Send + 'static>(
    interaction: &Arc<Interaction>,
    request: &AdmittedRequest<'_>,
    notifications: RequestNotifications,
    round: Option<Round>,
    handler: Handler<T>,
    finish: Finish<T>,
) -> Result<Box<dyn Responder>, RpcError> {
    let outbox = Arc::new(Outbox::default());
    let series = round.map(|mut round| {
        let replay = Arc::new(Replay::of(&mut round, Arc::clone(&outbox)));
        (replay, round)
    });
    let requesting: Arc<dyn RequestChannel> = match (&series, request.caller.generation) {
        (Some((replay, _)), _) => Arc::clone(replay) as _,
        (None, Generation::Legacy) => Arc::new(ClientRequests {
            interaction: Arc::clone(interaction),
            sender: Arc::clone(request.caller.identity()),
            session: request.caller.session_to_ask().map(|session| session.key.clone()),
            outbox: Arc::clone(&outbox),
        }),
        (None, Generation::Modern) => Arc::new(NoRequests(Arc::clone(&outbox))),
    };
    let requestor: Arc<Requestor> = Arc::new(request.caller.requestor(request.meta)?);
    let owner = request.caller.owner();
    let cx = RequestContext::new(owner, requestor, interaction.engine.ports().clone(), requesting);
    Ok(Box::new(RunningHandler {
        interaction: Arc::clone(interaction),
        sender: Arc::clone(request.caller.identity()),
        id: OwnedRequestId::of(request.id),
        outbox,
        series,
        // The handler is called inside the future, where its panics are caught.
        phase: Phase::Running(Box::pin(async move { handler(cx).await }), notifications, finish),
    }))
}

fn cannot_ask(missing: Capability, generation: Generation, unreachable: Option<Unreachable>) -> RpcError {
    match generation {
        Generation::Legacy => {
            let why = why_not_asked(unreachable, missing);
            RpcError::internal(format!("The handler has to ask, and {why}"))
        }
        Generation::Modern => RpcError::missing_capability(missing),
    }
}

/// The response with a handler's own error.
pub(crate) fn failed(id: &OwnedRequestId, generation: Generation, failure: &RpcFailure) -> String {
    let mut text = String::new();
    match generation {
        Generation::Legacy => legacy::tools::write_failed(&mut text, id.get(), failure),
        Generation::Modern => modern::tools::write_failed(&mut text, id.get(), failure),
    }
    text
}

/// A running handler. Dropping it drops the handler.
struct RunningHandler<T> {
    interaction: Arc<Interaction>,
    sender: Arc<Identity>,
    id: OwnedRequestId,
    outbox: Arc<Outbox>,
    series: Option<(Arc<Replay>, Round)>,
    phase: Phase<T>,
}

enum Phase<T> {
    Running(
        BoxFuture<'static, Result<T, HandlerError>>,
        RequestNotifications,
        Finish<T>,
    ),
    /// Its last messages are still being sent.
    Ended(Result<T, HandlerError>, RequestNotifications, Finish<T>),
    Finishing(BoxFuture<'static, Result<ResponderEvent, RpcError>>),
    Over,
}

impl<T> Phase<T> {
    fn notifications(&mut self) -> Option<&mut RequestNotifications> {
        match self {
            Self::Running(_, notifications, _) | Self::Ended(_, notifications, _) => Some(notifications),
            Self::Finishing(_) | Self::Over => None,
        }
    }

    fn end(&mut self, ended: Result<T, HandlerError>) {
        if let Self::Running(_, notifications, finish) = std::mem::replace(self, Self::Over) {
            *self = Self::Ended(ended, notifications, finish);
        }
    }

    fn finish(&mut self) {
        if let Self::Ended(ended, notifications, finish) = std::mem::replace(self, Self::Over) {
            *self = Self::Finishing(finish(ended, notifications));
        }
    }
}

impl<T: Send + 'static> RunningHandler<T> {
    async fn next_event(&mut self) -> Result<ResponderEvent, RpcError> {
        loop {
            // Messages from before its end go out before the end.
            while let Some(item) = self.outbox.take() {
                if let Some(event) = self.event_for(item)? {
                    return Ok(event);
                }
            }
            match &mut self.phase {
                Phase::Running(running, ..) => {
                    let ended = tokio::select! {
                        // First, so that everything it asks before it waits is asked together.
                        biased;
                        ended = AssertUnwindSafe(running).catch_unwind() => ended.unwrap_or_else(|_| Err(panicked())),
                        () = self.outbox.filled() => continue,
                    };
                    self.phase.end(ended);
                }
                Phase::Ended(..) => self.phase.finish(),
                Phase::Finishing(finishing) => {
                    let event = finishing.await;
                    self.phase = Phase::Over;
                    return event;
                }
                Phase::Over => return std::future::pending().await,
            }
        }
    }

    fn event_for(&mut self, item: OutboxItem) -> Result<Option<ResponderEvent>, RpcError> {
        Ok(match item {
            OutboxItem::ToolMessage(message) => self
                .phase
                .notifications()
                .and_then(|notifications| notifications.message_for(&message))
                .map(ResponderEvent::Notification),
            OutboxItem::Notification(text) => Some(ResponderEvent::Notification(text)),
            OutboxItem::Request(text) => Some(ResponderEvent::Request(text)),
            // The handler has ended without the answer.
            OutboxItem::InvalidAnswer(_) | OutboxItem::InputRequired { .. }
                if !matches!(self.phase, Phase::Running(..)) =>
            {
                None
            }
            OutboxItem::InvalidAnswer(error) => {
                self.phase = Phase::Over;
                return Err(error);
            }
            OutboxItem::InputRequired { name, request } => self.ask(name, request)?,
        })
    }

    /// Answers with this question and those that were asked with it. The next run asks again for those that are not answered.
    fn ask(&mut self, name: String, request: String) -> Result<Option<ResponderEvent>, RpcError> {
        let mut asked = vec![(name, request)];
        while let Some(item) = self.outbox.take() {
            match item {
                OutboxItem::InputRequired { name, request } => asked.push((name, request)),
                OutboxItem::InvalidAnswer(error) => return Err(error),
                // The next run sends it again.
                OutboxItem::ToolMessage(_) | OutboxItem::Request(_) | OutboxItem::Notification(_) => {}
            }
        }
        self.phase = Phase::Over;
        if self.sender.has_ended(self.interaction.engine.ports().clock.wall()) {
            let response = FinalResponse::credentials_ended(&self.interaction, &self.id);
            return Ok(Some(ResponderEvent::Response(response)));
        }
        let Some((replay, round)) = &self.series else {
            return Ok(None);
        };
        let state = replay.state(asked.iter().map(|(name, _)| name.clone()));
        let questions = asked.iter().map(|(name, request)| (name.as_str(), request.as_str()));
        let response = round.ask(&self.interaction, &self.id, questions, &state)?;
        Ok(Some(ResponderEvent::Response(response)))
    }
}

impl<T: Send + 'static> Responder for RunningHandler<T> {
    fn next(&mut self) -> BoxFuture<'_, ResponderEvent> {
        Box::pin(async {
            match self.next_event().await {
                Ok(event) => event,
                Err(error) => ResponderEvent::Response(FinalResponse::error(&self.id, &error)),
            }
        })
    }
}

fn panicked() -> HandlerError {
    error!("a handler panicked");
    HandlerError::Rpc(RpcFailure::new(-32603, "the handler failed unexpectedly"))
}

/// For requests that may not be answered with input requests: completions.
struct NoRequests(Arc<Outbox>);

impl RequestChannel for NoRequests {
    fn ask(&self, _: Question) -> BoxFuture<'static, Result<Json, AskError>> {
        Box::pin(std::future::ready(Err(AskError::Withdrawn)))
    }

    fn send(&self, message: ToolMessage) {
        self.0.push_message(message);
    }
}
