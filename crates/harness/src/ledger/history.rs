//! Checks that each task is linearizable: that there is one order of all requests about it, which keeps those that did not overlap in their order, and in which
//! each answer is right.
//!
//! A task only goes forward, through the [`Stage`]s, and all that is read of an end is equal. So whether there is such an order need not be searched for: there
//! is one if, and only if, no answer says that the task is at an earlier stage than another answer that was complete before its request began. (Each request is
//! put at the latest stage that was known when it began, or later if its answer says so; these stages never fall.) That is decided in one pass, where a general
//! checker tries orders, and cannot do that for hundreds of requests that overlap.

use crate::{
    mcp::CallOutcome,
    rounds::violation::{Invariant, Violation},
};
use std::{collections::BTreeMap, time::Instant};

/// How far a task has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
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
pub(crate) struct Observation {
    /// It is at this stage at least.
    least: Stage,
    /// And at this one at most.
    most: Stage,
    /// How it has ended, as far as the answer says.
    end: Option<String>,
    status: Option<String>,
}

impl Observation {
    /// There is a task, which may be anything.
    pub(crate) const EXISTS: Self = Self::between(Stage::Begun, Stage::Ended);
    /// It has not ended.
    pub(crate) const LIVE: Self = Self::between(Stage::Begun, Stage::Answered);
    /// It waits for an answer.
    pub(crate) const ASKS: Self = Self::between(Stage::Begun, Stage::Begun);
    /// Its question was answered, now or before.
    pub(crate) const ANSWERED: Self = Self::between(Stage::Answered, Stage::Ended);
    /// It has ended somehow.
    pub(crate) const ENDED: Self = Self::between(Stage::Ended, Stage::Ended);
    /// Nobody knows it.
    pub(crate) const ABSENT: Self = Self::between(Stage::Absent, Stage::Absent);

    const fn between(least: Stage, most: Stage) -> Self {
        Self {
            least,
            most,
            end: None,
            status: None,
        }
    }

    /// It has ended like this.
    pub(crate) fn ended(outcome: &CallOutcome) -> Self {
        Self {
            end: Some(format!("{outcome:?}")),
            ..Self::ended_as(outcome.status())
        }
    }

    /// It has ended with this status.
    pub(crate) fn ended_as(status: &str) -> Self {
        Self {
            status: Some(status.to_owned()),
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

/// All answers about a task.
#[derive(Default)]
pub(crate) struct TaskHistory {
    all: Vec<TimedObservation>,
    /// Whether there are new ones since it was checked.
    is_new: bool,
}

impl TaskHistory {
    /// Records an answer to a request that began at `began` and ended at `ended`.
    pub(crate) fn record(&mut self, by: &'static str, what: Observation, (began, ended): (Instant, Instant)) {
        self.is_new = true;
        self.all.push(TimedObservation { began, ended, what, by });
    }

    /// Checks the answers, if there are new ones.
    pub(crate) fn check(&mut self, task: &str) -> Option<Violation> {
        if !std::mem::take(&mut self.is_new) {
            return None;
        }
        let two_ends =
            || two(&self.all, |what| what.end.as_deref()).or_else(|| two(&self.all, |what| what.status.as_deref()));
        if let Some((one, other)) = two_ends() {
            return Some(Invariant::DONE_IS_FINAL.violated(format!("task {task} ended as {one} and as {other}")));
        }
        let (first, then) = backward_step(&self.all)?;
        Some(Invariant::LINEARIZABLE.violated(format!(
            "task {task} was {}, and then {}, by a request that began {:?} later",
            describe(first),
            describe(then),
            then.began.duration_since(first.ended)
        )))
    }
}

/// Two ends that differ.
fn two<'a>(
    seen: &'a [TimedObservation],
    end: impl Fn(&'a Observation) -> Option<&'a str>,
) -> Option<(&'a str, String)> {
    let mut ends = seen.iter().filter_map(|seen| Some((seen, end(&seen.what)?)));
    let (_, one) = ends.next()?;
    let (other, end) = ends.find(|(_, end)| *end != one)?;
    Some((one, format!("{end}, by {}", other.by)))
}

/// An answer, and a later one that has found an earlier stage.
fn backward_step(seen: &[TimedObservation]) -> Option<(&TimedObservation, &TimedObservation)> {
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
    seen.iter().find_map(|then| {
        let first = before(then).filter(|known| known.what.least > then.what.most)?;
        Some((first, then))
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

    fn check(answers: &[(Observation, u64, u64)]) -> Option<Invariant> {
        let start = crate::clock::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut history = TaskHistory::default();
        for (what, began, ended) in answers {
            history.record("get", what.clone(), (at(*began), at(*ended)));
        }
        history.check("t").map(|violation| violation.invariant)
    }

    fn end() -> Observation {
        Observation::ended(&CallOutcome::Cancelled)
    }

    #[test]
    fn requests_that_overlap_may_be_in_either_order() {
        assert_eq!(check(&[(end(), 0, 10), (Observation::LIVE, 5, 20)]), None);
    }

    #[test]
    fn a_later_request_finds_no_earlier_stage() {
        let back = Some(Invariant::LINEARIZABLE);
        assert_eq!(check(&[(end(), 0, 10), (Observation::LIVE, 11, 20)]), back);
        assert_eq!(
            check(&[(Observation::ANSWERED, 0, 10), (Observation::ASKS, 11, 20)]),
            back
        );
        let exists = (Observation::EXISTS, 0, 10);
        assert_eq!(check(&[exists, (Observation::ABSENT, 11, 12), (end(), 13, 14)]), back);
        assert_eq!(
            check(&[(Observation::ASKS, 0, 10), (Observation::LIVE, 11, 20), (end(), 21, 30)]),
            None
        );
    }

    #[test]
    fn there_is_one_end() {
        let other = Observation::ended(&CallOutcome::Result {
            is_error: false,
            text: "done".to_owned(),
        });
        assert_eq!(check(&[(end(), 0, 30), (other, 5, 20)]), Some(Invariant::DONE_IS_FINAL));
        let completed = Observation::ended_as("completed");
        assert_eq!(
            check(&[(end(), 0, 30), (completed, 5, 20)]),
            Some(Invariant::DONE_IS_FINAL)
        );
    }
}
