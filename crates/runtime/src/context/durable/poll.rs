//! Polls: checks of something outside until it is ready.

use super::step::{StepError, StepFailure, bounded, inside, is_zero, present};
use crate::{
    context::TaskContext,
    journal::{EntryDetails, EntryStatus, FailedStepAttempts, JournalError},
    ports::backoff::Backoff,
};
use longhaul_core::{EntryKind, Json, Millis, UnixMillis, whole_millis};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::{sync::Arc, time::Duration};

/// How often to poll, and how many polls in a row may fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PollPolicy {
    /// The first pause between two polls, in milliseconds.
    pub first: Millis,
    /// The longest pause, in milliseconds. The pause is a tenth of the time that has passed.
    pub longest: Millis,
    /// How many failed polls in a row end the operation.
    pub failures: u32,
}

impl Default for PollPolicy {
    /// From a second to a minute, ten failures.
    fn default() -> Self {
        Self {
            first: 1_000,
            longest: 60_000,
            failures: 10,
        }
    }
}

/// What a poll found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Polled {
    /// It is ready, with this result.
    Ready(Json),
    /// Not yet. Poll again after this time, if there is one.
    Pending(Option<Duration>),
}

/// The value of a poll's entry, which is overwritten at each poll.
#[derive(Serialize, Deserialize, Default)]
struct Layout {
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    ready: Option<Box<RawValue>>,
    looks: u64,
    /// When the first poll was, and the next is, in unix milliseconds.
    since: i64,
    next: i64,
    /// Failures since the last poll that succeeded.
    #[serde(default, skip_serializing_if = "FailedStepAttempts::is_empty")]
    failed: FailedStepAttempts,
    /// The time from the first poll to the last, in milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    took: Millis,
    /// Whether the operation has failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    over: bool,
}

/// Reads the entry of a poll.
pub(crate) fn read_poll(value: &Json) -> EntryDetails {
    let Ok(known) = serde_json::from_str::<Layout>(value.as_str()) else {
        return EntryDetails::of(EntryStatus::Unreadable);
    };
    let status = match &known.ready {
        Some(_) => EntryStatus::Done,
        None if known.over => EntryStatus::Failed(known.failed.to_string()),
        None => EntryStatus::Waiting(Some(UnixMillis(known.next))),
    };
    EntryDetails {
        failed: known.failed,
        took: Some(known.took).filter(|took| *took > 0),
        ..EntryDetails::of(status)
    }
}

impl TaskContext {
    /// Calls `poll` until it is ready, and records the result. Polling continues after a restart, and not once the result is recorded.
    ///
    /// # Errors
    /// [`StepError`].
    pub async fn poll_until<F>(
        &self,
        name: &str,
        policy: PollPolicy,
        mut poll: impl FnMut() -> F,
    ) -> Result<Json, StepError>
    where
        F: Future<Output = Result<Polled, StepFailure>>,
    {
        let mut operation = self.begin(EntryKind::Poll, &Arc::from(name))?;
        let mut known = match &operation.found {
            Some((_, value)) => operation.read::<Layout>(value)?,
            None => Layout {
                since: self.now().0,
                ..Layout::default()
            },
        };
        loop {
            if let Some(ready) = &known.ready {
                return Ok(Json::from(&**ready));
            }
            if known.over {
                return Err(StepError::Failed(known.failed));
            }
            self.wait_until(UnixMillis(known.next)).await?;
            if let Some(reason) = self.stop_requested() {
                return Err(JournalError::Stopped(reason).into());
            }
            operation.has_room()?;
            let working = self.begin_work();
            let polled = inside(&operation.key.name, async { poll().await }).await;
            self.note(&mut known, policy, polled);
            let value = Json::trusted(serde_json::to_string(&known).unwrap_or_default());
            self.record(&mut operation, value).await?;
            drop(working);
        }
    }

    fn note(&self, known: &mut Layout, policy: PollPolicy, polled: Result<Polled, StepFailure>) {
        let now = self.now();
        known.looks += 1;
        match polled {
            Ok(Polled::Ready(value)) => match bounded(value) {
                Ok(value) => {
                    known.ready = serde_json::from_str(value.as_str()).ok();
                    known.took = now.since(UnixMillis(known.since));
                }
                Err(failure) => {
                    known.failed.push(now, &failure.message);
                    known.over = true;
                }
            },
            Ok(Polled::Pending(hint)) => {
                known.failed = FailedStepAttempts::default();
                let hint = hint.map(whole_millis);
                let passed = now.since(UnixMillis(known.since));
                let pause = hint.unwrap_or_else(|| (passed / 10).clamp(policy.first, policy.longest.max(policy.first)));
                known.next = now.plus(pause).0;
            }
            Err(failure) => {
                known.failed.push(now, &failure.message);
                let failures = known.failed.tries;
                known.over = !failure.retriable || failures >= policy.failures;
                let backoff = Backoff {
                    first: policy.first,
                    longest: policy.longest,
                };
                known.next = now.plus(backoff.after(failures, self.random())).0;
            }
        }
    }
}
