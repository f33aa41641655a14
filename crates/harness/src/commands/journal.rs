//! The journal of the commands: one file, whose lines are in the order of events.

use crate::{
    rounds::violation::{Invariant, Violation},
    server::supervisors::CommandAttempt,
};
use std::{
    collections::{BTreeMap, HashMap},
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    path::Path,
};

/// Writes the journal. Each line is one write, so lines of several processes do not mix.
pub(super) struct JournalWriter(File);

impl JournalWriter {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(OpenOptions::new().append(true).open(path)?))
    }

    pub(super) fn starts(&self, attempt: &CommandAttempt, token: &str) -> io::Result<()> {
        self.line(format!("start {} {} {token}\n", attempt.task, attempt.epoch))
    }

    pub(super) fn ends(&self, attempt: &CommandAttempt) -> io::Result<()> {
        self.line(format!("end {} {}\n", attempt.task, attempt.epoch))
    }

    /// Records that another attempt of the task is running.
    pub(super) fn overlaps(&self, attempt: &CommandAttempt) -> io::Result<()> {
        self.line(format!("overlap {} {}\n", attempt.task, attempt.epoch))
    }

    fn line(&self, line: String) -> io::Result<()> {
        (&self.0).write_all(line.as_bytes())
    }
}

/// A run of a command.
#[derive(Debug, Clone)]
pub struct CommandRun {
    pub token: String,
    pub ended: bool,
}

/// Reads the journal.
pub struct CommandJournal {
    file: File,
    unread: String,
    pub runs: BTreeMap<CommandAttempt, CommandRun>,
    newest: HashMap<String, u32>,
}

impl CommandJournal {
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            file: File::open(path)?,
            unread: String::new(),
            runs: BTreeMap::new(),
            newest: HashMap::new(),
        })
    }

    /// Reads and checks the new lines.
    pub fn read_new(&mut self) -> io::Result<Vec<Violation>> {
        self.file.read_to_string(&mut self.unread)?;
        let whole = self.unread.rfind('\n').map_or(0, |end| end + 1);
        let lines: String = self.unread.drain(..whole).collect();
        Ok(lines.lines().filter_map(|line| self.check(line)).collect())
    }

    /// How many commands were started for a task.
    pub fn runs_of(&self, task: &str) -> usize {
        self.runs.range(CommandAttempt::all_of(task)).count()
    }

    fn check(&mut self, line: &str) -> Option<Violation> {
        let words: Vec<&str> = line.split(' ').collect();
        let violation = match *words {
            ["start", task, epoch, token] => {
                CommandAttempt::named(task, epoch).map(|attempt| self.starts(attempt, token))
            }
            ["end", task, epoch] => CommandAttempt::named(task, epoch).map(|attempt| self.ends(attempt)),
            ["overlap", task, epoch] => CommandAttempt::named(task, epoch).map(|attempt| Some(overlap(&attempt))),
            _ => None,
        };
        violation.unwrap_or_else(|| Some(Invariant::SERVED.violated(format!("the journal has the line {line:?}"))))
    }

    fn starts(&mut self, attempt: CommandAttempt, token: &str) -> Option<Violation> {
        if self.runs.contains_key(&attempt) {
            return Some(ran_twice(&attempt));
        }
        let newest = self.newest.entry(attempt.task.clone()).or_default();
        let late = attempt.epoch < *newest;
        *newest = attempt.epoch.max(*newest);
        self.runs.insert(
            attempt.clone(),
            CommandRun {
                token: token.to_owned(),
                ended: false,
            },
        );
        late.then(|| overlap(&attempt))
    }

    fn ends(&mut self, attempt: CommandAttempt) -> Option<Violation> {
        let is_late = self.newest.get(&attempt.task) != Some(&attempt.epoch);
        match self.runs.get_mut(&attempt) {
            Some(run) if !run.ended => run.ended = true,
            _ => return Some(ran_twice(&attempt)),
        }
        is_late.then(|| overlap(&attempt))
    }
}

fn ran_twice(attempt: &CommandAttempt) -> Violation {
    Invariant::RUN_ONCE.violated(format!("the command of {attempt} ran twice"))
}

fn overlap(attempt: &CommandAttempt) -> Violation {
    Invariant::ONE_COMMAND.violated(format!("{attempt} overlaps another attempt of its task"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(lines: &str) -> Vec<Invariant> {
        let mut journal = CommandJournal::open(Path::new("/dev/null")).unwrap();
        let found = lines.lines().filter_map(|line| journal.check(line));
        found.map(|violation| violation.invariant).collect()
    }

    #[test]
    fn attempts_one_after_the_other_are_fine() {
        assert!(violations("start a 1 x\nstart b 1 y\nstart a 2 x\nend a 2\nend b 1\n").is_empty());
    }

    #[test]
    fn a_second_run_an_overlap_and_a_late_starter_are_seen() {
        assert_eq!(violations("start a 1 x\nstart a 1 x\n"), [Invariant::RUN_ONCE]);
        let overlap = Invariant::ONE_COMMAND;
        assert_eq!(violations("start a 1 x\nstart a 2 x\nend a 1\n"), [overlap]);
        assert_eq!(violations("start a 2 x\nstart a 1 x\n\n"), [overlap, Invariant::SERVED]);
        assert_eq!(violations("overlap a 2\nstart a 2 x\n"), [overlap]);
    }
}
