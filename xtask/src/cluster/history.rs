//! Checks that each task is linearizable: that there is one order of all requests about it, which keeps those that did not overlap in their order, and in which
//! each answer is right.
//!
//! A task only goes forward, through the [`Stage`]s, and all that is read of an end is equal. So whether there is such an order need not be searched for: there
//! is one if, and only if, no answer says that the task is at an earlier stage than another answer that was complete before its request began. (Each request is
//! put at the latest stage that was known when it began, or later if its answer says so; these stages never fall.) That is decided in one pass, where a general
//! checker tries orders, and cannot do that for hundreds of requests that overlap.

use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, HashMap},
    time::Instant,
};

/// How far a task has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// There is no task.
    Absent,
    /// It works, and has not been answered.
    Begun,
    /// Its question was answered.
    Answered,
    Ended,
}

/// What an answer says of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Observation {
    /// It is at this stage at least.
    least: Stage,
    /// And at this one at most.
    most: Stage,
    /// How it has ended.
    end: Option<String>,
}

impl Observation {
    /// There is a task, which may be anything.
    pub(super) const EXISTS: Self = Self::between(Stage::Begun, Stage::Ended);
    /// It has not ended.
    pub(super) const LIVE: Self = Self::between(Stage::Begun, Stage::Answered);
    /// It waits for an answer.
    pub(super) const ASKS: Self = Self::between(Stage::Begun, Stage::Begun);
    /// Its question was answered, now or before.
    pub(super) const ANSWERED: Self = Self::between(Stage::Answered, Stage::Ended);
    /// It has ended somehow.
    pub(super) const ENDED: Self = Self::between(Stage::Ended, Stage::Ended);
    /// Nobody knows it.
    pub(super) const ABSENT: Self = Self::between(Stage::Absent, Stage::Absent);

    const fn between(least: Stage, most: Stage) -> Self {
        Self { least, most, end: None }
    }

    /// It has ended like this.
    pub(super) fn ended(how: String) -> Self {
        Self {
            end: Some(how),
            ..Self::ENDED
        }
    }
}

/// An answer, and when it was asked for and came.
#[derive(Debug)]
struct TimedObservation {
    began: Instant,
    ended: Instant,
    what: Observation,
    by: &'static str,
}

/// All answers about all tasks.
#[derive(Default)]
pub(super) struct History(Mutex<Answers>);

#[derive(Default)]
struct Answers {
    tasks: HashMap<String, Seens>,
    /// The task of each idempotency key, and of each created task its key.
    keys: HashMap<String, String>,
    count: usize,
}

#[derive(Default)]
struct Seens {
    all: Vec<TimedObservation>,
    /// Whether there are new ones since it was checked.
    is_new: bool,
}

/// There is no order in which all answers would be right.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Contradiction {
    /// A later request has found an earlier stage.
    Back { task: String, first: String, then: String },
    /// Two ends.
    TwoEnds { task: String, one: String, other: String },
    /// One key, two tasks.
    TwoTasks { key: String, one: String, other: String },
}

impl History {
    /// Records an answer to a request that began at `began` and ended at `ended`.
    pub(super) fn record(&self, task: &str, by: &'static str, what: Observation, (began, ended): (Instant, Instant)) {
        let mut answers = self.0.lock();
        answers.count += 1;
        let seens = answers.tasks.entry(task.to_owned()).or_default();
        seens.is_new = true;
        seens.all.push(TimedObservation { began, ended, what, by });
    }

    /// Records which task a call with this key has got.
    pub(super) fn record_key(&self, key: &str, task: &str) -> Result<(), Contradiction> {
        let mut answers = self.0.lock();
        let known = answers.keys.entry(key.to_owned()).or_insert_with(|| task.to_owned());
        match known == task {
            true => Ok(()),
            false => Err(Contradiction::TwoTasks {
                key: key.to_owned(),
                one: known.clone(),
                other: task.to_owned(),
            }),
        }
    }

    /// How many answers there are.
    pub(super) fn count(&self) -> usize {
        self.0.lock().count
    }

    /// Checks the tasks about which there is anything new.
    pub(super) fn check(&self) -> Vec<Contradiction> {
        let mut answers = self.0.lock();
        let mut found = Vec::new();
        for (task, seens) in &mut answers.tasks {
            if std::mem::take(&mut seens.is_new) {
                found.extend(contradiction(task, &seens.all));
            }
        }
        found
    }
}

fn contradiction(task: &str, seen: &[TimedObservation]) -> Option<Contradiction> {
    let mut ends = seen.iter().filter_map(|seen| Some((seen, seen.what.end.as_ref()?)));
    if let Some((_, one)) = ends.next()
        && let Some((other, end)) = ends.find(|(_, end)| *end != one)
    {
        return Some(Contradiction::TwoEnds {
            task: task.to_owned(),
            one: one.clone(),
            other: format!("{end}, by {}", other.by),
        });
    }
    // By the time at which each was complete: the latest stage that was known by then.
    let mut known: BTreeMap<Instant, &TimedObservation> = BTreeMap::new();
    let mut by_end: Vec<&TimedObservation> = seen.iter().collect();
    by_end.sort_by_key(|seen| seen.ended);
    let mut latest: Option<&TimedObservation> = None;
    for seen in by_end {
        if latest.is_none_or(|latest| latest.what.least < seen.what.least) {
            latest = Some(seen);
            known.insert(seen.ended, seen);
        }
    }
    let before = |seen: &TimedObservation| known.range(..seen.began).next_back().map(|(_, known)| *known);
    let back = |seen: &&TimedObservation| before(seen).is_some_and(|known| known.what.least > seen.what.most);
    let then = seen.iter().find(back)?;
    let first = before(then)?;
    Some(Contradiction::Back {
        task: task.to_owned(),
        first: describe(first),
        then: format!(
            "{}, which began {:?} later",
            describe(then),
            then.began.duration_since(first.ended)
        ),
    })
}

fn describe(seen: &TimedObservation) -> String {
    let end = seen.what.end.as_deref().unwrap_or_default();
    format!("{:?} to {:?} by {} {end}", seen.what.least, seen.what.most, seen.by)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn check(answers: &[(Observation, u64, u64)]) -> Option<Contradiction> {
        let start = crate::clock::now();
        let at = |millis| start + Duration::from_millis(millis);
        let history = History::default();
        for (what, began, ended) in answers {
            history.record("t", "get", what.clone(), (at(*began), at(*ended)));
        }
        history.check().pop()
    }

    #[test]
    fn requests_that_overlap_may_be_in_either_order() {
        let end = Observation::ended("done".to_owned());
        assert_eq!(check(&[(end, 0, 10), (Observation::LIVE, 5, 20)]), None);
    }

    #[test]
    fn a_later_request_finds_no_earlier_stage() {
        let end = || Observation::ended("done".to_owned());
        assert!(matches!(
            check(&[(end(), 0, 10), (Observation::LIVE, 11, 20)]),
            Some(Contradiction::Back { .. })
        ));
        assert!(matches!(
            check(&[(Observation::ANSWERED, 0, 10), (Observation::ASKS, 11, 20)]),
            Some(Contradiction::Back { .. })
        ));
        assert!(matches!(
            check(&[
                (Observation::EXISTS, 0, 10),
                (Observation::ABSENT, 11, 12),
                (end(), 13, 14)
            ]),
            Some(Contradiction::Back { .. })
        ));
        assert_eq!(
            check(&[(Observation::ASKS, 0, 10), (Observation::LIVE, 11, 20), (end(), 21, 30)]),
            None
        );
    }

    #[test]
    fn there_is_one_end_and_one_task_of_a_key() {
        let end = |how: &str| Observation::ended(how.to_owned());
        assert!(matches!(
            check(&[(end("done"), 0, 30), (end("cancelled"), 5, 20)]),
            Some(Contradiction::TwoEnds { .. })
        ));
        let history = History::default();
        assert_eq!(history.record_key("k", "a"), Ok(()));
        assert_eq!(history.record_key("k", "a"), Ok(()));
        assert!(matches!(
            history.record_key("k", "b"),
            Err(Contradiction::TwoTasks { .. })
        ));
    }
}
