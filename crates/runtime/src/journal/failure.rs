//! Failed attempts: each has an entry, which replay does not look up.

use super::{EntryDetails, EntryStatus, Journal};
use longhaul_core::{EndedBy, Entry, FailedAttempt, Json, Millis, Outcome};
use serde::{Deserialize, Serialize};

/// The longest message of an attempt that is kept, in characters.
const MAX_MESSAGE: usize = 500;

/// The value of such an entry; its time is the entry's.
#[derive(Serialize, Deserialize)]
struct FailureValue {
    /// Earlier versions did not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<EndedBy>,
    why: String,
}

/// Reads the entry of a failed attempt.
pub(crate) fn read_failure(value: &Json) -> EntryDetails {
    match serde_json::from_str(value.as_str()) {
        Ok(FailureValue { by, why }) => EntryDetails {
            ended_by: by,
            ..EntryDetails::of(EntryStatus::Failed(why))
        },
        Err(_) => EntryDetails::of(EntryStatus::Unreadable),
    }
}

/// The entry of a failed attempt, and how long the attempt can have run.
pub(super) struct RecordedFailure {
    pub(super) entry: Entry,
    /// The time since the entry before it, in milliseconds; the attempt cannot have run for longer.
    pub(super) within: Millis,
}

impl RecordedFailure {
    /// `None` for a non-determinism error, which is no crash.
    pub(super) fn of_crash(entry: Entry, within: Millis) -> Option<Self> {
        let by = serde_json::from_str(entry.value.as_str())
            .ok()
            .and_then(|FailureValue { by, .. }| by);
        (by != Some(EndedBy::NonDeterminism)).then_some(Self { entry, within })
    }
}

impl Journal {
    /// How long, in milliseconds, the longest of the latest `most` failed attempts can have run, if the process died during one of them.
    pub(crate) fn longest_crash(&self, most: u32) -> Option<Millis> {
        let failures = self.latest_failures(most as usize);
        let crashed = |failed: &FailedAttempt| matches!(failed.by, None | Some(EndedBy::Crash));
        if !failures.iter().any(crashed) {
            return None;
        }
        let state = self.state.lock();
        let latest = state.failures.iter().rev().take(most as usize);
        latest.map(|failed| failed.within).max()
    }

    /// The latest `most` failed attempts, oldest first.
    pub(crate) fn latest_failures(&self, most: usize) -> Vec<FailedAttempt> {
        let state = self.state.lock();
        let entries = &state.failures;
        let read = |RecordedFailure { entry, .. }: &RecordedFailure| {
            let FailureValue { by, why } = serde_json::from_str(entry.value.as_str()).ok()?;
            let at = entry.at;
            Some(FailedAttempt { at, by, why })
        };
        let older = entries.len().saturating_sub(most);
        entries[older..].iter().filter_map(read).collect()
    }
}

/// The value of the entry of an attempt that failed.
pub(crate) fn failure_value(by: Option<EndedBy>, why: String) -> Json {
    Json::trusted(serde_json::to_string(&FailureValue { by, why }).unwrap_or_default())
}

/// The beginning of a message.
pub(crate) fn beginning_of(message: &str) -> &str {
    let end = message
        .char_indices()
        .nth(MAX_MESSAGE)
        .map_or(message.len(), |(at, _)| at);
    &message[..end]
}

/// The message of a failed outcome.
pub(crate) fn message_of(outcome: &Outcome) -> Option<String> {
    #[derive(Deserialize)]
    struct ToolResult {
        content: Vec<Block>,
    }
    #[derive(Deserialize)]
    struct Block {
        text: Option<String>,
    }
    Some(match outcome {
        Outcome::Result { json, .. } => {
            let result: ToolResult = serde_json::from_str(json.as_str()).ok()?;
            result.content.into_iter().find_map(|block| block.text)?
        }
        Outcome::RpcError(failure) => failure.message.to_string(),
        Outcome::Cancelled => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_core::{EntryKey, EntryKind, UnixMillis};

    /// As written by versions that did not record what had ended an attempt.
    #[test]
    fn an_entry_without_a_kind_is_read() {
        let value = Json::trusted(r#"{"why":"it ended, or ended the process, after step \"a\""}"#);
        let details = read_failure(&value);
        assert!(matches!(details.status, EntryStatus::Failed(why) if why.contains("step")));
        assert_eq!(details.ended_by, None);
        let key = EntryKey {
            path: "".into(),
            kind: EntryKind::Failure,
            name: "".into(),
            nth: 1,
        };
        let entry = Entry {
            seq: 1,
            key,
            beside: false,
            value,
            at: UnixMillis(7),
            epoch: 1,
        };
        let failures = Journal::of(vec![entry], UnixMillis(1)).latest_failures(5);
        assert_eq!((failures[0].at, failures[0].by), (UnixMillis(7), None));
    }
}
