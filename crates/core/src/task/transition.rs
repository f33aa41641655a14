//! The transition function: which event may happen in which state, and what it changes.

use super::confirmation;
use crate::{
    AnsweredBy, Attempt, AttemptEnd, AttemptState, Blocked, CancelMode, Entry, Event, Failure, HostId, InputKey, Json,
    NodeId, Outcome, Priority, Progress, State, Stop, StopReason, Task, UnixMillis,
};
use std::sync::Arc;

/// Why an event is not legal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Reason {
    /// The task is over (invariant 2).
    #[error("the task is over")]
    Done,
    /// The event does not belong to this state.
    #[error("the event does not belong to this state")]
    WrongState,
    /// No attempt is active, or not in the state the event needs.
    #[error("no attempt is in the state the event needs")]
    WrongAttempt,
    /// The question is not open: unknown, answered, or withdrawn (invariant 4).
    #[error("the question is not open")]
    InputNotOpen,
    /// The new question's key, or the new entry's position, is not the next one.
    #[error("the key is not the next one")]
    KeyOutOfOrder,
    /// The time in the event has not come, or would move back.
    #[error("it is not the time for it")]
    TooEarly,
    /// The task is asked to stop, and starts nothing more.
    #[error("the task is asked to stop")]
    Stopping,
    /// Only an operator may answer the question.
    #[error("only an operator may confirm the task")]
    NotForClients,
}

/// An event that may not happen to a task in its present state. Nothing was changed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{event} is not legal for a task that is {state:?}: {reason}")]
pub struct IllegalEvent {
    /// Where the task stands.
    pub state: State,
    /// The event's name.
    pub event: &'static str,
    /// Why it is not legal.
    pub reason: Reason,
}

/// Applies `event`, which happened at `at`, to `task`.
///
/// | event | Queued | Running | Suspended | Blocked | Done |
/// | --- | --- | --- | --- | --- | --- |
/// | `Claimed` | Running, attempt Starting, unless it is too early or waits for its group | – | – | – | – |
/// | `Adopted` | – | node changed | – | – | node changed while the attempt still stops |
/// | `Reclaimed` | – | node changed, bound to no host | – | – | the same while the attempt still stops |
/// | `Started` | – | attempt Live, once (Stopping stays) | – | – | accepted while the attempt still stops |
/// | `Reported` | – | status, progress | – | – | – |
/// | `InputRequested` | – | question open | – | – | – |
/// | `InputAnswered`, `InputWithdrawn` | question closed | question closed | question closed, Queued | question closed | – |
/// | `InputAnswered` of a task that awaits its confirmation | – | – | Queued; Done(RpcError), unless it is accepted | – | – |
/// | `Journaled` | – | new entry, which clears attempts and blocks before it; or a new value of an entry | – | – | – |
/// | `Advanced` | – | attempts and blocks before it cleared | – | – | – |
/// | `TimerFired` | – | – | Queued, if it is time; Done(RpcError), if it awaits its confirmation | Queued, if it is time | – |
/// | `Unblocked` | – | – | – | Queued; Blocked, if it is for later | – |
/// | `Raised` | ready earlier, with the highest priority | – | – | – | – |
/// | `ChildEnded` | noted | noted | noted, Queued | noted | – |
/// | `AttemptEnded` | – | Done, or Queued again | – | – | attempt Ended, the outcome is dropped |
/// | `AttemptEnded(Suspended)` | – | Suspended; Queued, if something came since; Done, if it is to stop | – | – | attempt Ended |
/// | `AttemptEnded(Blocked)` | – | Blocked; Done, if it is to stop, or is a plain call without an idempotency key | – | – | attempt Ended |
/// | `CancelRequested` | Done(Cancelled) | stop; at once: Done | Done(Cancelled) | Done(Cancelled) | – |
/// | `DeadlinePassed` | Done(ToolError) | stop | Done(ToolError) | Done(ToolError) | – |
/// | `QueueTimedOut`, unless it has a journal | Done(RpcError) | – | – | – | – |
/// | `BlockedTimedOut` | – | – | – | Done(RpcError), if it is time | – |
/// | `Promoted`, once | announced | announced, unless stopping | announced | announced | – |
/// | `Promoted`, once, of a call whose caller can come back | announced | announced | announced | announced | announced |
/// | `Abandoned` | Done | – | Done | Done | – |
/// | `RetryAwaited`, of a plain call that is not to stop | later | later | later | later | – |
/// | `TtlExtended` | later | later | later | later | – |
///
/// Returns the outcome to be stored with the task, if this event ended it.
///
/// # Errors
/// [`IllegalEvent`] for every pair the table leaves out; the task is unchanged.
pub fn transition(task: &mut Task, event: &Event, at: UnixMillis) -> Result<Option<Outcome>, IllegalEvent> {
    let (was_done, was_blocked) = (task.is_done(), task.block().is_some());
    let outcome = task.change(event, at).map_err(|reason| IllegalEvent {
        state: task.state,
        event: event.name(),
        reason,
    })?;
    if let Some(outcome) = &outcome {
        task.finish(outcome, at);
    }
    task.version += 1;
    // The status message changes when a block ends, whatever ended it.
    let unblocked = was_blocked && task.block().is_none();
    if (is_visible(event) || unblocked || outcome.is_some()) && !was_done {
        task.updated_at = task.updated_at.max(at);
    }
    Ok(outcome)
}

/// Clients do not see which node runs a task, nor how the attempt of a finished task ends (invariant 2).
fn is_visible(event: &Event) -> bool {
    !matches!(
        event,
        Event::Adopted { .. }
            | Event::Reclaimed { .. }
            | Event::Promoted
            | Event::RetryAwaited { .. }
            | Event::Journaled(_)
            | Event::Advanced
            | Event::TimerFired
            | Event::Unblocked { .. }
            | Event::ChildEnded { .. }
            | Event::AttemptEnded(AttemptEnd::Suspended { .. })
    )
}

impl Task {
    /// Applies the event to the fields; an outcome returned means that the task ends here. Everything is checked before anything is changed.
    fn change(&mut self, event: &Event, at: UnixMillis) -> Result<Option<Outcome>, Reason> {
        match event {
            Event::Claimed { node, host } => self.claim(*node, host, at)?,
            Event::Adopted { node } => self.active()?.node = *node,
            Event::Reclaimed { node } => {
                let attempt = self.active()?;
                attempt.node = *node;
                attempt.host = None;
            }
            Event::Started => self.attempt_started()?,
            Event::Reported { status, progress } => self.report(status.as_ref(), *progress)?,
            Event::AttemptEnded(end) => {
                self.active()?.state = AttemptState::Ended;
                return Ok(self.after_attempt(end, at));
            }
            Event::InputRequested { key, .. } => self.open_input(key)?,
            Event::InputAnswered { key, answer, by } => return self.answer_input(key, answer, *by, at),
            Event::InputWithdrawn { key } => self.withdraw_input(key, at)?,
            Event::Journaled(entry) => self.journal(entry)?,
            Event::Advanced => {
                self.require(State::Running)?;
                self.advance();
            }
            Event::ChildEnded { entry, .. } => self.child_ended(*entry, at)?,
            Event::TimerFired => return self.fire_timer(at),
            Event::Unblocked { ready_at } => self.unblock(*ready_at, at)?,
            Event::Raised { ready_at } => {
                self.require(State::Queued)?;
                self.ready_at = self.ready_at.min(*ready_at);
                self.priority = Priority::HIGHEST;
            }
            Event::QueueTimedOut => return self.queue_timeout(at).map(Some),
            Event::BlockedTimedOut => return self.block_timeout(at).map(Some),
            Event::CancelRequested(mode) => return self.cancel(*mode, at),
            Event::DeadlinePassed => return self.pass_deadline(at),
            Event::Abandoned(outcome) => {
                self.require_live()?;
                if self.state == State::Running {
                    return Err(Reason::WrongState);
                }
                return Ok(Some(outcome.clone()));
            }
            Event::Promoted => self.promote()?,
            Event::RetryAwaited { until } => self.await_retry(*until)?,
            Event::TtlExtended { until } => {
                self.require_live()?;
                if *until <= self.announced_until {
                    return Err(Reason::TooEarly);
                }
                self.announced_until = *until;
            }
        }
        Ok(None)
    }

    fn claim(&mut self, node: NodeId, host: &Option<HostId>, at: UnixMillis) -> Result<(), Reason> {
        self.require(State::Queued)?;
        if self.waits_for_group {
            return Err(Reason::WrongState);
        }
        if self.ready_at > at {
            return Err(Reason::TooEarly);
        }
        self.attempt = Some(self.next_attempt(node, host.clone()));
        self.attempts_used += 1;
        self.state = State::Running;
        Ok(())
    }

    fn attempt_started(&mut self) -> Result<(), Reason> {
        let attempt = self.active()?;
        match attempt.state {
            AttemptState::Starting => attempt.state = AttemptState::Live,
            // Asked to stop before it began: it has begun all the same, and still stops.
            AttemptState::Stopping => {}
            AttemptState::Live | AttemptState::Ended => return Err(Reason::WrongAttempt),
        }
        Ok(())
    }

    fn report(&mut self, status: Option<&Arc<str>>, progress: Option<Progress>) -> Result<(), Reason> {
        self.require(State::Running)?;
        if status.is_some() {
            self.status = status.cloned();
        }
        if progress.is_some() {
            self.progress = progress;
        }
        Ok(())
    }

    fn open_input(&mut self, key: &InputKey) -> Result<(), Reason> {
        self.require(State::Running)?;
        if *key != InputKey::nth(self.inputs_asked + 1) {
            return Err(Reason::KeyOutOfOrder);
        }
        self.inputs_asked += 1;
        self.open_inputs.push(key.clone());
        Ok(())
    }

    fn answer_input(
        &mut self,
        key: &InputKey,
        answer: &Json,
        by: AnsweredBy,
        at: UnixMillis,
    ) -> Result<Option<Outcome>, Reason> {
        let awaited = self.confirm_by.filter(|_| self.awaits_confirmation());
        let is_open = self.open_inputs.contains(key);
        if awaited.is_some_and(|confirm_by| is_open && !confirm_by.takes(by)) {
            return Err(Reason::NotForClients);
        }
        self.close_input(key, at)?;
        let Some(_) = awaited else { return Ok(None) };
        self.status = None;
        Ok(confirmation::refusal(answer, by).map(Outcome::from))
    }

    fn withdraw_input(&mut self, key: &InputKey, at: UnixMillis) -> Result<(), Reason> {
        // Nobody has begun to work who could do without the answer.
        if self.awaits_confirmation() {
            return Err(Reason::WrongState);
        }
        self.close_input(key, at)
    }

    fn close_input(&mut self, key: &InputKey, at: UnixMillis) -> Result<(), Reason> {
        self.require_live()?;
        let position = self.open_inputs.iter().position(|open| open == key);
        self.open_inputs.remove(position.ok_or(Reason::InputNotOpen)?);
        self.wake(at);
        Ok(())
    }

    fn journal(&mut self, entry: &Entry) -> Result<(), Reason> {
        self.require(State::Running)?;
        if entry.seq == 0 || entry.seq > self.journaled + 1 {
            return Err(Reason::KeyOutOfOrder);
        }
        if entry.seq > self.journaled {
            self.journaled = entry.seq;
            if entry.key.kind.is_progress() {
                self.advance();
            }
        }
        Ok(())
    }

    fn child_ended(&mut self, entry: u32, at: UnixMillis) -> Result<(), Reason> {
        self.require_live()?;
        if self.awaits_confirmation() {
            return Err(Reason::WrongState);
        }
        if entry == 0 || entry > self.journaled {
            return Err(Reason::KeyOutOfOrder);
        }
        self.wake(at);
        Ok(())
    }

    fn fire_timer(&mut self, at: UnixMillis) -> Result<Option<Outcome>, Reason> {
        if self.state != State::Blocked {
            self.require(State::Suspended)?;
        }
        if self.resume_at.is_none_or(|resume| resume > at) {
            return Err(Reason::TooEarly);
        }
        if self.awaits_confirmation() {
            let why = "nobody answered in time".to_owned();
            return Ok(Some(Failure::Unconfirmed { why }.into()));
        }
        self.resume(at);
        Ok(None)
    }

    fn unblock(&mut self, ready_at: UnixMillis, at: UnixMillis) -> Result<(), Reason> {
        self.require(State::Blocked)?;
        if ready_at > at {
            self.resume_at = Some(ready_at);
        } else {
            self.resume(at);
        }
        Ok(())
    }

    fn queue_timeout(&self, at: UnixMillis) -> Result<Outcome, Reason> {
        self.require(State::Queued)?;
        if self.queue_until().is_none_or(|until| until > at) {
            return Err(Reason::TooEarly);
        }
        Ok(Failure::QueueTimeout.into())
    }

    fn block_timeout(&self, at: UnixMillis) -> Result<Outcome, Reason> {
        self.require(State::Blocked)?;
        let blocked = self.blocked.as_ref().ok_or(Reason::WrongState)?;
        if blocked.until > at {
            return Err(Reason::TooEarly);
        }
        Ok(blocked.outcome())
    }

    fn promote(&mut self) -> Result<(), Reason> {
        // Its caller can come back for a call that has ended.
        if !self.keyed {
            self.require_live()?;
        }
        if self.announced || (self.stop.is_some() && !self.keyed) {
            return Err(match self.is_done() {
                true => Reason::Done,
                false => Reason::WrongState,
            });
        }
        self.announced = true;
        Ok(())
    }

    fn await_retry(&mut self, until: UnixMillis) -> Result<(), Reason> {
        self.require_live()?;
        if self.announced {
            return Err(Reason::WrongState);
        }
        if self.stop.is_some() {
            return Err(Reason::Stopping);
        }
        if self.retry_until.is_some_and(|before| until <= before) {
            return Err(Reason::TooEarly);
        }
        self.retry_until = Some(until);
        Ok(())
    }

    fn require(&self, state: State) -> Result<(), Reason> {
        self.require_live()?;
        if self.state == state {
            Ok(())
        } else {
            Err(Reason::WrongState)
        }
    }

    fn require_live(&self) -> Result<(), Reason> {
        if self.is_done() { Err(Reason::Done) } else { Ok(()) }
    }

    fn active(&mut self) -> Result<&mut Attempt, Reason> {
        self.attempt
            .as_mut()
            .filter(|attempt| attempt.is_active())
            .ok_or(Reason::WrongAttempt)
    }

    /// Ends, requeues, suspends or blocks the task after its attempt. A task that is over already keeps its outcome.
    fn after_attempt(&mut self, end: &AttemptEnd, at: UnixMillis) -> Option<Outcome> {
        if self.is_done() {
            return None;
        }
        match end {
            AttemptEnd::Finished(outcome) => Some(outcome.clone()),
            AttemptEnd::Stopped(reason) => Some(self.stopped(*reason)),
            AttemptEnd::Failed {
                outcome,
                retry_at,
                asks_again,
            } => match (self.stop, retry_at) {
                // Much work fails when it is asked to stop.
                (Some(stop), _) => Some(self.stopped(stop.reason)),
                (None, Some(retry_at)) => {
                    // Questions in the journal are asked again, under the same keys.
                    if self.journaled == 0 && !asks_again {
                        self.open_inputs.clear();
                    }
                    self.requeue(*retry_at, at)
                }
                (None, None) => Some(outcome.clone()),
            },
            AttemptEnd::Suspended { until, woken } => {
                self.attempts_used = self.attempts_used.saturating_sub(1);
                if let Some(stop) = self.stop {
                    return Some(self.stopped(stop.reason));
                }
                self.state = State::Suspended;
                self.resume_at = *until;
                if self.woken != *woken || until.is_some_and(|until| until <= at) {
                    self.resume(at);
                }
                None
            }
            AttemptEnd::Blocked(block) => {
                self.attempts_used = self.attempts_used.saturating_sub(1);
                if let Some(stop) = self.stop {
                    return Some(self.stopped(stop.reason));
                }
                // Its caller waits for the outcome, and cannot come back later.
                if !self.announced && !self.keyed {
                    return Some(Outcome::RpcError(block.failure.clone()));
                }
                self.state = State::Blocked;
                self.blocked = Some(Arc::new(Blocked::new(self.blocked.as_deref(), block, at)));
                self.resume_at = Some(block.retry_at);
                None
            }
            AttemptEnd::NeverStarted { retry_at } => {
                self.attempts_used = self.attempts_used.saturating_sub(1);
                match self.stop {
                    Some(stop) => Some(self.stopped(stop.reason)),
                    None => self.requeue(retry_at.unwrap_or(at), at),
                }
            }
        }
    }

    fn requeue(&mut self, ready_at: UnixMillis, at: UnixMillis) -> Option<Outcome> {
        self.state = State::Queued;
        self.ready_at = ready_at.max(at);
        self.progress = None;
        None
    }

    /// Forward progress: earlier attempts and blocks do not count any more. The present attempt still does.
    fn advance(&mut self) {
        self.attempts_used = self.attempts_used.min(1);
        self.blocked = None;
    }

    /// Something came that the work may wait for.
    fn wake(&mut self, at: UnixMillis) {
        self.woken += 1;
        if self.is_suspended() {
            self.resume(at);
        }
    }

    /// Queues suspended or blocked work.
    fn resume(&mut self, at: UnixMillis) {
        self.state = State::Queued;
        self.ready_at = at;
        self.resume_at = None;
    }

    fn stopped(&self, reason: StopReason) -> Outcome {
        match (reason, self.deadline) {
            (StopReason::Deadline, Some(deadline)) => Outcome::deadline_passed(deadline),
            _ => Outcome::Cancelled,
        }
    }

    fn cancel(&mut self, mode: CancelMode, at: UnixMillis) -> Result<Option<Outcome>, Reason> {
        self.require_live()?;
        let working = self.ask_to_stop(StopReason::Cancel, at);
        let over = !working || mode == CancelMode::AtOnce;
        Ok(over.then_some(Outcome::Cancelled))
    }

    fn pass_deadline(&mut self, at: UnixMillis) -> Result<Option<Outcome>, Reason> {
        self.require_live()?;
        let (Some(deadline), Some(deadline_at)) = (self.deadline, self.deadline_at()) else {
            return Err(Reason::WrongState);
        };
        if deadline_at > at {
            return Err(Reason::TooEarly);
        }
        let working = self.ask_to_stop(StopReason::Deadline, at);
        Ok((!working).then(|| Outcome::deadline_passed(deadline)))
    }

    /// Records a request to stop, and returns whether there is an attempt that has to follow it. The first reason counts.
    fn ask_to_stop(&mut self, reason: StopReason, at: UnixMillis) -> bool {
        self.stop.get_or_insert(Stop { reason, at });
        match self.active() {
            Ok(attempt) => {
                attempt.state = AttemptState::Stopping;
                true
            }
            Err(_) => false,
        }
    }

    fn finish(&mut self, outcome: &Outcome, at: UnixMillis) {
        if self.awaits_confirmation() {
            self.status = None;
        }
        self.state = State::Done(outcome.verdict());
        self.ended_at = Some(at);
        self.status = outcome.failure_line().or(self.status.take());
        self.open_inputs.clear();
        self.resume_at = None;
        self.waits_for_group = false;
        self.blocked = None;
        self.announced_until = self.announced_until.max(at.plus(self.retention));
    }
}
