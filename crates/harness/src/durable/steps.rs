//! The file of effects of `under_fire`: what the steps of durable tools have done, in whichever process.
//!
//! Each run of a tool writes `<token> begin <task> <run>`, and `<token> <step> <run>` for each step before its result is recorded; a run is `<pid>.<number>`. Whoever
//! begins a step has recorded those before. So there are rules:
//!
//! - A call, which a token names, has one task.
//! - The steps of a run are in their order, each once.
//! - A run that began after a step was recorded does not run that step again.
//! - Once a later run has begun, an earlier one has no effect.
//!
//! A process that was cut off from its lease, paused or without the database, does not know what others have recorded since, and may begin a run that it was
//! given before. So each of its runs may break the last two rules in one step, and not in another one: what the first came to is not recorded.
//!
//! An older `under_fire` writes `<token> <step>` only. All of that counts as one run, in which a step may be repeated.

use crate::rounds::violation::{Invariant, Violation};
use std::{
    collections::{HashMap, HashSet},
    fs::File,
    io::{self, Read},
    path::Path,
};

/// The name of the run of an older server.
const OLDER_RUN: &str = "older";

/// Reads the file.
pub struct Steps {
    file: File,
    unread: String,
    calls: HashMap<String, StepsOfCall>,
    pub lines: usize,
    /// How many steps have had effects.
    pub count: usize,
    /// Steps that ran again, because their run was cut off between effect and entry.
    pub repeated: usize,
    /// Steps of runs that were cut off from their lease and did not know it yet.
    pub stale: usize,
}

#[derive(Default)]
struct StepsOfCall {
    task: String,
    runs: HashMap<String, StepsOfRun>,
    done: HashSet<String>,
    /// The latest step, and where each latest step was first reached.
    reached: Vec<(u32, usize)>,
}

struct StepsOfRun {
    /// The line where it began.
    begun: usize,
    /// Its latest step, and all of them.
    rank: u32,
    done: HashSet<String>,
    /// The step in which the run of a process that was cut off has broken a rule.
    stale: Option<u32>,
}

impl StepsOfRun {
    fn begun(begun: usize) -> Self {
        Self {
            begun,
            rank: 0,
            done: HashSet::new(),
            stale: None,
        }
    }
}

/// A violation, and the process that is excused if it had lost its lease.
pub struct Misstep {
    pub violation: Violation,
    pub excused: Option<u32>,
}

/// The process of a run.
fn pid_of(run: &str) -> Option<u32> {
    run.split('.').next()?.parse().ok()
}

impl Steps {
    /// Opens the file, which is made if it is not there.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::options().create(true).append(true).read(true).open(path)?;
        Ok(Self {
            file,
            unread: String::new(),
            calls: HashMap::new(),
            lines: 0,
            count: 0,
            repeated: 0,
            stale: 0,
        })
    }

    /// Reads and checks the new lines. `cut_off` are the processes that may have lost their lease without knowing it.
    pub fn read_new(&mut self, cut_off: &HashSet<u32>) -> io::Result<Vec<Misstep>> {
        self.file.read_to_string(&mut self.unread)?;
        let whole = self.unread.rfind('\n').map_or(0, |end| end + 1);
        let lines: String = self.unread.drain(..whole).collect();
        Ok(lines
            .lines()
            .filter_map(|line| self.check(line, cut_off).err())
            .collect())
    }

    /// As [`read_new`](Self::read_new), where no process has a lease.
    pub fn violations(&mut self) -> io::Result<Vec<Violation>> {
        let missteps = self.read_new(&HashSet::new())?;
        Ok(missteps.into_iter().map(|misstep| misstep.violation).collect())
    }

    /// How many runs the call has had, of whichever task.
    pub fn runs(&self, token: &str) -> usize {
        self.calls.get(token).map_or(0, |call| call.runs.len())
    }

    /// A violation if the call with so many steps has not reached its last one. Its branches may come after it.
    pub fn unfinished(&self, token: &str, steps: u32) -> Option<Violation> {
        let latest = self.calls.get(token).and_then(|call| call.reached.last());
        let is_finished = latest.is_some_and(|(reached, _)| *reached >= (steps - 1) * 2);
        (!is_finished)
            .then(|| Invariant::STEP_ONCE.violated(format!("call {token} has ended, and its last step had no effect")))
    }

    fn check(&mut self, line: &str, cut_off: &HashSet<u32>) -> Result<(), Misstep> {
        self.lines += 1;
        let at = self.lines;
        let certain = |violation| Misstep {
            violation,
            excused: None,
        };
        let bad_line = || certain(Invariant::SERVED.violated(format!("the file of effects has the line {line:?}")));
        let (token, step, run) = match *line.split(' ').collect::<Vec<_>>() {
            [token, "begin", task, run] => {
                let call = self.calls.entry(token.to_owned()).or_default();
                call.runs.insert(run.to_owned(), StepsOfRun::begun(at));
                if call.task.is_empty() {
                    task.clone_into(&mut call.task);
                }
                let has_one = call.task == task;
                let what = || format!("call {token} has the tasks {} and {task}", call.task);
                return has_one
                    .then_some(())
                    .ok_or_else(|| certain(Invariant::NOTHING_LOST.violated(what())));
            }
            [token, step, run] => (token, step, run),
            [token, step] => (token, step, OLDER_RUN),
            _ => return Err(bad_line()),
        };
        let call = self.calls.entry(token.to_owned()).or_default();
        if run == OLDER_RUN {
            let older = call.runs.entry(run.to_owned()).or_insert_with(|| StepsOfRun::begun(at));
            older.done.remove(step);
        }
        let is_cut_off = |run: &str| pid_of(run).is_some_and(|pid| cut_off.contains(&pid));
        let later = |begun| {
            let mut runs = call.runs.iter();
            runs.find(|(other, run)| run.begun > begun && !is_cut_off(other))
                .map(|(other, _)| other.clone())
        };
        let (Some(begun), Some(rank)) = (call.runs.get(run).map(|run| run.begun), rank(step)) else {
            return Err(bad_line());
        };
        let by = later(begun);
        self.count += 1;
        // Recorded once a later step was begun.
        let recorded = call.reached.iter().find(|(reached, _)| *reached > rank);
        let is_repeated = recorded.is_some_and(|(_, at)| *at < begun);
        let Some(own) = call.runs.get_mut(run) else {
            return Err(bad_line());
        };
        if !own.done.insert(step.to_owned()) || rank < own.rank {
            let what = format!("run {run} of call {token} came to step {step} after later ones, or twice");
            return Err(certain(Invariant::STEP_ONCE.violated(what)));
        }
        own.rank = rank;
        if is_repeated || by.is_some() {
            if is_cut_off(run) {
                self.stale += 1;
                if *own.stale.get_or_insert(rank) == rank {
                    return Ok(());
                }
                let what = format!("run {run} of call {token} went on to step {step} without its lease");
                return Err(certain(Invariant::FENCED.violated(what)));
            }
            let violation = match by {
                Some(by) => Invariant::FENCED.violated(format!(
                    "run {run} of call {token} did step {step} after run {by} began"
                )),
                None => Invariant::STEP_ONCE.violated(format!(
                    "run {run} of call {token} did step {step}, which had been recorded"
                )),
            };
            return Err(Misstep {
                violation,
                excused: pid_of(run),
            });
        }
        if !call.done.insert(step.to_owned()) {
            self.repeated += 1;
        }
        if call.reached.last().is_none_or(|(latest, _)| *latest < rank) {
            call.reached.push((rank, at));
        }
        Ok(())
    }
}

/// The rank of a step among the steps of its call. The branches of a step are between it and the next, in any order.
fn rank(step: &str) -> Option<u32> {
    let (trunk, branch) = step.split_once('/').map_or((step, false), |(trunk, _)| (trunk, true));
    Some(trunk.parse::<u32>().ok()? * 2 + u32::from(branch))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missteps(lines: &str, cut_off: &[u32]) -> Vec<Invariant> {
        let mut steps = Steps {
            file: File::open("/dev/null").unwrap(),
            unread: String::new(),
            calls: HashMap::new(),
            lines: 0,
            count: 0,
            repeated: 0,
            stale: 0,
        };
        let cut_off = cut_off.iter().copied().collect();
        let found = lines.lines().filter_map(|line| steps.check(line, &cut_off).err());
        found.map(|misstep| misstep.violation.invariant).collect()
    }

    #[test]
    fn a_step_without_its_entry_runs_again() {
        let lines = "a begin t 1.0\na 0 1.0\na 1 1.0\na begin t 2.0\na 1 2.0\na 1/0 2.0\na 1/1 2.0\na begin t 3.0\na 1/1 3.0\na 2 3.0";
        assert_eq!(missteps(lines, &[]), []);
    }

    #[test]
    fn a_step_with_its_entry_does_not() {
        let lines = "a begin t 1.0\na 0 1.0\na 1 1.0\na begin t 2.0\na 0 2.0";
        assert_eq!(missteps(lines, &[]), [Invariant::STEP_ONCE]);
    }

    #[test]
    fn the_steps_of_a_run_are_in_order_and_each_once() {
        assert_eq!(missteps("a begin t 1.0\na 1 1.0\na 0 1.0", &[]), [Invariant::STEP_ONCE]);
        assert_eq!(missteps("a begin t 1.0\na 0 1.0\na 0 1.0", &[]), [Invariant::STEP_ONCE]);
        assert_eq!(missteps("a 0\na 0\na 1\na begin t 2.0\na 1 2.0\na 2 2.0", &[]), []);
        assert_eq!(missteps("a 1\na 0", &[]), [Invariant::STEP_ONCE]);
    }

    #[test]
    fn a_call_has_one_task() {
        let lines = "a begin t 1.0\na begin t 2.0\na begin u 3.0";
        assert_eq!(missteps(lines, &[]), [Invariant::NOTHING_LOST]);
    }

    #[test]
    fn an_earlier_run_does_nothing_unless_it_was_cut_off() {
        let lines = "a begin t 1.0\na 0 1.0\na begin t 2.0\na 1 2.0\na 0/1 1.0";
        assert_eq!(missteps(lines, &[]), [Invariant::FENCED]);
        assert_eq!(missteps(lines, &[1]), []);
        let goes_on = format!("{lines}\na 1 1.0");
        assert_eq!(missteps(&goes_on, &[1]), [Invariant::FENCED]);
    }

    #[test]
    fn a_process_that_was_cut_off_may_begin_what_it_was_given() {
        let lines = "a begin t 1.0\na 0 1.0\na 1 1.0\na 2 1.0\na begin t 2.0\na 0 2.0\na 3 1.0";
        assert!(!missteps(lines, &[]).is_empty());
        assert_eq!(missteps(lines, &[2]), []);
        let goes_on = format!("{lines}\na 1 2.0");
        assert_eq!(missteps(&goes_on, &[2]), [Invariant::FENCED]);
    }
}
