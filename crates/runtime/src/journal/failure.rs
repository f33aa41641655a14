//! Attempts that came to nothing: each leaves an entry, which is nothing that the code comes to.

use super::{EntryDetails, EntryStatus, Journal};
use longhaul_core::{EndedBy, Entry, FailedAttempt, Json, Millis, Outcome};
use serde::{Deserialize, Serialize};

/// How much is kept of what an attempt said itself, in characters.
const MOST_WORDS: usize = 500;

/// What such an entry says; the moment is the entry's own.
#[derive(Serialize, Deserialize)]
struct Kept {
    /// Earlier versions did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<EndedBy>,
    why: String,
}

/// What an entry says of an attempt that failed.
pub(crate) fn read_failure(value: &Json) -> EntryDetails {
    match serde_json::from_str(value.as_str()) {
        Ok(Kept { by, why }) => EntryDetails {
            ended_by: by,
            ..EntryDetails::of(EntryStatus::Failed(why))
        },
        Err(_) => EntryDetails::default(),
    }
}

/// Such an entry, and what is known of how long its attempt ran.
pub(super) struct Failed {
    pub(super) entry: Entry,
    /// Since the entry before it: it cannot have run for longer.
    pub(super) within: Millis,
}

impl Failed {
    /// Of an attempt that crashed. What did not follow its journal says nothing of how long the code runs before it crashes, and does not
    /// count as a crash.
    pub(super) fn crash(entry: Entry, within: Millis) -> Option<Self> {
        let by = serde_json::from_str(entry.value.as_str())
            .ok()
            .and_then(|Kept { by, .. }| by);
        (by != Some(EndedBy::NonDeterminism)).then_some(Self { entry, within })
    }
}

impl Journal {
    /// Of the latest attempts that came to nothing, if the process died under one: how long the longest of them can have run.
    pub(crate) fn longest_crash(&self, most: u32) -> Option<Millis> {
        let failures = self.latest_failures(most as usize);
        let crashed = |failed: &FailedAttempt| matches!(failed.by, None | Some(EndedBy::Crash));
        if !failures.iter().any(crashed) {
            return None;
        }
        let state = self.lock();
        let latest = state.failures.iter().rev().take(most as usize);
        latest.map(|failed| failed.within).max()
    }

    /// The latest attempts that came to nothing, oldest first.
    pub(crate) fn latest_failures(&self, most: usize) -> Vec<FailedAttempt> {
        let state = self.lock();
        let entries = &state.failures;
        let read = |Failed { entry, .. }: &Failed| {
            let Kept { by, why } = serde_json::from_str(entry.value.as_str()).ok()?;
            let at = entry.at;
            Some(FailedAttempt { at, by, why })
        };
        let older = entries.len().saturating_sub(most);
        entries[older..].iter().filter_map(read).collect()
    }
}

/// The value of the entry of an attempt that failed.
pub(crate) fn failure_value(by: Option<EndedBy>, why: String) -> Json {
    Json::trusted(serde_json::to_string(&Kept { by, why }).unwrap_or_default())
}

/// The beginning of what an attempt said.
pub(crate) fn bounded(said: &str) -> &str {
    let end = said.char_indices().nth(MOST_WORDS).map_or(said.len(), |(at, _)| at);
    &said[..end]
}

/// What an outcome says for people.
pub(crate) fn words(outcome: &Outcome) -> Option<String> {
    #[derive(Deserialize)]
    struct ToolMessage {
        content: Vec<Block>,
    }
    #[derive(Deserialize)]
    struct Block {
        text: Option<String>,
    }
    Some(match outcome {
        Outcome::Result { json, .. } => {
            let said: ToolMessage = serde_json::from_str(json.as_str()).ok()?;
            said.content.into_iter().find_map(|block| block.text)?
        }
        Outcome::RpcError(failure) => failure.message.to_string(),
        Outcome::Cancelled => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_core::{EntryKey, EntryKind, UnixMillis};

    /// As versions wrote it that did not say what had ended an attempt.
    #[test]
    fn an_entry_without_a_kind_is_read() {
        let value = Json::trusted(r#"{"why":"it ended, or ended the process, after step \"a\""}"#);
        let details = read_failure(&value);
        assert!(matches!(details.status, Some(EntryStatus::Failed(why)) if why.contains("step")));
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
