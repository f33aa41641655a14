//! What an upstream has asked one of its tasks in requests that have no answer yet, as the checkpoint of the task keeps it: some upstreams ask once.

use super::checkpoint::{OpenQuestion, UpstreamTask};
use longhaul_client::{EarlierRequest, InputRequest, RequestRef, TaskRef};
use longhaul_runtime::{JournalError, TaskContext};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
};

/// The most requests of a task that are kept at once. More are put to the client, and not kept.
const MOST: usize = 16;
/// The longest request that is kept, in bytes.
const LONGEST: usize = 16 * 1024;

/// The open requests of an upstream about one task, and what else the checkpoint has.
#[derive(Default)]
pub(crate) struct OpenQuestions {
    /// The task, once it is known.
    task: Mutex<Option<TaskRef>>,
    open: Mutex<Vec<OpenQuestion>>,
    /// Whether the task was last seen asking.
    asks: AtomicBool,
    /// Held while a checkpoint is written, so that no older one follows.
    storing: tokio::sync::Mutex<()>,
}

impl OpenQuestions {
    pub(crate) fn is_task(&self, task: Option<&TaskRef>) {
        *self.task.lock() = task.cloned();
    }

    pub(crate) fn was_seen(&self, asks: bool) {
        self.asks.store(asks, Ordering::Relaxed);
    }

    /// What an earlier process has left open.
    pub(crate) fn resume(&self, open: &[OpenQuestion]) {
        self.open.lock().extend_from_slice(open);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.lock().is_empty()
    }

    /// A request is about to be put to the client. Whether that is to be stored before.
    pub(crate) fn add(&self, asked: &InputRequest, digest: &str, nth: u32) -> bool {
        let (Some(request), Some(_)) = (&asked.request, &asked.task) else {
            return false;
        };
        let mut open = self.open.lock();
        let known = open.iter().position(|known| known.request.request == **request);
        if let Some(known) = known {
            if open[known].digest == digest && open[known].nth == nth {
                return false;
            }
            // The upstream has used the id again.
            open.remove(known);
        }
        if open.len() >= MOST || asked.params.as_json().as_str().len() > LONGEST {
            tracing::warn!("a question of an upstream is not kept over a restart: it is too long, or one of too many");
            return false;
        }
        open.push(OpenQuestion {
            request: EarlierRequest {
                request: RequestRef::clone(request),
                method: asked.method.clone(),
                params: asked.params.clone(),
                was_seen: self.asks.load(Ordering::Relaxed),
            },
            digest: digest.to_owned(),
            nth,
        });
        true
    }

    /// A request has its answer, or wants none, and so have all that ask the same. Whether one was known.
    pub(crate) fn settle(&self, request: Option<&RequestRef>) -> bool {
        let mut open = self.open.lock();
        let settled = open.iter().find(|known| Some(&known.request.request) == request);
        let Some(OpenQuestion { digest, nth, .. }) = settled.cloned() else {
            return false;
        };
        open.retain(|known| known.digest != digest || known.nth != nth);
        true
    }

    /// Stores the task of the upstream, so that it is found again, with what is known of its questions. Nothing is stored before the task is known.
    pub(crate) async fn store(
        &self,
        delivered: &Mutex<BTreeMap<String, u32>>,
        cx: &TaskContext,
    ) -> Result<(), JournalError> {
        let _storing = self.storing.lock().await;
        let Some(task) = self.task.lock().clone() else {
            return Ok(());
        };
        let stored = UpstreamTask {
            task,
            delivered: delivered.lock().clone(),
            open: self.open.lock().clone(),
        };
        cx.checkpoint(stored.to_json()).await
    }
}
