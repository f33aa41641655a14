//! What counts towards a quota, in every store alike.

use crate::decision::{Decision, EntryWrite, InputWrite};
use longhaul_core::{
    Entry, Input, InputState, Json, Outcome, Usage,
    store::{Change, History, NewTask},
};

/// The usage that a new task adds.
pub fn of_new(new: &NewTask, created: &Decision<'_>) -> Usage {
    let history = new.history.as_deref().map_or(0, of_history);
    Usage {
        live: u64::from(!created.task.is_done()),
        bytes: bytes(&new.arguments) + bytes(&new.requestor) + of_decision(created) + history,
    }
}

/// What a quota must have room for, so that a task which adds `usage` is created: one that [replaces](NewTask::replaces) another one takes over its share of
/// the live tasks.
pub fn to_admit(usage: Usage, end_of_replaced: Option<&Change>) -> Usage {
    match end_of_replaced {
        Some(_) => Usage { live: 0, ..usage },
        None => usage,
    }
}

/// The bytes of what a task begins with.
pub fn of_history(history: &History) -> u64 {
    let entries = history.entries().iter().map(of_entry);
    entries.sum::<u64>() + history.inputs().iter().map(of_input).sum::<u64>()
}

/// The bytes of a question and its answer.
pub fn of_input(input: &Input) -> u64 {
    let answer = match &input.state {
        InputState::Answered(answer) => bytes(answer),
        InputState::Open | InputState::Withdrawn => 0,
    };
    bytes(&input.request) + answer
}

/// The bytes that a change writes. The caller subtracts those of the values it replaces.
pub fn of_decision(decision: &Decision<'_>) -> u64 {
    let inputs = decision.inputs.iter().map(|input| match input {
        InputWrite::Asked { request: json, .. } | InputWrite::Answered { answer: json, .. } => bytes(json),
        InputWrite::Withdrawn { .. } => 0,
    });
    let entries = decision.entries.iter().map(|entry| match entry {
        EntryWrite::Appended(entry) => of_entry(entry),
        EntryWrite::Rewritten { value, .. } => bytes(value),
    });
    decision.outcome.as_ref().map_or(0, of_outcome) + inputs.sum::<u64>() + entries.sum::<u64>()
}

/// The change of the usage by a decision about a task that was `over` or not before, and that writes over `written_over` bytes.
pub fn change_of(decision: &Decision<'_>, over: bool, written_over: i64) -> UsageChange {
    UsageChange {
        live: -i64::from(!over && decision.task.is_done()),
        bytes: of_decision(decision).cast_signed() - written_over,
    }
}

/// The bytes of an entry of the journal.
pub fn of_entry(entry: &Entry) -> u64 {
    (entry.key.path.len() + entry.key.name.len()) as u64 + bytes(&entry.value)
}

/// The bytes of an outcome.
pub fn of_outcome(outcome: &Outcome) -> u64 {
    match outcome {
        Outcome::Result { json, .. } => bytes(json),
        Outcome::RpcError(failure) => failure.message.len() as u64 + failure.data.as_ref().map_or(0, bytes),
        Outcome::Cancelled => 0,
    }
}

/// The bytes of a text.
pub fn bytes(json: &Json) -> u64 {
    json.as_str().len() as u64
}

/// A change of how much a principal has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UsageChange {
    /// So many live tasks more.
    pub live: i64,
    /// So many stored bytes more.
    pub bytes: i64,
}

impl UsageChange {
    /// Adds another one.
    pub fn add(&mut self, other: Self) {
        self.live += other.live;
        self.bytes += other.bytes;
    }

    /// What has become of this usage.
    #[must_use]
    pub fn of(self, usage: Usage) -> Usage {
        Usage {
            live: usage.live.saturating_add_signed(self.live),
            bytes: usage.bytes.saturating_add_signed(self.bytes),
        }
    }
}

impl From<Usage> for UsageChange {
    fn from(usage: Usage) -> Self {
        Self {
            live: usage.live.cast_signed(),
            bytes: usage.bytes.cast_signed(),
        }
    }
}
