//! What must hold after each run.

use super::{
    trace::{TraceLine, TracedEntry},
    worker::RunReport,
};
use longhaul_core::{ChildEntry, Json, Outcome};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// How the outcomes of all runs are compared.
#[derive(Clone)]
pub(super) enum OutcomeComparison {
    /// All succeed, all fail, or all end with a JSON-RPC error.
    Verdict,
    /// They are equal.
    Output,
}

/// Everything that is wrong with a run.
pub(super) fn problems(trace: &[TraceLine], report: &RunReport) -> Vec<String> {
    let mut problems = steps(trace);
    problems.extend(cannot_be_replayed(report));
    problems.extend(ends(trace, report));
    problems.extend(entries_kept(trace, report));
    problems.extend(trace.iter().filter_map(|line| match line {
        TraceLine::Repeated { what, fault } => Some(format!(
            "the write of {what} changed something when it was repeated:\n  {fault}"
        )),
        _ => None,
    }));
    problems.extend(
        (report.calls != 1).then(|| format!("the call was made {} times, under one idempotency key", report.calls)),
    );
    problems.extend(
        (report.contradiction.iter())
            .map(|received| format!("its client received {received}, and its outcome is {}", report.outcome)),
    );
    problems
        .extend((report.open.iter()).map(|key| format!("the task has ended, and its question {key} is still open")));
    problems.extend((report.live.iter()).map(|task| format!("the task has ended, and its child {task} has not")));
    problems
}

/// A tool that cannot be replayed fails in every run, so comparing its runs would find nothing.
fn cannot_be_replayed(report: &RunReport) -> Option<String> {
    let Some(Outcome::RpcError(failure)) = outcome(report) else {
        return None;
    };
    let data: Value = serde_json::from_str(failure.data.as_ref()?.as_str()).ok()?;
    matches!(data["reason"].as_str(), Some("diverged" | "poisoned")).then(|| failure.message.to_string())
}

/// A step must not begin again once its result is journaled.
fn steps(trace: &[TraceLine]) -> Vec<String> {
    let mut settled = BTreeSet::new();
    let mut problems = Vec::new();
    for line in trace {
        match line {
            TraceLine::Committed { task, entries } => {
                let results = entries.iter().filter(|entry| entry.settled);
                settled.extend(results.map(|entry| (task.clone(), entry.key.clone())));
            }
            TraceLine::Begins { task, step } if settled.contains(&(task.clone(), step.clone())) => {
                problems.push(format!("{step} began again after it had been journaled (task {task})"));
            }
            _ => {}
        }
    }
    problems
}

/// A task must end once.
fn ends(trace: &[TraceLine], report: &RunReport) -> Vec<String> {
    let mut ends: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for line in trace {
        if let TraceLine::Ended { task, outcome } = line {
            ends.entry(task).or_default().insert(outcome);
        }
    }
    ends.entry(&report.task).or_default().insert(&report.outcome);
    let ended_twice = ends.iter().filter(|(_, outcomes)| outcomes.len() > 1);
    ended_twice
        .map(|(task, outcomes)| format!("task {task} has several outcomes: {outcomes:?}"))
        .collect()
}

/// Acknowledged entries must be in the journal.
fn entries_kept(trace: &[TraceLine], report: &RunReport) -> Vec<String> {
    let mut problems = Vec::new();
    for line in trace {
        let TraceLine::Committed { task, entries } = line else {
            continue;
        };
        let journal = report.journals.get(task).map_or(&[][..], Vec::as_slice);
        for entry in entries {
            let now = journal.iter().find(|found| found.seq == entry.seq);
            let same = |now: &&TracedEntry| now.key == entry.key && (!entry.settled || now.value == entry.value);
            if now.filter(same).is_none() {
                let now = now.map_or_else(|| "nothing".to_owned(), show);
                problems.push(format!(
                    "{} was acknowledged, and the journal has {now} instead (task {task})",
                    show(entry)
                ));
            }
        }
    }
    problems
}

/// How the outcome of a run differs from that of the run without a crash; `None` if it does not.
pub(super) fn outcome_difference(
    comparison: &OutcomeComparison,
    reference: &RunReport,
    report: &RunReport,
) -> Option<String> {
    let (expected, found) = (outcome(reference), outcome(report));
    let same = match comparison {
        OutcomeComparison::Verdict => expected.as_ref().map(Outcome::verdict) == found.as_ref().map(Outcome::verdict),
        OutcomeComparison::Output => expected == found,
    };
    (!same).then(|| {
        format!(
            "its outcome is {}, and without a crash {}",
            describe(&found),
            describe(&expected)
        )
    })
}

/// The outcome of the call of a run.
pub(super) fn outcome(report: &RunReport) -> Option<Outcome> {
    ChildEntry::from_json(&Json::parse(&report.outcome).ok()?).ok()?.outcome
}

fn describe(outcome: &Option<Outcome>) -> String {
    match outcome {
        Some(Outcome::Result { json, .. }) => json.as_str().to_owned(),
        Some(Outcome::RpcError(error)) => format!("the error {:?}", error.message),
        Some(Outcome::Cancelled) => "a cancellation".to_owned(),
        None => "nothing".to_owned(),
    }
}

/// The journal of the call, one entry a line.
pub(super) fn journal(report: &RunReport) -> String {
    let entries = report.journals.get(&report.task).map_or(&[][..], Vec::as_slice);
    entries.iter().map(|entry| format!("\n  {}", show(entry))).collect()
}

fn show(entry: &TracedEntry) -> String {
    const LONGEST: usize = 120;
    let mut value: String = entry.value.chars().take(LONGEST).collect();
    if value.len() < entry.value.len() {
        value.push('…');
    }
    format!("{}. {}: {value}", entry.seq, entry.key)
}
