//! Random changes, one after the other.

use super::{Disk, count, now, tasks};
use crate::{
    MemoryStore,
    contract::differential::{Answer, Chooser, Refusal, Step, perform},
};
use longhaul_core::{
    Attempt, AttemptEnd, AttemptState, Event, Task, TaskId,
    store::{Change, Created},
};
use std::collections::HashSet;

/// What must be durable after the steps of a run.
#[derive(Default)]
struct ExpectedDurability {
    /// Tasks that are visible outside.
    visible: HashSet<TaskId>,
    /// Live tasks that only their attempts have changed.
    deferrable: HashSet<TaskId>,
    /// Tasks whose work is about to start outside of the process: their changes are synced until it has started.
    starting: HashSet<TaskId>,
}

impl ExpectedDurability {
    /// Whether a step with this `answer` must cost no sync.
    fn step(&mut self, step: &Step, answer: &Result<Answer, Refusal>) -> bool {
        let was_starting = matches!(step, Step::Apply(change) if self.starting.contains(&change.task));
        let tasks = match answer {
            Ok(Answer::Created(Created::New(task)) | Answer::Task(task)) => vec![task],
            Ok(Answer::Claimed(claimed)) => claimed.iter().map(|claimed| &claimed.task).collect(),
            _ => vec![],
        };
        for task in tasks {
            let starts = |attempt: &Attempt| attempt.state == AttemptState::Starting && attempt.host.is_some();
            match task.attempt.as_ref().is_some_and(starts) {
                true => self.starting.insert(task.id.clone()),
                false => self.starting.remove(&task.id),
            };
        }
        self.is_deferred(step, answer) && !was_starting
    }

    fn is_deferred(&mut self, step: &Step, answer: &Result<Answer, Refusal>) -> bool {
        match (step, answer) {
            (Step::Create(new), Ok(Answer::Created(Created::New(task)))) => {
                // A deleted task may have had the same id.
                self.visible.remove(&task.id);
                if new.announced || new.idempotency.is_some() || new.parent.is_some() {
                    self.visible.insert(task.id.clone());
                } else if new.outcome.is_none() {
                    self.deferrable.insert(task.id.clone());
                    return !matches!(new.claim, Some((_, Some(_))));
                }
                // The parent's journal has a new entry.
                let parent = new.lineage.as_ref().map(|lineage| lineage.parent.clone());
                if let Some(parent) = parent {
                    self.deferrable.remove(&parent);
                    self.visible.insert(parent);
                }
                false
            }
            (Step::Apply(change), Ok(Answer::Task(task))) => self.change(change, task),
            // The step makes no task visible and writes nothing that must be synced.
            _ => false,
        }
    }

    fn change(&mut self, change: &Change, task: &Task) -> bool {
        let makes_visible = |event: &Event| {
            [
                "promoted",
                "input_requested",
                "input_answered",
                "journaled",
                "child_ended",
            ]
            .contains(&event.name())
        };
        let reports = |event: &Event| {
            let stays_live = matches!(
                event,
                Event::AttemptEnded(AttemptEnd::Suspended { .. } | AttemptEnd::Blocked(_))
            );
            ["started", "reported", "attempt_ended"].contains(&event.name()) && !stays_live
        };
        if change.events.iter().any(makes_visible) {
            self.visible.insert(task.id.clone());
        }
        let was_deferrable = self.deferrable.contains(&task.id) && change.events.iter().all(reports);
        let stays = |event: &Event| reports(event) || ["claimed", "adopted", "ttl_extended"].contains(&event.name());
        if task.is_done() || !change.events.iter().all(stays) {
            self.deferrable.remove(&task.id);
        }
        was_deferrable
    }
}

/// After each step the disk is certain to hold all that may be visible outside, and changes that are not visible have cost no
/// sync.
#[test]
fn invariant_1_what_is_visible_outside_is_synced_before_it_is_acknowledged() {
    let mut left_alone = 0;
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for seed in [11, 12] {
        left_alone += runtime.block_on(random_run(seed));
    }
    assert!(left_alone > 20, "{left_alone} steps that were deferred");
}

async fn random_run(seed: u64) -> usize {
    let disk = Disk::new(false);
    let mut store = disk.open();
    let model = MemoryStore::new();
    let mut chooser = Chooser::new(seed);
    let mut expected = ExpectedDurability::default();
    let mut left_alone = 0;
    for nth in 0..1_000 {
        let step = chooser.next(&model).await;
        if let Step::Reopen = step {
            drop(store);
            store = disk.open();
            // Closing syncs everything, and tasks of an earlier process are synced.
            disk.synced().tasks = now(&store, tasks);
            expected.deferrable.clear();
            continue;
        }
        chooser.learn(&step, &perform(&model, &step).await);
        let before = disk.synced().times;
        let answer = perform(&*store, &step).await;
        let synced = disk.synced();
        if expected.step(&step, &answer) {
            assert_eq!(
                synced.times, before,
                "seed {seed}, step {nth}: {step:?} must cost no sync"
            );
            left_alone += 1;
        }
        let (there, certain) = (now(&store, tasks), &synced.tasks);
        for id in &expected.visible {
            let (there, certain) = (there.get(id), certain.get(id));
            assert_eq!(
                certain, there,
                "seed {seed}, step {nth}: {id} is not on the disk as it was left by {step:?}"
            );
        }
        let (nodes, sessions) = now(&store, |now| (count(now, "nodes"), count(now, "ended_sessions")));
        assert_eq!(
            (synced.nodes, synced.sessions),
            (nodes, sessions),
            "seed {seed}, step {nth}: {step:?}"
        );
    }
    left_alone
}
