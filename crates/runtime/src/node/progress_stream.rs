//! What running work sends to the clients on this node that follow it: progress and log messages.
//!
//! Nothing of it is stored. The latest status line and progress are, as part of the task; see `pending_report`.

use foldhash::HashMap;
use longhaul_core::{Json, LogLevel, TaskId};
use parking_lot::Mutex;
use std::{
    collections::{VecDeque, hash_map::Entry},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::sync::Notify;

/// Messages that a slow subscriber may have unread before it misses the oldest.
const MAX_UNREAD: usize = 128;

/// A message from running work to the clients that follow it.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolMessage {
    /// Progress.
    Progress {
        /// So far.
        current: f64,
        /// In all, if known.
        total: Option<f64>,
        /// A line for people.
        message: Option<Arc<str>>,
        /// The params of the notification, if another server reported it.
        relayed: Option<Json>,
    },
    /// A log message for the client.
    Log {
        /// The level.
        level: LogLevel,
        /// The name of the logger.
        logger: Option<Arc<str>>,
        /// Any JSON.
        data: Json,
        /// The params of the notification, if another server sent it.
        relayed: Option<Json>,
    },
    /// The user has finished with a page that the client was asked to open.
    ElicitationComplete {
        /// The question's `elicitationId`.
        id: Arc<str>,
    },
    /// The work begins only now: the time after which a call becomes a task counts from here, if its executor [prepares](crate::Executor::prepares).
    Begins,
    /// The work lasts longer: a call that is to become a task after a while does so now.
    BecomesTask,
    /// Nothing will be sent for a while: a legacy stream may be closed, to be resumed later.
    CloseStream,
}

impl ToolMessage {
    /// `None` if `current` is not finite. A `total` that is not is left out.
    pub(crate) fn progress(current: f64, total: Option<f64>, message: Option<Arc<str>>) -> Option<Self> {
        current.is_finite().then(|| Self::Progress {
            current,
            total: total.filter(|total| total.is_finite()),
            message,
            relayed: None,
        })
    }
}

/// The subscribers of all tasks. Publishing costs one atomic read while there are none, and a subscriber takes no room before something is
/// published: every plain call has one, and few tools send anything.
#[derive(Default)]
pub(crate) struct ProgressStreams {
    subscribers: Mutex<HashMap<TaskId, Vec<Arc<Subscriber>>>>,
    /// Tasks with subscribers.
    count: AtomicUsize,
}

#[derive(Default)]
struct Subscriber {
    unread: Mutex<VecDeque<ToolMessage>>,
    more: Notify,
}

/// The messages of one task. Dropping it ends the subscription.
pub struct ProgressStream {
    streams: Arc<ProgressStreams>,
    task: TaskId,
    subscriber: Arc<Subscriber>,
}

impl ProgressStreams {
    pub(crate) fn subscribe(self: &Arc<Self>, task: &TaskId) -> ProgressStream {
        let subscriber = Arc::new(Subscriber::default());
        let mut subscribers = self.subscribers.lock();
        let of_task = subscribers.entry(task.clone()).or_default();
        if of_task.is_empty() {
            self.count.fetch_add(1, Ordering::SeqCst);
        }
        of_task.push(Arc::clone(&subscriber));
        ProgressStream {
            streams: Arc::clone(self),
            task: task.clone(),
            subscriber,
        }
    }

    /// Whether any task has subscribers. Without any, no message needs to be built.
    pub(crate) fn has_subscribers(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0
    }

    pub(crate) fn publish(&self, task: &TaskId, message: ToolMessage) {
        if !self.has_subscribers() {
            return;
        }
        for subscriber in self.subscribers.lock().get(task).into_iter().flatten() {
            subscriber.push(message.clone());
        }
    }
}

impl Subscriber {
    fn push(&self, message: ToolMessage) {
        let mut unread = self.unread.lock();
        if unread.len() == MAX_UNREAD {
            unread.pop_front();
        }
        unread.push_back(message);
        self.more.notify_one();
    }
}

impl ProgressStream {
    /// The next message. A reader that falls behind misses the oldest ones. Never completes if no message comes.
    pub async fn next(&mut self) -> ToolMessage {
        loop {
            if let Some(message) = self.try_next() {
                return message;
            }
            self.subscriber.more.notified().await;
        }
    }

    /// The next message, if there is one already.
    pub fn try_next(&mut self) -> Option<ToolMessage> {
        self.subscriber.unread.lock().pop_front()
    }
}

impl Drop for ProgressStream {
    fn drop(&mut self) {
        let mut subscribers = self.streams.subscribers.lock();
        let Entry::Occupied(mut of_task) = subscribers.entry(self.task.clone()) else {
            return;
        };
        of_task
            .get_mut()
            .retain(|subscriber| !Arc::ptr_eq(subscriber, &self.subscriber));
        if of_task.get().is_empty() {
            of_task.remove();
            self.streams.count.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_that_is_not_finite_is_not_sent() {
        for none in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(ToolMessage::progress(none, Some(1.0), None), None);
            assert_eq!(
                ToolMessage::progress(1.0, Some(none), None),
                ToolMessage::progress(1.0, None, None)
            );
        }
    }
}
