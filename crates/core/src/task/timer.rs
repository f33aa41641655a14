//! When something becomes due for a task, and which events are due then.

use crate::{CancelMode, Event, Millis, Task, UnixMillis};

/// How long the outcome of a plain call without an idempotency key is kept for the server that waits for it.
const UNANNOUNCED_KEPT: Millis = 60_000;
/// The shortest step by which an announced time to live is extended, so that a short retention needs no frequent extensions.
const LEAST_EXTENSION: Millis = 5 * 60_000;

impl Task {
    /// When something is [due](Self::due) next for this task; `None` once it is over.
    ///
    /// A store keeps it in an index, so that finding what is due costs nothing per task that is not.
    pub fn wake_at(&self) -> Option<UnixMillis> {
        if self.is_done() {
            return None;
        }
        let timers = [
            self.open_deadline(),
            self.queue_until(),
            self.blocked_until(),
            self.resume_at,
            self.abandoned_at(),
            self.extend_ttl_at(),
        ];
        timers.into_iter().flatten().min()
    }

    /// When it may be deleted: the later of end + retention and what was announced; `None` while it or its
    /// last attempt lives (invariant 6).
    pub fn delete_at(&self) -> Option<UnixMillis> {
        let ended = self.ended_at?;
        if self.active_attempt().is_some() {
            return None;
        }
        if self.announced || self.keyed {
            Some(self.announced_until.max(ended.plus(self.retention)))
        } else {
            let kept = ended.plus(UNANNOUNCED_KEPT);
            Some(self.retry_until.map_or(kept, |until| until.max(kept)))
        }
    }

    /// What is due at `now`, in the order it must be applied.
    pub fn due(&self, now: UnixMillis) -> Vec<Event> {
        let mut events = Vec::new();
        if self.is_done() {
            return events;
        }
        if self.abandoned_at().is_some_and(|at| at <= now) {
            events.push(Event::CancelRequested(CancelMode::AtOnce));
            return events;
        }
        if self.open_deadline().is_some_and(|at| at <= now) {
            events.push(Event::DeadlinePassed);
            if self.active_attempt().is_none() {
                return events;
            }
        } else if self.queue_until().is_some_and(|at| at <= now) {
            events.push(Event::QueueTimedOut);
            return events;
        } else if self.blocked_until().is_some_and(|at| at <= now) {
            events.push(Event::BlockedTimedOut);
            return events;
        }
        if self.resume_at.is_some_and(|at| at <= now) {
            events.push(Event::TimerFired);
            // Nobody has confirmed it in time, which ends it.
            if self.awaits_confirmation() {
                return events;
            }
        }
        if self.extend_ttl_at().is_some_and(|at| at <= now) {
            events.push(Event::TtlExtended {
                until: now.plus(self.retention.max(LEAST_EXTENSION)),
            });
        }
        events
    }

    /// When a plain call is cancelled because its client has not come back with its answers. With an idempotency key it can come back at any time.
    fn abandoned_at(&self) -> Option<UnixMillis> {
        let is_awaited = !self.announced && !self.keyed && self.stop.is_none();
        self.retry_until.filter(|_| is_awaited)
    }

    /// When it has been blocked for too long.
    fn blocked_until(&self) -> Option<UnixMillis> {
        Some(self.block()?.until)
    }

    /// The deadline, as long as nothing asked the task to stop: the first reason counts, so after it there is nothing to wake for.
    fn open_deadline(&self) -> Option<UnixMillis> {
        if self.stop.is_some() { None } else { self.deadline_at() }
    }

    /// When less than half a retention is left of what was announced; never, if that was the greatest time there is.
    fn extend_ttl_at(&self) -> Option<UnixMillis> {
        if self.announced_until == UnixMillis(i64::MAX) {
            return None;
        }
        let half = i64::try_from(self.retention / 2).unwrap_or(i64::MAX);
        self.announced
            .then(|| UnixMillis(self.announced_until.0.saturating_sub(half)))
    }
}
