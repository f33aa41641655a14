//! Sends one random run of operations to the model and to the store under test, and compares their answers and contents.
//!
//! A run ends only when every operation has succeeded, and every refusal been seen, at least once. The same seed gives the same
//! run.

mod chooser;
mod seen;
mod step;

use super::{NewSubject, Subject};
use crate::MemoryStore;
use longhaul_core::{
    BoxFuture, Clock, Store, Task, TaskId, UnixMillis,
    store::{TaskLookup, TaskStore},
};
use seen::SeenCases;
use std::{sync::Arc, time::Duration};

pub(crate) use chooser::Chooser;
pub(crate) use step::{Refusal, StepAnswer, StoreCall, perform};

/// The least steps of a run, and the most until every operation and refusal must have been seen.
const LEAST_STEPS: u32 = 1_000;
const MOST_STEPS: u32 = 20_000;
/// After so many steps, and after each reopening, the tasks that are still moving are compared whole; at the end all are.
const SNAPSHOT_EVERY: u32 = 100;
const RECENT: usize = 40;

/// Three runs that differ.
pub async fn a_random_run_agrees_with_the_model(new_subject: NewSubject) {
    for seed in [1, 2, 3] {
        run(new_subject, seed).await;
    }
}

/// One run. Panics with the seed and the step at which the two disagree.
pub async fn run(new_subject: NewSubject, seed: u64) {
    let mut run = Run::new(new_subject, seed).await;
    while run.steps < LEAST_STEPS || !run.seen.missing().is_empty() {
        assert!(
            run.steps < MOST_STEPS,
            "seed {seed}: never seen: {:?}",
            run.seen.missing()
        );
        run.step().await;
    }
    run.subject.before_last_comparison().await;
    run.compare(usize::MAX).await;
}

/// As [`run`], but ends after so many steps, whatever has been seen by then: for a store whose operations are slow.
pub async fn run_for(new_subject: NewSubject, seed: u64, steps: u32) {
    let mut run = Run::new(new_subject, seed).await;
    while run.steps < steps {
        run.step().await;
    }
    run.subject.before_last_comparison().await;
    run.compare(usize::MAX).await;
}

/// The clock of a store of many nodes: no time passes in a run, so no lease ends by itself.
struct StoppedClock;

impl Clock for StoppedClock {
    fn now(&self) -> UnixMillis {
        UnixMillis(0)
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

struct Run {
    seed: u64,
    steps: u32,
    model: MemoryStore,
    subject: Box<dyn Subject>,
    chooser: Chooser,
    seen: SeenCases,
}

impl Run {
    async fn new(new_subject: NewSubject, seed: u64) -> Self {
        let subject = new_subject().await;
        Self {
            seed,
            steps: 0,
            model: match subject.store().capabilities().many_nodes {
                true => MemoryStore::of_many_nodes(Arc::new(StoppedClock), 15_000),
                false => MemoryStore::new(),
            },
            subject,
            chooser: Chooser::new(seed),
            seen: SeenCases::default(),
        }
    }

    async fn step(&mut self) {
        self.steps += 1;
        let step = self.chooser.next(&self.model).await;
        if let StoreCall::Reopen = step {
            self.subject.reopen().await;
            self.seen.note("reopen");
            self.compare(RECENT).await;
            return;
        }
        let expected = self.agreed(&step).await;
        self.seen.step(&step, &expected);
        self.chooser.learn(&step, &expected);
        if self.steps.is_multiple_of(SNAPSHOT_EVERY) {
            self.compare(RECENT).await;
        }
    }

    /// Runs `step` in both stores and returns their common answer.
    async fn agreed(&self, step: &StoreCall) -> Result<StepAnswer, Refusal> {
        // Tasks that the step deletes can only be read before it.
        let expected = self.settle(step, perform(&self.model, step).await).await;
        let store = self.subject.store();
        let answered = self.settle(step, perform(&*store, step).await).await;
        assert!(
            answered == expected,
            "seed {}, step {}: {step:?}\n the model answers {expected:?}\n the store answers {answered:?}",
            self.seed,
            self.steps
        );
        expected
    }

    /// Stores may order tasks that are due at the same moment differently, so lists are sorted, and tasks that the limit
    /// may have cut off are removed.
    async fn settle(&self, step: &StoreCall, answer: Result<StepAnswer, Refusal>) -> Result<StepAnswer, Refusal> {
        Ok(match (step, answer?) {
            (StoreCall::Find(TaskLookup::DueTimers(_), limit), StepAnswer::Tasks(tasks)) => {
                let ranked = tasks
                    .into_iter()
                    .map(|task| (task.wake_at(), task.id.clone(), task))
                    .collect();
                StepAnswer::Tasks(in_one_order(ranked, *limit))
            }
            (StoreCall::Expired(_, limit), StepAnswer::Ids(ids)) => {
                let mut ranked = Vec::new();
                for id in ids {
                    let record = self.model.get_unscoped(&id).await.ok().flatten();
                    ranked.push((record.and_then(|record| record.task.delete_at()), id.clone(), id));
                }
                StepAnswer::Ids(in_one_order(ranked, *limit))
            }
            (_, answer) => answer,
        })
    }

    /// Compares all that the two hold of the latest tasks, and every question that is not about one task.
    async fn compare(&self, latest: usize) {
        for id in self.chooser.ids().iter().rev().take(latest) {
            let whole = [
                StoreCall::GetUnscoped(id.clone()),
                StoreCall::Journal(id.clone(), 0, usize::MAX),
                StoreCall::Emitted(id.clone(), 0, usize::MAX),
                StoreCall::Find(TaskLookup::ChildrenOf(id.clone()), usize::MAX),
                StoreCall::Find(
                    TaskLookup::StartedBy {
                        parent: id.clone(),
                        after: None,
                    },
                    usize::MAX,
                ),
            ];
            for step in whole.into_iter().chain(self.chooser.every_get(id)) {
                self.agreed(&step).await.expect("reading does not fail");
            }
        }
        let same_leases = self.model.capabilities().many_nodes == self.subject.store().capabilities().many_nodes;
        for step in self.chooser.every_question() {
            // After the tasks were moved, no node that the model has holds a lease.
            if matches!(step, StoreCall::Find(TaskLookup::OrphanedCalls(_), _)) && !same_leases {
                continue;
            }
            self.agreed(&step).await.expect("reading does not fail");
        }
    }
}

fn in_one_order<R: Ord + Clone, T>(mut ranked: Vec<(R, TaskId, T)>, limit: usize) -> Vec<T> {
    assert!(ranked.is_sorted_by_key(|(rank, _, _)| rank.clone()), "earliest first");
    ranked.sort_by(|(a, first, _), (b, second, _)| a.cmp(b).then_with(|| first.cmp(second)));
    if ranked.len() == limit
        && let Some((last, _, _)) = ranked.last()
    {
        let last = last.clone();
        ranked.retain(|(rank, _, _)| *rank != last);
    }
    ranked.into_iter().map(|(_, _, item)| item).collect()
}

/// The tasks that an answer shows.
fn tasks_of(answer: &StepAnswer) -> Vec<&Task> {
    match answer {
        StepAnswer::Task(task) => vec![task],
        StepAnswer::Created(created) => vec![created.task()],
        StepAnswer::Tasks(tasks) => tasks.iter().collect(),
        StepAnswer::Found(found) => found.tasks.iter().collect(),
        StepAnswer::Claimed(claimed) => claimed.iter().map(|claimed| &claimed.task).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::fixture, *};
    use longhaul_core::{NodeId, Outcome, UnixMillis, store::QueueStore};

    /// Checks the model's indices and sums after each step, so a change that misses one is found at its step.
    #[test]
    fn the_models_indices_agree_with_its_tasks() {
        block_on(async {
            for seed in 1..=4 {
                audited(seed).await;
            }
        });
    }

    #[test]
    fn deleted_tasks_leave_nothing_in_the_models_indices() {
        block_on(async {
            let model = MemoryStore::new();
            let mut new = fixture::new_task("t0", NodeId(1), 0);
            new.outcome = Some(Outcome::Cancelled);
            let id = new.id.clone();
            model.put_spec(fixture::spec("spec")).await.unwrap();
            model.create(new).await.unwrap();
            assert_eq!(
                model.delete(&fixture::host(), vec![id], UnixMillis(i64::MAX)).await,
                Ok(1)
            );
            assert_eq!(model.audit(), Ok(()));
        });
    }

    fn block_on(future: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(future);
    }

    async fn audited(seed: u64) {
        let (model, mut chooser) = (MemoryStore::new(), Chooser::new(seed));
        for nth in 0..LEAST_STEPS {
            let step = chooser.next(&model).await;
            let answer = perform(&model, &step).await;
            chooser.learn(&step, &answer);
            assert_eq!(model.audit(), Ok(()), "seed {seed}, step {nth}: {step:?}");
        }
    }
}
