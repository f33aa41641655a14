//! Checks that the server has kept everything that it acknowledged.

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

/// How long the last tasks may take to end.
const DRAIN: Duration = Duration::from_secs(60);

/// The file that prevents an attempt from starting.
pub(super) const VOID: &str = "void";
/// The file that says that a command may have been started.
pub(super) const STARTED: &str = "started";

/// Polls these acknowledged tasks, and checks their states.
pub(super) fn tasks(client: &mut Client, ledger: &Ledger, due: &[String]) -> Vec<Violation> {
    due.iter()
        .filter_map(|task| check_task(client, ledger, task).err())
        .collect()
}

fn check_task(client: &mut Client, ledger: &Ledger, task: &str) -> Result<(), Violation> {
    let before = ledger.entry(task).and_then(|entry| entry.outcome);
    match client.get(task) {
        Ok(state) => ledger.record_state(task, before, state),
        Err(error @ RequestError::Refused { .. }) => Err(Violation::Lost {
            task: task.to_owned(),
            why: error.to_string(),
        }),
        Err(error) => Err(Violation::Misbehaved {
            era: client.era().name(),
            doing: "polling after a restart",
            problem: error.to_string(),
        }),
    }
}

/// Waits until every acknowledged task has ended, and reports those that do not.
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

/// Checks that deleted tasks are gone with all that they had. What was not acknowledged is deleted again first: it may be there or not.
pub(super) fn deleted(client: &mut Client, ledger: &Ledger, site: &Site) -> Vec<Violation> {
    let mut violations = Vec::new();
    let deleted = ledger.deleted();
    for (task, is_acknowledged) in &deleted {
        if !is_acknowledged {
            let again = client.delete(task);
            let is_fine = matches!(again, Ok(()) | Err(RequestError::Refused { .. }));
            violations.extend((!is_fine).then(|| Violation::StillThere {
                task: task.clone(),
                what: "a second deletion fails",
            }));
        }
        if !matches!(client.get(task), Err(RequestError::Refused { .. })) {
            violations.push(Violation::StillThere {
                task: task.clone(),
                what: "it can be read",
            });
        }
    }
    let attempts = site.attempts();
    let kept = |(task, _): &&(String, bool)| attempts.join(task).exists();
    clock::wait_for(DRAIN, || (!deleted.iter().any(|task| kept(&task))).then_some(()));
    violations.extend(deleted.iter().filter(kept).map(|(task, _)| Violation::StillThere {
        task: task.clone(),
        what: "its folder exists",
    }));
    violations
}

/// Waits until no supervisor is left: attempts that are being stopped may outlive their tasks for a while.
pub(super) fn supervisors_end(site: &Site) -> Vec<Violation> {
    let attempts = site.attempts();
    clock::wait_for(DRAIN, || supervisors::running(&attempts).is_empty().then_some(()));
    let left = supervisors::running(&attempts).into_iter();
    left.map(|supervisor| Violation::LeftBehind {
        attempt: supervisor.attempt,
    })
    .collect()
}

/// What the test has done to attempts.
#[derive(Default)]
pub(crate) struct Interventions {
    /// Attempts whose supervisor was killed.
    pub(super) killed: BTreeSet<Attempt>,
    /// Attempts that ran when a server was killed, and when the next one served.
    pub(super) survived: BTreeSet<Attempt>,
    /// Attempts whose supervisor was suspended over a restart, before it had started its command.
    pub(super) late: BTreeSet<Attempt>,
}

/// Checks every outcome against the journal and the interventions. Counts the results of attempts
/// that a later server has taken over.
pub(crate) fn outcomes(ledger: &Ledger, history: &History, interventions: &Interventions) -> (Vec<Violation>, usize) {
    let mut reattached = 0;
    let mut violations = Vec::new();
    for task in ledger.tasks() {
        let Some(entry) = ledger.entry(&task) else { continue };
        match check_outcome(&task, &entry, history, interventions) {
            Ok(Some(attempt)) => reattached += usize::from(interventions.survived.contains(&attempt)),
            Ok(None) => {}
            Err(violation) => violations.push(violation),
        }
        violations.extend(runs(&task, &entry, history, interventions).err());
    }
    (violations, reattached)
}

/// Checks the outcome of a task. Returns the attempt that it is the result of, if any.
fn check_outcome(
    task: &str,
    entry: &Entry,
    history: &History,
    interventions: &Interventions,
) -> Result<Option<Attempt>, Violation> {
    let name = || task.to_owned();
    match &entry.outcome {
        None => Ok(None),
        Some(Outcome::Cancelled) if entry.cancel_sent => Ok(None),
        Some(Outcome::Cancelled) => Err(Violation::CancelledByNobody { task: name() }),
        Some(Outcome::Result { is_error, text }) if *is_error == (entry.kind == Kind::Failing) => {
            let not_its_own = || Violation::Foreign {
                task: name(),
                text: text.chars().take(200).collect(),
            };
            let attempt = origin(task, entry, text).ok_or_else(not_its_own)?;
            let run = history
                .runs
                .get(&attempt)
                .filter(|run| run.ended && run.token == entry.token);
            run.map(|_| Some(attempt)).ok_or_else(not_its_own)
        }
        // Interrupted because the supervisor was killed, unless the tool has retries.
        Some(Outcome::Error { .. }) if entry.kind != Kind::Retried && was_killed(task, interventions) => Ok(None),
        Some(outcome) => Err(Violation::CostByRestart {
            task: name(),
            outcome: outcome.clone(),
        }),
    }
}

/// The attempt in a result, from a line `<task> <epoch> <token>`.
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

fn was_killed(task: &str, interventions: &Interventions) -> bool {
    times_killed(task, interventions) > 0
}

fn times_killed(task: &str, interventions: &Interventions) -> usize {
    interventions.killed.range(Attempt::all_of(task)).count()
}

/// Checks how often a command has run. It may run again only after a crash of its supervisor, and only if its tool has retries.
fn runs(task: &str, entry: &Entry, history: &History, interventions: &Interventions) -> Result<(), Violation> {
    let retries = if entry.kind == Kind::Retried {
        times_killed(task, interventions)
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

/// How many attempts are void.
pub(super) struct VoidCounts {
    pub(super) all: usize,
    /// Those whose supervisor started later.
    pub(super) refused: usize,
}

/// Checks that no command of a void attempt was started.
pub(super) fn voids(site: &Site, history: &History, interventions: &Interventions) -> (Vec<Violation>, VoidCounts) {
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
        VoidCounts {
            all,
            refused: interventions.late.iter().filter(is_void).count(),
        },
    )
}
