//! Looking at something outside until it is ready.

use super::{
    TaskContext,
    step::{StepError, StepFailure, bounded, inside, is_zero, present},
};
use crate::{
    backoff::Backoff,
    journal::{EntryDetails, EntryStatus, JournalError, Trail},
};
use longhaul_core::{EntryKind, Json, Millis, UnixMillis};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::{sync::Arc, time::Duration};

/// How often to look, and how many looks in a row may fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Between the first two looks, in milliseconds.
    pub first: Millis,
    /// The longest pause between two looks, in milliseconds. The pause grows with the time that has passed, to a tenth of it.
    pub longest: Millis,
    /// Looks that may fail one after the other before the failure counts.
    pub failures: u32,
}

impl Default for Pace {
    /// From a second to a minute, ten failures.
    fn default() -> Self {
        Self {
            first: 1_000,
            longest: 60_000,
            failures: 10,
        }
    }
}

/// What a look found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Polled {
    /// It is ready, with this.
    Ready(Json),
    /// Not yet. If the outside says when to look again, after so long.
    Pending(Option<Duration>),
}

/// What an entry says: one, overwritten at each look.
#[derive(Serialize, Deserialize, Default)]
struct Layout {
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    ready: Option<Box<RawValue>>,
    looks: u64,
    /// When it was looked at first, and is looked at next.
    since: i64,
    next: i64,
    /// Failures since the last look that did not fail.
    #[serde(default, skip_serializing_if = "Trail::is_empty")]
    failed: Trail,
    /// From the first look to the one that found it ready, in milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    took: Millis,
    /// Whether the failures have come to an end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    over: bool,
}

/// How a poll stands whose entry says this.
pub(crate) fn read_poll(value: &Json) -> EntryDetails {
    let Ok(known) = serde_json::from_str::<Layout>(value.as_str()) else {
        return EntryDetails::default();
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
    /// Runs `look` at a pace until it finds what it looks for. Looks again after a restart, and never once it was found.
    ///
    /// # Errors
    /// [`StepError`].
    pub async fn poll_until<F>(&self, name: &str, pace: Pace, mut look: impl FnMut() -> F) -> Result<Json, StepError>
    where
        F: Future<Output = Result<Polled, StepFailure>>,
    {
        let mut place = self.begin(EntryKind::Poll, &Arc::from(name))?;
        let mut known = match &place.found {
            Some((_, value)) => place.read::<Layout>(value)?,
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
            place.has_room()?;
            let working = self.works();
            let looked = inside(&place.key.name, async { look().await }).await;
            self.note(&mut known, pace, looked);
            let value = Json::trusted(serde_json::to_string(&known).unwrap_or_default());
            self.settle(&mut place, value).await?;
            drop(working);
        }
    }

    fn note(&self, known: &mut Layout, pace: Pace, looked: Result<Polled, StepFailure>) {
        let now = self.now();
        known.looks += 1;
        match looked {
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
                known.failed = Trail::default();
                let hint = hint.map(|hint| u64::try_from(hint.as_millis()).unwrap_or(u64::MAX));
                let passed = now.since(UnixMillis(known.since));
                let pause = hint.unwrap_or_else(|| (passed / 10).clamp(pace.first, pace.longest.max(pace.first)));
                known.next = now.plus(pause).0;
            }
            Err(failure) => {
                known.failed.push(now, &failure.message);
                let failures = known.failed.tries;
                known.over = !failure.retriable || failures >= pace.failures;
                let backoff = Backoff {
                    first: pace.first,
                    longest: pace.longest,
                };
                known.next = now.plus(backoff.after(failures, self.spread())).0;
            }
        }
    }
}
