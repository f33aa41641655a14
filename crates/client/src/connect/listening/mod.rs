//! What a connection keeps of its push stream and of the requests that it serves.

pub(crate) mod finished_pages;
pub(crate) mod open_questions;

use crate::{
    CallId, InputRequest, InputResponse,
    connect::{
        legacy::questions::{Moment, RequestDigest, SentResponses, ServedAnswer, TakenAnswer, TakenAnswers},
        listening::{
            finished_pages::FinishedPages,
            open_questions::{AnswerReceipt, QuestionSlot},
        },
    },
    journal::call_record::CallRecord,
    transport::stream_losses::StreamLosses,
};
use futures_util::future::join_all;
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore, watch},
    task::{AbortHandle, JoinHandle},
};

/// How long a request may wait for the push stream.
const LONGEST_OPENING: Duration = Duration::from_secs(2);

/// How long the end of a connection may wait for cancellations to be sent.
const LONGEST_SENDING: Duration = Duration::from_secs(1);

/// The requests of a server that are served at once. More are refused.
pub(crate) const MAX_SERVED: usize = 64;
/// The refusals that are being sent at once. More requests are dropped.
const MAX_REFUSALS: usize = 64;

/// The push stream of a legacy session, and the requests of the server that are served.
pub(crate) struct SessionListener {
    stream: Mutex<Option<AbortHandle>>,
    served: Arc<Semaphore>,
    refusals: Arc<Semaphore>,
    /// Whether a request was ignored because there were too many.
    has_ignored: AtomicBool,
    /// The requests that are being served, by their id.
    serving: Mutex<HashMap<String, ServedRequest>>,
    /// The latest responses that the server has not taken.
    sent_responses: Mutex<SentResponses>,
    /// The latest answers that the server has taken.
    taken_answers: Mutex<TakenAnswers>,
    pub(crate) finished_pages: FinishedPages,
    /// What has become of the streams.
    pub(crate) losses: StreamLosses,
    /// How many questions of tasks without a record came.
    questions: AtomicU32,
    /// Changes when a task asks something, or that is answered.
    asked: watch::Sender<()>,
    /// The next [`Moment`].
    moment: AtomicU64,
    /// Cancellations that are being sent.
    sending: Mutex<Vec<JoinHandle<()>>>,
    /// Whether something is wanted that comes on the push stream alone.
    is_wanted: AtomicBool,
    /// Whether the push stream is being opened for the first time.
    opening: watch::Sender<bool>,
}

/// The answer to a question that is being asked, as soon as there is one.
pub(crate) type OpenAnswer = watch::Receiver<Option<ServedAnswer>>;

/// Held while a request is served, or refused because too many are.
pub(crate) struct ServingPermit {
    _held: OwnedSemaphorePermit,
    pub(crate) is_refused: bool,
}

/// The push stream is being opened until this is dropped.
pub(crate) struct OpeningGuard(watch::Sender<bool>);

impl Drop for OpeningGuard {
    fn drop(&mut self) {
        self.0.send_replace(false);
    }
}

/// A request of a server that is being served.
pub(crate) struct ServedRequest {
    pub(crate) running: AbortHandle,
    /// The server wants no response any more.
    pub(crate) withdrawn: Arc<Notify>,
    /// An earlier process got it.
    pub(crate) is_recorded: bool,
    /// It came again while the response was on its way: that may be another request.
    pub(crate) came_again: bool,
    /// The task that it belongs to.
    pub(crate) task: Option<String>,
    /// The plain call that it belongs to, if that is recorded.
    pub(crate) call: Option<CallId>,
    /// What it asks.
    pub(crate) digest: RequestDigest,
    /// The name of its question, if no other question ever has it.
    pub(crate) unique_name: Option<String>,
    /// A poll has shown since that the task asks. Some servers never say so.
    pub(crate) was_seen: bool,
    /// An earlier process got it, and it has no response yet: if the server asks the same again, that gets the answer instead.
    pub(crate) yields: bool,
    /// The server has asked the same again while it yields.
    pub(crate) was_asked_again: bool,
    /// The answer, once there is one.
    pub(crate) answer: OpenAnswer,
    /// When it was first sent, if it was.
    pub(crate) sent_at: Option<Moment>,
    /// What the handler is asked, if it is a question of a task.
    pub(crate) question: QuestionSlot,
}

impl ServedRequest {
    /// The answer, for another request that asks the same.
    fn share_answer(&mut self) -> OpenAnswer {
        self.was_asked_again |= self.yields;
        self.answer.clone()
    }

    /// Whether it is a question of the task, and has no answer.
    fn is_open_for(&self, task: &str) -> bool {
        self.task.as_deref() == Some(task) && self.answer.borrow().is_none()
    }
}

impl SessionListener {
    pub(crate) fn new(losses: StreamLosses) -> Self {
        Self {
            stream: Mutex::default(),
            served: Arc::new(Semaphore::new(MAX_SERVED)),
            refusals: Arc::new(Semaphore::new(MAX_REFUSALS)),
            has_ignored: AtomicBool::new(false),
            serving: Mutex::default(),
            sent_responses: Mutex::default(),
            taken_answers: Mutex::default(),
            finished_pages: FinishedPages::default(),
            losses,
            questions: AtomicU32::new(0),
            asked: watch::Sender::new(()),
            moment: AtomicU64::new(0),
            sending: Mutex::default(),
            is_wanted: AtomicBool::new(false),
            opening: watch::Sender::new(false),
        }
    }

    /// The push stream is wanted from now on, also after a new handshake.
    pub(crate) fn want(&self) {
        self.is_wanted.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Relaxed)
    }

    /// Reads the push stream by what `start` begins, unless it is read.
    pub(crate) fn read_stream(&self, start: impl FnOnce() -> AbortHandle) {
        let mut stream = self.stream.lock();
        if stream.as_ref().is_none_or(AbortHandle::is_finished) {
            *stream = Some(start());
        }
    }

    /// The push stream is being opened from now on.
    pub(crate) fn open(&self) -> OpeningGuard {
        self.opening.send_replace(true);
        OpeningGuard(self.opening.clone())
    }

    /// Waits until the push stream is open, or the server has refused it, but not for long. Some servers ask on it alone, and lose a question if it is
    /// not open.
    #[expect(clippy::disallowed_methods, reason = "the client is not simulated")]
    pub(crate) async fn until_open(&self) {
        let mut opening = self.opening.subscribe();
        if tokio::time::timeout(LONGEST_OPENING, opening.wait_for(|opening| !opening))
            .await
            .is_err()
        {
            tracing::debug!("the push stream is not open yet");
            self.opening.send_replace(false);
        }
    }

    /// A cancellation is being sent.
    pub(crate) fn sends(&self, cancellation: JoinHandle<()>) {
        let mut sending = self.sending.lock();
        sending.retain(|sending| !sending.is_finished());
        sending.push(cancellation);
    }

    /// Waits until the cancellations are sent, but not for long.
    #[expect(clippy::disallowed_methods, reason = "the client is not simulated")]
    pub(crate) async fn until_sent(&self) {
        let sending = std::mem::take(&mut *self.sending.lock());
        if tokio::time::timeout(LONGEST_SENDING, join_all(sending)).await.is_err() {
            tracing::debug!("the server does not take a cancellation");
        }
    }

    /// Whether something is being served that an earlier process was asked about the task.
    pub(crate) fn serves_recorded(&self, task: &str) -> bool {
        let serving = self.serving.lock();
        serving
            .values()
            .any(|served| served.is_recorded && served.task.as_deref() == Some(task))
    }

    /// A poll has shown whether the task asks. What it was seen asking, and does not ask any more, was answered elsewhere, and is withdrawn. A question that came after
    /// the last poll may be another one.
    pub(crate) fn note_poll(&self, task: &str, asks: bool) {
        self.serving.lock().retain(|_, served| {
            if !served.is_open_for(task) {
                return true;
            }
            let is_over = served.was_seen && !asks;
            served.was_seen |= asks;
            if is_over {
                served.withdrawn.notify_one();
            }
            !is_over
        });
    }

    /// Whether the task was seen asking something that has no answer yet.
    pub(crate) fn was_seen_asking(&self, task: &str) -> bool {
        let serving = self.serving.lock();
        serving
            .values()
            .any(|served| served.was_seen && served.is_open_for(task))
    }

    /// The number of the next question of a task without a record.
    pub(crate) fn next_question(&self) -> u32 {
        self.questions.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }

    /// A task asks something, or has an answer.
    pub(crate) fn note_question(&self) {
        self.asked.send_replace(());
    }

    /// Changes whenever a task asks something, or has an answer.
    pub(crate) fn asked(&self) -> watch::Receiver<()> {
        self.asked.subscribe()
    }

    /// What the task asks this process, and has no answer, in the order of the keys.
    pub(crate) fn open_questions(&self, task: &str) -> Vec<InputRequest> {
        let serving = self.serving.lock();
        let open = serving.values().filter(|served| served.is_open_for(task));
        let open = open.filter_map(|served| served.question.get());
        let mut open: Vec<_> = open.map(|question| question.request().clone()).collect();
        open.sort_by(|a, b| a.key.cmp(&b.key));
        open
    }

    /// Answers such a question. `None` if there is none.
    pub(crate) fn give_answer(&self, task: &str, key: &str, answer: &InputResponse) -> Option<AnswerReceipt> {
        let serving = self.serving.lock();
        let open = serving.values().filter(|served| served.is_open_for(task));
        let mut open = open.filter_map(|served| served.question.get());
        let question = open.find(|question| question.request().key.as_deref() == Some(key))?;
        question.give(answer.clone())
    }

    /// Now. Each call returns a later one.
    pub(crate) fn now(&self) -> Moment {
        self.moment.fetch_add(1, Ordering::Relaxed)
    }

    /// The answer to the request of this id is sent for the first time. Returns when, and whether a poll has shown that its task asks.
    pub(crate) fn sending(&self, id: &str, digest: &RequestDigest) -> (Moment, bool) {
        let now = self.now();
        let mut serving = self.serving.lock();
        let served = serving.get_mut(id).filter(|served| served.digest == *digest);
        let was_seen = served.is_some_and(|served| {
            served.sent_at = Some(now);
            served.was_seen
        });
        (now, was_seen)
    }

    /// The answer to a question of the task with this text that was not sent when the request of this id came.
    pub(crate) fn unsent_answer(
        &self,
        id: &str,
        task: &str,
        digest: &RequestDigest,
        came_at: Moment,
    ) -> Option<OpenAnswer> {
        let mut serving = self.serving.lock();
        let found = serving.iter_mut().find(|(other, served)| {
            let is_same = served.task.as_deref() == Some(task) && served.digest == *digest;
            is_same && other.as_str() != id && served.sent_at.is_none_or(|sent_at| sent_at > came_at)
        });
        found.map(|(_, served)| served.share_answer())
    }

    /// Closes the push stream.
    pub(crate) fn stop(&self) {
        if let Some(stream) = self.stream.lock().take() {
            stream.abort();
        }
    }

    /// The session is lost.
    pub(crate) fn forget_session(&self) {
        self.stop();
        self.withdraw_all();
        self.sent_responses.lock().clear();
    }

    /// Withdraws what was asked in a session that is lost: nobody waits for the answers.
    fn withdraw_all(&self) {
        for (_, served) in self.serving.lock().drain() {
            served.running.abort();
        }
    }

    /// Whether a plain call has asked something that has no answer.
    pub(crate) fn asks_in_call(&self, call: CallId) -> bool {
        let serving = self.serving.lock();
        let mut open = serving.values().filter(|served| served.answer.borrow().is_none());
        open.any(|served| served.call == Some(call))
    }

    /// Withdraws what a plain call has asked, because it is not waited for any more.
    pub(crate) fn withdraw_call(&self, call: CallId) {
        self.serving.lock().retain(|_, served| {
            let is_open = served.call != Some(call);
            if !is_open {
                served.running.abort();
            }
            is_open
        });
    }

    /// Withdraws what a task has asked, because it has ended. Not every server does so itself. Nothing is answered: the Python SDK 1.30 ends the
    /// session if the question of a cancelled task is answered. An answer that is being sent may be what has ended the task: its response is awaited, but it is
    /// not sent again.
    pub(crate) fn withdraw(&self, task: &str) {
        self.taken_answers.lock().forget(task);
        self.serving.lock().retain(|_, served| {
            let is_open = served.task.as_deref() != Some(task);
            if !is_open && served.sent_at.is_none() {
                served.running.abort();
            }
            is_open
        });
    }

    /// Leave to serve another request, or to refuse it. A server that sends too many is told of once.
    pub(crate) fn permit(&self, method: &str) -> Option<ServingPermit> {
        let acquire = |limit: &Arc<Semaphore>, is_refused| {
            let held = Arc::clone(limit).try_acquire_owned().ok()?;
            Some(ServingPermit {
                _held: held,
                is_refused,
            })
        };
        let permit = acquire(&self.served, false).or_else(|| acquire(&self.refusals, true));
        if permit.is_none() {
            match self.has_ignored.swap(true, Ordering::Relaxed) {
                false => tracing::warn!(
                    method,
                    "ignored a request of the server: it sends too many; others that are ignored are not reported"
                ),
                true => tracing::debug!(method, "ignored a request of the server: it sends too many"),
            }
        }
        permit
    }

    /// Serves a request by what `start` begins, unless it is being served. `start` gets the answer to another request that asks the same: one with this text of which
    /// `is_same` says so. With `is_recorded` the server has not sent it just now.
    pub(crate) fn admit(
        &self,
        id: &str,
        digest: &RequestDigest,
        is_recorded: bool,
        is_same: impl Fn(&ServedRequest) -> bool,
        start: impl FnOnce(Option<OpenAnswer>) -> ServedRequest,
    ) {
        // Held until the entry is made, so that it is not made after the request was served.
        let mut serving = self.serving.lock();
        match serving.get_mut(id) {
            Some(served) if served.digest == *digest => {
                // The server may have taken the response already, and ask the same again under the same id.
                served.came_again |= !is_recorded && !served.yields && served.sent_at.is_some();
                tracing::debug!(id, "a request of the server came twice");
                return;
            }
            Some(served) => served.running.abort(),
            None => {}
        }
        let mut others = serving.values_mut();
        let same = others.find(|other| other.digest == *digest && is_same(other));
        let same_answer = same.map(ServedRequest::share_answer);
        serving.insert(id.to_owned(), start(same_answer));
    }

    /// The request is served. Whether it came again meanwhile.
    pub(crate) fn served(&self, id: &str, digest: &RequestDigest) -> bool {
        let mut serving = self.serving.lock();
        match serving.get(id).is_some_and(|served| served.digest == *digest) {
            true => serving.remove(id).is_some_and(|served| served.came_again),
            false => false,
        }
    }

    /// The server wants no response to the request of this id any more.
    pub(crate) fn withdraw_request(&self, id: &str) {
        if let Some(served) = self.serving.lock().remove(id) {
            served.withdrawn.notify_one();
        }
    }

    /// Stops serving the request of this id: it is answered otherwise. Whether a poll has shown that its task asks.
    pub(crate) fn stop_serving(&self, id: &str) -> bool {
        let Some(served) = self.serving.lock().remove(id) else {
            return false;
        };
        served.running.abort();
        self.note_question();
        served.was_seen
    }

    /// An earlier request yields no more to the same question. Whether the server has not asked that meanwhile.
    pub(crate) fn stop_yielding(&self, id: &str, digest: &RequestDigest) -> bool {
        match self.serving.lock().get_mut(id) {
            Some(served) if served.digest == *digest => {
                served.yields = false;
                !served.was_asked_again
            }
            _ => true,
        }
    }

    /// Whether a request of this id is being served.
    pub(crate) fn serves_id(&self, id: &str) -> bool {
        self.serving.lock().contains_key(id)
    }

    /// The response to the same message, which the server may not have taken.
    pub(crate) fn sent_response(&self, id: &str, digest: &RequestDigest) -> Option<String> {
        self.sent_responses.lock().find(id, digest)
    }

    /// A response was sent. It is kept if its request may come again.
    pub(crate) fn note_response(&self, id: &str, digest: RequestDigest, response: &str, may_come_again: bool) {
        let mut sent = self.sent_responses.lock();
        match may_come_again {
            true => sent.keep(id, digest, response),
            false => sent.forget(id),
        }
    }

    /// The server has taken this answer.
    pub(crate) fn keep_taken(&self, answer: TakenAnswer) {
        self.taken_answers.lock().keep(answer);
    }

    /// The answer that the server has taken to a question that came at this moment.
    pub(crate) fn taken_answer(&self, task: &str, name: &str, came_at: Moment) -> Option<ServedAnswer> {
        self.taken_answers.lock().find(task, name, came_at)
    }

    /// Whether a poll had shown that the task asks, if the server has taken an answer to a question with this name.
    pub(crate) fn taken_was_seen(&self, task: &str, name: &str) -> Option<bool> {
        self.taken_answers.lock().was_seen(task, name)
    }

    /// Whether the request of this id is being served.
    pub(crate) fn serves(&self, id: &str, digest: &RequestDigest) -> bool {
        let serving = self.serving.lock();
        serving.get(id).is_some_and(|served| served.digest == *digest)
    }
}

/// A recorded plain call of a legacy server is sent until this is dropped. Then it has an answer, or is not waited for, so what the server asked is withdrawn.
pub(crate) struct PlainCall<'a> {
    listening: &'a SessionListener,
    pub(crate) record: Option<&'a CallRecord>,
}

impl<'a> PlainCall<'a> {
    pub(crate) fn begin(listening: &'a SessionListener, record: Option<&'a CallRecord>) -> Self {
        if let Some(record) = record {
            record.is_sent();
        }
        Self { listening, record }
    }
}

impl Drop for PlainCall<'_> {
    fn drop(&mut self) {
        if let Some(record) = self.record {
            self.listening.withdraw_call(record.call());
        }
    }
}

impl Drop for SessionListener {
    fn drop(&mut self) {
        self.stop();
        self.withdraw_all();
    }
}
