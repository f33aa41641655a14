//! A modern client's subscription: notifications of what it asked for, as long as it reads.

mod tasks;

use crate::{
    admission::{caller::Caller, identity::Identity},
    interaction::Interaction,
    response::{
        OwnedRequestId,
        stream::{KEEP_ALIVE, ReaderGone, Sink},
    },
    session::preferences::SubscriptionGuard,
};
use longhaul_core::{BoxFuture, Json, TaskId, store::StoreError};
use longhaul_runtime::{ResourceUpdate, Versions};
use longhaul_wire::{modern::subscription, notification, notification::ListChange, params::SubscriptionFilter};
use std::{collections::HashSet, sync::Arc, time::Duration};
use tokio::sync::{broadcast, watch};

pub(crate) use tasks::{ChangedTask, SubscribedTasks};

/// Changes of one list within this time are one notification, since changes of a catalog often come together.
const WINDOW: Duration = Duration::from_millis(50);

/// One subscription.
pub(crate) struct Subscription {
    interaction: Arc<Interaction>,
    sender: Arc<Identity>,
    /// The id of the request that opened it, which every message names.
    id: OwnedRequestId,
    lists: Lists,
    updated: HashSet<Arc<str>>,
    updates: broadcast::Receiver<ResourceUpdate>,
    tasks: SubscribedTasks,
    /// Whether it named tasks or resources and only tasks were accepted, so that it ends with them.
    ends_with_tasks: bool,
    /// Guards of the subscriptions to resources.
    _held: Vec<SubscriptionGuard>,
}

/// What a subscription has to send next.
enum Event {
    /// Lists have changed.
    Lists(Vec<ListChange>),
    /// A resource has changed.
    Resource(ResourceUpdate),
    /// Some resources may have changed: there were more changes than we could take.
    Resources,
    /// A task has changed.
    Task(ChangedTask),
    /// Nothing happened for a while.
    Silence,
    /// Nothing more can come, or the server drains.
    Over,
    /// The client's credentials have expired or were revoked.
    Denied,
}

impl Subscription {
    /// A subscription to what is `accepted`, with its tasks. If the request named tasks or resources (`names_something`) and nothing but tasks was
    /// accepted, it ends when these tasks have ended: at once if there are none.
    pub(crate) fn new(
        interaction: &Arc<Interaction>,
        (sender, id): (&Arc<Identity>, OwnedRequestId),
        accepted: &SubscriptionFilter<'_>,
        (tasks, names_something): (SubscribedTasks, bool),
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
            sender: Arc::clone(sender),
            id,
            tasks,
            ends_with_tasks: names_something && nothing_else,
            _held: held,
        }
    }

    /// Sends the acknowledgement, then the state of each task, then changes, until the reader leaves, nothing more can
    /// come, or the server drains; the response is the last message.
    pub(crate) async fn write(mut self, sink: Sink, acknowledged: String) -> Result<(), ReaderGone> {
        sink.message(acknowledged).await?;
        loop {
            match self.next().await {
                Event::Lists(changes) => {
                    for change in changes {
                        let mut text = String::new();
                        notification::write_list_changed(&mut text, change, Some(self.id.get()));
                        sink.message(text).await?;
                    }
                }
                Event::Resource(update) => {
                    sink.message(self.resource(&update.uri, update.relayed.as_ref()))
                        .await?;
                }
                Event::Resources => {
                    for uri in &self.updated {
                        sink.message(self.resource(uri, None)).await?;
                    }
                }
                Event::Task(changed) => sink.message(changed.message(&self.interaction, self.id.get())).await?,
                Event::Silence => sink.keep_alive(),
                // The next request is told why.
                Event::Denied => return Ok(()),
                Event::Over => {
                    let mut text = String::new();
                    subscription::write_end(&mut text, self.id.get(), &self.interaction.server_info);
                    return sink.message(text).await;
                }
            }
        }
    }

    async fn next(&mut self) -> Event {
        let clock = &self.interaction.engine.ports().clock;
        let silence = clock.sleep(KEEP_ALIVE);
        tokio::pin!(silence);
        loop {
            tokio::select! {
                event = next_of(&mut self.tasks, &self.interaction, self.ends_with_tasks) => return event,
                changes = self.lists.changed(&self.interaction) => return Event::Lists(changes),
                update = self.updates.recv() => match update {
                    Ok(update) if update.concerns(self.sender.principal()) && self.updated.contains(&update.uri) => {
                        return Event::Resource(update);
                    }
                    Ok(_) => {}
                    Err(broadcast::error::RecvError::Lagged(_)) => return Event::Resources,
                    // The catalog lives as long as the engine.
                    Err(broadcast::error::RecvError::Closed) => return std::future::pending().await,
                },
                () = &mut silence => return Event::Silence,
                () = self.interaction.shutdown.drained() => return Event::Over,
                () = self.sender.ended(&**clock), if self.sender.can_end() => return Event::Denied,
            }
        }
    }

    fn resource(&self, uri: &str, relayed: Option<&Json>) -> String {
        let mut text = String::new();
        notification::write_resource_updated(&mut text, uri, Some(self.id.get()), relayed);
        text
    }
}

/// The next task to notify of. When there is none left, the end if `ends`.
async fn next_of(tasks: &mut SubscribedTasks, interaction: &Interaction, ends: bool) -> Event {
    match tasks.next(interaction).await {
        Some(changed) => Event::Task(changed),
        None if ends => Event::Over,
        None => std::future::pending().await,
    }
}

/// The lists that are asked for, and their versions when they were last notified of.
struct Lists {
    wanted: Vec<ListChange>,
    sent: Versions,
    changes: watch::Receiver<Versions>,
    /// Runs from the first change that was not sent yet.
    window: Option<BoxFuture<'static, ()>>,
}

impl Lists {
    fn of(accepted: &SubscriptionFilter<'_>, mut changes: watch::Receiver<Versions>) -> Self {
        let sent = *changes.borrow_and_update();
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
            sent,
            changes,
            window: None,
        }
    }

    /// The lists that have changed since the last notification; at least one. Dropping the future loses nothing.
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
                    let (sent, now) = (self.sent, *self.changes.borrow_and_update());
                    self.sent = now;
                    let changed: Vec<ListChange> = self
                        .wanted
                        .iter()
                        .copied()
                        .filter(|list| version(&sent, *list) != version(&now, *list))
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

/// The tasks that a subscription is notified of, among those it names: the others are left out silently.
///
/// # Errors
/// The store's.
pub(crate) async fn accepted_tasks(
    interaction: &Interaction,
    caller: &Caller,
    ids: Vec<TaskId>,
) -> Result<SubscribedTasks, StoreError> {
    let mut tasks = SubscribedTasks::of(caller);
    for id in ids {
        tasks.accept(interaction, id).await?;
    }
    Ok(tasks)
}
