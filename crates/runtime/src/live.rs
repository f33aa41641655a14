//! What running work says at this moment, for those on this node who listen: progress and log messages.
//!
//! Nothing of it is kept. What is worth keeping, the latest status line and figure, goes to the store as news.

use longhaul_core::{Json, LogLevel, TaskId};
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::sync::Notify;

/// How much a slow listener may be behind before it misses something.
const KEPT: usize = 128;

/// Something said by running work.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    /// How far it has come.
    Progress {
        /// So far.
        current: f64,
        /// In all, if known.
        total: Option<f64>,
        /// A line for people.
        message: Option<Arc<str>>,
    },
    /// A log message for the client.
    Log {
        /// How grave.
        level: LogLevel,
        /// Who says so.
        logger: Option<Arc<str>>,
        /// What: any JSON.
        data: Json,
    },
    /// What there was to do on a page that the client was asked to open is done (C-32).
    ElicitationComplete {
        /// The question's `elicitationId`.
        id: Arc<str>,
    },
    /// The work has nothing to say for a while: a legacy stream may be closed, to be resumed later (T-06).
    Quiet,
}

impl Said {
    /// How far work has come; `None` if `current` is no figure. A `total` that is none is left out.
    pub(crate) fn progress(current: f64, total: Option<f64>, message: Option<Arc<str>>) -> Option<Self> {
        current.is_finite().then(|| Self::Progress {
            current,
            total: total.filter(|total| total.is_finite()),
            message,
        })
    }
}

/// Who listens to which task. Costs one atomic read when nobody does, and a listener no room before something is said: every plain
/// call has one, and few say anything.
#[derive(Default)]
pub(crate) struct Live {
    listeners: Mutex<HashMap<TaskId, Vec<Arc<Ear>>>>,
    count: AtomicUsize,
}

/// What one listener has not taken yet.
#[derive(Default)]
struct Ear {
    heard: Mutex<VecDeque<Said>>,
    more: Notify,
}

/// Listens to one task; dropping it ends that.
pub struct Hearing {
    live: Arc<Live>,
    task: TaskId,
    ear: Arc<Ear>,
}

impl Live {
    pub(crate) fn listen(self: &Arc<Self>, task: &TaskId) -> Hearing {
        let ear = Arc::new(Ear::default());
        let mut listeners = self.lock();
        let ears = listeners.entry(task.clone()).or_default();
        if ears.is_empty() {
            self.count.fetch_add(1, Ordering::SeqCst);
        }
        ears.push(Arc::clone(&ear));
        Hearing {
            live: Arc::clone(self),
            task: task.clone(),
            ear,
        }
    }

    /// Whether anyone listens to anything: work need not put words together for nobody.
    pub(crate) fn is_heard(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0
    }

    pub(crate) fn say(&self, task: &TaskId, said: Said) {
        if !self.is_heard() {
            return;
        }
        for ear in self.lock().get(task).into_iter().flatten() {
            ear.hear(said.clone());
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TaskId, Vec<Arc<Ear>>>> {
        self.listeners.lock()
    }
}

impl Ear {
    fn hear(&self, said: Said) {
        let mut heard = self.lock();
        if heard.len() == KEPT {
            heard.pop_front();
        }
        heard.push_back(said);
        self.more.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Said>> {
        self.heard.lock()
    }
}

impl Hearing {
    /// The next thing said. A listener that is too slow misses what is oldest. Never completes when there is nothing to come.
    pub async fn next(&mut self) -> Said {
        loop {
            if let Some(said) = self.take() {
                return said;
            }
            self.ear.more.notified().await;
        }
    }

    /// What has been said already and not been taken.
    pub fn take(&mut self) -> Option<Said> {
        self.ear.lock().pop_front()
    }
}

impl Drop for Hearing {
    fn drop(&mut self) {
        let mut listeners = self.live.lock();
        let Entry::Occupied(mut entry) = listeners.entry(self.task.clone()) else {
            return;
        };
        entry.get_mut().retain(|ear| !Arc::ptr_eq(ear, &self.ear));
        if entry.get().is_empty() {
            entry.remove();
            self.live.count.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_figure_is_not_told() {
        for none in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(Said::progress(none, Some(1.0), None), None);
            assert_eq!(Said::progress(1.0, Some(none), None), Said::progress(1.0, None, None));
        }
    }
}
