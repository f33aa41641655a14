//! A modern client's subscription (U-20..U-24): it is told what changes for as long as it reads, and nothing that it did not ask for.

mod tasks;

use crate::{
    interaction::Interaction,
    response::{
        KeptId,
        stream::{Gone, KEEP_ALIVE, Sink},
    },
    session::preferences::SubscriptionGuard,
};
use longhaul_core::{BoxFuture, Scope, TaskId, store::StoreError};
use longhaul_runtime::Versions;
use longhaul_wire::{modern::subscription, notification, notification::ListChange, params::SubscriptionFilter};
use std::{collections::HashSet, sync::Arc, time::Duration};
use tokio::sync::{broadcast, watch};

pub(crate) use tasks::{Tasks, Told};

/// Changes of one list within this time are told as one: what changes a catalog often changes much of it.
const WINDOW: Duration = Duration::from_millis(50);

/// One subscription.
pub(crate) struct Subscription {
    interaction: Arc<Interaction>,
    /// The id of the request that opened it, which every message names (U-21).
    id: KeptId,
    lists: Lists,
    updated: HashSet<Arc<str>>,
    updates: broadcast::Receiver<Arc<str>>,
    tasks: Tasks,
    /// Whether it is for tasks and nothing else, so that it ends when these are over.
    ends_with_tasks: bool,
    /// What keeps the updates of resources coming.
    _held: Vec<SubscriptionGuard>,
}

/// What a subscription comes to next.
enum News {
    /// Lists have changed.
    Lists(Vec<ListChange>),
    /// A resource has changed.
    Resource(Arc<str>),
    /// Some resources may have changed: there were more changes than we could take.
    Resources,
    /// A task has changed.
    Task(Told),
    /// Nothing happened for a while.
    Silence,
    /// There is nothing to come, or the server stops.
    Over,
}

impl Subscription {
    /// A subscription to what is `accepted`, of which these are the tasks. One that is `for_tasks` and in which nothing else was accepted
    /// ends with them; if none of them was, at once.
    pub(crate) fn new(
        interaction: &Arc<Interaction>,
        id: KeptId,
        accepted: &SubscriptionFilter<'_>,
        (tasks, for_tasks): (Tasks, bool),
        held: Vec<SubscriptionGuard>,
    ) -> Self {
        let lists = [
            accepted.tools_list_changed,
            accepted.prompts_list_changed,
            accepted.resources_list_changed,
        ];
        let nothing_else = !lists.contains(&true) && accepted.resource_subscriptions.is_empty();
        let catalog = interaction.engine.catalog();
        Self {
            lists: Lists::of(accepted, catalog.changes()),
            updated: accepted
                .resource_subscriptions
                .iter()
                .map(|uri| Arc::from(&**uri))
                .collect(),
            updates: catalog.updates(),
            interaction: Arc::clone(interaction),
            id,
            tasks,
            ends_with_tasks: for_tasks && nothing_else,
            _held: held,
        }
    }

    /// Sends the acknowledgement, then how each task stands (G2-55), then what changes, until the reader leaves, there is nothing to
    /// come, or the server stops: then the response, which is the last (U-22).
    pub(crate) async fn write(mut self, sink: Sink, acknowledged: String) -> Result<(), Gone> {
        sink.message(acknowledged).await?;
        loop {
            match self.next().await {
                News::Lists(changes) => {
                    for change in changes {
                        let mut text = String::new();
                        notification::write_list_changed(&mut text, change, Some(self.id.get()));
                        sink.message(text).await?;
                    }
                }
                News::Resource(uri) => sink.message(self.resource(&uri)).await?,
                News::Resources => {
                    for uri in &self.updated {
                        sink.message(self.resource(uri)).await?;
                    }
                }
                News::Task(told) => sink.message(told.message(&self.interaction, self.id.get())).await?,
                News::Silence => sink.keep_alive(),
                News::Over => {
                    let mut text = String::new();
                    subscription::write_end(&mut text, self.id.get(), &self.interaction.identity);
                    return sink.message(text).await;
                }
            }
        }
    }

    async fn next(&mut self) -> News {
        let clock = &self.interaction.engine.ports().clock;
        let silence = clock.sleep(KEEP_ALIVE);
        tokio::pin!(silence);
        loop {
            tokio::select! {
                news = next_of(&mut self.tasks, &self.interaction, self.ends_with_tasks) => return news,
                changes = self.lists.changed(&self.interaction) => return News::Lists(changes),
                update = self.updates.recv() => match update {
                    Ok(uri) if self.updated.contains(&uri) => return News::Resource(uri),
                    Ok(_) => {}
                    Err(broadcast::error::RecvError::Lagged(_)) => return News::Resources,
                    // The catalog lives as long as the interaction.
                    Err(broadcast::error::RecvError::Closed) => return std::future::pending().await,
                },
                () = &mut silence => return News::Silence,
                () = self.interaction.shutdown.drained() => return News::Over,
            }
        }
    }

    fn resource(&self, uri: &str) -> String {
        let mut text = String::new();
        notification::write_resource_updated(&mut text, uri, Some(self.id.get()));
        text
    }
}

/// The next task to be told of. When there is none to come, that is the end or `ends` is false.
async fn next_of(tasks: &mut Tasks, interaction: &Interaction, ends: bool) -> News {
    match tasks.next(interaction).await {
        Some(told) => News::Task(told),
        None if ends => News::Over,
        None => std::future::pending().await,
    }
}

/// The lists that are asked for, as they last were told.
struct Lists {
    wanted: Vec<ListChange>,
    told: Versions,
    changes: watch::Receiver<Versions>,
    /// Runs from the first change that was not told yet.
    window: Option<BoxFuture<'static, ()>>,
}

impl Lists {
    fn of(accepted: &SubscriptionFilter<'_>, mut changes: watch::Receiver<Versions>) -> Self {
        let told = *changes.borrow_and_update();
        let wanted = [
            (accepted.tools_list_changed, ListChange::Tools),
            (accepted.prompts_list_changed, ListChange::Prompts),
            (accepted.resources_list_changed, ListChange::Resources),
        ];
        Self {
            wanted: wanted
                .into_iter()
                .filter_map(|(wanted, change)| wanted.then_some(change))
                .collect(),
            told,
            changes,
            window: None,
        }
    }

    /// The lists that have changed since they were last told; at least one. Dropping the future loses nothing.
    async fn changed(&mut self, interaction: &Interaction) -> Vec<ListChange> {
        if self.wanted.is_empty() {
            return std::future::pending().await;
        }
        loop {
            match &mut self.window {
                None => {
                    if self.changes.changed().await.is_err() {
                        return std::future::pending().await;
                    }
                    self.window = Some(interaction.engine.ports().clock.sleep(WINDOW));
                }
                Some(window) => {
                    window.await;
                    self.window = None;
                    let (told, now) = (self.told, *self.changes.borrow_and_update());
                    self.told = now;
                    let changed: Vec<ListChange> = self
                        .wanted
                        .iter()
                        .copied()
                        .filter(|list| version(&told, *list) != version(&now, *list))
                        .collect();
                    if !changed.is_empty() {
                        return changed;
                    }
                }
            }
        }
    }
}

fn version(versions: &Versions, list: ListChange) -> u64 {
    match list {
        ListChange::Tools => versions.tools,
        ListChange::Prompts => versions.prompts,
        ListChange::Resources => versions.resources,
    }
}

/// The tasks a subscription may hear of, among those it names: the others are left out without a word (G2-52).
///
/// # Errors
/// The store's.
pub(crate) async fn accepted_tasks(
    interaction: &Interaction,
    scope: Scope,
    ids: Vec<TaskId>,
) -> Result<Tasks, StoreError> {
    let mut tasks = Tasks::of(scope);
    for id in ids {
        tasks.accept(interaction, id).await?;
    }
    Ok(tasks)
}
