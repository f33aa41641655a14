//! The trace of a run: a file to which its processes append. Each line is a single write, so a killed process loses none.

use longhaul_core::{Entry, EntryKind};
use longhaul_runtime::step_is_settled;
use serde::{Deserialize, Serialize};
use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::Path,
};

/// One event.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum TraceLine {
    /// A step begins: from now on its effect may happen.
    Begins { task: String, step: String },
    /// A write begins, the nth of its process.
    Write { nth: u32, what: String },
    /// The store has acknowledged these entries.
    Committed { task: String, entries: Vec<TracedEntry> },
    /// The store has acknowledged the end of a task.
    Ended { task: String, outcome: String },
    /// Repeating a write changed something.
    Repeated { what: String, fault: String },
}

/// An entry of a journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TracedEntry {
    pub(super) seq: u32,
    pub(super) key: String,
    /// Whether it is the final result of a step.
    pub(super) settled: bool,
    pub(super) value: String,
}

impl From<&Entry> for TracedEntry {
    fn from(entry: &Entry) -> Self {
        Self {
            seq: entry.seq,
            key: entry.key.to_string(),
            settled: entry.key.kind == EntryKind::Step && step_is_settled(&entry.value),
            value: entry.value.as_str().to_owned(),
        }
    }
}

/// Writes lines.
pub(super) struct Trace(File);

impl Trace {
    pub(super) fn append_to(path: &Path) -> io::Result<Self> {
        OpenOptions::new().create(true).append(true).open(path).map(Self)
    }

    /// # Panics
    /// If the line cannot be written: without a trace the run proves nothing.
    pub(super) fn put(&self, line: &TraceLine) {
        let mut text = serde_json::to_string(line).unwrap_or_default();
        text.push('\n');
        if let Err(error) = (&self.0).write_all(text.as_bytes()) {
            panic!("the crash test cannot write its trace: {error}");
        }
    }
}

/// Reads all lines; a missing file has none.
pub(super) fn read(path: &Path) -> io::Result<Vec<TraceLine>> {
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        read => read?,
    };
    text.lines()
        .map(|line| serde_json::from_str(line).map_err(io::Error::from))
        .collect()
}
