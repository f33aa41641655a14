//! Steps: work with an effect that is not run again once its result is recorded.

use crate::{
    context::TaskContext,
    journal::{EntryDetails, EntryStatus, FailedStepAttempts, JournalError, MAX_ENTRY_BYTES, Operation},
    ports::backoff::Backoff,
};
use longhaul_core::{EntryKind, Json, Millis, UnixMillis, whole_millis};
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
    /// How long one try may take; `None` for no limit.
    pub timeout: Option<Duration>,
    /// The name of the effect outside, such as an idempotency key: recorded with the entry, for an operator who has to find out what became
    /// of it.
    pub key: Option<Arc<str>>,
}

impl Default for StepPolicy {
    /// One try without a timeout.
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

/// A step that failed for good. Replay returns the same error.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum StepError {
    /// All tries failed, or one failed in a way that a retry cannot fix.
    #[error(transparent)]
    Failed(FailedStepAttempts),
    /// The journal could not be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// The value of a step's entry.
#[derive(Serialize, Deserialize, Default)]
struct Layout {
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    ok: Option<Box<RawValue>>,
    /// Failed tries; final if there is neither a result nor a next try.
    #[serde(default, skip_serializing_if = "FailedStepAttempts::is_empty")]
    failed: FailedStepAttempts,
    /// When the next try is due, in unix milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// How long the latest try took, in milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    took: Millis,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over like this")]
pub(crate) fn is_zero(millis: &Millis) -> bool {
    *millis == 0
}

/// Whether the value of a step's entry is final, so that its work never runs again (invariant 10). For tests.
pub fn step_is_settled(entry: &Json) -> bool {
    let known = serde_json::from_str::<Layout>(entry.as_str()).unwrap_or_default();
    known.ok.is_some() || (known.next.is_none() && !known.failed.is_empty())
}

tokio::task_local! {
    /// The step or poll whose work is being polled.
    static CURRENT_STEP: Arc<str>;
}

/// The step or poll whose work is calling.
pub(crate) fn current_step() -> Option<Arc<str>> {
    CURRENT_STEP.try_with(Arc::clone).ok()
}

/// Runs `work` as the work of a step or poll of this name.
pub(crate) fn inside<W: Future>(name: &Arc<str>, work: W) -> impl Future<Output = W::Output> {
    CURRENT_STEP.scope(Arc::clone(name), work)
}

/// Refuses a result that is too long for an entry: the step could never be recorded, and would run at every attempt.
pub(crate) fn bounded(value: Json) -> Result<Json, StepFailure> {
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

/// The longest result, in bytes. The rest of an entry is for its failed tries.
const LONGEST_RESULT: usize = MAX_ENTRY_BYTES - 128 * 1024;

/// Reads the entry of a step.
pub(crate) fn read_step(value: &Json) -> EntryDetails {
    let Ok(known) = serde_json::from_str::<Layout>(value.as_str()) else {
        return EntryDetails::of(EntryStatus::Unreadable);
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
    /// Runs `work` and records its result; replay returns the recorded result. The process can die between the effect and the record, so the
    /// work runs at least once.
    ///
    /// # Errors
    /// [`StepError`].
    pub async fn step<F>(&self, name: &str, policy: &StepPolicy, mut work: impl FnMut() -> F) -> Result<Json, StepError>
    where
        F: Future<Output = Result<Json, StepFailure>>,
    {
        let mut operation = self.begin(EntryKind::Step, &Arc::from(name))?;
        let mut known = match &operation.found {
            Some((_, value)) => operation.read::<Layout>(value)?,
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
            known = self.attempt_step(&mut operation, known, policy, &mut work).await?;
        }
    }

    /// One try. Returns the new value of the entry.
    async fn attempt_step<F>(
        &self,
        operation: &mut Operation,
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
        operation.has_room()?;
        let working = self.begin_work();
        self.notify_step_observer(&operation.key);
        let began = self.now();
        let work = inside(&operation.key.name, async { work().await });
        let tried = match policy.timeout {
            None => work.await,
            Some(limit) => (self.ports().within(limit, work).await).unwrap_or_else(|| Err(timed_out(limit))),
        };
        known.next = None;
        known.took = self.now().since(began);
        match tried.and_then(bounded) {
            Ok(value) => {
                // A `Json` is always readable.
                known.ok = serde_json::from_str(value.as_str()).ok();
            }
            Err(failure) => {
                // A failure after a request to stop most likely comes from the stop.
                if let Some(reason) = self.stop_requested() {
                    return Err(JournalError::Stopped(reason));
                }
                known.failed.push(self.now(), &failure.message);
                let tries = known.failed.tries;
                if failure.retriable && tries < policy.attempts {
                    let wait = policy.backoff.after(tries, self.random());
                    known.next = Some(self.now().plus(wait).0);
                }
            }
        }
        let value = Json::trusted(serde_json::to_string(&known).unwrap_or_default());
        self.record(operation, value).await?;
        drop(working);
        Ok(known)
    }

    /// Any number, for a [`Backoff`].
    pub(crate) fn random(&self) -> u64 {
        self.shared.node.random()
    }
}

/// Reads a member that is present, also if it is null: a step may return null.
pub(crate) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::deserialize(deserializer).map(Some)
}

fn timed_out(limit: Duration) -> StepFailure {
    let limit = whole_millis(limit);
    StepFailure {
        message: format!("it took longer than {}", longhaul_core::format_duration(limit)),
        retriable: true,
    }
}
