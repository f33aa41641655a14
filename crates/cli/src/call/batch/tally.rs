//! How the lines of a batch have ended, and how many of them in which way.

use crate::{
    exit::{failure::Failure, result::Exit},
    output::kinds::{OUTCOME_UNKNOWN, UNANSWERED},
};
use longhaul_client::Finished;
use std::collections::BTreeMap;

const COMPLETED: &str = "completed";
pub(super) const ASKING: &str = "asking";
const REFUSED: &str = "refused or failed without a result";
const WITHOUT_ANSWER: &str = "unanswered";
const UNCLEAR: &str = "of unknown outcome";
/// How lines end, as they are told.
const NAMES: [&str; 8] = [
    COMPLETED,
    "failed with an error of the tool",
    "without an answer",
    "cancelled",
    WITHOUT_ANSWER,
    REFUSED,
    UNCLEAR,
    ASKING,
];

/// What is known of a line after its call, by its record: what a run that continues this one finds, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineStatus {
    /// Its call has an outcome, so nothing more is to be done for it.
    Settled(Finished),
    /// Its call may have run and has no answer: it is made again only with `--repeat unknown`.
    Unclear,
    /// Its task is waited for, or its call is made, by a run that continues this one. Or there is no record.
    Open,
}

/// How a line has ended.
pub(super) struct EndedLine {
    pub(super) line: usize,
    pub(super) exit: Exit,
    pub(super) status: LineStatus,
    /// How it is counted: each line under one name.
    pub(super) name: &'static str,
}

impl EndedLine {
    pub(super) fn new(line: usize, exit: Exit, failure: Option<&Failure>, status: LineStatus) -> Self {
        let kind = failure.map(Failure::kind).unwrap_or_default();
        let name = match exit {
            _ if status == LineStatus::Unclear || kind == OUTCOME_UNKNOWN => UNCLEAR,
            _ if kind == UNANSWERED => WITHOUT_ANSWER,
            Exit::Answered => COMPLETED,
            Exit::ToolError => "failed with an error of the tool",
            Exit::NoServer => "without an answer",
            Exit::Cancelled => "cancelled",
            Exit::Asks => ASKING,
            _ => REFUSED,
        };
        Self {
            line,
            exit,
            status,
            name,
        }
    }
}

/// How many lines have ended, and how.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) ended: usize,
    settled: usize,
    /// By their names.
    counts: BTreeMap<&'static str, usize>,
    /// The lines that asked what nobody could answer.
    pub(super) unanswered: Vec<usize>,
    /// The first line of the file that has not succeeded.
    first_failure: Option<(usize, Exit)>,
}

impl Tally {
    pub(super) fn add(&mut self, ended: &EndedLine) {
        self.ended += 1;
        self.settled += usize::from(matches!(ended.status, LineStatus::Settled(_)));
        *self.counts.entry(ended.name).or_default() += 1;
        if ended.name == WITHOUT_ANSWER {
            self.unanswered.push(ended.line);
            self.unanswered.sort_unstable();
        }
        if ended.exit != Exit::Answered && self.first_failure.is_none_or(|(line, _)| ended.line < line) {
            self.first_failure = Some((ended.line, ended.exit));
        }
    }

    /// Whether all of so many lines have ended, and nothing more is to be done for any of them.
    pub(super) fn is_over(&self, total: usize) -> bool {
        self.settled == total
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.counts.contains_key(name)
    }

    /// Those that have not succeeded.
    pub(super) fn others(&self) -> String {
        self.counts_of(&NAMES[1..]).join(", ")
    }

    fn counts_of(&self, names: &[&str]) -> Vec<String> {
        let counts = names.iter().filter_map(|name| {
            let count = self.counts.get(name)?;
            Some(format!("{count} {name}"))
        });
        counts.collect()
    }

    pub(super) fn summary(&self, total: usize) -> String {
        let mut parts = self.counts_of(&NAMES);
        if self.ended < total {
            parts.push(format!("{} not ended or not sent", total - self.ended));
        }
        format!("{total} calls: {}", parts.join(", "))
    }

    pub(super) fn exit(&self) -> Exit {
        self.first_failure.map_or(Exit::Answered, |(_, exit)| exit)
    }
}
