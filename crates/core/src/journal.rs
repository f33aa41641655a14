//! The journal of a durable task: the recorded results of its operations, from which its code is replayed.
//!
//! A task's journal is a list. An entry is written when its result is known (a step), or when it begins and again when it is settled
//! (a question, a timer, a child). It is found again by its [`EntryKey`], which the tool's code, run again from its start, forms anew.

use crate::{Json, TaskId, UnixMillis};
use std::{fmt, sync::Arc};

/// What an entry is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EntryKind {
    /// Work with an effect: its result, or the failures so far.
    Step,
    /// A time to wait for.
    Timer,
    /// A question to the client.
    Input,
    /// Another task, started for this one.
    Child,
    /// Polls of something outside until it is ready: how many so far, then the result.
    Poll,
    /// Output given before the end.
    Emit,
    /// What time it was.
    Now,
    /// Random bytes.
    Random,
    /// Which of several branches was first.
    Select,
    /// Whether the code of this version passed this point.
    Version,
    /// An attempt that failed: part of the history, never asked for by the tool.
    Failure,
    /// What a tool without a journal needs to go on with work that lives outside of its process.
    Checkpoint,
}

impl EntryKind {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Step,
        Self::Timer,
        Self::Input,
        Self::Child,
        Self::Poll,
        Self::Emit,
        Self::Now,
        Self::Random,
        Self::Select,
        Self::Version,
        Self::Failure,
        Self::Checkpoint,
    ];

    /// Whether a new entry of it is forward progress, after which earlier attempts do not count any more.
    pub fn is_progress(self) -> bool {
        !matches!(self, Self::Failure | Self::Checkpoint)
    }

    /// A word for stores, errors and people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Timer => "timer",
            Self::Input => "input",
            Self::Child => "child",
            Self::Poll => "poll",
            Self::Emit => "emit",
            Self::Now => "now",
            Self::Random => "random",
            Self::Select => "select",
            Self::Version => "version",
            Self::Failure => "failure",
            Self::Checkpoint => "checkpoint",
        }
    }

    /// The kind of this [`name`](Self::name).
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// By what an entry is found again: where in the code, and the ordinal of its kind and name there.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryKey {
    /// The branch of the code: empty for the main branch, `1.0` for the first branch of its second fork.
    pub path: Arc<str>,
    /// What it is about.
    pub kind: EntryKind,
    /// The author's name for it; empty for kinds without one.
    pub name: Arc<str>,
    /// Counts from 1 those of the same branch, kind and name.
    pub nth: u32,
}

/// As people read it: `step "build"`, `timer #2 in branch 1.0`.
impl fmt::Display for EntryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name())?;
        if !self.name.is_empty() {
            write!(f, " {:?}", self.name)?;
        }
        if self.nth > 1 {
            write!(f, " #{}", self.nth)?;
        }
        if !self.path.is_empty() {
            write!(f, " in branch {}", self.path)?;
        }
        Ok(())
    }
}

/// The longest value of an entry, in bytes: the whole journal is read whenever its task is replayed.
pub const MAX_ENTRY_BYTES: usize = 1 << 20;

/// One entry of a task's journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its position, from 1 without gaps. Writing a position again replaces the value and the epoch, and nothing else.
    pub seq: u32,
    /// By what it is found again.
    pub key: EntryKey,
    /// Whether it began while another operation of its branch was open; then its position does not fix its order.
    pub beside: bool,
    /// The result, in a layout of the runtime; at most [`MAX_ENTRY_BYTES`].
    pub value: Json,
    /// When the entry was first written.
    pub at: UnixMillis,
    /// The attempt that wrote the value; 0 if an earlier version wrote it, which did not record it. A child's end, which no attempt writes, leaves it.
    pub epoch: u32,
}

/// Where a task comes from that another one started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lineage {
    /// The task that waits for it.
    pub parent: TaskId,
    /// The parent's entry that takes its outcome.
    pub entry: u32,
    /// The first of the line, which a client called.
    pub root: TaskId,
    /// How many are above it: 1 for the child of a task that a client called.
    pub depth: u32,
}
