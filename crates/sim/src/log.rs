//! The log of a run. Two runs of a seed write the same log.

use std::collections::VecDeque;

/// How many of the last lines are kept, for reports of violations.
const MAX_LINES: usize = 60;

/// Lines, and a hash over all of them and over the order of all turns.
pub(crate) struct Log {
    hash: u64,
    lines: u64,
    turns: u64,
    last: VecDeque<String>,
    /// Whether all lines are written to standard error.
    verbose: bool,
}

impl Log {
    pub(crate) fn new(verbose: bool) -> Self {
        Self {
            hash: 0xcbf2_9ce4_8422_2325,
            lines: 0,
            turns: 0,
            last: VecDeque::new(),
            verbose,
        }
    }

    pub(crate) fn write(&mut self, line: String) {
        self.mix(line.as_bytes());
        self.lines += 1;
        if self.verbose {
            eprintln!("{line}");
        }
        if self.last.len() == MAX_LINES {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }

    /// Counts a turn: the log is the same only if the schedule is.
    pub(crate) fn turn(&mut self, job: u64) {
        self.turns += 1;
        self.mix(&job.to_le_bytes());
    }

    /// FNV-1a: fast, and the same in every process.
    fn mix(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn lines(&self) -> u64 {
        self.lines
    }

    pub(crate) fn turns(&self) -> u64 {
        self.turns
    }

    pub(crate) fn last(&self) -> Vec<String> {
        self.last.iter().cloned().collect()
    }
}
