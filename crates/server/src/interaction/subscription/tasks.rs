//! The tasks of a subscription: read again at each hint of a change, so that a notification shows the state at that time. Several
//! changes may be one notification; the last, which ends the task, is never left out.

use crate::{admission::caller::Caller, interaction::Interaction};
use futures_util::{StreamExt, stream::FuturesUnordered};
use longhaul_core::{
    BoxFuture, ClientCapabilities, Scope, TaskId,
    store::{Record, StoreError},
};
use longhaul_runtime::{Engine, TaskWatch};
use longhaul_wire::{RequestId, modern};
use std::{
    sync::Arc,
    {collections::VecDeque, time::Duration},
};
use tracing::warn;

/// When the store could not be read.
const PAUSE: Duration = Duration::from_secs(1);

/// Those that are watched.
pub(crate) struct SubscribedTasks {
    scope: Scope,
    /// What the client can be asked.
    capabilities: ClientCapabilities,
    /// In the order they were asked for.
    accepted: Vec<TaskId>,
    /// Those that are to be sent: at first as they were when they were accepted.
    pending: VecDeque<WatchedRecord>,
    watched: FuturesUnordered<BoxFuture<'static, Option<WatchedRecord>>>,
}

/// A task that has changed, and what to watch it by.
type WatchedRecord = (Box<Record>, TaskWatch);

/// A task to notify of.
pub(crate) struct ChangedTask {
    record: Box<Record>,
    /// How the command of a cancelled task ended.
    exit: Option<Arc<str>>,
}

impl ChangedTask {
    pub(crate) fn message(&self, interaction: &Interaction, listen: RequestId<'_>) -> String {
        let mut text = String::new();
        let now = interaction.engine.ports().clock.read();
        modern::tasks::write_notification_for(&mut text, &self.record, self.exit.as_deref(), listen, now);
        text
    }
}

impl SubscribedTasks {
    pub(super) fn of(caller: &Caller) -> Self {
        Self {
            scope: caller.scope(),
            capabilities: *caller.capabilities(),
            accepted: Vec::new(),
            pending: VecDeque::new(),
            watched: FuturesUnordered::new(),
        }
    }

    /// Accepts a task if it is there for this principal; a second time it changes nothing.
    pub(super) async fn accept(&mut self, interaction: &Interaction, id: TaskId) -> Result<(), StoreError> {
        if self.accepted.contains(&id) {
            return Ok(());
        }
        // Watched before it is read, so that no change falls between.
        let watch = interaction.engine.watch(&id);
        if let Some(record) = interaction.engine.get(&self.scope, &id).await? {
            self.accepted.push(id);
            let record = record.for_client(&self.capabilities);
            self.pending.push_back((Box::new(record), watch));
        }
        Ok(())
    }

    /// Which were accepted.
    pub(crate) fn accepted(&self) -> &[TaskId] {
        &self.accepted
    }

    /// The next task to notify of; `None` when all are done. Dropping the future loses nothing.
    pub(super) async fn next(&mut self, interaction: &Interaction) -> Option<ChangedTask> {
        while self.pending.is_empty() {
            // A deleted task has no more changes.
            let changed = self.watched.next().await?;
            let shown = changed.map(|(record, watch)| (Box::new(record.for_client(&self.capabilities)), watch));
            self.pending.extend(shown);
        }
        let (record, _) = self.pending.front()?;
        let exit = interaction.cancelled_exits.of(&interaction.engine, &record.task).await;
        let (record, watch) = self.pending.pop_front()?;
        if !record.task.is_done() {
            let (engine, scope) = (interaction.engine.clone(), self.scope.clone());
            let (id, version) = (record.task.id.clone(), record.task.version);
            self.watched.push(Box::pin(changed(engine, scope, id, version, watch)));
        }
        Some(ChangedTask { record, exit })
    }
}

/// The task once it has changed since `version`; `None` if it was deleted.
async fn changed(
    engine: Engine,
    scope: Scope,
    id: TaskId,
    version: u64,
    mut watch: TaskWatch,
) -> Option<WatchedRecord> {
    watch.changed().await;
    loop {
        match engine.get(&scope, &id).await {
            // It was read before its hint came.
            Ok(Some(record)) if record.task.version == version => watch.changed().await,
            Ok(record) => return record.map(|record| (Box::new(record), watch)),
            Err(error) => {
                warn!(%error, "a task of a subscription could not be read");
                engine.ports().clock.sleep(PAUSE).await;
            }
        }
    }
}
