//! The record of one call in the client journal, as the call itself uses it.

use crate::{
    Asked, CallChange, CallId, CallJournal, CallState, Finished, Generation, InputRequest, JournalError, JournalFuture,
    JournalWatch, NewCall, NewServerRequest, RecordedCall, RequestNumber, ServerRequestRecord, SessionRef, TakenOver,
    TaskRef, TaskStatus,
};
use longhaul_core::{Json, Millis};
use parking_lot::Mutex;
use std::sync::Arc;

/// Where the calls of one server are recorded.
#[derive(Debug, Clone)]
pub(crate) struct JournalTarget {
    pub(crate) journal: Arc<dyn CallJournal>,
    /// The server, as it is recorded.
    pub(crate) server: String,
    pub(crate) server_name: Option<String>,
}

/// The record of a call. Cheap to clone. When the last clone is dropped before there is an answer, the call is released: another one with the same
/// arguments takes it over, if it has an idempotency key.
#[derive(Debug, Clone)]
pub(crate) struct CallRecord(Arc<Record>);

#[derive(Debug)]
struct Record {
    journal: Arc<dyn CallJournal>,
    /// Whether the same call may be made again.
    has_idempotency_key: bool,
    state: Mutex<RecordState>,
}

#[derive(Debug)]
struct RecordState {
    call: CallId,
    /// Nothing is recorded of an answer.
    is_open: bool,
    /// The server did not know the task, or a task could not be recorded.
    lacks_task: bool,
    /// The legacy session that is recorded with the call or its task.
    session: Option<String>,
    /// What was last noted of the status of the task, by this process or, if that is enough, by another one.
    noted: Option<NotedStatus>,
    /// When the task had changed last, when it was last seen asking.
    asked_at: Option<String>,
    /// How many questions the server has asked in requests since the call was last sent.
    questions: u32,
}

/// What lists show of the status of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NotedStatus {
    Working,
    Asks,
    Ended,
}

impl From<TaskStatus> for NotedStatus {
    fn from(status: TaskStatus) -> Self {
        match status {
            TaskStatus::InputRequired => Self::Asks,
            status if status.is_final() => Self::Ended,
            _ => Self::Working,
        }
    }
}

impl RecordState {
    /// Of a call without an answer.
    fn open(call: CallId, session: Option<&SessionRef>) -> Self {
        Self {
            call,
            is_open: true,
            lacks_task: false,
            session: session.map(|session| session.id.clone()),
            noted: Some(NotedStatus::Working),
            asked_at: None,
            questions: 0,
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        if state.is_open {
            warn_later(self.journal.change(state.call, CallChange::Abandon));
        }
    }
}

impl CallRecord {
    /// Records that a call is about to be sent.
    pub(crate) async fn begin(journal: &Arc<dyn CallJournal>, call: NewCall) -> Result<Self, JournalError> {
        let (session, has_key) = (call.session.clone(), call.idempotency_key.is_some());
        let call = journal.begin(call).await?;
        Ok(Self::new(journal, has_key, RecordState::open(call, session.as_ref())))
    }

    /// Takes over an interrupted call that is the same, if the server still knows its key.
    pub(crate) async fn take_over(
        journal: &Arc<dyn CallJournal>,
        call: NewCall,
        known_for: Option<Millis>,
    ) -> Result<Option<(Self, TakenOver)>, JournalError> {
        let session = call.session.clone();
        let taken = journal.take_over(call, known_for).await?;
        Ok(taken.map(|taken| {
            let state = RecordState::open(taken.call, session.as_ref());
            (Self::new(journal, true, state), taken)
        }))
    }

    /// The record of a task.
    pub(crate) fn of_task(journal: &Arc<dyn CallJournal>, recorded: &RecordedCall) -> Self {
        let task = recorded.task.as_ref();
        let session = task.and_then(|task| task.session.as_ref());
        // The first status that is seen of a legacy task says whether its recorded answers were taken.
        let is_live = recorded.state == CallState::Task;
        let is_unsure = is_live && task.is_some_and(|task| task.generation == Generation::Legacy);
        let noted = match recorded.asks {
            true => NotedStatus::Asks,
            false => recorded.status.map_or(NotedStatus::Working, NotedStatus::from),
        };
        let state = RecordState {
            is_open: false,
            lacks_task: matches!(recorded.state, CallState::Lost { .. }),
            noted: (!is_unsure).then_some(noted),
            ..RecordState::open(recorded.id, session)
        };
        Self::new(journal, false, state)
    }

    fn new(journal: &Arc<dyn CallJournal>, has_idempotency_key: bool, state: RecordState) -> Self {
        Self(Arc::new(Record {
            journal: Arc::clone(journal),
            has_idempotency_key,
            state: Mutex::new(state),
        }))
    }

    pub(crate) fn call(&self) -> CallId {
        self.0.state.lock().call
    }

    pub(crate) fn has_idempotency_key(&self) -> bool {
        self.0.has_idempotency_key
    }

    /// The call is about to be sent: the server asks its first question next.
    pub(crate) fn is_sent(&self) {
        self.0.state.lock().questions = 0;
    }

    /// The number of the next question since the call was sent.
    pub(crate) fn next_question(&self) -> u32 {
        let mut state = self.0.state.lock();
        state.questions = state.questions.saturating_add(1);
        state.questions
    }

    fn change(&self, change: CallChange) -> JournalFuture<'static, ()> {
        self.0.journal.change(self.call(), change)
    }

    /// As [`change`](Self::change). The call goes on if it is not recorded.
    async fn note(&self, change: CallChange) {
        warn(self.change(change).await);
    }

    /// The same, without waiting.
    fn note_later(&self, change: CallChange) {
        warn_later(self.change(change));
    }

    /// Tells what other processes do with the journal.
    pub(crate) fn watch(&self) -> JournalWatch {
        self.0.journal.watch()
    }

    /// Waits until somebody wants the call to be cancelled.
    pub(crate) async fn cancel_requested(&self) {
        let mut watch = self.watch();
        // Without a journal that can be read nobody can want it.
        while !(self.0.journal.is_cancel_requested(self.call()).await).unwrap_or_default() {
            watch.changed().await;
        }
    }

    /// Records the task that the server has created, and whether it goes on when this process has ended.
    pub(crate) async fn acknowledge(&self, task: TaskRef, is_kept: bool) -> Result<(), JournalError> {
        let session = task.session.as_ref().map(|session| session.id.clone());
        let acknowledged = self.0.journal.acknowledge(self.call(), task, is_kept).await;
        let mut state = self.0.state.lock();
        state.lacks_task = acknowledged.is_err();
        state.call = acknowledged?;
        state.is_open = false;
        state.session = session;
        Ok(())
    }

    /// Records that the call is about to be sent in this session, unless that is known.
    pub(crate) async fn enter_session(&self, session: SessionRef) -> Result<(), JournalError> {
        let is_open = self.0.state.lock().is_open;
        if !is_open || !self.has_other_session(Some(&session)) {
            return Ok(());
        }
        let id = session.id.clone();
        self.change(CallChange::EnterSession(session)).await?;
        self.0.state.lock().session = Some(id);
        Ok(())
    }

    /// Whether the task, which the server knows, is not recorded as one that lives.
    pub(crate) fn lacks_task(&self) -> bool {
        self.0.state.lock().lacks_task
    }

    /// Whether the task is recorded with another session than this one.
    pub(crate) fn has_other_session(&self, session: Option<&SessionRef>) -> bool {
        session.is_some_and(|session| self.0.state.lock().session.as_ref() != Some(&session.id))
    }

    /// Notes the status of the task, if lists would show it in another way.
    pub(crate) async fn note_status(&self, status: TaskStatus) {
        let now = Some(NotedStatus::from(status));
        if std::mem::replace(&mut self.0.state.lock().noted, now) != now {
            self.note(CallChange::NoteStatus(status)).await;
        }
    }

    /// The task was seen asking.
    pub(crate) fn saw_asking(&self, updated_at: Option<&str>) {
        self.0.state.lock().asked_at = updated_at.map(str::to_owned);
    }

    /// The server may have the recorded answer, and wait for another one.
    pub(crate) async fn doubt_answer(&self, request: RequestNumber) {
        self.note(CallChange::DoubtAnswer(request)).await;
    }

    pub(crate) async fn finish(&self, finished: Finished) -> Result<(), JournalError> {
        self.change(CallChange::Finish(finished)).await?;
        self.0.state.lock().is_open = false;
        Ok(())
    }

    /// Leaves the call to whoever makes the same one.
    pub(crate) async fn release(&self) {
        let released = self.change(CallChange::Release).await;
        self.0.state.lock().is_open = released.is_err();
        warn(released);
    }

    /// Unless the server has answered.
    pub(crate) async fn mark_unknown(&self, reason: &str) {
        if !self.0.state.lock().is_open {
            return;
        }
        let marked = self.change(CallChange::MarkUnknown(reason.to_owned())).await;
        self.0.state.lock().is_open = marked.is_err();
        warn(marked);
    }

    /// Unless another process has fetched the result.
    pub(crate) async fn mark_lost(&self, reason: &str) {
        match self.change(CallChange::MarkLost(reason.to_owned())).await {
            Err(JournalError::WrongState { .. }) => {}
            marked => {
                warn(marked);
                self.0.state.lock().lacks_task = true;
            }
        }
    }

    /// Whether its task ends with another process, which lives.
    pub(crate) async fn is_followed_elsewhere(&self) -> bool {
        let followed = self.0.journal.is_followed_elsewhere(self.call()).await;
        followed.unwrap_or_default()
    }

    /// How the call has finished, if the result was fetched.
    pub(crate) async fn finished(&self) -> Option<Finished> {
        match self.0.journal.get(self.call()).await.ok()?.state {
            CallState::Finished(finished) => Some(finished),
            _ => None,
        }
    }

    /// Forgets the call: its task was deleted.
    pub(crate) async fn forget(&self) {
        let forgotten = self.change(CallChange::Forget).await;
        self.0.state.lock().is_open = false;
        match forgotten {
            // Another process has forgotten it.
            Err(JournalError::UnknownCall { .. }) => {}
            forgotten => warn(forgotten),
        }
    }

    /// Whether to ask the user; for a recorded `request` of the server only if that has no response.
    pub(crate) async fn ask(&self, key: &str, request: Option<RequestNumber>) -> Result<Asked, JournalError> {
        self.0.journal.ask(self.call(), key.to_owned(), request).await
    }

    /// As [`ask`](Self::ask), for what the call asks before it is a task.
    pub(crate) async fn ask_in_call(&self, key: &str, request: &InputRequest) -> Result<Asked, JournalError> {
        self.0
            .journal
            .ask_in_call(self.call(), key.to_owned(), request.clone())
            .await
    }

    /// Whether the server has acknowledged an answer to the question, as far as that is known.
    pub(crate) async fn is_answer_accepted(&self, key: &str) -> bool {
        self.accepted_answers().await.iter().any(|accepted| accepted == key)
    }

    /// The names of the questions whose answers the server has acknowledged, as far as that is known.
    pub(crate) async fn accepted_answers(&self) -> Vec<String> {
        self.0.journal.accepted_answers(self.call()).await.unwrap_or_default()
    }

    /// Whether a question has an answer, or its recorded `request` a response, perhaps from another process.
    pub(crate) async fn has_answer(&self, key: &str, request: Option<RequestNumber>) -> Result<bool, JournalError> {
        self.0.journal.has_answer(self.call(), key.to_owned(), request).await
    }

    pub(crate) async fn record_request(
        &self,
        request: NewServerRequest,
    ) -> Result<Option<ServerRequestRecord>, JournalError> {
        self.0.journal.record_request(self.call(), request).await
    }

    /// The requests of the server that have no response.
    pub(crate) async fn open_requests(&self) -> Result<Vec<ServerRequestRecord>, JournalError> {
        self.0.journal.open_requests(self.call()).await
    }

    /// The server has the response to a request.
    pub(crate) async fn request_answered(&self, request: RequestNumber, has_own_key: bool) {
        self.note(CallChange::AnswerRequest { request, has_own_key }).await;
    }

    /// The server wants no response to a request any more.
    pub(crate) async fn request_withdrawn(&self, request: RequestNumber) {
        self.note(CallChange::WithdrawRequest(request)).await;
    }

    /// This process is about to read the stream of a request for the result.
    pub(crate) async fn result_requested(&self, session: Option<String>, id: u64) {
        self.note(CallChange::RequestResult { session, id }).await;
    }

    /// A request for the result has ended, without waiting.
    pub(crate) fn result_request_ended(&self, id: u64) {
        self.note_later(CallChange::EndResultRequest(id));
    }

    /// The requests for the result whose processes have ended.
    pub(crate) async fn take_abandoned_result_requests(
        &self,
        session: Option<String>,
    ) -> Result<Vec<u64>, JournalError> {
        self.0
            .journal
            .take_abandoned_result_requests(self.call(), session)
            .await
    }

    /// Whether the answer may be sent; for a recorded `request` of the server only if that has no response.
    pub(crate) async fn record_answer(
        &self,
        key: &str,
        request: Option<RequestNumber>,
        answer: Json,
    ) -> Result<bool, JournalError> {
        let request = request.map(|request| (request, self.0.state.lock().asked_at.clone()));
        let recorded = self
            .0
            .journal
            .record_answer(self.call(), key.to_owned(), answer, request);
        recorded.await
    }

    pub(crate) async fn answer_accepted(&self, key: &str) {
        self.note(CallChange::AcceptAnswer(key.to_owned())).await;
    }

    pub(crate) async fn answer_refused(&self, key: &str) {
        self.note(CallChange::RefuseAnswer(key.to_owned())).await;
    }

    /// Forgets what the server asked during the call, without waiting.
    pub(crate) fn forget_question(&self, key: String) {
        self.note_later(CallChange::ForgetQuestion(key));
    }

    /// Leaves a question to other processes, without waiting.
    pub(crate) fn release_question(&self, key: String) {
        self.note_later(CallChange::ReleaseQuestion(key));
    }

    /// Leaves the call to whoever makes the same one, without waiting, if there is no answer; without an idempotency key it is of unknown outcome. Whoever does so later in this process finds it released, even if
    /// what sends it is still ending.
    pub(crate) fn abandon(&self) {
        let mut state = self.0.state.lock();
        if std::mem::replace(&mut state.is_open, false) {
            warn_later(self.0.journal.change(state.call, CallChange::Abandon));
        }
    }
}

/// What is recorded late is not lost: the journal still has the step before it.
fn warn(recorded: Result<(), JournalError>) {
    if let Err(error) = recorded {
        tracing::warn!(%error, "a step of a call is not recorded");
    }
}

/// Logs the failure of what is being recorded.
#[expect(clippy::disallowed_methods, reason = "the client is not simulated")]
fn warn_later(recording: impl Future<Output = Result<(), JournalError>> + Send + 'static) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(async move { warn(recording.await) });
    }
}
