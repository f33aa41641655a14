//! A plain call whose client waits for its outcome.

mod limit;
mod questions;

use super::{Calls, between_rounds::Hold, follow_tools::handed_off, policy::WaitPolicy, session_hold::SessionHold};
use crate::{
    admission::{
        identity::Identity,
        limits::{Busy, Reservation},
    },
    audit::{AuditOutcome, RequestAudit},
    interaction::{
        exchange::{FinalResponse, Responder, ResponderEvent},
        notifications::RequestNotifications,
    },
    response::{OwnedRequestId, after_begin, credentials_ended, draining, resumption::Resumption, store_failed},
    session::in_flight::InFlightRequest,
};
use limit::{Instead, WaitLimit};
use longhaul_core::{BoxFuture, Input, MISSING_CAPABILITY, Outcome, SessionKey, State, Task, store::StoreError};
use longhaul_runtime::{PlainCall, PlainCallState, Promotion, ToolMessage};
use longhaul_wire::{Generation, RequestId, RpcError, jsonrpc::write_result, legacy, modern};
pub(crate) use questions::QuestionChannel;
use std::{sync::Arc, time::Duration};

/// Messages sent in a row before the call is read again: work that reports without a pause may also ask questions.
const MOST_IN_A_ROW: u32 = 128;

/// Between two promotions of a call that cannot be written.
const PROMOTION_PAUSE: Duration = Duration::from_secs(1);

/// After so long without progress a client that asks for progress is told that the call goes on.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// How long an outcome waits for memory before its client gets an error to retry; the call itself is kept for longer.
const MEMORY_TIMEOUT: Duration = Duration::from_secs(30);

/// A plain call whose client waits for it.
pub(crate) struct BlockingCall {
    calls: Arc<Calls>,
    tool: Arc<str>,
    waiting: PlainCall,
    hold: CallHold,
    /// Asked nothing once its credentials have ended.
    sender: Arc<Identity>,
    generation: Generation,
    id: OwnedRequestId,
    notifications: RequestNotifications,
    questions: QuestionChannel,
    limit: WaitLimit,
    /// When the client is told that the call goes on.
    heartbeat: Option<BoxFuture<'static, ()>>,
    /// Whether the call may have changed since it was last read.
    stale: bool,
    /// The questions that were open then.
    open: Vec<Input>,
    /// How the call ended.
    end: Option<Outcome>,
    /// The memory reserved for its outcome.
    reservation: Option<Reservation>,
    /// What happens to the hold once the client has the response.
    on_response: OnResponse,
    /// The same, if the response is an error of ours.
    on_error: OnResponse,
    /// Whether the same principal may come back for the call with other credentials, so that it goes on when these are revoked, even if it has not begun.
    is_kept: bool,
    /// The sender's credentials were revoked, and the call goes on.
    outlives_sender: bool,
    /// Whether it was decided what becomes of the call because the server drains.
    knows_drain: bool,
    /// Why it is being cancelled. The future that does this may be dropped before it has answered.
    withdrawal: Option<Withdrawal>,
    /// Messages taken from the work since the call was last read.
    in_a_row: u32,
    audit: Option<Arc<RequestAudit>>,
}

/// The request's claim on its call. Dropping it unreleased means that the client gets no answer to this request.
enum CallHold {
    /// Of a client that can only retry a round, or not return at all.
    Request(Hold),
    /// Of a client that can resume its stream.
    Session(SessionHold),
}

impl CallHold {
    fn release(&mut self) {
        match self {
            Self::Request(hold) => hold.release(),
            Self::Session(hold) => hold.release(),
        }
    }
}

/// What happens to the call once the client has the response.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OnResponse {
    /// The call is over, or a task of its own.
    Release,
    /// The client will retry.
    Keep,
    /// The client does not return: the call must stop.
    Abandon,
}

/// What a wait needs of its request, taken before the request's bytes are dropped.
pub(crate) struct CallContext {
    pub(crate) calls: Arc<Calls>,
    pub(crate) tool: Arc<str>,
    pub(crate) sender: Arc<Identity>,
    pub(crate) generation: Generation,
    pub(crate) id: OwnedRequestId,
    pub(crate) notifications: RequestNotifications,
    /// The session in which the client can return for the answer.
    pub(crate) resumable_session: Option<SessionKey>,
    /// How long the call is waited for.
    pub(crate) wait_policy: WaitPolicy,
    pub(crate) questions: QuestionChannel,
    pub(crate) audit: Option<Arc<RequestAudit>>,
}

impl BlockingCall {
    /// Waits for a call that this request started. The call is cancelled as soon as its answer can no longer be delivered: when the client
    /// disconnects, also if it has just become a task, or when the session ends in which the client could return.
    pub(crate) fn begun(context: CallContext, waiting: PlainCall) -> Self {
        let (calls, call) = (&context.calls, waiting.handle());
        let hold = match &context.resumable_session {
            Some(session) => CallHold::Session(SessionHold::new(calls, session.clone(), call)),
            None => CallHold::Request(calls.between_rounds.first(call)),
        };
        Self::new(context, waiting, hold, OnResponse::Abandon)
    }

    /// Waits for a call for which its client comes back in its session, which an earlier process may have left to it.
    pub(crate) fn resumed(context: CallContext, waiting: PlainCall) -> Self {
        let Some(session) = context.resumable_session.clone() else {
            return Self::begun(context, waiting);
        };
        let hold = SessionHold::resumed(&context.calls, session, waiting.handle());
        Self::new(context, waiting, CallHold::Session(hold), OnResponse::Abandon)
    }

    /// Waits for a call that an earlier request started and that asked its client something. Its round stays open if this request
    /// fails.
    pub(crate) fn rejoined(context: CallContext, waiting: PlainCall, hold: Hold) -> Self {
        Self::new(context, waiting, CallHold::Request(hold), OnResponse::Keep)
    }

    fn new(context: CallContext, waiting: PlainCall, hold: CallHold, error: OnResponse) -> Self {
        let clock = &context.calls.engine.ports().clock;
        let is_kept = waiting.is_keyed() || matches!(hold, CallHold::Session(_));
        Self {
            limit: WaitLimit::of(context.wait_policy, &**clock),
            heartbeat: None,
            questions: context.questions,
            calls: context.calls,
            tool: context.tool,
            stale: waiting.is_unread(),
            waiting,
            hold,
            sender: context.sender,
            generation: context.generation,
            id: context.id,
            notifications: context.notifications,
            open: Vec::new(),
            end: None,
            reservation: None,
            on_response: OnResponse::Release,
            on_error: error,
            is_kept,
            outlives_sender: false,
            knows_drain: false,
            withdrawal: None,
            in_a_row: 0,
            audit: context.audit,
        }
    }

    async fn next_event(&mut self) -> Result<ResponderEvent, RpcError> {
        if !self.outlives_sender && self.sender.can_be_revoked() {
            let sender = Arc::clone(&self.sender);
            tokio::select! {
                biased;
                () = sender.revoked() => {}
                event = self.next_of_call() => return event,
            }
            if !self.is_kept && self.withdraw(Withdrawal::Revoked).await? {
                return Err(self.withdrawn());
            }
            self.outlives_sender = true;
            return Ok(ResponderEvent::SenderRevoked);
        }
        self.next_of_call().await
    }

    async fn next_of_call(&mut self) -> Result<ResponderEvent, RpcError> {
        loop {
            if let Some(event) = self.next_message().or_else(|| self.questions.withdraw()) {
                return Ok(event);
            }
            if let Some(outcome) = &self.end {
                let response = match (outcome, self.withdrawal) {
                    (Outcome::Cancelled, Some(Withdrawal::Revoked)) => return Err(self.withdrawn()),
                    (Outcome::Cancelled, Some(Withdrawal::Draining)) => FinalResponse::error(&self.id, &draining()),
                    _ => self.ended(outcome),
                };
                return Ok(ResponderEvent::Response(
                    response.with_reservation(self.reservation.take()),
                ));
            }
            if self.stale {
                if let Some(response) = self.read().await? {
                    return Ok(ResponderEvent::Response(response));
                }
                // Messages from before the change go out before what the change causes.
                continue;
            }
            self.in_a_row = 0;
            if !self.open.is_empty() {
                if let Some(event) = self.ask().await? {
                    return Ok(event);
                }
                if self.stale {
                    continue;
                }
            }
            if self.heartbeat.is_none() && self.notifications.wants_progress() {
                self.heartbeat = Some(self.calls.engine.ports().clock.sleep(HEARTBEAT));
            }
            tokio::select! {
                message = self.waiting.next_message() => match message {
                    Some(message) => if let Some(event) = self.event_for(&message) {
                        return Ok(event);
                    },
                    None => self.stale = true,
                },
                // What was asked is refused in the next round.
                () = self.sender.ended(&*self.calls.engine.ports().clock), if self.sender.can_end() && !self.open.is_empty() => {}
                () = self.calls.engine.drain_begun(), if !self.knows_drain && !self.waiting.runs_here() => {
                    self.knows_drain = true;
                    if let Some(response) = self.drains().await? {
                        return Ok(ResponderEvent::Response(response));
                    }
                }
                () = is_due(&mut self.heartbeat) => {
                    self.heartbeat = None;
                    match self.waiting.read().await.map_err(store_failed)? {
                        PlainCallState::Changed(record) => {
                            if let Some(text) = self.notifications.heartbeat(record.task.status.as_deref()) {
                                return Ok(ResponderEvent::Notification(text));
                            }
                        }
                        PlainCallState::Ended(_) => self.stale = true,
                    }
                }
                () = self.limit.is_over() => {
                    // If this future is dropped during the promotion, the next read finds a task.
                    self.stale = true;
                    match self.waiting.promote().await {
                        Ok(Promotion::Task(task)) => {
                            let now = self.calls.engine.ports().clock.monotonic();
                            self.calls.failed_promotions.lock().is_over(now);
                            return Ok(ResponderEvent::Response(self.promoted(&task)));
                        }
                        Ok(Promotion::Ended(outcome)) => self.end = Some(outcome),
                        Err(StoreError::Closed) => return Err(store_failed(StoreError::Closed)),
                        Err(error) => {
                            let now = self.calls.engine.ports().clock.monotonic();
                            self.calls.failed_promotions.lock().failed(&error, now);
                            self.limit.renew(PROMOTION_PAUSE, &*self.calls.engine.ports().clock);
                        }
                    }
                }
            }
        }
    }

    /// The server begins nothing more. If no other one runs the call, it becomes a task at once or is cancelled: its caller must not wait for an error, and then
    /// find that the call was run at the next start. A caller with an idempotency key can come back for it.
    async fn drains(&mut self) -> Result<Option<FinalResponse>, RpcError> {
        let engine = &self.calls.engine;
        let is_for_others = !self.waiting.is_in_memory() && !engine.drains_alone().await.map_err(store_failed)?;
        if is_for_others || self.waiting.has_begun().await.map_err(store_failed)? {
            return Ok(None);
        }
        if self.limit.answer.is_some() {
            self.limit.renew(Duration::ZERO, &*engine.ports().clock);
        } else if !self.waiting.is_keyed() && self.withdraw(Withdrawal::Draining).await? {
            return Ok(Some(FinalResponse::error(&self.id, &draining())));
        }
        Ok(None)
    }

    /// Cancels the call if it has not begun. Whether it did.
    async fn withdraw(&mut self, why: Withdrawal) -> Result<bool, RpcError> {
        self.withdrawal = Some(why);
        let is_withdrawn = self.waiting.withdraw().await.map_err(store_failed)?;
        if !is_withdrawn {
            self.withdrawal = None;
        }
        Ok(is_withdrawn)
    }

    /// The call was cancelled, since it had not begun when its sender's credentials were revoked.
    fn withdrawn(&self) -> RpcError {
        // When it was taken it was recorded as accepted.
        if let Some(audit) = &self.audit {
            audit.record(AuditOutcome::Denied);
        }
        credentials_ended()
    }

    /// The next message of the work that the client asked for, if there is one already.
    fn next_message(&mut self) -> Option<ResponderEvent> {
        // After the end nothing more comes.
        while self.end.is_some() || self.in_a_row < MOST_IN_A_ROW {
            let message = self.waiting.try_next_message()?;
            self.in_a_row += 1;
            self.stale |= self.in_a_row == MOST_IN_A_ROW;
            if let Some(event) = self.event_for(&message) {
                return Some(event);
            }
        }
        None
    }

    /// What the client is sent of a message of the work.
    fn event_for(&mut self, message: &ToolMessage) -> Option<ResponderEvent> {
        match message {
            ToolMessage::CloseStream => Some(ResponderEvent::CloseStream),
            ToolMessage::Begins => {
                self.limit.begin(&*self.calls.engine.ports().clock);
                None
            }
            ToolMessage::BecomesTask => {
                if self.limit.answer == Some(Instead::Task) {
                    self.limit.renew(Duration::ZERO, &*self.calls.engine.ports().clock);
                }
                None
            }
            message => {
                let text = self.notifications.message_for(message)?;
                self.heartbeat = None;
                Some(ResponderEvent::Notification(text))
            }
        }
    }

    /// Reads the call. The response, if it has become a task in the meantime, through another request of the same call.
    async fn read(&mut self) -> Result<Option<FinalResponse>, RpcError> {
        match self.waiting.read().await.map_err(store_failed)? {
            PlainCallState::Ended(outcome) => {
                let bytes = outcome_bytes(&outcome);
                let memory = &self.calls.interaction.admission.memory;
                let Ok(reservation) = memory.reserve_for_answer(bytes) else {
                    // It is read again when there is memory for it, and not kept until then.
                    drop(outcome);
                    let reservation = memory.wait_for_answer(bytes);
                    let reservation = self.calls.engine.ports().within(MEMORY_TIMEOUT, reservation).await;
                    drop(reservation.ok_or(Busy::Answers)?);
                    return Ok(None);
                };
                self.reservation = reservation;
                // Its end is known, so nothing is left to abandon.
                self.hold.release();
                self.end = Some(outcome);
                self.questions.keep(&[]);
            }
            PlainCallState::Changed(record) if record.task.announced => {
                if self.limit.answer == Some(Instead::Task) {
                    return Ok(Some(self.promoted(&record.task)));
                }
                // The client that has the task is asked instead. This one waits as long as it would without.
                self.open.clear();
            }
            PlainCallState::Changed(record) => {
                // Its attempt may not have begun after all.
                self.knows_drain &= record.task.state != State::Queued;
                // Whether it may run is asked once it is a task, which a call that has to be confirmed becomes at once.
                let is_asked = !record.task.awaits_confirmation();
                self.open = if is_asked { record.inputs } else { Vec::new() };
                self.questions.keep(&self.open);
            }
        }
        self.stale = false;
        Ok(None)
    }

    fn promoted(&self, task: &Task) -> FinalResponse {
        if let Some(audit) = &self.audit {
            audit.created(&task.id);
        }
        if self.limit.answer == Some(Instead::Text) {
            let tool = self.calls.engine.catalog().tool(&task.tool);
            return self.ended(&handed_off(task, tool.as_deref()));
        }
        let now = self.calls.engine.ports().clock.read();
        let mut text = String::new();
        write_result(&mut text, self.id.get(), |out| {
            modern::tasks::write_created(out, task, &self.calls.server_info, now);
        });
        FinalResponse::of(text)
    }

    fn ended(&self, outcome: &Outcome) -> FinalResponse {
        response(&self.calls, &self.id, self.generation, outcome)
    }
}

/// Why a call that has not begun is cancelled.
#[derive(Clone, Copy)]
enum Withdrawal {
    /// The server begins nothing more.
    Draining,
    /// The credentials of its sender were revoked.
    Revoked,
}

async fn is_due(heartbeat: &mut Option<BoxFuture<'static, ()>>) {
    match heartbeat {
        Some(heartbeat) => heartbeat.await,
        None => std::future::pending().await,
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

impl Responder for BlockingCall {
    fn next(&mut self) -> BoxFuture<'_, ResponderEvent> {
        Box::pin(async {
            match self.next_event().await {
                Ok(event) => event,
                Err(error) => {
                    if self.on_response == OnResponse::Release {
                        self.on_response = self.on_error;
                    }
                    ResponderEvent::Response(FinalResponse::error(&self.id, &after_begin(error)))
                }
            }
        })
    }

    fn answered(&mut self) {
        match (self.on_response, &mut self.hold) {
            (OnResponse::Release, hold) => hold.release(),
            (OnResponse::Keep, CallHold::Request(hold)) => hold.keep_for_retry(),
            (OnResponse::Abandon, CallHold::Session(hold)) => hold.abandon(),
            // Dropping the hold abandons the call; and a session's call has no rounds.
            (OnResponse::Abandon, CallHold::Request(_)) | (OnResponse::Keep, CallHold::Session(_)) => {}
        }
    }

    fn resumption(&self) -> Option<Resumption> {
        let call = self.waiting.id().clone();
        let (id, name) = (self.id.get().as_json(), serde_json::json!(&*self.tool));
        let token = self
            .notifications
            .token()
            .map(|token| format!(r#","_meta":{{"progressToken":{}}}"#, token.as_json()));
        let token = token.unwrap_or_default();
        let request =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":{name}{token}}}}}"#);
        Some(Resumption::Rejoin { call, request }).filter(|resumption| resumption.encode().is_some())
    }

    fn closed(&mut self) {
        if let CallHold::Session(hold) = &mut self.hold {
            hold.abandon();
        }
    }

    fn goes_on(&self) -> bool {
        true
    }

    fn cancel(&mut self) {
        self.waiting.handle().abandon();
    }

    fn left(&mut self, request: Arc<InFlightRequest>) {
        if let CallHold::Session(hold) = &mut self.hold {
            hold.left(request);
        }
    }
}

/// The response to a plain call with this outcome.
pub(crate) fn response(calls: &Calls, id: &OwnedRequestId, generation: Generation, outcome: &Outcome) -> FinalResponse {
    let mut text = String::with_capacity(outcome_bytes(outcome) + 512);
    write_outcome(&mut text, id.get(), outcome, generation, calls);
    // The only outcome with an HTTP status of its own.
    let undeclared = |code| generation == Generation::Modern && code == MISSING_CAPABILITY;
    let mut response = FinalResponse::of(text);
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
            modern::tools::write_called(out, id, json, &calls.server_info)
        }
        (Outcome::RpcError(failure), Generation::Legacy) => legacy::tools::write_failed(out, id, failure),
        (Outcome::RpcError(failure), Generation::Modern) => modern::tools::write_failed(out, id, failure),
        (Outcome::Cancelled, _) => RpcError::internal("The call was cancelled").write_response(out, Some(id)),
    }
}
