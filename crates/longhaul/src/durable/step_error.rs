//! Why there is nothing to go on with from a step.

use longhaul_core::Json;
use longhaul_runtime::{JournalError, StepError as Unstepped, StepTry, Trail};
use serde::de::DeserializeOwned;
use std::{fmt, sync::Arc};

/// A step failed for good, or looking for something did: the same each time the function comes to it. `?` hands it on from a tool: the
/// client reads which step it was and how its last try failed.
#[derive(Debug, Clone, PartialEq)]
pub struct StepError {
    kind: Kind,
    name: Arc<str>,
    cause: Cause,
}

/// What failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Step,
    Poll,
}

#[derive(Debug, Clone, PartialEq)]
enum Cause {
    Failed(Trail),
    /// What was kept does not fit the type any more.
    Unreadable(String),
    Journal(JournalError),
}

impl StepError {
    /// What a step came to, in the type the author wants.
    pub(super) fn read<T: DeserializeOwned>(
        kind: Kind,
        name: &Arc<str>,
        done: Result<Json, Unstepped>,
    ) -> Result<T, Self> {
        let failed = |cause| Self {
            kind,
            name: Arc::clone(name),
            cause,
        };
        match done {
            Ok(value) => {
                serde_json::from_str(value.as_str()).map_err(|error| failed(Cause::Unreadable(error.to_string())))
            }
            Err(Unstepped::Failed(trail)) => Err(failed(Cause::Failed(trail))),
            Err(Unstepped::Journal(error)) => Err(failed(Cause::Journal(error))),
        }
    }

    /// The step's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The last 20 tries, oldest first: when, and why. Of [`poll_until`](crate::TaskContext::poll_until) those since the last look
    /// that did not fail. Empty if it was not the step that failed.
    pub fn trail(&self) -> &[StepTry] {
        match &self.cause {
            Cause::Failed(trail) => &trail.last,
            _ => &[],
        }
    }

    /// How often it was tried; 0 if it was not the step that failed.
    pub fn attempts(&self) -> u32 {
        match &self.cause {
            Cause::Failed(trail) => trail.tries,
            _ => 0,
        }
    }

    /// Why the last try failed; or what else was in the way.
    pub fn message(&self) -> String {
        match &self.cause {
            Cause::Failed(trail) => trail.to_string(),
            Cause::Unreadable(why) => why.clone(),
            Cause::Journal(error) => error.to_string(),
        }
    }

    /// Why the journal could not be gone along, if that is what was in the way.
    pub fn journal(&self) -> Option<&JournalError> {
        match &self.cause {
            Cause::Journal(error) => Some(error),
            _ => None,
        }
    }
}

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        let what = match self.kind {
            Kind::Step => "step",
            Kind::Poll => "polling",
        };
        match &self.cause {
            Cause::Failed(trail) => {
                write!(f, "{what} {name:?} failed")?;
                if trail.tries > 1 {
                    write!(f, " {} times, the last time", trail.tries)?;
                }
                write!(f, ": {trail}")
            }
            Cause::Unreadable(why) => {
                write!(
                    f,
                    "what {what} {name:?} came to cannot be read as the type it has now: {why}"
                )
            }
            Cause::Journal(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StepError {}
