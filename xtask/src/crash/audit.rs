//! Holding the server to what it acknowledged.

use super::{
    journal::History,
    kind::Kind,
    ledger::{Entry, Ledger},
    site::Site,
    supervisors::{self, Attempt},
    violation::Violation,
};
use crate::{
    clock,
    mcp::{Client, Outcome, RequestError},
};
use std::{collections::BTreeSet, fs, time::Duration};

/// How long the last tasks may take to end. None of them works for longer than a second.
const DRAIN: Duration = Duration::from_secs(60);

/// The file that forbids an attempt to start.
pub(super) const VOID: &str = "void";
/// The file that says that a command may have been started.
pub(super) const STARTED: &str = "started";

/// Looks at these tasks, all of which were acknowledged.
pub(super) fn tasks(client: &mut Client, ledger: &Ledger, due: &[String]) -> Vec<Violation> {
    due.iter().filter_map(|task| look(client, ledger, task).err()).collect()
}

fn look(client: &mut Client, ledger: &Ledger, task: &str) -> Result<(), Violation> {
    let before = ledger.entry(task).and_then(|entry| entry.outcome);
    match client.get(task) {
        Ok(look) => ledger.shown(task, before, look),
        Err(trouble @ RequestError::Refused { .. }) => Err(Violation::Lost {
            task: task.to_owned(),
            why: trouble.to_string(),
        }),
        Err(trouble) => Err(Violation::Misbehaved {
            era: client.era().name(),
            doing: "looking after a restart",
            problem: trouble.to_string(),
        }),
    }
}

/// Waits until every acknowledged task is over, and names those that never are.
pub(super) fn drain(client: &mut Client, ledger: &Ledger) -> Vec<Violation> {
    let mut violations = Vec::new();
    let open = || {
        let open = ledger
            .tasks()
            .into_iter()
            .filter(|task| ledger.entry(task).is_some_and(|entry| entry.outcome.is_none()));
        open.collect::<Vec<_>>()
    };
    clock::wait_for(DRAIN, || {
        violations.extend(tasks(client, ledger, &open()));
        (ledger.open() == 0 || !violations.is_empty()).then_some(())
    });
    if violations.is_empty() {
        violations.extend(open().into_iter().map(|task| Violation::NeverEnds { task }));
    }
    violations
}

/// Waits until no supervisor is left: attempts that were told to stop may outlive their tasks, but not for ever.
pub(super) fn silence(site: &Site) -> Vec<Violation> {
    let attempts = site.attempts();
    clock::wait_for(DRAIN, || supervisors::living(&attempts).is_empty().then_some(()));
    let left = supervisors::living(&attempts).into_iter();
    left.map(|supervisor| Violation::LeftBehind {
        attempt: supervisor.attempt,
    })
    .collect()
}

/// What happened to attempts from outside.
#[derive(Default)]
pub(super) struct Fates {
    /// Their supervisor was killed.
    pub(super) killed: BTreeSet<Attempt>,
    /// They were running when a server died, and when the next one served.
    pub(super) survived: BTreeSet<Attempt>,
    /// Their supervisor was held back over a restart, before it had begun.
    pub(super) late: BTreeSet<Attempt>,
}

/// Judges every outcome against the journal and against what was done to the task. Counts the results that came out of an
/// attempt which a later server took up.
pub(super) fn outcomes(ledger: &Ledger, history: &History, fates: &Fates) -> (Vec<Violation>, usize) {
    let mut reattached = 0;
    let mut violations = Vec::new();
    for task in ledger.tasks() {
        let Some(entry) = ledger.entry(&task) else { continue };
        match judge(&task, &entry, history, fates) {
            Ok(Some(attempt)) => reattached += usize::from(fates.survived.contains(&attempt)),
            Ok(None) => {}
            Err(violation) => violations.push(violation),
        }
        violations.extend(runs(&task, &entry, history, fates).err());
    }
    (violations, reattached)
}

/// The attempt that gave the outcome, if one did.
fn judge(task: &str, entry: &Entry, history: &History, fates: &Fates) -> Result<Option<Attempt>, Violation> {
    let name = || task.to_owned();
    match &entry.outcome {
        None => Ok(None),
        Some(Outcome::Cancelled) if entry.cancel_sent => Ok(None),
        Some(Outcome::Cancelled) => Err(Violation::CancelledByNobody { task: name() }),
        Some(Outcome::Result { is_error, text }) if *is_error == (entry.kind == Kind::Failing) => {
            let foreign = || Violation::Foreign {
                task: name(),
                text: text.chars().take(200).collect(),
            };
            let attempt = origin(task, entry, text).ok_or_else(foreign)?;
            let run = history
                .runs
                .get(&attempt)
                .filter(|run| run.ended && run.token == entry.token);
            run.map(|_| Some(attempt)).ok_or_else(foreign)
        }
        // Interrupted, which killing the supervisor does, unless the tool is to be tried again.
        Some(Outcome::Error { .. }) if entry.kind != Kind::Retried && was_killed(task, fates) => Ok(None),
        Some(outcome) => Err(Violation::CostByRestart {
            task: name(),
            outcome: outcome.clone(),
        }),
    }
}

/// The attempt that a result names, in a line of its own: `<task> <epoch> <token>`.
fn origin(task: &str, entry: &Entry, text: &str) -> Option<Attempt> {
    text.lines().find_map(|line| {
        let rest = line.strip_prefix(task)?.strip_prefix(' ')?;
        let (epoch, token) = rest.split_once(' ')?;
        let attempt = Attempt {
            task: task.to_owned(),
            epoch: epoch.parse().ok()?,
        };
        (token == entry.token).then_some(attempt)
    })
}

fn was_killed(task: &str, fates: &Fates) -> bool {
    times_killed(task, fates) > 0
}

fn times_killed(task: &str, fates: &Fates) -> usize {
    fates.killed.range(Attempt::all_of(task)).count()
}

/// Only a crash of the supervisor is a reason to start a command again, and only if its tool is to be tried again.
fn runs(task: &str, entry: &Entry, history: &History, fates: &Fates) -> Result<(), Violation> {
    let retries = if entry.kind == Kind::Retried {
        times_killed(task, fates)
    } else {
        0
    };
    let runs = history.runs_of(task);
    let allowed = 1 + retries;
    if runs > allowed {
        return Err(Violation::RanTooOften {
            task: task.to_owned(),
            runs,
            allowed,
        });
    }
    Ok(())
}

/// What came of the attempts that were declared void.
pub(super) struct Voids {
    pub(super) all: usize,
    /// Those whose supervisor came later.
    pub(super) refused: usize,
}

/// Checks that nothing was started where nothing may be.
pub(super) fn voids(site: &Site, history: &History, fates: &Fates) -> (Vec<Violation>, Voids) {
    let attempts = site.attempts();
    let is_void = |attempt: &&Attempt| attempt.directory(&attempts).join(VOID).exists();
    let started = history.runs.keys().filter(is_void).cloned();
    let violations = started
        .map(|attempt| Violation::StartedThoughVoid { attempt })
        .collect();
    let tasks = fs::read_dir(&attempts).into_iter().flatten().flatten();
    let epochs = tasks.flat_map(|task| fs::read_dir(task.path()).into_iter().flatten().flatten());
    let all = epochs.filter(|epoch| epoch.path().join(VOID).exists()).count();
    (
        violations,
        Voids {
            all,
            refused: fates.late.iter().filter(is_void).count(),
        },
    )
}
