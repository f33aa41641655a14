//! Answering a call whose client waits: as one message if it is soon over, else as a stream that shows signs of life.

use crate::{
    answer::{Answer, KeptId, shutting_down, store_failed},
    dispatch::Call,
    front::Front,
    inflight::Entry,
    progress::ProgressNews,
    stream::{self, KEEP_ALIVE, Sink},
};
use longhaul_core::{BoxFuture, Millis, Outcome};
use longhaul_runtime::{Promotion, Step, Waiting};
use longhaul_wire::{Generation, RequestId, RpcError, envelope::write_result, legacy, modern};
use std::{sync::Arc, time::Duration};

/// Waits for the call and answers it. With `promote_after` milliseconds, a call still running then is answered with a task.
pub(crate) fn answer(
    front: &Arc<Front>,
    waiting: Waiting,
    call: &Call<'_>,
    progress: ProgressNews,
    promote_after: Option<Millis>,
) -> Answer {
    let clock = &front.engine.ports().clock;
    let wait = Wait {
        front: Arc::clone(front),
        held: Held {
            waiting: Some(waiting),
            cancels: call.caller.generation == Generation::Modern,
        },
        generation: call.caller.generation,
        id: KeptId::of(call.id),
        progress,
        called_off: front.inflight.enter(&call.caller, call.id),
        promote_after: promote_after.map(|millis| clock.sleep(Duration::from_millis(millis))),
    };
    Answer::Later(Box::pin(wait.respond(call.caller.takes_stream)))
}

/// A call that is waited for. If its client leaves before it has the answer, a modern call is cancelled (T-34), also one that
/// has just become a task (C-45); a legacy one runs on (T-08).
struct Held {
    waiting: Option<Waiting>,
    cancels: bool,
}

impl Held {
    /// The answer is HTTP's now. A task that it announces is ended by no connection any more (invariant 9).
    fn release(&mut self) {
        self.waiting = None;
    }

    fn call_off(&mut self) {
        if let Some(waiting) = self.waiting.take() {
            waiting.abandon();
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.cancels {
            self.call_off();
        }
    }
}

/// All that is needed to answer the call, kept apart from the request's bytes, which may be large.
struct Wait {
    front: Arc<Front>,
    held: Held,
    generation: Generation,
    id: KeptId,
    progress: ProgressNews,
    called_off: Entry,
    /// When a call that is still running becomes a task.
    promote_after: Option<BoxFuture<'static, ()>>,
}

/// What a wait comes to.
enum Next {
    /// The response.
    Response(String),
    /// There is progress to tell.
    Progress(String),
    /// Nothing happened for a while.
    Silence,
    /// The client does not want the answer any more.
    CalledOff,
}

impl Wait {
    /// The response by itself, or from the first thing on that comes before it a stream, if the client takes one.
    async fn respond(mut self, takes_stream: bool) -> Answer {
        let first = loop {
            match self.next().await {
                Ok(Next::Response(text)) => {
                    self.held.release();
                    return Answer::response(text);
                }
                Ok(Next::CalledOff) => return Answer::Accepted,
                Ok(Next::Progress(text)) if takes_stream => break Some(text),
                Ok(Next::Silence) if takes_stream => break None,
                Ok(Next::Progress(_) | Next::Silence) => {}
                Err(error) => return Answer::error(Some(self.id.get()), &error),
            }
        };
        let front = Arc::clone(&self.front);
        Answer::Stream(stream::events(&front, |sink| async move {
            // Whoever has gone is told no more.
            let _ = self.stream(sink, first).await;
        }))
    }

    /// Sends what comes until the response, which is the last.
    async fn stream(mut self, sink: Sink, first: Option<String>) -> Result<(), stream::Gone> {
        match first {
            Some(text) => sink.message(&text).await?,
            None => sink.keep_alive(),
        }
        loop {
            match self.next().await {
                Ok(Next::Response(text)) => {
                    sink.message(&text).await?;
                    self.held.release();
                    return Ok(());
                }
                Ok(Next::Progress(text)) => sink.message(&text).await?,
                Ok(Next::Silence) => sink.keep_alive(),
                Ok(Next::CalledOff) => return Ok(()),
                Err(error) => {
                    let mut text = String::new();
                    error.write_response(&mut text, Some(self.id.get()));
                    return sink.message(&text).await;
                }
            }
        }
    }

    async fn next(&mut self) -> Result<Next, RpcError> {
        let silence = self.front.engine.ports().clock.sleep(KEEP_ALIVE);
        tokio::pin!(silence);
        loop {
            let Some(waiting) = &mut self.held.waiting else {
                return Ok(Next::CalledOff);
            };
            match waiting.look().await.map_err(store_failed)? {
                Step::Ended(outcome) => return Ok(Next::Response(self.ended(&outcome))),
                Step::Changed(record) => {
                    if let Some(text) = self.progress.about(&record.task) {
                        return Ok(Next::Progress(text));
                    }
                }
            }
            tokio::select! {
                () = waiting.changed() => {}
                () = &mut silence => return Ok(Next::Silence),
                () = time_to_promote(&mut self.promote_after) => {
                    self.promote_after = None;
                    let promotion = waiting.promote().await.map_err(store_failed)?;
                    return Ok(Next::Response(self.promoted(promotion)));
                }
                () = self.called_off.called_off() => {
                    self.held.call_off();
                    return Ok(Next::CalledOff);
                }
                () = self.front.closed() => return Err(shutting_down()),
            }
        }
    }

    fn promoted(&self, promotion: Promotion) -> String {
        match promotion {
            Promotion::Ended(outcome) => self.ended(&outcome),
            Promotion::Task(task) => {
                let now = self.front.engine.ports().clock.now();
                let mut text = String::new();
                write_result(&mut text, self.id.get(), |out| {
                    modern::tasks::write_created(out, &task, &self.front.identity, now)
                });
                text
            }
        }
    }

    fn ended(&self, outcome: &Outcome) -> String {
        let mut text = String::new();
        write_outcome(&mut text, self.id.get(), outcome, self.generation, &self.front);
        text
    }
}

/// Pending forever for a call that is not to be promoted.
async fn time_to_promote(promote_after: &mut Option<BoxFuture<'static, ()>>) {
    match promote_after {
        Some(sleep) => sleep.await,
        None => std::future::pending().await,
    }
}

/// Appends the whole response to a plain call.
pub(crate) fn write_outcome(
    out: &mut String,
    id: RequestId<'_>,
    outcome: &Outcome,
    generation: Generation,
    front: &Front,
) {
    match (outcome, generation) {
        (Outcome::Result { json, .. }, Generation::Legacy) => legacy::tools::write_called(out, id, json),
        (Outcome::Result { json, .. }, Generation::Modern) => {
            modern::tools::write_called(out, id, json, &front.identity)
        }
        (Outcome::RpcError(failure), Generation::Legacy) => legacy::tools::write_failed(out, id, failure),
        (Outcome::RpcError(failure), Generation::Modern) => modern::tools::write_failed(out, id, failure),
        (Outcome::Cancelled, _) => RpcError::internal("The call was cancelled").write_response(out, Some(id)),
    }
}
