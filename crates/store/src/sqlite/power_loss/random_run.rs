//! One change after the other, whatever may come.

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

/// What was said to whom, as the steps of a run tell it.
#[derive(Default)]
struct Told {
    /// Tasks that someone outside can know of.
    known: HashSet<TaskId>,
    /// Live tasks of which only their attempts have spoken.
    quiet: HashSet<TaskId>,
    /// Tasks whose work is about to start outside of the process: what is said of them is synced until it has.
    starting: HashSet<TaskId>,
}

impl Told {
    /// Whether a step that came to `answer` has to leave the disk alone.
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
        self.says(step, answer) && !was_starting
    }

    fn says(&mut self, step: &Step, answer: &Result<Answer, Refusal>) -> bool {
        match (step, answer) {
            (Step::Create(new), Ok(Answer::Created(Created::New(task)))) => {
                // Its name may have been that of one that is deleted.
                self.known.remove(&task.id);
                if new.announced || new.idempotency.is_some() || new.parent.is_some() {
                    self.known.insert(task.id.clone());
                } else if new.outcome.is_none() {
                    self.quiet.insert(task.id.clone());
                    return !matches!(new.claim, Some((_, Some(_))));
                }
                // The parent's journal has another entry.
                let parent = new.lineage.as_ref().map(|lineage| lineage.parent.clone());
                if let Some(parent) = parent {
                    self.quiet.remove(&parent);
                    self.known.insert(parent);
                }
                false
            }
            (Step::Apply(change), Ok(Answer::Task(task))) => self.change(change, task),
            // Nobody is told of a task, and nothing has to be written.
            _ => false,
        }
    }

    fn change(&mut self, change: &Change, task: &Task) -> bool {
        let is_told = |event: &Event| {
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
        if change.events.iter().any(is_told) {
            self.known.insert(task.id.clone());
        }
        let was_quiet = self.quiet.contains(&task.id) && change.events.iter().all(reports);
        let stays = |event: &Event| reports(event) || ["claimed", "adopted", "ttl_extended"].contains(&event.name());
        if task.is_done() || !change.events.iter().all(stays) {
            self.quiet.remove(&task.id);
        }
        was_quiet
    }
}

/// One step after the other: after each, the disk is certain to hold all that anyone may have been told, and what nobody hears of has
/// cost no sync.
#[test]
fn invariant_1_what_anyone_can_know_of_is_synced_before_it_is_acknowledged() {
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
    let mut told = Told::default();
    let mut left_alone = 0;
    for nth in 0..1_000 {
        let step = chooser.next(&model).await;
        if let Step::Reopen = step {
            drop(store);
            store = disk.open();
            // Closing brings all to the disk, and what is not known to be deferrable is synced.
            disk.synced().tasks = now(&store, tasks);
            told.quiet.clear();
            continue;
        }
        chooser.learn(&step, &perform(&model, &step).await);
        let before = disk.synced().times;
        let answer = perform(&*store, &step).await;
        let synced = disk.synced();
        if told.step(&step, &answer) {
            assert_eq!(
                synced.times, before,
                "seed {seed}, step {nth}: nobody hears of {step:?}"
            );
            left_alone += 1;
        }
        let (there, certain) = (now(&store, tasks), &synced.tasks);
        for id in &told.known {
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
