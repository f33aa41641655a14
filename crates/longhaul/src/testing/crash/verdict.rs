//! What is held against a run.

use super::{
    child::Report,
    trace::{Kept, Line},
};
use longhaul_core::{ChildEntry, Json, Outcome};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// How much alike the outcomes of all runs must be.
#[derive(Clone)]
pub(super) enum Likeness {
    /// The tool said yes in all, or no in all, or could not be carried through in any.
    Verdict,
    /// To the letter.
    Output,
}

/// All that is wrong with a run, whose processes have left this.
pub(super) fn faults(trace: &[Line], report: &Report) -> Vec<String> {
    let mut faults = steps(trace);
    faults.extend(fails_by_itself(report));
    faults.extend(ends(trace, report));
    faults.extend(kept(trace, report));
    faults.extend(trace.iter().filter_map(|line| match line {
        Line::Repeated { what, fault } => Some(format!(
            "the write of {what}, made twice, was not as good as once:\n  {fault}"
        )),
        _ => None,
    }));
    faults.extend(
        (report.calls != 1).then(|| format!("the call was made {} times, under one idempotency key", report.calls)),
    );
    faults.extend(
        (report.misled.iter()).map(|told| format!("its client was told {told}, and it has come to {}", report.outcome)),
    );
    faults.extend((report.open.iter()).map(|key| format!("the task is over, and its question {key} is open")));
    faults.extend((report.live.iter()).map(|task| format!("the task is over, and its child {task} is not")));
    faults
}

/// A tool that cannot be run again, crash or no crash, is not worth comparing with itself.
fn fails_by_itself(report: &Report) -> Option<String> {
    let Some(Outcome::RpcError(failure)) = ending(report) else {
        return None;
    };
    let data: Value = serde_json::from_str(failure.data.as_ref()?.as_str()).ok()?;
    matches!(data["reason"].as_str(), Some("diverged" | "poisoned")).then(|| failure.message.to_string())
}

/// A step begins no more once it is journaled how it ended.
fn steps(trace: &[Line]) -> Vec<String> {
    let mut settled = BTreeSet::new();
    let mut faults = Vec::new();
    for line in trace {
        match line {
            Line::Committed { task, entries } => {
                let over = entries.iter().filter(|entry| entry.settled);
                settled.extend(over.map(|entry| (task.clone(), entry.key.clone())));
            }
            Line::Begins { task, step } if settled.contains(&(task.clone(), step.clone())) => {
                faults.push(format!("{step} began again after it had been journaled (task {task})"));
            }
            _ => {}
        }
    }
    faults
}

/// A task ends once.
fn ends(trace: &[Line], report: &Report) -> Vec<String> {
    let mut ends: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for line in trace {
        if let Line::Ended { task, outcome } = line {
            ends.entry(task).or_default().insert(outcome);
        }
    }
    ends.entry(&report.task).or_default().insert(&report.outcome);
    let twice = ends.iter().filter(|(_, outcomes)| outcomes.len() > 1);
    twice
        .map(|(task, outcomes)| format!("task {task} has ended in several ways: {outcomes:?}"))
        .collect()
}

/// What was acknowledged is there.
fn kept(trace: &[Line], report: &Report) -> Vec<String> {
    let mut faults = Vec::new();
    for line in trace {
        let Line::Committed { task, entries } = line else {
            continue;
        };
        let journal = report.journals.get(task).map_or(&[][..], Vec::as_slice);
        for entry in entries {
            let now = journal.iter().find(|kept| kept.seq == entry.seq);
            let same = |now: &&Kept| now.key == entry.key && (!entry.settled || now.value == entry.value);
            if now.filter(same).is_none() {
                let now = now.map_or_else(|| "nothing".to_owned(), show);
                faults.push(format!(
                    "{} was acknowledged, and in its place there is {now} (task {task})",
                    show(entry)
                ));
            }
        }
    }
    faults
}

/// Whether a run came to what the run without a crash had come to; else what was different.
pub(super) fn unlike(likeness: &Likeness, learned: &Report, report: &Report) -> Option<String> {
    let (expected, found) = (ending(learned), ending(report));
    let same = match likeness {
        Likeness::Verdict => expected.as_ref().map(Outcome::verdict) == found.as_ref().map(Outcome::verdict),
        Likeness::Output => expected == found,
    };
    (!same).then(|| {
        format!(
            "it came to {}, and without a crash to {}",
            tell(&found),
            tell(&expected)
        )
    })
}

/// How the task of a report ended.
pub(super) fn ending(report: &Report) -> Option<Outcome> {
    ChildEntry::from_json(&Json::parse(&report.outcome).ok()?).ok()?.outcome
}

fn tell(outcome: &Option<Outcome>) -> String {
    match outcome {
        Some(Outcome::Result { json, .. }) => json.as_str().to_owned(),
        Some(Outcome::RpcError(error)) => format!("the error {:?}", error.message),
        Some(Outcome::Cancelled) => "a cancellation".to_owned(),
        None => "nothing".to_owned(),
    }
}

/// As people read a journal: one entry a line.
pub(super) fn journal(report: &Report) -> String {
    let entries = report.journals.get(&report.task).map_or(&[][..], Vec::as_slice);
    entries.iter().map(|entry| format!("\n  {}", show(entry))).collect()
}

fn show(entry: &Kept) -> String {
    const LONGEST: usize = 120;
    let mut value: String = entry.value.chars().take(LONGEST).collect();
    if value.len() < entry.value.len() {
        value.push('…');
    }
    format!("{}. {}: {value}", entry.seq, entry.key)
}
