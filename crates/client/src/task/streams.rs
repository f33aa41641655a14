//! Opening and reading the streams on which a modern server pushes the changes of tasks.

use crate::{
    Connection, RequestError, TaskSnapshot,
    connect::{
        connection::WeakConnection,
        task_pushes::{Push, PushStream},
    },
    list::subscription::OpenSubscription,
    transport::polling,
};
use longhaul_core::Millis;
use longhaul_wire::{Message, Method};
use serde_json::{Map, Value, json};
use std::{sync::Arc, time::Duration};
use tokio::sync::Notify;

/// How long tasks are gathered for a new stream.
const GATHER: Millis = 20;

impl Connection {
    /// Asks the server to push the changes of a task for as long as the return value is kept.
    #[expect(clippy::disallowed_methods, reason = "the client is not simulated")]
    pub(crate) fn push_changes(&self, task: &str) -> Push {
        let pushes = self.task_pushes();
        let push = Push::of(pushes, task);
        pushes.open_streams(|wake| tokio::spawn(open_streams(self.downgrade(), wake)).abort_handle());
        push
    }

    /// Opens streams for the tasks that have none. Returns the wait until that should be tried again.
    async fn cover_tasks(&self) -> Option<Millis> {
        let pushes = self.task_pushes();
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
            let (tasks, replaces) = pushes.next_batch()?;
            let params = Map::from_iter([("notifications".to_owned(), json!({"taskIds": tasks}))]);
            match self.open_subscription(&era, params).await {
                Ok(subscription) => {
                    pushes.note_open();
                    self.listening().losses.push_stream().opened();
                    self.read_stream(subscription, &tasks, replaces);
                }
                Err(error) => {
                    tracing::debug!(%error, "the server pushes no changes of tasks");
                    if error.is_transient() && pushes.was_open() {
                        self.listening().losses.push_stream().lost(&error);
                    }
                    let failures = pushes.not_opened(tasks, error.is_transient())?;
                    return Some(polling::next_retry(failures, error.retry_after(), self.jitter()));
                }
            }
        }
    }

    #[expect(clippy::disallowed_methods, reason = "the client is not simulated")]
    fn read_stream(&self, subscription: OpenSubscription, tasks: &[String], replaces: Vec<u64>) {
        let clock = Arc::clone(&self.options().clock);
        let watched = self.listening().losses.push_stream();
        self.task_pushes().opened(tasks, replaces, clock.monotonic(), |stream| {
            let reading = async move {
                if let Err(error) = read_messages(subscription, &stream).await {
                    watched.lost(&error);
                }
                stream.ended(clock.monotonic());
            };
            tokio::spawn(reading).abort_handle()
        });
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
async fn read_messages(mut subscription: OpenSubscription, stream: &PushStream) -> Result<(), RequestError> {
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
            stream.acknowledged(accepted.filter_map(Value::as_str));
        } else if notification.method == Method::Tasks.as_str()
            && let Ok(task) = TaskSnapshot::read(params.get())
        {
            stream.deliver(task);
        }
    }
    Ok(())
}
