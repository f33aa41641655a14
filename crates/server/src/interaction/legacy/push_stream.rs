//! What a push stream sends: the messages to a session that belong to no open request.
//!
//! While one is open it carries the messages about the session's live tasks, found in the store when it opens and added as they are
//! created, and of the lists and resources that change. Without one, all of this costs one read of a counter.

use super::{
    carrier::CandidateKind,
    status::StatusNotifications,
    task_messages::{self, TaskEvent, TaskMessages},
};
use crate::{
    admission::caller::Caller,
    interaction::{Interaction, legacy::push_streams::PushChannel},
    response::stream::{Events, ReaderGone, Sink},
    session::{
        Session,
        other_nodes::{self, SessionMessage},
    },
};
use longhaul_core::{
    Json, Scope, SessionKey, Task, TaskId,
    store::{StoreError, TaskLookup},
};
use longhaul_runtime::{Audience, ResourceUpdate, SessionLog, Versions};
use longhaul_wire::{Generation, ListChange, TaskUri, notification};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
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
/// A task is named on one connection and its questions are sent on another. A client that gets a question before the task's id may refuse
/// it, so the answer with the id gets this head start, in milliseconds.
const HEAD_START: u64 = 100;
/// Changes within this time are sent once.
const CHANGE_WINDOW: Duration = Duration::from_millis(50);

/// Opens a push stream for `session`. Without `tells_of_resources` it names no resource but those of tasks: another of the session's readers may have subscribed to
/// it, with credentials that permit more.
pub(crate) fn open(
    interaction: &Arc<Interaction>,
    session: &Session,
    (channel, tells_of_resources): (PushChannel, bool),
) -> Events {
    let (sink, events) = interaction.push.streams.open(session, channel);
    let stream = PushStream {
        interaction: Arc::clone(interaction),
        session: session.clone(),
        sink,
        tells_of_resources,
    };
    // Before the client learns that the stream is open, so that it misses nothing.
    let catalog = interaction.engine.catalog();
    let (changes, updates, logged) = (catalog.changes(), catalog.updates(), catalog.logged());
    let sent = *changes.borrow();
    interaction.engine.ports().spawner.spawn(Box::pin(async move {
        tokio::select! {
            // Nothing more is sent to a client that has disconnected.
            _ = stream.send_changes(sent, changes, updates) => {}
            _ = stream.send_logs(logged) => {}
            () = stream.sink.closed() => {}
            () = stream.interaction.shutdown.drained() => {}
        }
        stream.interaction.push.streams.close(&stream.session.key, &stream.sink);
    }));
    events
}

/// As [`follow`], of a task that was just created: the session may have its push stream at another node.
pub(crate) fn follow_created(interaction: &Arc<Interaction>, session: &Session, task: &Task) {
    follow(interaction, session, task);
    if session.version.has_legacy_tasks() {
        let (session, task) = (session.key.as_str().into(), task.id.as_str().into());
        other_nodes::broadcast(&interaction.engine, &SessionMessage::Created { session, task });
    }
}

/// As [`follow`], of a task that `session` has created at another node. It may have changed since, or ended.
pub(crate) fn follow_created_elsewhere(interaction: &Arc<Interaction>, session: &SessionKey, task: TaskId) {
    let Some(session) = interaction.push.streams.session(session) else {
        return;
    };
    let interaction = Arc::clone(interaction);
    let spawner = Arc::clone(&interaction.engine.ports().spawner);
    spawner.spawn(Box::pin(async move {
        let scope = Scope::of(session.principal.clone());
        match interaction.engine.get(&scope, &task).await {
            Ok(Some(record)) => {
                follow_from(&interaction, &session, &record.task, |_| StatusNotifications::created());
            }
            Ok(None) => {}
            Err(error) => warn!(%error, task = task.short(), "a task cannot be followed for its client"),
        }
    }));
}

/// As [`follow`], for a legacy caller; others have no push stream.
pub(crate) fn follow_for(interaction: &Arc<Interaction>, caller: &Caller, task: &Task) {
    if caller.generation == Generation::Legacy
        && let Some(session) = caller.session()
    {
        follow(interaction, session, task);
    }
}

/// Sends the session the messages about `task` on its push streams. The session already has the task in this state.
pub(crate) fn follow(interaction: &Arc<Interaction>, session: &Session, task: &Task) {
    // Earlier revisions have no tasks; their clients follow work with the tools for it.
    if !task.is_done() && session.version.has_legacy_tasks() {
        follow_from(interaction, session, task, StatusNotifications::known);
    }
}

/// As [`follow`]. `known` makes the notifications from what the session already has.
fn follow_from(
    interaction: &Arc<Interaction>,
    session: &Session,
    task: &Task,
    known: fn(&Task) -> StatusNotifications,
) {
    for sink in interaction.push.streams.start_following(&session.key, &task.id) {
        // Here and not in the future, so in the order in which the streams were opened: the newest carries.
        let messages = TaskMessages::new(interaction, session, task, (CandidateKind::PushStream, &sink));
        let stream = PushStream {
            interaction: Arc::clone(interaction),
            session: session.clone(),
            sink,
            tells_of_resources: false,
        };
        let task = task.clone();
        interaction.engine.ports().spawner.spawn(Box::pin(async move {
            tokio::select! {
                ended = stream.follow(&task, messages, known(&task)) => {
                    if let Err(FollowError::Unreadable(error)) = ended {
                        warn!(%error, task = task.id.short(), "a task cannot be followed for its client");
                    }
                }
                () = stream.sink.closed() => {}
                () = stream.interaction.shutdown.drained() => {}
            }
            stream
                .interaction
                .push
                .streams
                .stop_following(&stream.session.key, &stream.sink, &task.id);
        }));
    }
}

/// One push stream.
struct PushStream {
    interaction: Arc<Interaction>,
    session: Session,
    sink: Sink,
    tells_of_resources: bool,
}

/// Why a stream no longer carries the messages about a task.
enum FollowError {
    /// Its reader has left.
    Gone,
    /// The task cannot be read.
    Unreadable(StoreError),
}

impl From<ReaderGone> for FollowError {
    fn from(ReaderGone: ReaderGone) -> Self {
        Self::Gone
    }
}

impl From<StoreError> for FollowError {
    fn from(error: StoreError) -> Self {
        Self::Unreadable(error)
    }
}

impl PushStream {
    /// Sends the messages about a task until it is done.
    async fn follow(
        &self,
        known: &Task,
        messages: TaskMessages,
        mut status: StatusNotifications,
    ) -> Result<(), FollowError> {
        let engine = &self.interaction.engine;
        let clock = &*engine.ports().clock;
        let mut watch = engine.watch(&known.id);
        let token = task_messages::token(&self.interaction, &self.session, known).await?;
        let mut messages = messages.with_token(token);
        let age = clock.now().since(known.created_at);
        clock.sleep(Duration::from_millis(HEAD_START.saturating_sub(age))).await;
        loop {
            let Some(record) = engine
                .get(&Scope::of(self.session.principal.clone()), &known.id)
                .await?
            else {
                return Ok(());
            };
            let record = record.for_client(&self.session.capabilities);
            messages.update(&record).await?;
            if self.is_newest()
                && let Some(text) = status.due(&record, clock)
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
                    event = messages.next_event() => match event {
                        TaskEvent::ToolMessage(message) => messages.send(message).await?,
                        TaskEvent::CarrierChanged => break,
                    },
                }
            }
        }
    }

    /// Follows the live tasks, then sends changes of lists and resources.
    async fn send_changes(
        &self,
        mut sent: Versions,
        mut changes: watch::Receiver<Versions>,
        mut updates: broadcast::Receiver<ResourceUpdate>,
    ) -> Result<(), ReaderGone> {
        if self.session.version.has_legacy_tasks()
            && let Err(error) = self.follow_live().await
        {
            warn!(%error, "the live tasks of a session cannot be read");
        }
        loop {
            let mut updated = BTreeMap::new();
            tokio::select! {
                // The sender lives in the engine.
                _ = changes.changed() => {}
                update = updates.recv() => self.note(update, &mut updated),
            }
            self.interaction.engine.ports().clock.sleep(CHANGE_WINDOW).await;
            while let Some(update) = taken(updates.try_recv()) {
                self.note(update, &mut updated);
            }
            let now = *changes.borrow_and_update();
            if self.is_newest() {
                self.send_list_changes(sent, now).await?;
                for (uri, relayed) in &updated {
                    let mut text = String::new();
                    notification::write_resource_updated(&mut text, uri, None, relayed.as_ref());
                    self.sink.message(text).await?;
                }
            }
            sent = now;
        }
    }

    /// Sends the log messages that belong to no request. Of too many at once some are missed.
    async fn send_logs(&self, mut logged: broadcast::Receiver<Arc<SessionLog>>) -> Result<(), ReaderGone> {
        let Session { principal, key, .. } = &self.session;
        loop {
            let message = match logged.recv().await {
                Ok(message) => message,
                Err(RecvError::Lagged(_)) => continue,
                // The sender lives in the engine.
                Err(RecvError::Closed) => return Ok(()),
            };
            let is_wanted = message.concerns(principal, key)
                && (message.method.is_some() || message.level >= self.interaction.sessions.preferences.level(key))
                && self.is_newest();
            if is_wanted {
                let mut text = String::new();
                let SessionLog {
                    level,
                    logger,
                    data,
                    relayed,
                    method,
                    ..
                } = &*message;
                let (logger, data) = (logger.as_deref(), data.as_str());
                match method {
                    Some(method) => notification::write_other(&mut text, method, relayed.as_ref()),
                    None => notification::write_log(&mut text, *level, logger, data, None, relayed.as_ref()),
                }
                self.sink.message(text).await?;
            }
        }
    }

    async fn follow_live(&self) -> Result<(), StoreError> {
        let store = self.interaction.engine.store();
        let Session { principal, key, .. } = &self.session;
        let mut after: Option<TaskId> = None;
        loop {
            let live = TaskLookup::LiveInSession {
                owner: principal.clone(),
                session: key.clone(),
                after,
            };
            let tasks = store.find(live, PAGE).await?;
            for task in &tasks {
                follow(&self.interaction, &self.session, task);
            }
            match tasks.last() {
                Some(last) if tasks.len() == PAGE => after = Some(last.id.clone()),
                _ => return Ok(()),
            }
        }
    }

    /// Records an update of a resource that the session has subscribed to. If updates were missed, any of its resources may have changed.
    fn note(&self, update: Result<ResourceUpdate, RecvError>, updated: &mut BTreeMap<Arc<str>, Option<Json>>) {
        let (preferences, session) = (&self.interaction.sessions.preferences, &self.session.key);
        match update {
            Ok(update) => {
                let is_subscribed = match &update.audience {
                    Audience::Sessions(sessions) => sessions.contains(session),
                    Audience::AllNodes | Audience::Node => {
                        update.concerns(&self.session.principal) && preferences.is_subscribed(session, &update.uri)
                    }
                };
                if is_subscribed && self.may_name(&update.uri) {
                    updated.insert(update.uri, update.relayed);
                }
            }
            Err(RecvError::Closed) => {}
            Err(RecvError::Lagged(_)) => {
                let subscribed = preferences.subscriptions(session).into_iter();
                updated.extend(subscribed.filter(|uri| self.may_name(uri)).map(|uri| (uri, None)));
            }
        }
    }

    fn may_name(&self, uri: &str) -> bool {
        self.tells_of_resources || uri.parse::<TaskUri>().is_ok()
    }

    async fn send_list_changes(&self, sent: Versions, now: Versions) -> Result<(), ReaderGone> {
        let lists = [
            (ListChange::Tools, sent.tools, now.tools),
            (ListChange::Prompts, sent.prompts, now.prompts),
            (ListChange::Resources, sent.resources, now.resources),
        ];
        for (change, sent, now) in lists {
            if sent != now {
                let mut text = String::new();
                notification::write_list_changed(&mut text, change, None);
                self.sink.message(text).await?;
            }
        }
        Ok(())
    }

    /// Of several push streams of a session only the newest carries what belongs to no request.
    fn is_newest(&self) -> bool {
        let newest = self.interaction.push.streams.newest(&self.session.key);
        newest.is_some_and(|newest| newest.is_same(&self.sink))
    }
}

fn taken(tried: Result<ResourceUpdate, TryRecvError>) -> Option<Result<ResourceUpdate, RecvError>> {
    match tried {
        Ok(uri) => Some(Ok(uri)),
        Err(TryRecvError::Lagged(missed)) => Some(Err(RecvError::Lagged(missed))),
        Err(TryRecvError::Empty | TryRecvError::Closed) => None,
    }
}
