//! Answering a call whose client waits: as one message if it is soon over, else as a stream that shows signs of life.

use crate::{
    answer::{Answer, shutting_down, store_failed},
    dispatch::Call,
    front::Front,
    inflight::Entry,
    stream::{self, KEEP_ALIVE, Sink},
};
use longhaul_core::{Millis, Outcome, Progress, Task};
use longhaul_runtime::{Promotion, Step, Waiting};
use longhaul_wire::{Generation, RequestId, RpcError, envelope::write_result, legacy, modern, notification};
use serde_json::value::RawValue;
use std::{sync::Arc, time::Duration};

/// A call that is waited for. If its client leaves, a modern call is cancelled (T-34) and a legacy one runs on (T-08).
struct Held {
    waiting: Option<Waiting>,
    cancels: bool,
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(waiting) = self.waiting.take().filter(|_| self.cancels) {
            waiting.abandon();
        }
    }
}

/// All that is needed to answer the call, kept apart from the request's bytes, which the stream outlives.
struct Wait {
    front: Arc<Front>,
    held: Held,
    generation: Generation,
    id: Box<RawValue>,
    progress: ProgressNews,
    called_off: Entry,
    /// When a call that is still running becomes a task.
    promote_after: Option<longhaul_core::BoxFuture<'static, ()>>,
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

/// Waits for the call and answers it. With `promote_after` milliseconds, a call still running then is answered with a task.
pub(crate) async fn answer(
    front: &Arc<Front>,
    waiting: Waiting,
    call: &Call<'_>,
    promote_after: Option<Millis>,
) -> Result<Answer, RpcError> {
    let clock = &front.engine.ports().clock;
    let mut wait = Wait {
        front: Arc::clone(front),
        held: Held {
            waiting: Some(waiting),
            cancels: call.caller.generation == Generation::Modern,
        },
        generation: call.caller.generation,
        id: owned(call.id),
        progress: ProgressNews {
            token: call.meta.progress_token()?.map(owned),
            told: None,
        },
        called_off: front.inflight.enter(&call.caller, call.id),
        promote_after: promote_after.map(|millis| clock.sleep(Duration::from_millis(millis))),
    };
    let first = loop {
        match wait.next().await? {
            Next::Response(text) => return Ok(Answer::Message { status: 200, text }),
            Next::CalledOff => return Ok(Answer::Accepted),
            Next::Progress(text) if call.caller.takes_stream => break Some(text),
            Next::Silence if call.caller.takes_stream => break None,
            Next::Progress(_) | Next::Silence => {}
        }
    };
    Ok(Answer::Stream(stream::events(front, |sink| wait.stream(sink, first))))
}

impl Wait {
    /// Sends what comes until the response, which is the last.
    async fn stream(mut self, sink: Sink, first: Option<String>) {
        match first {
            Some(text) => sink.message(&text).await,
            None => sink.keep_alive(),
        }
        loop {
            match self.next().await {
                Ok(Next::Response(text)) => return sink.message(&text).await,
                Ok(Next::Progress(text)) => sink.message(&text).await,
                Ok(Next::Silence) => sink.keep_alive(),
                Ok(Next::CalledOff) => return,
                Err(error) => {
                    let mut text = String::new();
                    error.write_response(&mut text, RequestId::from_raw(&self.id));
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
                    let promotion = waiting.promote().await.map_err(store_failed)?;
                    return Ok(Next::Response(self.promoted(promotion)));
                }
                () = self.called_off.called_off() => {
                    if let Some(waiting) = self.held.waiting.take() {
                        waiting.abandon();
                    }
                    return Ok(Next::CalledOff);
                }
                () = self.front.drained() => return Err(shutting_down()),
            }
        }
    }

    fn promoted(&mut self, promotion: Promotion) -> String {
        match promotion {
            Promotion::Ended(outcome) => self.ended(&outcome),
            Promotion::Task(task) => {
                // From here on the call is a task, and no connection ends it (invariant 9).
                self.held.waiting = None;
                let now = self.front.engine.ports().clock.now();
                let mut text = String::new();
                if let Some(id) = RequestId::from_raw(&self.id) {
                    write_result(&mut text, id, |out| {
                        modern::tasks::write_created(out, &task, &self.front.identity, now)
                    });
                }
                text
            }
        }
    }

    fn ended(&mut self, outcome: &Outcome) -> String {
        self.held.waiting = None;
        let mut text = String::new();
        if let Some(id) = RequestId::from_raw(&self.id) {
            write_outcome(&mut text, id, outcome, self.generation, &self.front);
        }
        text
    }
}

/// Pending forever for a call that is not to be promoted.
async fn time_to_promote(promote_after: &mut Option<longhaul_core::BoxFuture<'static, ()>>) {
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

/// Tells progress to a client that asked for it: only ever rising (U-01).
struct ProgressNews {
    token: Option<Box<RawValue>>,
    told: Option<f64>,
}

impl ProgressNews {
    fn about(&mut self, task: &Task) -> Option<String> {
        let token = RequestId::from_raw(self.token.as_deref()?)?;
        let progress @ Progress { current, .. } = task.progress?;
        if self.told.is_some_and(|told| told >= current) {
            return None;
        }
        self.told = Some(current);
        let mut text = String::new();
        notification::write_progress(&mut text, token, progress, task.status.as_deref(), None);
        Some(text)
    }
}

/// A request id that outlives its request.
fn owned(id: RequestId<'_>) -> Box<RawValue> {
    RawValue::from_string(id.as_json().to_owned()).unwrap_or_else(|_| unreachable!("a request id is JSON"))
}
