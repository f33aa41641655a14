//! A plain call whose client waits for its outcome.

mod questions;

use super::{Calls, between_rounds::Hold, follow_tools::handed_off, policy::Patience};
use crate::{
    admission::{
        limits::{Busy, Room},
        request::AdmittedRequest,
    },
    interaction::{
        exchange::{Response, Talk, Turn},
        notifications::Telling,
        rounds::Round,
    },
    response::{KeptId, store_failed},
};
use longhaul_core::{BoxFuture, Clock, Input, Outcome, Task};
use longhaul_runtime::{Promotion, Step, ToolMessage, Waiting};
use longhaul_wire::{Generation, RequestId, RpcError, jsonrpc::write_result, legacy, modern};
use questions::Questions;
use std::{sync::Arc, time::Duration};

/// What a client must have declared (G2-05): the only outcome whose HTTP status says more than that there is one.
const MISSING_CAPABILITY: i32 = -32021;

/// How much is told in a row before the call is looked at again: one that talks without a pause has questions, too.
const MOST_IN_A_ROW: u32 = 128;

/// How long an outcome waits for room until its client is told to come back; the call itself is kept for longer.
const ROOM_PATIENCE: Duration = Duration::from_secs(30);

/// A plain call being waited for.
pub(crate) struct Plain {
    calls: Arc<Calls>,
    waiting: Waiting,
    hold: Option<Hold>,
    generation: Generation,
    id: KeptId,
    telling: Telling,
    questions: Questions,
    patience: Limit,
    /// Whether something about the call has changed since it was last looked at.
    stale: bool,
    /// The questions that were open then.
    open: Vec<Input>,
    /// How the call ended.
    end: Option<Outcome>,
    /// What its outcome takes.
    room: Option<Room>,
    /// What becomes of the hold when the response is the client's.
    response: Owed,
    /// The same, if the response is an error of ours.
    error: Owed,
    /// How much was taken of what the work says since the call was last looked at.
    in_a_row: u32,
}

/// What a response leaves to be done.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owed {
    /// The call is over, or a task of its own.
    Nothing,
    /// The client comes back.
    Retry,
    /// Nobody comes back: the call is to stop.
    End,
}

/// What surrounds a wait, taken from the request before its bytes are gone.
pub(crate) struct Surroundings {
    pub(crate) calls: Arc<Calls>,
    pub(crate) generation: Generation,
    pub(crate) id: KeptId,
    pub(crate) telling: Telling,
    /// How long the call is waited for.
    pub(crate) patience: Patience,
    pub(crate) asks: Asks,
}

/// How the client can be asked.
pub(crate) enum Asks {
    /// By answering its request with the questions.
    Rounds(Round),
    /// By requests of ours.
    Requests,
    /// Not at all: without a session there is nowhere for it to answer (C-51).
    Nobody,
}

impl Asks {
    /// How the sender of a request can be asked; `round` is its place in a series, if it is a modern one.
    pub(crate) fn of(request: &AdmittedRequest<'_>, round: Option<Round>) -> Self {
        match round {
            Some(round) => Self::Rounds(round),
            None if request.caller.session().is_some() => Self::Requests,
            None => Self::Nobody,
        }
    }
}

impl Plain {
    /// Waits for a call that this request began. A modern client that leaves takes it along (T-34), also one that has just become
    /// a task (C-45); after a legacy one it runs on (T-08).
    pub(crate) fn begun(around: Surroundings, waiting: Waiting) -> Self {
        let modern = around.generation == Generation::Modern;
        let hold = modern.then(|| {
            let calls = &around.calls;
            calls.between_rounds.first(waiting.begun())
        });
        Self::new(around, waiting, hold, Owed::End)
    }

    /// Waits for a call that an earlier request began and that asked its client something. Its round stays open if this comes to
    /// nothing.
    pub(crate) fn rejoined(around: Surroundings, waiting: Waiting, hold: Hold) -> Self {
        Self::new(around, waiting, Some(hold), Owed::Retry)
    }

    fn new(around: Surroundings, waiting: Waiting, hold: Option<Hold>, error: Owed) -> Self {
        let clock = &around.calls.engine.ports().clock;
        Self {
            patience: Limit::of(around.patience, &**clock),
            questions: Questions::of(around.asks, &around.calls.interaction.input_requests.unanswered),
            calls: around.calls,
            waiting,
            hold,
            generation: around.generation,
            id: around.id,
            telling: around.telling,
            stale: true,
            open: Vec::new(),
            end: None,
            room: None,
            response: Owed::Nothing,
            error,
            in_a_row: 0,
        }
    }

    async fn turn(&mut self) -> Result<Turn, RpcError> {
        loop {
            if let Some(turn) = self.said().or_else(|| self.questions.take_back()) {
                return Ok(turn);
            }
            if let Some(outcome) = &self.end {
                let response = self.ended(outcome);
                return Ok(Turn::Response(response.in_room(self.room.take())));
            }
            if self.stale {
                if let Some(response) = self.look().await? {
                    return Ok(Turn::Response(response));
                }
                // What was said before it changed goes before what the change means.
                continue;
            }
            self.in_a_row = 0;
            if !self.open.is_empty() {
                if let Some(turn) = self.ask().await? {
                    return Ok(turn);
                }
                if self.stale {
                    continue;
                }
            }
            tokio::select! {
                said = self.waiting.next() => match said {
                    Some(said) => if let Some(turn) = told(&mut self.telling, &said) {
                        return Ok(turn);
                    },
                    None => self.stale = true,
                },
                () = self.patience.is_over() => {
                    // Should the next lines be dropped halfway, the next look finds a task.
                    self.stale = true;
                    match self.waiting.promote().await.map_err(store_failed)? {
                        Promotion::Task(task) => return Ok(Turn::Response(self.promoted(&task))),
                        Promotion::Ended(outcome) => self.end = Some(outcome),
                    }
                }
            }
        }
    }

    /// What the work has said already and the client wants to hear.
    fn said(&mut self) -> Option<Turn> {
        // Once it has ended there is no more to come.
        while self.end.is_some() || self.in_a_row < MOST_IN_A_ROW {
            let said = self.waiting.said()?;
            self.in_a_row += 1;
            self.stale |= self.in_a_row == MOST_IN_A_ROW;
            if let Some(turn) = told(&mut self.telling, &said) {
                return Some(turn);
            }
        }
        None
    }

    /// How the call stands now: the response, if it is a task by now, which another request of the same call was given.
    async fn look(&mut self) -> Result<Option<Response>, RpcError> {
        match self.waiting.look().await.map_err(store_failed)? {
            Step::Ended(outcome) => {
                let bytes = outcome_bytes(&outcome);
                let memory = &self.calls.interaction.admission.memory;
                let Ok(room) = memory.answer(bytes) else {
                    // It is read again when there is room, and not kept in memory until then.
                    drop(outcome);
                    let room = memory.wait_for_answer(bytes);
                    let room = self.calls.engine.ports().within(ROOM_PATIENCE, room).await;
                    drop(room.ok_or(Busy::Answers)?);
                    return Ok(None);
                };
                self.room = room;
                // Nobody needs to stop it any more.
                self.release();
                self.end = Some(outcome);
                self.questions.keep(&[]);
            }
            Step::Changed(record) if record.task.announced => {
                if self.patience.answer.is_some() {
                    return Ok(Some(self.promoted(&record.task)));
                }
                // It asks whoever has the task.
                self.open.clear();
            }
            Step::Changed(record) => {
                self.open = record.inputs;
                self.questions.keep(&self.open);
            }
        }
        self.stale = false;
        Ok(None)
    }

    fn release(&mut self) {
        if let Some(hold) = &mut self.hold {
            hold.release();
        }
    }

    fn promoted(&self, task: &Task) -> Response {
        if self.patience.answer == Some(Instead::Words) {
            return self.ended(&handed_off(task));
        }
        let now = self.calls.engine.ports().clock.read();
        let mut text = String::new();
        write_result(&mut text, self.id.get(), |out| {
            modern::tasks::write_created(out, task, &self.calls.identity, now);
        });
        Response::of(text)
    }

    fn ended(&self, outcome: &Outcome) -> Response {
        response(&self.calls, &self.id, self.generation, outcome)
    }
}

fn outcome_bytes(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Result { json, .. } => json.as_str().len(),
        Outcome::RpcError(failure) => {
            failure.message.len() + failure.data.as_ref().map_or(0, |data| data.as_str().len())
        }
        Outcome::Cancelled => 0,
    }
}

fn told(telling: &mut Telling, said: &ToolMessage) -> Option<Turn> {
    match said {
        ToolMessage::Quiet => Some(Turn::Quiet),
        said => telling.tell(said).map(Turn::Notice),
    }
}

impl Talk for Plain {
    fn next(&mut self) -> BoxFuture<'_, Turn> {
        Box::pin(async {
            match self.turn().await {
                Ok(turn) => turn,
                Err(error) => {
                    if self.response == Owed::Nothing {
                        self.response = self.error;
                    }
                    Turn::Response(Response::error(&self.id, &error))
                }
            }
        })
    }

    fn answered(&mut self) {
        if let Some(hold) = &mut self.hold {
            match self.response {
                Owed::Nothing => hold.release(),
                Owed::Retry => hold.park(),
                Owed::End => {}
            }
        }
    }

    fn cancel(&mut self) {
        self.waiting.begun().abandon();
    }
}

/// When a call that is still running becomes a task, and how that is told.
struct Limit {
    over: Option<BoxFuture<'static, ()>>,
    answer: Option<Instead>,
}

/// What a client is told instead of the outcome.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Instead {
    /// The task.
    Task,
    /// How to follow it.
    Words,
}

impl Limit {
    fn of(patience: Patience, clock: &dyn Clock) -> Self {
        let (millis, answer) = match patience {
            Patience::Endless => (None, None),
            Patience::Promote(millis) => (Some(millis), Some(Instead::Task)),
            Patience::HandOff(millis) => (Some(millis), Some(Instead::Words)),
        };
        Self {
            over: millis.map(|millis| clock.sleep(Duration::from_millis(millis))),
            answer,
        }
    }

    /// Completes once; never for a call that is waited for as long as it takes.
    async fn is_over(&mut self) {
        match &mut self.over {
            Some(sleep) => sleep.await,
            None => std::future::pending().await,
        }
        self.over = None;
    }
}

/// The response to a plain call that ended so.
pub(crate) fn response(calls: &Calls, id: &KeptId, generation: Generation, outcome: &Outcome) -> Response {
    let mut text = String::new();
    write_outcome(&mut text, id.get(), outcome, generation, calls);
    let undeclared = |code| generation == Generation::Modern && code == MISSING_CAPABILITY;
    let mut response = Response::of(text);
    if matches!(outcome, Outcome::RpcError(failure) if undeclared(failure.code)) {
        response.status = 400;
    }
    response
}

/// Appends the whole response to a plain call.
pub(crate) fn write_outcome(
    out: &mut String,
    id: RequestId<'_>,
    outcome: &Outcome,
    generation: Generation,
    calls: &Calls,
) {
    match (outcome, generation) {
        (Outcome::Result { json, .. }, Generation::Legacy) => legacy::tools::write_called(out, id, json),
        (Outcome::Result { json, .. }, Generation::Modern) => {
            modern::tools::write_called(out, id, json, &calls.identity)
        }
        (Outcome::RpcError(failure), Generation::Legacy) => legacy::tools::write_failed(out, id, failure),
        (Outcome::RpcError(failure), Generation::Modern) => modern::tools::write_failed(out, id, failure),
        (Outcome::Cancelled, _) => RpcError::internal("The call was cancelled").write_response(out, Some(id)),
    }
}
