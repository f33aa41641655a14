//! Work with an effect: done, and then never again.

use super::TaskContext;
use crate::{
    backoff::Backoff,
    journal::{EntryDetails, EntryStatus, JournalError, MAX_ENTRY_BYTES, Operation, Trail},
};
use longhaul_core::{EntryKind, Json, Millis, UnixMillis};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use std::{sync::Arc, time::Duration};

/// How often a step that failed is tried, and how long each try may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepPolicy {
    /// Tries in all, the first included.
    pub attempts: u32,
    /// Between two tries.
    pub backoff: Backoff,
    /// How long one try may take; `None` for as long as it likes.
    pub timeout: Option<Duration>,
    /// What the outside knows the effect by: kept with the entry, for whoever has to find out what became of it.
    pub key: Option<Arc<str>>,
}

impl Default for StepPolicy {
    /// One try, as long as it takes.
    fn default() -> Self {
        Self {
            attempts: 1,
            backoff: Backoff::default(),
            timeout: None,
            key: None,
        }
    }
}

/// Why one try of a step failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepFailure {
    /// In words that the client may read.
    pub message: String,
    /// Whether another try may do better.
    pub retriable: bool,
}

/// A step that failed for good: the same each time the code comes to it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum StepError {
    /// It was tried as often as it may be, or failed in a way that no other try mends.
    #[error(transparent)]
    Failed(Trail),
    /// The journal cannot be gone along.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// What an entry says of a step.
#[derive(Serialize, Deserialize, Default)]
struct Layout {
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    ok: Option<Box<RawValue>>,
    /// Tries that failed; final if there is neither a result nor a next try.
    #[serde(default, skip_serializing_if = "Trail::is_empty")]
    failed: Trail,
    /// When it is tried next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// How long the try took that the entry was written after, in milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    took: Millis,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over like this")]
pub(super) fn is_zero(millis: &Millis) -> bool {
    *millis == 0
}

/// Whether the value of a step's entry says how the step ended: then its work is never begun again (invariant 10). For tests.
pub fn step_is_settled(entry: &Json) -> bool {
    let known = serde_json::from_str::<Layout>(entry.as_str()).unwrap_or_default();
    known.ok.is_some() || (known.next.is_none() && !known.failed.is_empty())
}

tokio::task_local! {
    /// The step that this is polled inside of.
    static UNDER_WAY: Arc<str>;
}

/// The step that asks, if it is not the tool's code itself.
pub(super) fn under_way() -> Option<Arc<str>> {
    UNDER_WAY.try_with(Arc::clone).ok()
}

/// Has `work` known to be inside of a step, or a poll, of this name.
pub(super) fn inside<W: Future>(name: &Arc<str>, work: W) -> impl Future<Output = W::Output> {
    UNDER_WAY.scope(Arc::clone(name), work)
}

/// What may be kept of a result: a longer one would never have an entry, and the step would be repeated for ever.
pub(super) fn bounded(value: Json) -> Result<Json, StepFailure> {
    let bytes = value.as_str().len();
    if bytes <= LONGEST_RESULT {
        return Ok(value);
    }
    Err(StepFailure {
        message: format!(
            "its result is {bytes} bytes long, and may have {LONGEST_RESULT}: keep it elsewhere, and return where"
        ),
        retriable: false,
    })
}

/// The rest of an entry is for the trail.
const LONGEST_RESULT: usize = MAX_ENTRY_BYTES - 128 * 1024;

/// How a step stands whose entry says this.
pub(crate) fn read_step(value: &Json) -> EntryDetails {
    let Ok(known) = serde_json::from_str::<Layout>(value.as_str()) else {
        return EntryDetails::default();
    };
    let status = match (known.ok, known.next) {
        (Some(_), _) => EntryStatus::Done,
        (None, Some(next)) => EntryStatus::Waiting(Some(UnixMillis(next))),
        (None, None) => EntryStatus::Failed(known.failed.to_string()),
    };
    EntryDetails {
        failed: known.failed,
        took: Some(known.took).filter(|took| *took > 0),
        ..EntryDetails::of(status)
    }
}

impl TaskContext {
    /// Runs `work` until it is in the journal that it was done; from then on its result comes from there. What it did before may be
    /// repeated: the process can die between the effect and the entry.
    ///
    /// # Errors
    /// [`StepError`].
    pub async fn step<F>(&self, name: &str, policy: &StepPolicy, mut work: impl FnMut() -> F) -> Result<Json, StepError>
    where
        F: Future<Output = Result<Json, StepFailure>>,
    {
        let mut place = self.begin(EntryKind::Step, &Arc::from(name))?;
        let mut known = match &place.found {
            Some((_, value)) => place.read::<Layout>(value)?,
            None => Layout {
                key: policy.key.as_deref().map(str::to_owned),
                ..Layout::default()
            },
        };
        loop {
            if let Some(ok) = &known.ok {
                return Ok(Json::from(&**ok));
            }
            match known.next {
                Some(next) => self.wait_until(UnixMillis(next)).await?,
                None if known.failed.is_empty() => {}
                None => return Err(StepError::Failed(known.failed)),
            }
            known = self.attempt_step(&mut place, known, policy, &mut work).await?;
        }
    }

    /// One try, and what it makes of the entry.
    async fn attempt_step<F>(
        &self,
        place: &mut Operation,
        mut known: Layout,
        policy: &StepPolicy,
        work: &mut impl FnMut() -> F,
    ) -> Result<Layout, JournalError>
    where
        F: Future<Output = Result<Json, StepFailure>>,
    {
        if let Some(reason) = self.stop_requested() {
            return Err(JournalError::Stopped(reason));
        }
        place.has_room()?;
        let working = self.works();
        self.step_observer(&place.key);
        let began = self.now();
        let work = inside(&place.key.name, async { work().await });
        let tried = match policy.timeout {
            None => work.await,
            Some(limit) => (self.ports().within(limit, work).await).unwrap_or_else(|| Err(timed_out(limit))),
        };
        known.next = None;
        known.took = self.now().since(began);
        match tried.and_then(bounded) {
            Ok(value) => {
                // What is JSON already can be read as such.
                known.ok = serde_json::from_str(value.as_str()).ok();
            }
            Err(failure) => {
                // What fails once the work is to stop most likely fails for that.
                if let Some(reason) = self.stop_requested() {
                    return Err(JournalError::Stopped(reason));
                }
                known.failed.push(self.now(), &failure.message);
                let tries = known.failed.tries;
                if failure.retriable && tries < policy.attempts {
                    let wait = policy.backoff.after(tries, self.spread());
                    known.next = Some(self.now().plus(wait).0);
                }
            }
        }
        let value = Json::trusted(serde_json::to_string(&known).unwrap_or_default());
        self.settle(place, value).await?;
        drop(working);
        Ok(known)
    }

    pub(crate) fn spread(&self) -> u64 {
        self.shared.node.random()
    }
}

/// A value that is there, also if it is null: steps may well return nothing.
pub(super) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::deserialize(deserializer).map(Some)
}

fn timed_out(limit: Duration) -> StepFailure {
    let limit = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    StepFailure {
        message: format!("it took longer than {}", longhaul_core::format_duration(limit)),
        retriable: true,
    }
}
