//! Ends the work of a restored database, so that none of it runs again by itself.

use longhaul_command::{Attempts, KIND, RecordedWork, recorded_work};
use longhaul_core::{
    Attempt, AttemptEnd, Event, Failure, Fence, Json, NodeId, State, Task, UnixMillis,
    store::{
        ApplyError, Change, LeaseStore, QueueStore, SearchOrder, SearchStore, StoreError, TaskFilter, TaskSearch,
        TaskStore,
    },
};
use longhaul_runtime::executor_definition;
use longhaul_store::SqliteStore;
use std::io;

/// Tasks that are read at once.
const PAGE: usize = 256;

/// What was found and done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct SettleCounts {
    /// Tasks whose work had ended, by the folder of the attempt.
    pub(super) ended: u64,
    /// Tasks whose work had begun, of which the end is not known.
    pub(super) interrupted: u64,
    /// Tasks without an attempt that were ended, because they are not to run.
    pub(super) interrupted_queued: u64,
    /// Tasks without an attempt that may run: queued, suspended or blocked ones.
    pub(super) queued: u64,
}

/// Why the database cannot be settled.
#[derive(Debug, thiserror::Error)]
pub(super) enum SettleError {
    #[error("the restored database cannot be changed: {0}")]
    Store(#[from] StoreError),
    #[error("the restored task {task} cannot be ended: {error}")]
    Task { task: String, error: ApplyError },
    #[error("the restored folder of attempts cannot be read: {0}")]
    Attempts(io::Error),
}

/// A restored data directory that no server has used yet.
pub(super) struct RestoredDir<'a> {
    pub(super) store: &'a SqliteStore,
    pub(super) attempts: &'a Attempts,
    /// When the backup was taken.
    pub(super) taken: UnixMillis,
    pub(super) now: UnixMillis,
}

impl RestoredDir<'_> {
    /// Ends every attempt, and every task that was queued in the database and has begun by its folder. With `interrupt_queued`, ends all other live tasks, too.
    pub(super) async fn settle(&self, interrupt_queued: bool) -> Result<SettleCounts, SettleError> {
        let mut settled = SettleCounts::default();
        let node = self
            .store
            .open_node(&self.store.host_id().clone().into(), self.now)
            .await?
            .node;
        self.end_attempts(node, &mut settled).await?;
        self.look_at_queued(node, interrupt_queued, &mut settled).await?;
        Ok(settled)
    }

    /// As a server that starts takes the attempts of earlier ones over, but none of them is gone on with.
    async fn end_attempts(&self, node: NodeId, settled: &mut SettleCounts) -> Result<(), SettleError> {
        loop {
            let adopted = self.store.adopt(node, self.store.host_id(), PAGE, self.now).await?;
            if adopted.is_empty() {
                return Ok(());
            }
            for claimed in adopted {
                let work = self.recorded(&claimed.task).await?;
                self.end_attempt(&claimed.task, work, settled).await?;
            }
        }
    }

    async fn end_attempt(
        &self,
        task: &Task,
        work: RecordedWork,
        settled: &mut SettleCounts,
    ) -> Result<(), SettleError> {
        let (end, status) = match work {
            RecordedWork::Ended { end, status } => {
                settled.ended += u64::from(!task.is_done());
                (end, status)
            }
            RecordedWork::Began | RecordedWork::None => {
                settled.interrupted += u64::from(!task.is_done());
                let end = AttemptEnd::Failed {
                    outcome: Failure::RestoredWhileRunning { taken: self.taken }.into(),
                    retry_at: None,
                    asks_again: false,
                };
                (end, None)
            }
        };
        let mut events = Vec::new();
        if let Some(status) = status.filter(|_| task.state == State::Running) {
            events.push(Event::Reported {
                status: Some(status.into()),
                progress: None,
            });
        }
        events.push(Event::AttemptEnded(end));
        let fence = task.attempt.as_ref().map(Attempt::fence);
        self.apply(task, events, fence).await.map(drop)
    }

    async fn look_at_queued(
        &self,
        node: NodeId,
        interrupt: bool,
        settled: &mut SettleCounts,
    ) -> Result<(), SettleError> {
        let mut search = TaskSearch {
            filter: TaskFilter {
                states: vec![State::Queued, State::Suspended, State::Blocked],
                ..TaskFilter::default()
            },
            order: SearchOrder::OldestFirst,
            after: None,
            limit: PAGE,
            most_examined: PAGE,
        };
        loop {
            let found = self.store.search(search.clone()).await?;
            for task in &found.tasks {
                match self.recorded(task).await? {
                    RecordedWork::None if interrupt => {
                        settled.interrupted_queued += 1;
                        let outcome = Failure::RestoredWhileWaiting { taken: self.taken }.into();
                        self.apply(task, vec![Event::Abandoned(outcome)], None).await?;
                    }
                    RecordedWork::None => settled.queued += 1,
                    // It gets the attempt that it had, so that its log is found.
                    began => {
                        let host = Some(self.store.host_id().clone());
                        let claimed = self.apply(task, vec![Event::Claimed { node, host }], None).await?;
                        self.end_attempt(&claimed, began, settled).await?;
                    }
                }
            }
            match found.next {
                Some(next) => search.after = Some(next),
                None => return Ok(()),
            }
        }
    }

    /// What the folders say of the task's work. Only commands have folders.
    async fn recorded(&self, task: &Task) -> Result<RecordedWork, SettleError> {
        match self.store.spec(&task.spec).await? {
            Some(spec) if &*spec.kind == KIND => {
                // Without a definition, a recorded end cannot be told as the tool's result.
                let definition = executor_definition(&spec).unwrap_or_else(|_| Json::trusted("{}"));
                recorded_work(self.attempts, task, definition.as_str()).map_err(SettleError::Attempts)
            }
            _ => Ok(RecordedWork::None),
        }
    }

    async fn apply(&self, task: &Task, events: Vec<Event>, fence: Option<Fence>) -> Result<Task, SettleError> {
        let change = Change {
            task: task.id.clone(),
            fence,
            events,
            at: self.now.max(task.updated_at).max(task.ready_at),
            number: None,
            can_wait: false,
        };
        match self.store.apply(change).await {
            Ok(task) => Ok(task),
            Err(ApplyError::Store(error)) => Err(error.into()),
            Err(error) => Err(SettleError::Task {
                task: task.id.to_string(),
                error,
            }),
        }
    }
}
