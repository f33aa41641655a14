//! A call that can be asked something, and what it was asked.

use super::{
    context::Context,
    retry::{AwaitedRetry, OpenRound},
};
use crate::question::{UpstreamQuestion, checkpoint::OpenQuestion, open_questions::OpenQuestions};
use futures_util::{FutureExt, future::Shared};
use longhaul_client::{InputRequest, RequestRef};
use longhaul_core::{BoxFuture, Json, SessionKey, TaskId};
use longhaul_runtime::{AskError, JournalError, Question};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};
use tokio::sync::Notify;

/// The client of a call, as far as clients can be told apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Client {
    Session(SessionKey),
    /// Some client without a session, that of this task.
    OfTask(TaskId),
    /// Some client without a session, that of the request with this number.
    OfRequest(u64),
}

/// A call, or another request, on whose behalf an upstream asks.
pub(crate) struct Asker {
    pub(super) context: Context,
    pub(super) client: Client,
    /// Whether it was sent, and has no answer.
    pub(super) runs: AtomicBool,
    /// How often each legacy question without a key was put, by the digest of its text: those that an earlier process has had answered included.
    put: Mutex<BTreeMap<String, u32>>,
    /// The texts of the questions with each key of a round, by their digests.
    rounds: Mutex<HashMap<String, Vec<String>>>,
    /// Questions without a key that are being asked, or whose answer the upstream has not taken, by the digest of their text: a server may send its question
    /// again under another id.
    pub(super) unsettled: Mutex<HashMap<String, UnsettledQuestion>>,
    /// How many of the answers the upstream has taken.
    pub(super) delivered: Mutex<BTreeMap<String, u32>>,
    /// The requests without a key that have no answer.
    pub(crate) open: OpenQuestions,
    /// Notified when one of the two has changed.
    pub(crate) was_settled: Notify,
    /// Whether its client must come back with an answer.
    pub(super) retry: AwaitedRetry,
}

type Answer = Shared<BoxFuture<'static, Result<Json, AskError>>>;

pub(super) struct UnsettledQuestion {
    answer: Answer,
    /// Its number among the questions with its text.
    nth: u32,
    /// How many requests of the upstream wait for it.
    waiting: usize,
}

/// A request of the upstream that waits for an answer. If nobody waits any more for one that is not there, the question is withdrawn.
struct WaitingRequest {
    asker: Arc<Asker>,
    digest: String,
    request: Option<Box<RequestRef>>,
    is_answered: bool,
}

impl Drop for WaitingRequest {
    fn drop(&mut self) {
        let mut unsettled = self.asker.unsettled.lock();
        if let Some(question) = unsettled.get_mut(&self.digest) {
            question.waiting -= 1;
            if question.waiting == 0 && !self.is_answered {
                unsettled.remove(&self.digest);
                drop(unsettled);
                self.asker.withdrawn(self.request.as_deref());
            }
        }
    }
}

impl Asker {
    /// `delivered` is what an earlier process knows of its legacy questions.
    pub(super) fn new(context: Context, client: Client, delivered: BTreeMap<String, u32>) -> Self {
        Self {
            context,
            client,
            runs: AtomicBool::new(false),
            put: Mutex::new(delivered.clone()),
            rounds: Mutex::default(),
            unsettled: Mutex::default(),
            delivered: Mutex::new(delivered),
            open: OpenQuestions::default(),
            was_settled: Notify::new(),
            retry: AwaitedRetry::default(),
        }
    }

    /// Goes on with what an earlier process was asked, under the same names.
    pub(crate) fn resume(&self, open: &[OpenQuestion]) {
        let mut put = self.put.lock();
        for OpenQuestion { digest, nth, .. } in open {
            put.insert(digest.clone(), nth.saturating_sub(1));
        }
        self.open.resume(open);
    }

    /// The upstream wants no answer any more.
    fn withdrawn(&self, request: Option<&RequestRef>) {
        if self.open.settle(request) {
            self.was_settled.notify_one();
        }
    }

    /// Records the task of the upstream, so that it is found again.
    pub(crate) async fn store(&self) -> Result<(), JournalError> {
        match &self.context {
            Context::Task(cx) => self.open.store(&self.delivered, cx).await,
            Context::Request(_) => Ok(()),
        }
    }

    /// The number of the next question with this text.
    fn next(&self, asked: &UpstreamQuestion) -> u32 {
        let mut put = self.put.lock();
        let nth = put.entry(asked.digest.clone()).or_default();
        *nth += 1;
        *nth
    }

    /// One with a key.
    fn question(&self, asked: &UpstreamQuestion) -> Question {
        if let Some(key) = asked.round_key() {
            let mut rounds = self.rounds.lock();
            let texts = rounds.entry(key.to_owned()).or_default();
            let known = texts.iter().position(|text| *text == asked.digest);
            let nth = known.unwrap_or_else(|| {
                texts.push(asked.digest.clone());
                texts.len() - 1
            });
            return asked.put(u32::try_from(nth + 1).unwrap_or(u32::MAX));
        }
        asked.put(1)
    }

    /// Puts a question to the client, once.
    pub(super) async fn ask(self: &Arc<Self>, request: &InputRequest) -> Result<Json, AskError> {
        let asked = &UpstreamQuestion::of(request);
        if asked.has_key() {
            return self.context.clone().ask(self.question(asked)).await;
        }
        let digest = asked.digest.clone();
        let (answer, nth) = {
            let mut unsettled = self.unsettled.lock();
            let question = unsettled.entry(digest.clone()).or_insert_with(|| {
                let nth = self.next(asked);
                UnsettledQuestion {
                    answer: self.context.clone().ask(asked.put(nth)).boxed().shared(),
                    nth,
                    waiting: 0,
                }
            });
            question.waiting += 1;
            (question.answer.clone(), question.nth)
        };
        let mut waiting = WaitingRequest {
            asker: Arc::clone(self),
            digest,
            request: request.request.clone(),
            is_answered: false,
        };
        let is_kept = self.open.add(request, &asked.digest, nth);
        // Some upstreams ask once: before anyone can answer, so that the answer finds its way after a restart.
        if is_kept && let Err(error) = self.store().await {
            tracing::warn!(%error, "a question of an upstream is not kept over a restart");
        }
        let answer = answer.await;
        waiting.is_answered = answer.is_ok();
        answer
    }

    /// Notes that a question is put, if its client answers it with another request.
    pub(super) async fn begin_round(&self, now: Duration) -> Option<OpenRound<'_>> {
        let Context::Task(cx) = &self.context else { return None };
        if !cx.requestor().modern || cx.is_announced().await {
            return None;
        }
        Some(self.retry.begin(now))
    }

    /// Completes when the call is to end because another one needs its connection.
    pub(crate) async fn given_up(&self) {
        self.retry.given_up.cancelled().await;
    }

    /// Whether that has happened.
    pub(crate) fn is_given_up(&self) -> bool {
        self.retry.given_up.is_cancelled()
    }
}
