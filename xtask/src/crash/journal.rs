//! The journal of the commands: one file, whose lines are in the order of events.

use super::{supervisors::Attempt, violation::Violation};
use std::{
    collections::{BTreeMap, HashMap},
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    path::Path,
};

/// Writes the journal. Each line is one write, so lines of several processes do not mix.
pub(super) struct Writer(File);

impl Writer {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(OpenOptions::new().append(true).open(path)?))
    }

    pub(super) fn starts(&self, attempt: &Attempt, token: &str) -> io::Result<()> {
        self.line(format!("start {} {} {token}\n", attempt.task, attempt.epoch))
    }

    pub(super) fn ends(&self, attempt: &Attempt) -> io::Result<()> {
        self.line(format!("end {} {}\n", attempt.task, attempt.epoch))
    }

    /// Records that another attempt of the task is running.
    pub(super) fn overlaps(&self, attempt: &Attempt) -> io::Result<()> {
        self.line(format!("overlap {} {}\n", attempt.task, attempt.epoch))
    }

    fn line(&self, line: String) -> io::Result<()> {
        (&self.0).write_all(line.as_bytes())
    }
}

/// A run of a command.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) token: String,
    pub(crate) ended: bool,
}

/// Reads the journal.
pub(crate) struct History {
    file: File,
    unread: String,
    pub(crate) runs: BTreeMap<Attempt, Run>,
    newest: HashMap<String, u32>,
}

impl History {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            file: File::open(path)?,
            unread: String::new(),
            runs: BTreeMap::new(),
            newest: HashMap::new(),
        })
    }

    /// Reads and checks the new lines.
    pub(crate) fn read_new(&mut self) -> io::Result<Vec<Violation>> {
        self.file.read_to_string(&mut self.unread)?;
        let whole = self.unread.rfind('\n').map_or(0, |end| end + 1);
        let lines: String = self.unread.drain(..whole).collect();
        Ok(lines.lines().filter_map(|line| self.check(line)).collect())
    }

    /// How many commands were started for a task.
    pub(super) fn runs_of(&self, task: &str) -> usize {
        self.runs.range(Attempt::all_of(task)).count()
    }

    fn check(&mut self, line: &str) -> Option<Violation> {
        let words: Vec<&str> = line.split(' ').collect();
        let violation = match *words {
            ["start", task, epoch, token] => Attempt::named(task, epoch).map(|attempt| self.starts(attempt, token)),
            ["end", task, epoch] => Attempt::named(task, epoch).map(|attempt| self.ends(attempt)),
            ["overlap", task, epoch] => Attempt::named(task, epoch).map(|attempt| Some(Violation::Overlap { attempt })),
            _ => None,
        };
        violation.unwrap_or_else(|| Some(Violation::BadLine { line: line.to_owned() }))
    }

    fn starts(&mut self, attempt: Attempt, token: &str) -> Option<Violation> {
        if self.runs.contains_key(&attempt) {
            return Some(Violation::RanTwice { attempt });
        }
        let newest = self.newest.entry(attempt.task.clone()).or_default();
        let late = attempt.epoch < *newest;
        *newest = attempt.epoch.max(*newest);
        self.runs.insert(
            attempt.clone(),
            Run {
                token: token.to_owned(),
                ended: false,
            },
        );
        late.then_some(Violation::Overlap { attempt })
    }

    fn ends(&mut self, attempt: Attempt) -> Option<Violation> {
        let is_late = self.newest.get(&attempt.task) != Some(&attempt.epoch);
        match self.runs.get_mut(&attempt) {
            Some(run) if !run.ended => run.ended = true,
            _ => return Some(Violation::RanTwice { attempt }),
        }
        is_late.then_some(Violation::Overlap { attempt })
    }
}

impl Attempt {
    fn named(task: &str, epoch: &str) -> Option<Self> {
        Some(Self {
            task: task.to_owned(),
            epoch: epoch.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(lines: &str) -> Vec<Violation> {
        let mut history = History::open(Path::new("/dev/null")).unwrap();
        lines.lines().filter_map(|line| history.check(line)).collect()
    }

    #[test]
    fn attempts_one_after_the_other_are_fine() {
        assert!(violations("start a 1 x\nstart b 1 y\nstart a 2 x\nend a 2\nend b 1\n").is_empty());
    }

    #[test]
    fn a_second_run_an_overlap_and_a_late_starter_are_seen() {
        assert!(matches!(
            violations("start a 1 x\nstart a 1 x\n")[..],
            [Violation::RanTwice { .. }]
        ));
        assert!(matches!(
            violations("start a 1 x\nstart a 2 x\nend a 1\n")[..],
            [Violation::Overlap { .. }]
        ));
        assert!(matches!(
            violations("start a 2 x\nstart a 1 x\n\n")[..],
            [Violation::Overlap { .. }, Violation::BadLine { .. }]
        ));
        assert!(matches!(
            violations("overlap a 2\nstart a 2 x\n")[..],
            [Violation::Overlap { .. }]
        ));
    }
}
