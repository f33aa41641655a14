//! What an author does with a call.

use super::Person;
use futures_util::StreamExt;
use longhaul_client::{CallResponse, CallStatus, Outcome, RunningCall, TaskHandle};
use std::{fs::File, path::Path, pin::pin};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Act {
    /// Wait for its result.
    Wait,
    /// Answer what the task asks by hand, and wait.
    Answer,
    /// Cancel the task, and wait.
    Cancel,
    /// Leave the task to the next process, which waits.
    Detach,
}

impl Act {
    pub(super) const ALL: [Self; 4] = [Self::Wait, Self::Answer, Self::Cancel, Self::Detach];

    pub(super) fn name(self) -> String {
        format!("{self:?}")
    }

    /// With a call that was begun just now. Returns its outcome, if it is waited for.
    pub(super) async fn call(self, call: RunningCall, person: &Person, directory: &Path) -> Option<Outcome> {
        match self {
            Self::Wait => {}
            Self::Answer => {
                let mut changes = pin!(call.status());
                while let Some(now) = changes.next().await {
                    let CallStatus::Task(task) = now else { continue };
                    if let Some(question) = task.input_requests.first() {
                        let key = question.key.as_deref().unwrap();
                        call.answer(key, person.answer(question)).await.unwrap();
                        break;
                    }
                }
            }
            Self::Cancel => {
                call.task().await.unwrap();
                call.cancel().await.unwrap();
            }
            Self::Detach => {
                let left = call.detach().await.unwrap();
                assert!(matches!(left, CallResponse::Task(_)));
                File::create(directory.join(DETACHED)).unwrap();
                return None;
            }
        }
        Some(call.result().await.unwrap())
    }

    /// With a task of an earlier process.
    pub(super) async fn go_on(self, task: &TaskHandle, person: &Person) {
        match self {
            Self::Wait | Self::Detach => {}
            Self::Answer => {
                if let Some(question) = task.get().await.unwrap().input_requests.first() {
                    let key = question.key.as_deref().unwrap();
                    task.answer(key, person.answer(question)).await.unwrap();
                }
            }
            // A legacy server refuses it for a task that is cancelled.
            Self::Cancel => drop(task.cancel().await),
        }
    }

    pub(super) fn check(self, outcome: &Outcome) {
        let is_expected = match self {
            Self::Cancel => matches!(outcome, Outcome::Cancelled),
            _ => matches!(outcome, Outcome::Result { is_error: false, .. }),
        };
        assert!(is_expected, "{self:?}: {outcome:?}");
    }
}

const DETACHED: &str = "detached";

/// Whether an author was told of a task that runs on.
pub(super) fn has_detached(directory: &Path) -> bool {
    directory.join(DETACHED).exists()
}
