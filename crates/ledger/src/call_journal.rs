//! What a client records.

use crate::{
    ClientJournal,
    call::{calls, cancellation, sessions},
    call_questions, questions,
    refusal::Refusal,
    server_requests,
    stored_call::StoredCall,
    worker::Scope,
};
use longhaul_client::{
    Asked, CallChange, CallFilter, CallId, CallJournal, InputRequest, JournalFuture, JournalWatch, Json, Millis,
    NewCall, NewServerRequest, QuestionJournal, RecordedCall, RequestNumber, ServerRequestRecord, TakenOver, TaskRef,
};
use std::sync::Arc;

impl ClientJournal {
    fn read<R: Send + 'static>(
        &self,
        read: impl FnOnce(&Scope<'_>) -> Result<R, Refusal> + Send + 'static,
    ) -> JournalFuture<'_, R> {
        Box::pin(self.0.read(read))
    }

    fn write<R: Send + 'static>(
        &self,
        change: impl FnMut(&Scope<'_>) -> Result<R, Refusal> + Send + 'static,
    ) -> JournalFuture<'_, R> {
        Box::pin(self.0.write(change))
    }
}

impl CallJournal for ClientJournal {
    fn begin(&self, call: NewCall) -> JournalFuture<'_, CallId> {
        self.write(move |scope| calls::begin(scope, &call))
    }

    fn take_over(&self, call: NewCall, known_for: Option<Millis>) -> JournalFuture<'_, Option<TakenOver>> {
        self.write(move |scope| calls::take_over(scope, &call, known_for))
    }

    fn acknowledge(&self, call: CallId, task: TaskRef, is_kept: bool) -> JournalFuture<'_, CallId> {
        self.write(move |scope| calls::acknowledge(scope, call, &task, Some(scope.process).filter(|_| !is_kept)))
    }

    fn change(&self, call: CallId, change: CallChange) -> JournalFuture<'static, ()> {
        let worker = Arc::clone(&self.0.worker);
        let changed = worker.enqueue(move |scope| apply(scope, call, &change));
        Box::pin(async move { worker.answer(changed).await })
    }

    fn settle_abandoned(&self) -> JournalFuture<'_, ()> {
        Box::pin(self.settle_abandoned())
    }

    fn get(&self, call: CallId) -> JournalFuture<'_, RecordedCall> {
        Box::pin(self.get(call))
    }

    fn list(&self, filter: CallFilter) -> JournalFuture<'_, Vec<RecordedCall>> {
        Box::pin(self.list(filter))
    }

    fn is_cancel_requested(&self, call: CallId) -> JournalFuture<'_, bool> {
        self.read(move |scope| cancellation::is_requested(scope, call))
    }

    fn is_followed_elsewhere(&self, call: CallId) -> JournalFuture<'_, bool> {
        self.read(move |scope| Ok(StoredCall::read(scope, call)?.is_followed_elsewhere(scope)))
    }

    fn may_end_session(&self, server: String, session: String) -> JournalFuture<'_, bool> {
        self.read(move |scope| sessions::may_end(scope, &server, &session))
    }

    fn watch(&self) -> JournalWatch {
        self.watch()
    }
}

impl QuestionJournal for ClientJournal {
    fn ask(&self, call: CallId, name: String, request: Option<RequestNumber>) -> JournalFuture<'_, Asked> {
        self.write(move |scope| questions::ask_for(scope, call, &name, request))
    }

    fn ask_in_call(&self, call: CallId, name: String, request: InputRequest) -> JournalFuture<'_, Asked> {
        self.write(move |scope| call_questions::ask_in_call(scope, call, &name, &request))
    }

    fn record_answer(
        &self,
        call: CallId,
        name: String,
        answer: Json,
        request: Option<(RequestNumber, Option<String>)>,
    ) -> JournalFuture<'_, bool> {
        self.write(move |scope| questions::record_answer_for(scope, call, &name, &answer, request.as_ref()))
    }

    fn has_answer(&self, call: CallId, name: String, request: Option<RequestNumber>) -> JournalFuture<'_, bool> {
        self.read(move |scope| call_questions::has_answer(scope, call, &name, request))
    }

    fn accepted_answers(&self, call: CallId) -> JournalFuture<'_, Vec<String>> {
        self.read(move |scope| call_questions::accepted_answers(scope, call))
    }

    fn record_request(
        &self,
        call: CallId,
        request: NewServerRequest,
    ) -> JournalFuture<'_, Option<ServerRequestRecord>> {
        self.write(move |scope| server_requests::record(scope, call, &request))
    }

    fn open_requests(&self, call: CallId) -> JournalFuture<'_, Vec<ServerRequestRecord>> {
        self.read(move |scope| server_requests::open(scope, call))
    }

    fn take_abandoned_result_requests(&self, call: CallId, session: Option<String>) -> JournalFuture<'_, Vec<u64>> {
        self.write(move |scope| server_requests::take_abandoned(scope, call, &session))
    }
}

fn apply(scope: &Scope<'_>, call: CallId, change: &CallChange) -> Result<(), Refusal> {
    match change {
        CallChange::EnterSession(session) => calls::enter_session(scope, call, session),
        CallChange::NoteStatus(status) => calls::note_status(scope, call, *status),
        CallChange::Finish(finished) => calls::finish(scope, call, *finished),
        CallChange::Release => calls::release(scope, call),
        CallChange::Abandon => calls::abandon(scope, call),
        CallChange::MarkUnknown(reason) => calls::mark_unknown(scope, call, reason),
        CallChange::MarkLost(reason) => calls::mark_lost(scope, call, reason),
        CallChange::Forget => calls::forget(scope, call),
        CallChange::AcceptAnswer(name) => questions::accept(scope, call, name),
        CallChange::RefuseAnswer(name) => questions::refuse(scope, call, name),
        CallChange::ReleaseQuestion(name) => questions::release(scope, call, name),
        CallChange::ForgetQuestion(name) => questions::forget(scope, call, name),
        CallChange::AnswerRequest { request, has_own_key } => {
            server_requests::answered(scope, call, *request, *has_own_key)
        }
        CallChange::WithdrawRequest(request) => server_requests::withdrawn(scope, call, *request),
        CallChange::DoubtAnswer(request) => server_requests::doubt_answer(scope, call, *request),
        CallChange::RequestResult { session, id } => {
            server_requests::record_result_request(scope, call, session.as_deref(), *id)
        }
        CallChange::EndResultRequest(id) => server_requests::end_result_request(scope, call, *id),
    }
}
