//! The tasks of a subscription: read again at each hint of a change, so that whatever is told is how the task stood then. Several
//! changes may be told as one; the last, which ends the task, never is left out.

use crate::{interaction::Interaction, response::exit_of_cancelled};
use futures_util::{StreamExt, stream::FuturesUnordered};
use longhaul_core::{
    BoxFuture, Scope, TaskId,
    store::{Record, StoreError},
};
use longhaul_runtime::{Engine, Watch};
use longhaul_wire::{RequestId, modern};
use std::{collections::VecDeque, time::Duration};
use tracing::warn;

/// When the store could not be read.
const PAUSE: Duration = Duration::from_secs(1);

/// Those that are watched.
pub(crate) struct Tasks {
    scope: Scope,
    /// In the order they were asked for.
    accepted: Vec<TaskId>,
    /// How they stood when they were accepted, until that is told.
    first: VecDeque<Changed>,
    watched: FuturesUnordered<BoxFuture<'static, Option<Changed>>>,
}

/// A task that has changed, and what to watch it by.
type Changed = (Box<Record>, Watch);

/// A task to be told of.
pub(crate) struct Told {
    record: Box<Record>,
    /// How the command of a cancelled task ended.
    exit: Option<String>,
}

impl Told {
    pub(crate) fn message(&self, interaction: &Interaction, listen: RequestId<'_>) -> String {
        let mut text = String::new();
        let now = interaction.engine.ports().clock.read();
        modern::tasks::write_notification_for(&mut text, &self.record, self.exit.as_deref(), listen, now);
        text
    }
}

impl Tasks {
    pub(super) fn of(scope: Scope) -> Self {
        Self {
            scope,
            accepted: Vec::new(),
            first: VecDeque::new(),
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
            self.first.push_back((Box::new(record), watch));
        }
        Ok(())
    }

    /// Which were accepted.
    pub(crate) fn accepted(&self) -> &[TaskId] {
        &self.accepted
    }

    /// The next task to be told of; `None` when there is none to come, since all are over. Dropping the future loses nothing.
    pub(super) async fn next(&mut self, interaction: &Interaction) -> Option<Told> {
        if let Some((record, watch)) = self.first.pop_front() {
            return Some(self.told(interaction, record, watch).await);
        }
        while let Some(changed) = self.watched.next().await {
            // Else it was deleted.
            if let Some((record, watch)) = changed {
                return Some(self.told(interaction, record, watch).await);
            }
        }
        None
    }

    /// Goes on watching a task unless it is over: there is nothing to come.
    async fn told(&mut self, interaction: &Interaction, record: Box<Record>, watch: Watch) -> Told {
        if !record.task.is_done() {
            let (engine, scope) = (interaction.engine.clone(), self.scope.clone());
            let (id, version) = (record.task.id.clone(), record.task.version);
            self.watched.push(Box::pin(changed(engine, scope, id, version, watch)));
        }
        let exit = exit_of_cancelled(&interaction.engine, &record.task).await;
        Told { record, exit }
    }
}

/// The task once it is no longer what it was at `version`; `None` if it is gone.
async fn changed(engine: Engine, scope: Scope, id: TaskId, version: u64, mut watch: Watch) -> Option<Changed> {
    watch.changed().await;
    loop {
        match engine.get(&scope, &id).await {
            // It was read before its hint came.
            Ok(Some(record)) if record.task.version == version => watch.changed().await,
            Ok(record) => return record.map(|record| (Box::new(record), watch)),
            Err(error) => {
                warn!(%error, "a task that is listened to could not be read");
                engine.ports().clock.sleep(PAUSE).await;
            }
        }
    }
}
