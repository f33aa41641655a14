//! Changes of a task that the server pushes.

use crate::{TaskHandle, TaskSnapshot, transport::Reply};
use longhaul_wire::{Message, Method};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use tokio::sync::watch;

/// What pushes the changes of a task. A push is a hint: the task is also polled.
pub(crate) enum Push {
    /// A modern subscription.
    Subscription(Subscription),
    /// The status notifications of a legacy server, which may come on any stream.
    Notifications(watch::Receiver<Option<Arc<TaskSnapshot>>>),
    /// Nothing.
    None,
}

/// A subscription to one task.
pub(crate) struct Subscription {
    reply: Reply,
    /// Whether the server has said that it will push every change.
    is_acknowledged: bool,
}

impl Push {
    /// Subscribes to the task, if the server can push.
    pub(crate) async fn open(task: &TaskHandle) -> Self {
        let connection = task.connection();
        let Ok(era) = connection.era().await else {
            return Self::None;
        };
        if era.legacy().is_some() {
            return Self::Notifications(connection.listening().pushed());
        }
        if !era.server().has_tasks_extension() {
            return Self::None;
        }
        let params = Map::from_iter([("notifications".to_owned(), json!({"taskIds": [task.id()]}))]);
        match connection.open_subscription(&era, params).await {
            Ok(reply) => Self::Subscription(Subscription {
                reply,
                is_acknowledged: false,
            }),
            Err(error) => {
                tracing::debug!(%error, "the server pushes no changes of tasks");
                Self::None
            }
        }
    }

    /// Whether every change is pushed while the stream is open, so that polls may be rare.
    pub(crate) fn is_complete(&self) -> bool {
        matches!(self, Self::Subscription(subscription) if subscription.is_acknowledged)
    }

    /// The task after its next change; `None` once nothing more will be pushed. Never completes if nothing was pushed at all.
    pub(crate) async fn next(&mut self, task: &str) -> Option<TaskSnapshot> {
        let changed = match self {
            Self::Subscription(subscription) => subscription.next(task).await,
            Self::Notifications(pushed) => next_notification(pushed, task).await,
            Self::None => std::future::pending().await,
        };
        if changed.is_none() {
            *self = Self::None;
        }
        changed
    }
}

impl Subscription {
    /// The next change of the task; `None` once the subscription has ended.
    async fn next(&mut self, task: &str) -> Option<TaskSnapshot> {
        loop {
            let message = self.reply.next().await.ok()??;
            let Ok(Message::Notification(notification)) = Message::parse(&message) else {
                return None;
            };
            let params = notification.raw_params()?;
            if notification.method == Method::SubscriptionsAcknowledged.as_str() {
                let accepted: Value = serde_json::from_str(params.get()).unwrap_or_default();
                let ids = accepted["notifications"]["taskIds"].as_array();
                self.is_acknowledged = ids.is_some_and(|ids| ids.iter().any(|id| id == task));
            } else if notification.method == Method::Tasks.as_str()
                && let Ok(changed) = TaskSnapshot::read(params.get())
                && changed.id == task
            {
                return Some(changed);
            }
        }
    }
}

async fn next_notification(
    pushed: &mut watch::Receiver<Option<Arc<TaskSnapshot>>>,
    task: &str,
) -> Option<TaskSnapshot> {
    loop {
        pushed.changed().await.ok()?;
        let changed = pushed.borrow_and_update().clone();
        if let Some(changed) = changed.filter(|changed| changed.id == task) {
            return Some((*changed).clone());
        }
    }
}
