//! Runs handlers that answer while their request lasts: prompts, resources, completions, intakes.
//!
//! A legacy client is asked by requests of ours (`live`), a modern one by answering its request with the questions (`replay`).

mod live;
mod outbox;
mod replay;

use crate::{
    admission::request::AdmittedRequest,
    interaction::{
        Interaction,
        exchange::{self, Response, Talk, Turn},
        notifications::Telling,
        rounds::Round,
    },
    response::{Answer, KeptId},
};
use futures_util::FutureExt;
use live::Live;
use longhaul_core::{BoxFuture, Json, RpcFailure};
use longhaul_runtime::{Ability, AskError, HandlerError, Question, RequestContext, Requesting, Requestor, ToolMessage};
use longhaul_wire::{Capability, Generation, RequestId, RpcError, ServerInfo, legacy, modern};
use outbox::{Line, Outbox};
use replay::Replay;
use std::{panic::AssertUnwindSafe, sync::Arc};
use tracing::error;

/// Appends the whole response to a request whose handler gave a result.
pub(crate) type Writer = Box<dyn FnOnce(&mut String, RequestId<'_>, &Json) + Send>;

/// A handler to be run. A modern request that comes again runs it again.
pub(crate) type Handler = Box<dyn FnOnce(RequestContext) -> BoxFuture<'static, Result<Json, HandlerError>> + Send>;

/// What is made of what the handler gives. It may go on telling what the handler has begun to tell.
pub(crate) type Finish =
    Box<dyn FnOnce(Result<Json, HandlerError>, Telling) -> BoxFuture<'static, Result<Turn, RpcError>> + Send>;

/// The writer of what a handler gives, as it is.
pub(crate) fn result_writer(identity: &Arc<ServerInfo>, generation: Generation) -> Writer {
    let identity = Arc::clone(identity);
    Box::new(move |out, id, result| match generation {
        Generation::Legacy => legacy::result::write(out, id, result),
        Generation::Modern => modern::result::write(out, id, result, None, &identity),
    })
}

/// Runs a handler and answers with what it gives; `not_found` is what [`HandlerError::NotFound`] means for this request. `round` is a
/// modern request's place in a series of rounds; a request without one may not ask anything (U-10).
///
/// # Errors
/// −32602 if the request says in no sound way what it wants to hear.
pub(crate) fn answer(
    interaction: &Arc<Interaction>,
    request: &AdmittedRequest<'_>,
    round: Option<Round>,
    handler: Handler,
    not_found: RpcError,
    write: Writer,
) -> Result<Answer, RpcError> {
    let (id, generation) = (KeptId::of(request.id), request.caller.generation);
    let finish = move |result, _| {
        let response = match result {
            Ok(result) => {
                let mut text = String::new();
                write(&mut text, id.get(), &result);
                Response::of(text)
            }
            Err(HandlerError::NotFound) => Response::error(&id, &not_found),
            Err(HandlerError::Lacks(ability)) => Response::error(&id, &undeclared(ability, generation)),
            Err(HandlerError::Rpc(failure)) => Response::of(failed(&id, generation, &failure)),
        };
        Box::pin(std::future::ready(Ok(Turn::Response(response)))) as _
    };
    let telling = Telling::wanted(interaction, request)?;
    let talk = talk(interaction, request, telling, round, handler, Box::new(finish))?;
    Ok(exchange::answer(interaction, request, talk))
}

/// Runs a handler, and goes on with what `finish` makes of what it gives.
///
/// # Errors
/// As [`answer`].
pub(crate) fn talk(
    interaction: &Arc<Interaction>,
    request: &AdmittedRequest<'_>,
    telling: Telling,
    round: Option<Round>,
    handler: Handler,
    finish: Finish,
) -> Result<Box<dyn Talk>, RpcError> {
    let outbox = Arc::new(Outbox::default());
    let series = round.map(|mut round| {
        let replay = Arc::new(Replay::of(&mut round, Arc::clone(&outbox)));
        (replay, round)
    });
    let requesting: Arc<dyn Requesting> = match (&series, request.caller.generation) {
        (Some((replay, _)), _) => Arc::clone(replay) as _,
        (None, Generation::Legacy) => Arc::new(Live {
            interaction: Arc::clone(interaction),
            session: request.caller.session().map(|session| session.key.clone()),
            outbox: Arc::clone(&outbox),
        }),
        (None, Generation::Modern) => Arc::new(Mute(Arc::clone(&outbox))),
    };
    let requestor: Arc<Requestor> = Arc::new(request.caller.requestor(&request.meta)?);
    let principal = request.caller.principal().clone();
    let cx = RequestContext::new(principal, requestor, interaction.engine.ports().clone(), requesting);
    Ok(Box::new(Handling {
        interaction: Arc::clone(interaction),
        id: KeptId::of(request.id),
        outbox,
        series,
        // Whatever it does is done where a panic is caught.
        phase: Phase::Running(Box::pin(async move { handler(cx).await }), telling, finish),
    }))
}

fn undeclared(ability: Ability, generation: Generation) -> RpcError {
    match generation {
        Generation::Legacy => RpcError::internal(format!("The client has not declared {ability}")),
        Generation::Modern => RpcError::missing_capability(match ability {
            Ability::ElicitForm => Capability::ElicitationForm,
            Ability::ElicitUrl => Capability::ElicitationUrl,
            Ability::Sampling => Capability::Sampling,
            Ability::SamplingTools => Capability::SamplingTools,
            Ability::Roots => Capability::Roots,
        }),
    }
}

/// The response with a handler's own error.
pub(crate) fn failed(id: &KeptId, generation: Generation, failure: &RpcFailure) -> String {
    let mut text = String::new();
    match generation {
        Generation::Legacy => legacy::tools::write_failed(&mut text, id.get(), failure),
        Generation::Modern => modern::tools::write_failed(&mut text, id.get(), failure),
    }
    text
}

/// A handler at work. Dropping it drops the handler.
struct Handling {
    interaction: Arc<Interaction>,
    id: KeptId,
    outbox: Arc<Outbox>,
    series: Option<(Arc<Replay>, Round)>,
    phase: Phase,
}

enum Phase {
    Running(BoxFuture<'static, Result<Json, HandlerError>>, Telling, Finish),
    /// What it said last is still being told.
    Ended(Result<Json, HandlerError>, Telling, Finish),
    Finishing(BoxFuture<'static, Result<Turn, RpcError>>),
    Over,
}

impl Phase {
    fn telling(&mut self) -> Option<&mut Telling> {
        match self {
            Self::Running(_, telling, _) | Self::Ended(_, telling, _) => Some(telling),
            Self::Finishing(_) | Self::Over => None,
        }
    }

    fn end(&mut self, ended: Result<Json, HandlerError>) {
        if let Self::Running(_, telling, finish) = std::mem::replace(self, Self::Over) {
            *self = Self::Ended(ended, telling, finish);
        }
    }

    fn finish(&mut self) {
        if let Self::Ended(ended, telling, finish) = std::mem::replace(self, Self::Over) {
            *self = Self::Finishing(finish(ended, telling));
        }
    }
}

impl Handling {
    async fn turn(&mut self) -> Result<Turn, RpcError> {
        loop {
            // What was said before it ended goes before the end.
            while let Some(line) = self.outbox.take() {
                if let Some(turn) = self.say(line)? {
                    return Ok(turn);
                }
            }
            match &mut self.phase {
                Phase::Running(running, ..) => {
                    let ended = tokio::select! {
                        // First, so that all it asks before it waits is asked together.
                        biased;
                        ended = AssertUnwindSafe(running).catch_unwind() => ended.unwrap_or_else(|_| Err(panicked())),
                        () = self.outbox.filled() => continue,
                    };
                    self.phase.end(ended);
                }
                Phase::Ended(..) => self.phase.finish(),
                Phase::Finishing(finishing) => {
                    let turn = finishing.await;
                    self.phase = Phase::Over;
                    return turn;
                }
                Phase::Over => return std::future::pending().await,
            }
        }
    }

    fn say(&mut self, line: Line) -> Result<Option<Turn>, RpcError> {
        Ok(match line {
            Line::ToolMessage(said) => self
                .phase
                .telling()
                .and_then(|telling| telling.tell(&said))
                .map(Turn::Notice),
            Line::Notice(text) => Some(Turn::Notice(text)),
            Line::Request(text) => Some(Turn::Question(text)),
            // It got to its end without the answer.
            Line::Misfit(_) | Line::Asked { .. } if !matches!(self.phase, Phase::Running(..)) => None,
            Line::Misfit(error) => {
                self.phase = Phase::Over;
                return Err(error);
            }
            Line::Asked { name, request } => self.ask(name, request)?,
        })
    }

    /// Answers with this question and those that were asked with it. The next run asks again for what is not answered.
    fn ask(&mut self, name: String, request: String) -> Result<Option<Turn>, RpcError> {
        let mut asked = vec![(name, request)];
        while let Some(line) = self.outbox.take() {
            match line {
                Line::Asked { name, request } => asked.push((name, request)),
                Line::Misfit(error) => return Err(error),
                // It will be said again.
                Line::ToolMessage(_) | Line::Request(_) | Line::Notice(_) => {}
            }
        }
        self.phase = Phase::Over;
        let Some((replay, round)) = &self.series else {
            return Ok(None);
        };
        let state = replay.state(asked.iter().map(|(name, _)| name.clone()));
        let questions = asked.iter().map(|(name, request)| (name.as_str(), request.as_str()));
        let response = round.ask(&self.interaction, &self.id, questions, &state)?;
        Ok(Some(Turn::Response(response)))
    }
}

impl Talk for Handling {
    fn next(&mut self) -> BoxFuture<'_, Turn> {
        Box::pin(async {
            match self.turn().await {
                Ok(turn) => turn,
                Err(error) => Turn::Response(Response::error(&self.id, &error)),
            }
        })
    }
}

fn panicked() -> HandlerError {
    error!("a handler panicked");
    HandlerError::Rpc(RpcFailure {
        code: -32603,
        message: "the handler failed unexpectedly".into(),
        data: None,
    })
}

/// For requests that may not be answered with questions: completions.
struct Mute(Arc<Outbox>);

impl Requesting for Mute {
    fn ask(&self, _: Question) -> BoxFuture<'static, Result<Json, AskError>> {
        Box::pin(std::future::ready(Err(AskError::Withdrawn)))
    }

    fn say(&self, said: ToolMessage) {
        self.0.say(said);
    }
}
