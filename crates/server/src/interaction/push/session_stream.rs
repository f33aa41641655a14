//! Push streams: what a session hears without having asked just now (T-09).
//!
//! While one is open it carries the news of the session's live tasks, found in the store when it opens and added as they are
//! created, and of the lists and resources that change. Without one, all of this costs a look at a counter.

use super::{
    carrier::Kind,
    status::StatusNews,
    task_messages::{self, News, Teller},
};
use crate::{
    admission::caller::Caller,
    interaction::{Interaction, push::streams::Wire},
    response::stream::{Events, Gone, Sink},
    session::Session,
};
use longhaul_core::{Scope, Task, TaskId, store::StoreError};
use longhaul_runtime::Versions;
use longhaul_wire::{Generation, ListChange, notification};
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio::sync::{
    broadcast::{
        self,
        error::{RecvError, TryRecvError},
    },
    watch,
};
use tracing::warn;

/// How many live tasks are read at once.
const PAGE: usize = 100;
/// A task is told of on one connection, its questions on another: a client that hears of a task before it knows it may refuse
/// the question, so the answer that names the task gets this much of a lead.
const LEAD: u64 = 100;
/// What changes within so short a time is told once.
const TICK: Duration = Duration::from_millis(50);

/// Opens a push stream for `session`.
pub(crate) fn open(interaction: &Arc<Interaction>, session: &Session, wire: Wire) -> Events {
    let (sink, events) = interaction.push.streams.open(&session.key, wire);
    let push = Push {
        interaction: Arc::clone(interaction),
        session: session.clone(),
        sink,
    };
    // Before the client learns that the stream is open, so that it misses nothing from then on.
    let catalog = interaction.engine.catalog();
    let (changes, updates) = (catalog.changes(), catalog.updates());
    let told = *changes.borrow();
    interaction.engine.ports().spawner.spawn(Box::pin(async move {
        tokio::select! {
            // Whoever has gone is told no more.
            _ = push.tell_changes(told, changes, updates) => {}
            () = push.sink.closed() => {}
            () = push.interaction.shutdown.drained() => {}
        }
        push.interaction.push.streams.close(&push.session.key, &push.sink);
    }));
    events
}

/// As [`follow`], for a legacy caller; others have no push stream.
pub(crate) fn follow_for(interaction: &Arc<Interaction>, caller: &Caller, task: &Task) {
    if caller.generation == Generation::Legacy
        && let Some(session) = caller.session()
    {
        follow(interaction, session, task);
    }
}

/// Tells the session of `task`, which it knows as it is here, on the push streams it has.
pub(crate) fn follow(interaction: &Arc<Interaction>, session: &Session, task: &Task) {
    // Earlier revisions know no tasks; their clients follow work with the tools for it.
    if task.is_done() || !session.version.has_core_tasks() {
        return;
    }
    for sink in interaction.push.streams.enlist(&session.key, &task.id) {
        let push = Push {
            interaction: Arc::clone(interaction),
            session: session.clone(),
            sink,
        };
        let task = task.clone();
        interaction.engine.ports().spawner.spawn(Box::pin(async move {
            tokio::select! {
                ended = push.follow(&task) => {
                    if let Err(End::Unreadable(error)) = ended {
                        warn!(%error, task = task.id.short(), "a task cannot be followed for its client");
                    }
                }
                () = push.sink.closed() => {}
                () = push.interaction.shutdown.drained() => {}
            }
            push.interaction
                .push
                .streams
                .dismiss(&push.session.key, &push.sink, &task.id);
        }));
    }
}

/// One push stream.
struct Push {
    interaction: Arc<Interaction>,
    session: Session,
    sink: Sink,
}

/// Why a stream hears of a task no longer.
enum End {
    /// Its reader has left.
    Gone,
    /// The task cannot be read.
    Unreadable(StoreError),
}

impl From<Gone> for End {
    fn from(Gone: Gone) -> Self {
        Self::Gone
    }
}

impl From<StoreError> for End {
    fn from(error: StoreError) -> Self {
        Self::Unreadable(error)
    }
}

impl Push {
    /// Tells of a task until it is over.
    async fn follow(&self, known: &Task) -> Result<(), End> {
        let engine = &self.interaction.engine;
        let clock = &*engine.ports().clock;
        let mut watch = engine.watch(&known.id);
        let mut status = StatusNews::known(known);
        let token = task_messages::token(&self.interaction, &self.session, known).await?;
        let mut teller = Teller::new(&self.interaction, &self.session, known, token, (Kind::Push, &self.sink));
        let age = clock.now().since(known.created_at);
        clock.sleep(Duration::from_millis(LEAD.saturating_sub(age))).await;
        loop {
            let Some(record) = engine
                .get(&Scope::of(self.session.principal.clone()), &known.id)
                .await?
            else {
                return Ok(());
            };
            teller.look(&record).await?;
            if self.is_newest()
                && let Some(text) = status.about(&record, clock)
            {
                self.sink.message(text).await?;
            }
            if record.task.is_done() {
                return Ok(());
            }
            loop {
                tokio::select! {
                    () = watch.changed() => break,
                    () = status.paused() => break,
                    news = teller.news() => match news {
                        News::ToolMessage(said) => teller.tell(said).await?,
                        News::Turned => break,
                    },
                }
            }
        }
    }

    /// Follows the tasks that live already, then tells of lists and resources that change.
    async fn tell_changes(
        &self,
        mut told: Versions,
        mut changes: watch::Receiver<Versions>,
        mut updates: broadcast::Receiver<Arc<str>>,
    ) -> Result<(), Gone> {
        if self.session.version.has_core_tasks()
            && let Err(error) = self.follow_live().await
        {
            warn!(%error, "the live tasks of a session cannot be read");
        }
        loop {
            let mut updated = BTreeSet::new();
            tokio::select! {
                // The sender lives in the engine.
                _ = changes.changed() => {}
                update = updates.recv() => self.note(update, &mut updated),
            }
            self.interaction.engine.ports().clock.sleep(TICK).await;
            while let Some(update) = taken(updates.try_recv()) {
                self.note(update, &mut updated);
            }
            let now = *changes.borrow_and_update();
            if self.is_newest() {
                self.tell_lists(told, now).await?;
                for uri in &updated {
                    let mut text = String::new();
                    notification::write_resource_updated(&mut text, uri, None);
                    self.sink.message(text).await?;
                }
            }
            told = now;
        }
    }

    async fn follow_live(&self) -> Result<(), StoreError> {
        let store = self.interaction.engine.store();
        let Session { principal, key, .. } = &self.session;
        let mut after: Option<TaskId> = None;
        loop {
            let tasks = store.live(principal, key, after.as_ref(), PAGE).await?;
            for task in &tasks {
                follow(&self.interaction, &self.session, task);
            }
            match tasks.last() {
                Some(last) if tasks.len() == PAGE => after = Some(last.id.clone()),
                _ => return Ok(()),
            }
        }
    }

    /// Notes an update of a resource that the session watches. If some were missed, any of them may have been updated.
    fn note(&self, update: Result<Arc<str>, RecvError>, updated: &mut BTreeSet<Arc<str>>) {
        let (preferences, session) = (&self.interaction.sessions.preferences, &self.session.key);
        match update {
            Ok(uri) if preferences.is_subscribed(session, &uri) => drop(updated.insert(uri)),
            Ok(_) | Err(RecvError::Closed) => {}
            Err(RecvError::Lagged(_)) => updated.extend(preferences.subscriptions(session)),
        }
    }

    async fn tell_lists(&self, told: Versions, now: Versions) -> Result<(), Gone> {
        let lists = [
            (ListChange::Tools, told.tools, now.tools),
            (ListChange::Prompts, told.prompts, now.prompts),
            (ListChange::Resources, told.resources, now.resources),
        ];
        for (change, told, now) in lists {
            if told != now {
                let mut text = String::new();
                notification::write_list_changed(&mut text, change, None);
                self.sink.message(text).await?;
            }
        }
        Ok(())
    }

    /// Of several push streams of a session one tells what concerns no request (T-10).
    fn is_newest(&self) -> bool {
        let newest = self.interaction.push.streams.newest(&self.session.key);
        newest.is_some_and(|newest| newest.is_same(&self.sink))
    }
}

fn taken(tried: Result<Arc<str>, TryRecvError>) -> Option<Result<Arc<str>, RecvError>> {
    match tried {
        Ok(uri) => Some(Ok(uri)),
        Err(TryRecvError::Lagged(missed)) => Some(Err(RecvError::Lagged(missed))),
        Err(TryRecvError::Empty | TryRecvError::Closed) => None,
    }
}
