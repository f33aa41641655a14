//! The file of effects of `under_fire`: what the steps of durable tools have done, on whichever node.
//!
//! Each run of a tool writes `<token> begin <task> <run>`, and `<token> <step> <run>` for each step before its result is recorded; a run is `<pid>.<number>`. Whoever
//! begins a step has recorded those before. So there are rules:
//!
//! - A call, which a token names, has one task.
//! - A run that began after a step was recorded does not run that step again.
//! - Once a later run has begun, an earlier one has no effect.
//!
//! A process that was cut off from its lease, paused or without the database, does not know what others have recorded since, and may begin a run that it was
//! given before. So each of its runs may break these rules in one step, and not in another one: what the first came to is not recorded.

use std::{
    collections::{HashMap, HashSet},
    fs::File,
    io::{self, Read},
    path::Path,
};

/// Reads the file.
pub(super) struct Effects {
    file: File,
    unread: String,
    calls: HashMap<String, Call>,
    pub(super) lines: usize,
    pub(super) steps: usize,
    /// Steps that ran again, because their run was cut off between effect and entry.
    pub(super) repeated: usize,
    /// Steps of runs that were cut off from their lease and did not know it yet.
    pub(super) stale: usize,
}

#[derive(Default)]
struct Call {
    task: String,
    /// Where each run began.
    begun: HashMap<String, usize>,
    done: HashSet<String>,
    /// The step in which each run of a process that was cut off has broken a rule.
    stale: HashMap<String, u32>,
    /// The latest step, and where each latest step was first reached.
    reached: Vec<(u32, usize)>,
}

/// Something that a step must not do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Misstep {
    /// It had been recorded when its run began.
    Repeated {
        token: String,
        step: String,
        run: String,
    },
    /// A later run had begun, and nothing had kept this one from knowing it.
    Overtaken {
        token: String,
        step: String,
        run: String,
        by: String,
    },
    /// Its process was cut off, and it is the second step that the run must not run.
    WentOn {
        token: String,
        step: String,
        run: String,
    },
    /// A second task of the same call.
    TwoTasks {
        token: String,
        one: String,
        other: String,
    },
    BadLine(String),
}

impl Misstep {
    /// The process that would be excused if it had been cut off from its lease.
    pub(super) fn pid(&self) -> Option<u32> {
        match self {
            Self::Repeated { run, .. } | Self::Overtaken { run, .. } => pid_of(run),
            Self::WentOn { .. } | Self::TwoTasks { .. } | Self::BadLine(_) => None,
        }
    }
}

/// The process of a run.
fn pid_of(run: &str) -> Option<u32> {
    run.split('.').next()?.parse().ok()
}

impl Effects {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            file: File::open(path)?,
            unread: String::new(),
            calls: HashMap::new(),
            lines: 0,
            steps: 0,
            repeated: 0,
            stale: 0,
        })
    }

    /// Reads and checks the new lines. `cut_off` are the processes that may have lost their lease without knowing it.
    pub(super) fn read_new(&mut self, cut_off: &HashSet<u32>) -> io::Result<Vec<Misstep>> {
        self.file.read_to_string(&mut self.unread)?;
        let whole = self.unread.rfind('\n').map_or(0, |end| end + 1);
        let lines: String = self.unread.drain(..whole).collect();
        Ok(lines.lines().filter_map(|line| self.check(line, cut_off)).collect())
    }

    /// Whether the call has reached this step, of this rank.
    pub(super) fn has_reached(&self, token: &str, rank: u32) -> bool {
        let latest = self.calls.get(token).and_then(|call| call.reached.last());
        latest.is_some_and(|(reached, _)| *reached >= rank)
    }

    fn check(&mut self, line: &str, cut_off: &HashSet<u32>) -> Option<Misstep> {
        self.lines += 1;
        let at = self.lines;
        let (token, step, run) = match *line.split(' ').collect::<Vec<_>>() {
            [token, "begin", task, run] => {
                let call = self.calls.entry(token.to_owned()).or_default();
                call.begun.insert(run.to_owned(), at);
                if call.task.is_empty() {
                    task.clone_into(&mut call.task);
                }
                return (call.task != task).then(|| Misstep::TwoTasks {
                    token: token.to_owned(),
                    one: call.task.clone(),
                    other: task.to_owned(),
                });
            }
            [token, step, run] => (token, step, run),
            _ => return Some(Misstep::BadLine(line.to_owned())),
        };
        let call = self.calls.entry(token.to_owned()).or_default();
        let (Some(begun), Some(rank)) = (call.begun.get(run).copied(), rank(step)) else {
            return Some(Misstep::BadLine(line.to_owned()));
        };
        self.steps += 1;
        let is_cut_off = |run: &str| pid_of(run).is_some_and(|pid| cut_off.contains(&pid));
        // Recorded once a later step was begun.
        let recorded = call.reached.iter().find(|(reached, _)| *reached > rank);
        let is_repeated = recorded.is_some_and(|(_, at)| *at < begun);
        let mut later = call
            .begun
            .iter()
            .filter(|(other, at)| **at > begun && !is_cut_off(other));
        let by = later.next().map(|(other, _)| other.clone());
        if is_repeated || by.is_some() {
            let (token, step, run) = (token.to_owned(), step.to_owned(), run.to_owned());
            if !is_cut_off(&run) {
                return Some(match by {
                    Some(by) => Misstep::Overtaken { token, step, run, by },
                    None => Misstep::Repeated { token, step, run },
                });
            }
            self.stale += 1;
            if *call.stale.entry(run.clone()).or_insert(rank) != rank {
                return Some(Misstep::WentOn { token, step, run });
            }
            return None;
        }
        if !call.done.insert(step.to_owned()) {
            self.repeated += 1;
        }
        if call.reached.last().is_none_or(|(latest, _)| *latest < rank) {
            call.reached.push((rank, at));
        }
        None
    }
}

/// The rank of a step among the steps of its call. The branches of a step are between it and the next, in any order.
pub(super) fn rank(step: &str) -> Option<u32> {
    let (trunk, branch) = step.split_once('/').map_or((step, false), |(trunk, _)| (trunk, true));
    Some(trunk.parse::<u32>().ok()? * 2 + u32::from(branch))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missteps(lines: &str, cut_off: &[u32]) -> Vec<Misstep> {
        let mut effects = Effects::open(Path::new("/dev/null")).unwrap();
        let cut_off = cut_off.iter().copied().collect();
        lines.lines().filter_map(|line| effects.check(line, &cut_off)).collect()
    }

    #[test]
    fn a_step_without_its_entry_runs_again() {
        let lines = "a begin t 1.0\na 0 1.0\na 1 1.0\na begin t 2.0\na 1 2.0\na 1/0 2.0\na 1/1 2.0\na begin t 3.0\na 1/1 3.0\na 2 3.0";
        assert_eq!(missteps(lines, &[]), []);
    }

    #[test]
    fn a_step_with_its_entry_does_not() {
        let lines = "a begin t 1.0\na 0 1.0\na 1 1.0\na begin t 2.0\na 0 2.0";
        assert!(matches!(missteps(lines, &[])[..], [Misstep::Repeated { .. }]));
    }

    #[test]
    fn a_call_has_one_task() {
        let lines = "a begin t 1.0\na begin t 2.0\na begin u 3.0";
        assert!(matches!(missteps(lines, &[])[..], [Misstep::TwoTasks { .. }]));
    }

    #[test]
    fn an_earlier_run_does_nothing_unless_it_was_cut_off() {
        let lines = "a begin t 1.0\na 0 1.0\na begin t 2.0\na 1 2.0\na 0 1.0";
        assert!(matches!(missteps(lines, &[])[..], [Misstep::Overtaken { .. }]));
        assert_eq!(missteps(lines, &[1]), []);
        let goes_on = format!("{lines}\na 1 1.0");
        assert!(matches!(missteps(&goes_on, &[1])[..], [Misstep::WentOn { .. }]));
    }

    #[test]
    fn a_process_that_was_cut_off_may_begin_what_it_was_given() {
        let lines = "a begin t 1.0\na 0 1.0\na 1 1.0\na 2 1.0\na begin t 2.0\na 0 2.0\na 3 1.0";
        assert!(!missteps(lines, &[]).is_empty());
        assert_eq!(missteps(lines, &[2]), []);
        let goes_on = format!("{lines}\na 1 2.0");
        assert!(matches!(missteps(&goes_on, &[2])[..], [Misstep::WentOn { .. }]));
    }
}
