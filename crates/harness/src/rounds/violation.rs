//! What must hold in every run, and what has not held.

use serde::Serialize;
use std::fmt;

/// An invariant of ARCHITECTURE.md, or something that they depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Invariant {
    /// The number in ARCHITECTURE.md, if it has one.
    pub number: Option<u8>,
    /// The text of the invariant.
    pub words: &'static str,
}

impl Invariant {
    pub const DURABLE_FIRST: Self = Self::numbered(1, "nothing is announced before it is durable");
    pub const DONE_IS_FINAL: Self = Self::numbered(2, "a done task never changes");
    pub const FENCED: Self = Self::numbered(
        3,
        "every effect of a worker carries its (node, epoch) fence, and a stale one is refused",
    );
    pub const ANSWERED_ONCE: Self = Self::numbered(4, "an input key is answered once, and never used again");
    pub const ISOLATED: Self = Self::numbered(5, "one principal cannot learn that another's task exists");
    pub const LIVE_IS_KEPT: Self = Self::numbered(6, "live work is not ended by its time to live");
    pub const NOT_CANCELLED_BY_LEAVING: Self =
        Self::numbered(9, "a dropped connection never cancels an announced task");
    pub const STEP_ONCE: Self = Self::numbered(10, "a journaled step is never run again");
    pub const NOTHING_LOST: Self = Self::numbered(
        11,
        "a crash at any instruction loses no acknowledged task and yields at most one outcome",
    );
    pub const RUN_ONCE: Self = Self::numbered(12, "an attempt is run at most once");
    pub const ONE_COMMAND: Self =
        Self::unnumbered("a command starts after the earlier one of its task has ended or was lost with its host");
    pub const AT_HOME: Self =
        Self::unnumbered("a command is resumed on its host, and given up only when no node runs there");
    pub const FILES_GO: Self =
        Self::unnumbered("the files of a task are kept as long as the task, and then their host removes them");
    pub const UNIQUE: Self = Self::unnumbered("no two live tasks of a tool have the same unique value");
    pub const CONFIRMED: Self =
        Self::unnumbered("a task that has to be confirmed is asked once, and does not begin before that is accepted");
    pub const LIMITED: Self = Self::unnumbered("no more of a tool runs at once than its limit, on all nodes together");
    pub const SCHEDULED: Self =
        Self::unnumbered("each planned time of a schedule is started once, or passes as its rules say");
    pub const START_RATES: Self =
        Self::unnumbered("attempts of a tool do not begin closer to each other than its rate says");
    pub const GROUPS: Self = Self::unnumbered(
        "no more tasks with one concurrency value are in progress than their limit, and none waits while there is room",
    );
    pub const PRIORITIES: Self =
        Self::unnumbered("of the ready tasks of a tool, one of the highest priority is claimed");
    pub const REPLAYS: Self = Self::unnumbered("a replay gets the recorded results");
    pub const ENDS: Self = Self::unnumbered("once the faults are over, every task ends and its client learns it");
    pub const NO_PANIC: Self = Self::unnumbered("nothing panics and nothing spins");
    pub const SAME_TWICE: Self = Self::unnumbered("two runs of a seed are the same");
    pub const LINEARIZABLE: Self = Self::unnumbered("one order of all requests about a task explains all answers");
    pub const OWN_RESULT: Self =
        Self::unnumbered("a task ends with the result of its own call, or cancelled if a client has asked for that");
    pub const WHOLE_OUTPUT: Self = Self::unnumbered("no byte of a command's output is lost");
    pub const DONE_ONCE: Self =
        Self::unnumbered("what an operator does is done once or not at all, and is in the audit log");
    pub const SERVED: Self =
        Self::unnumbered("a client is served as the protocol says, and a node ends only on request");

    const fn numbered(number: u8, words: &'static str) -> Self {
        Self {
            number: Some(number),
            words,
        }
    }

    const fn unnumbered(words: &'static str) -> Self {
        Self { number: None, words }
    }

    /// That it was violated like this.
    pub fn violated(self, what: impl Into<String>) -> Violation {
        Violation {
            invariant: self,
            what: what.into(),
        }
    }
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number {
            Some(number) => write!(f, "invariant {number}: {}", self.words),
            None => f.write_str(self.words),
        }
    }
}

/// A violation of an invariant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{what} ({invariant})")]
pub struct Violation {
    /// The invariant.
    pub invariant: Invariant,
    /// What was seen.
    pub what: String,
}
