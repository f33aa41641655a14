//! Opening and reading the streams on which a modern server pushes the changes of tasks.

use crate::{
    Connection, RequestError, TaskSnapshot,
    connect::{
        connection::WeakConnection,
        task_pushes::{Push, Shared},
    },
    list::subscription::OpenSubscription,
    transport::polling,
};
use longhaul_core::Millis;
use longhaul_wire::{Message, Method};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::{sync::Notify, task::AbortHandle};

/// How long tasks are gathered for a new stream.
const GATHER: Millis = 20;

impl Connection {
    /// Asks the server to push the changes of a task for as long as the return value is kept.
    #[expect(clippy::disallowed_methods, reason = "the client is not simulated")]
    pub(crate) fn push_changes(&self, task: &str) -> Push {
        let pushes = self.task_pushes();
        let push = Push::of(pushes, task);
        let mut opener = pushes.opener.lock();
        if opener.as_ref().is_none_or(AbortHandle::is_finished) {
            let opening = open_streams(self.downgrade(), Arc::clone(&pushes.wake));
            *opener = Some(tokio::spawn(opening).abort_handle());
        }
        drop(opener);
        pushes.wake.notify_one();
        push
    }

    /// Opens streams for the tasks that have none. Returns the wait until that should be tried again.
    async fn cover_tasks(&self) -> Option<Millis> {
        let shared = &self.task_pushes().shared;
        loop {
            let Ok(era) = self.era().await else { return None };
            if let Some(session) = era.legacy() {
                // Status and progress come on the push stream of the session. The server may ask there what this process cannot answer, if another one has declared that it
                // can: some servers ask once.
                if !session.is_resumed || self.options().inputs.is_some() {
                    self.listening().want();
                    self.listen();
                }
                return None;
            }
            if !era.server().has_tasks_extension() {
                return None;
            }
            let (tasks, replaces) = shared.lock().next_batch()?;
            let params = Map::from_iter([("notifications".to_owned(), json!({"taskIds": tasks}))]);
            match self.open_subscription(&era, params).await {
                Ok(subscription) => {
                    self.task_pushes().was_open.store(true, Ordering::Relaxed);
                    self.listening().losses.push_stream().opened();
                    self.read_stream(subscription, &tasks, replaces);
                }
                Err(error) => {
                    tracing::debug!(%error, "the server pushes no changes of tasks");
                    if error.is_transient() && self.task_pushes().was_open.load(Ordering::Relaxed) {
                        self.listening().losses.push_stream().lost(&error);
                    }
                    let mut shared = shared.lock();
                    shared.put_back(tasks);
                    if !error.is_transient() {
                        shared.is_refused = true;
                        return None;
                    }
                    shared.failures = shared.failures.saturating_add(1);
                    let failures = shared.failures;
                    return Some(polling::next_retry(failures, error.retry_after(), self.jitter()));
                }
            }
        }
    }

    #[expect(clippy::disallowed_methods, reason = "the client is not simulated")]
    fn read_stream(&self, subscription: OpenSubscription, tasks: &[String], replaces: Vec<u64>) {
        let pushes = self.task_pushes();
        let clock = Arc::clone(&self.options().clock);
        // Held until the stream has its reader, which may end at once.
        let mut shared = pushes.shared.lock();
        let number = shared.begin_stream(tasks, replaces, clock.monotonic());
        let reader = tokio::spawn({
            let (shared, wake) = (Arc::clone(&pushes.shared), Arc::clone(&pushes.wake));
            let watched = self.listening().losses.push_stream();
            async move {
                if let Err(error) = read_messages(subscription, number, &shared).await {
                    watched.lost(&error);
                }
                shared.lock().ended(number, clock.monotonic());
                wake.notify_one();
            }
        });
        shared.set_reader(number, reader.abort_handle());
    }
}

/// Opens streams when there are tasks without one, for as long as the connection is used.
async fn open_streams(connection: WeakConnection, wake: Arc<Notify>) {
    loop {
        wake.notified().await;
        let Some(used) = connection.upgrade() else { return };
        used.sleep(GATHER).await;
        if let Some(retry_in) = used.cover_tasks().await {
            let clock = Arc::clone(&used.options().clock);
            drop(used);
            clock.sleep(Duration::from_millis(retry_in)).await;
            wake.notify_one();
        }
    }
}

/// Reads the stream up to its end, which is an error if it broke off.
async fn read_messages(
    mut subscription: OpenSubscription,
    stream: u64,
    shared: &Mutex<Shared>,
) -> Result<(), RequestError> {
    while let Some(message) = subscription.reply.next().await? {
        let Ok(Message::Notification(notification)) = Message::parse(&message) else {
            return Ok(());
        };
        let Some(params) = notification.raw_params() else {
            return Ok(());
        };
        if notification.method == Method::SubscriptionsAcknowledged.as_str() {
            let accepted: Value = serde_json::from_str(params.get()).unwrap_or_default();
            let accepted = accepted["notifications"]["taskIds"].as_array().into_iter().flatten();
            shared.lock().acknowledged(stream, accepted.filter_map(Value::as_str));
        } else if notification.method == Method::Tasks.as_str()
            && let Ok(task) = TaskSnapshot::read(params.get())
        {
            shared.lock().deliver(task);
        }
    }
    Ok(())
}
