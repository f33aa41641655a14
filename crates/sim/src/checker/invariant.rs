//! What must hold in every run.

use serde::Serialize;

/// An invariant of ARCHITECTURE.md, or something that they depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Invariant {
    /// The number in ARCHITECTURE.md, if it has one.
    pub number: Option<u8>,
    /// The text of the invariant.
    pub words: &'static str,
}

impl Invariant {
    const fn numbered(number: u8, words: &'static str) -> Self {
        Self {
            number: Some(number),
            words,
        }
    }

    const fn unnumbered(words: &'static str) -> Self {
        Self { number: None, words }
    }

    pub(crate) const DURABLE_FIRST: Self = Self::numbered(1, "nothing is announced before it is durable");
    pub(crate) const DONE_IS_FINAL: Self = Self::numbered(2, "a done task never changes");
    pub(crate) const FENCED: Self = Self::numbered(
        3,
        "every effect of a worker carries its (node, epoch) fence, and a stale one is refused",
    );
    pub(crate) const ANSWERED_ONCE: Self = Self::numbered(4, "an input key is answered once, and never used again");
    pub(crate) const ISOLATED: Self = Self::numbered(5, "one principal cannot learn that another's task exists");
    pub(crate) const LIVE_IS_KEPT: Self = Self::numbered(6, "live work is not ended by its time to live");
    pub(crate) const NOT_CANCELLED_BY_LEAVING: Self =
        Self::numbered(9, "a dropped connection never cancels an announced task");
    pub(crate) const STEP_ONCE: Self = Self::numbered(10, "a journaled step is never run again");
    pub(crate) const NOTHING_LOST: Self = Self::numbered(
        11,
        "a crash at any instruction loses no acknowledged task and yields at most one outcome",
    );
    pub(crate) const RUN_ONCE: Self = Self::numbered(12, "an attempt is run at most once");
    pub(crate) const ONE_COMMAND: Self =
        Self::unnumbered("a command starts after the earlier one of its task has ended or was lost with its host");
    pub(crate) const AT_HOME: Self =
        Self::unnumbered("a command is resumed on its host, and given up only when no node runs there");
    pub(crate) const FILES_GO: Self =
        Self::unnumbered("the files of a task are kept as long as the task, and then their host removes them");
    pub(crate) const LIMITED: Self =
        Self::unnumbered("no more of a tool runs at once than its limit, on all nodes together");
    pub(crate) const REPLAYS: Self = Self::unnumbered("a replay gets the recorded results");
    pub(crate) const ENDS: Self =
        Self::unnumbered("once the faults are over, every task ends and its client learns it");
    pub(crate) const NO_PANIC: Self = Self::unnumbered("nothing panics and nothing spins");
    pub(crate) const SAME_TWICE: Self = Self::unnumbered("two runs of a seed are the same");
}

impl std::fmt::Display for Invariant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.number {
            Some(number) => write!(f, "invariant {number}: {}", self.words),
            None => f.write_str(self.words),
        }
    }
}

/// A violation of an invariant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The invariant.
    pub invariant: Invariant,
    /// What was seen.
    pub what: String,
}
