//! Serving the requests of a legacy server, each beside everything else. One that belongs to a recorded task is recorded before anyone is asked.

mod answer;
mod earlier;
mod send;

use crate::{
    Connection, NewServerRequest, RequestError, RequestRef, RpcFailure, TaskSnapshot, TaskStatus,
    connect::{
        connection::WeakConnection,
        era::Era,
        legacy::questions::{Moment, QuestionName, RequestDigest, ServedAnswer, digest, of_plain_call, still_asks_in},
        listening::{MAX_SERVED, OpenAnswer, ServedRequest, ServingPermit, open_questions::QuestionSlot},
        response::ServerRequest,
    },
    input_request::InputRequest,
    journal::call_record::CallRecord,
    question::{
        asking::HeldQuestion,
        recorded::{RecordedPlace, RecordedQuestion, read_again},
    },
};
use answer::reply;
use earlier::until_not_asked_again;
use longhaul_wire::meta;
use std::sync::Arc;
use tokio::sync::{Notify, watch};

/// A request that is being served.
struct ActiveRequest {
    request: ServerRequest,
    era: Arc<Era>,
    task: Option<String>,
    /// The number of the request on whose stream it came.
    source: Option<u64>,
    /// By what other processes can answer it.
    reference: Option<Box<RequestRef>>,
    /// The plain call that asks, if it is recorded.
    call: Option<CallRecord>,
    digest: RequestDigest,
    came_at: Moment,
    /// What the handler is asked, if it is a question of a task.
    question: QuestionSlot,
}

/// Serves a request beside everything else. The connection is not held while the user is asked, so that dropping it withdraws the question.
struct ServingRun {
    connection: WeakConnection,
    withdrawn: Arc<Notify>,
    known: Option<RecordedQuestion>,
    /// The answer to the same question, which the user is being asked under another id.
    open_answer: Option<OpenAnswer>,
    answer: watch::Sender<Option<ServedAnswer>>,
    permit: ServingPermit,
    is_earlier: bool,
}

/// On which stream a request came.
#[derive(Default)]
struct Stream {
    /// The number of its request.
    source: Option<u64>,
    /// The recorded plain call that it belongs to.
    call: Option<CallRecord>,
    /// An earlier process without a journal got it.
    is_earlier: bool,
}

/// The task that a question belongs to has ended: nobody waits for the answer.
struct TaskEnded;

/// Which recorded requests of a server are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordedRequests {
    All,
    Unanswered,
}

/// What is sent to the server.
struct Reply {
    text: String,
    /// The answer in it, if it is one.
    outcome: Option<ServedAnswer>,
    held: Option<HeldQuestion>,
}

impl Connection {
    /// Serves a request of a legacy server, in the session of this `era`. If it came on the stream of a recorded plain call, that is `call`.
    pub(crate) fn serve(&self, request: ServerRequest, era: &Arc<Era>, source: Option<u64>, call: Option<&CallRecord>) {
        let task = self.task_of(&request);
        let asks = task.is_none() && is_question(&request.method) && !self.is_answered_with_task(&request);
        let call = match (asks, call) {
            (false, _) => None,
            (true, Some(call)) => Some(call.clone()),
            (true, None) => self.legacy_tasks().only_plain_call(),
        };
        let stream = Stream {
            source,
            call,
            is_earlier: false,
        };
        self.serve_request(request, era, task, stream, None);
    }

    /// Cancels the requests for the result of a task that earlier processes have left open in the present session: the server may send its next question on a
    /// stream that nobody reads. Before it is asked for anything.
    ///
    /// # Errors
    /// Why it is not known whether there are any.
    pub(crate) async fn cancel_abandoned(&self, record: &CallRecord) -> Result<(), RequestError> {
        let era = self.era().await?;
        let session = self.session_of(&era).map(|session| session.id);
        let abandoned = match record.take_abandoned_result_requests(session).await {
            Ok(abandoned) => abandoned,
            Err(error) => {
                tracing::warn!(%error, "the open requests of earlier processes cannot be read");
                return Ok(());
            }
        };
        for request in abandoned {
            if let Err(error) = self.send_cancellation(&era, request).await {
                tracing::debug!(%error, "the request of an earlier process was not cancelled");
            }
        }
        Ok(())
    }

    /// Serves the requests about a task that this process, or another one, got in the present session and has not responded to. `Unanswered` leaves those out whose
    /// answer is recorded: a process that lives sends it.
    ///
    /// # Errors
    /// Why it is not known whether there are any.
    pub(crate) async fn serve_recorded(
        &self,
        task: &TaskSnapshot,
        record: &CallRecord,
        which: RecordedRequests,
    ) -> Result<(), RequestError> {
        let era = self.era().await?;
        if era.legacy().is_none() || self.transport().is_session() {
            return Ok(());
        }
        let session = self.session_of(&era).map(|session| session.id);
        let unreadable = |error| tracing::warn!(%error, "the recorded questions of a task cannot be read");
        for known in record.open_requests().await.map_err(unreadable).unwrap_or_default() {
            let is_left_out = which == RecordedRequests::Unanswered && !known.is_unanswered;
            if known.request.session != session || is_left_out {
                continue;
            }
            let has_moved = known.task_updated_at.is_some() && known.task_updated_at != task.last_updated_at;
            if !known.is_unanswered && task.status == TaskStatus::InputRequired && has_moved {
                // The task has gone on, and asks something else. Some servers use an id again: this answer could be taken for that of the other question.
                record.doubt_answer(known.number).await;
            }
            let recorded = RecordedQuestion::of(record, &known);
            self.serve_request(
                read_again(&known),
                &era,
                Some(task.id.clone()),
                Stream::default(),
                Some(recorded),
            );
        }
        Ok(())
    }

    #[expect(clippy::disallowed_methods, reason = "the client is not simulated")]
    fn serve_request(
        &self,
        request: ServerRequest,
        era: &Arc<Era>,
        task: Option<String>,
        stream: Stream,
        known: Option<RecordedQuestion>,
    ) {
        let Some(permit) = self.listening().permit(&request.method) else {
            return;
        };
        let (id, digest) = (request.id.clone(), digest(&request));
        let asks = task.is_some() && is_question(&request.method);
        let unique_name = (task.as_deref().filter(|_| asks))
            .map(|task| QuestionName::of(&request, task))
            .and_then(|name| name.is_unique.then_some(name.name));
        let (answer_sender, answer) = watch::channel(None);
        let (withdrawn, is_recorded) = (Arc::new(Notify::new()), known.is_some());
        let is_earlier = stream.is_earlier;
        let question = QuestionSlot::default();
        // What comes after the answer may be another question.
        let is_same = |open: &ServedRequest| {
            let is_same_question = unique_name.is_some() && open.unique_name == unique_name;
            let is_open = is_recorded || open.yields || open.answer.borrow().is_none();
            asks && open.task == task && (is_same_question || is_open)
        };
        let reference = (!self.transport().is_session()).then(|| {
            Box::new(RequestRef {
                session: self.session_of(era).map(|session| session.id),
                id: request.id.clone(),
            })
        });
        let start = |open_answer| {
            let run = ServingRun {
                connection: self.downgrade(),
                withdrawn: Arc::clone(&withdrawn),
                known,
                open_answer,
                answer: answer_sender,
                permit,
                is_earlier,
            };
            let served = tokio::spawn(run.run(ActiveRequest {
                request,
                reference,
                era: Arc::clone(era),
                task: task.clone(),
                source: stream.source,
                call: stream.call.clone(),
                digest,
                came_at: self.listening().now(),
                question: Arc::clone(&question),
            }));
            ServedRequest {
                running: served.abort_handle(),
                withdrawn,
                is_recorded,
                came_again: false,
                task: task.clone(),
                call: stream.call.as_ref().map(CallRecord::call),
                digest,
                unique_name: unique_name.clone(),
                was_seen: false,
                yields: is_earlier,
                was_asked_again: false,
                answer,
                sent_at: None,
                question,
            }
        };
        self.listening().admit(&id, &digest, is_recorded, is_same, start);
    }

    /// The request is served, unless it came again.
    fn served(&self, serving: ActiveRequest) {
        let came_again = self.listening().served(&serving.request.id, &serving.digest);
        if serving.question.get().is_some() {
            self.listening().note_question();
        }
        if came_again {
            self.serve(serving.request, &serving.era, serving.source, serving.call.as_ref());
        }
    }

    /// Whether a question is to be answered. The same one may have reached this process late, after its answer has reached the server: the task does not ask any more
    /// then.
    async fn asks_again(&self, serving: &ActiveRequest) -> bool {
        let request = &serving.request;
        let Some(task) = serving.task.as_ref().filter(|_| is_question(&request.method)) else {
            return true;
        };
        let name = QuestionName::of(request, task).name;
        let Some(was_seen) = self.listening().taken_was_seen(task, &name) else {
            return true;
        };
        match self.task(task).get().await {
            Ok(task) => still_asks_in(task.status, was_seen),
            Err(error) => {
                tracing::debug!(%error, "a task that asks again was not read");
                true
            }
        }
    }

    /// The task that a request of the server belongs to, if that is known.
    fn task_of(&self, request: &ServerRequest) -> Option<String> {
        let related = &request.params["_meta"][meta::RELATED_TASK];
        let named = related["taskId"].as_str().map(str::to_owned);
        named.or_else(|| {
            let text = request.params["message"].as_str()?;
            is_question(&request.method)
                .then(|| self.legacy_tasks().asking(text))
                .flatten()
        })
    }

    /// Waits a moment for the status that says which task a question belongs to. Returns the answer to the same question, if that is being served by then.
    async fn find_task(&self, serving: &mut ActiveRequest) -> Result<Option<OpenAnswer>, TaskEnded> {
        let request = &serving.request;
        if serving.task.is_some() || serving.call.is_some() || !self.is_asked(request) {
            return Ok(None);
        }
        let Some(text) = request.params["message"].as_str() else {
            return Ok(None);
        };
        // It may end meanwhile.
        let only = self.legacy_tasks().only_recorded();
        let task = match (self.legacy_tasks().asking_soon(text).await, only) {
            (Some(task), _) => task,
            (None, Some(only)) if !self.legacy_tasks().is_live(&only) => return Err(TaskEnded),
            (None, _) => return Ok(None),
        };
        let answer = self
            .listening()
            .unsent_answer(&request.id, &task, &serving.digest, serving.came_at);
        serving.task = Some(task);
        Ok(answer)
    }

    /// Whether the user is asked.
    fn is_asked(&self, request: &ServerRequest) -> bool {
        let is_asked = is_question(&request.method) && self.options().inputs.is_some();
        is_asked && !self.is_answered_with_task(request)
    }

    /// Records a question of a task whose call is recorded, or of a plain call that is.
    async fn record(&self, serving: &ActiveRequest) -> Option<RecordedQuestion> {
        let request = &serving.request;
        if !self.is_asked(request) {
            return None;
        }
        let task = match (&serving.task, &serving.call) {
            (Some(task), _) => task,
            (None, Some(call)) => return Some(RecordedQuestion::of_plain_call(call, request)),
            (None, None) => return None,
        };
        let record = self.legacy_tasks().record_of(task).await?;
        let QuestionName { name, is_unique } = QuestionName::of(request, task);
        let key = of_plain_call(request, record.next_question()).1;
        let recorded = RecordedQuestion {
            record,
            name: name.clone(),
            has_own_key: is_unique,
            place: RecordedPlace::Connection(key),
        };
        if self.transport().is_session() {
            // The request ends with the pipe.
            return Some(recorded);
        }
        let new = NewServerRequest {
            session: self.session_of(&serving.era).map(|session| session.id),
            id: request.id.clone(),
            question: name,
            method: request.method.clone(),
            params: request.params.as_json().as_str().to_owned(),
        };
        match recorded.record.record_request(new).await {
            Ok(Some(known)) => return Some(RecordedQuestion::of(&recorded.record, &known)),
            Ok(None) => tracing::warn!(
                task,
                "a question of a task is not recorded: it is too long, or one of too many"
            ),
            Err(error) => tracing::warn!(%error, task, "a question of a task is not recorded"),
        }
        Some(recorded)
    }

    /// Whether the answer is a task of this client.
    fn is_answered_with_task(&self, request: &ServerRequest) -> bool {
        request.params["task"].is_object() && self.options().hosts(&request.method)
    }
}

impl ServingRun {
    async fn run(self, mut serving: ActiveRequest) {
        let (recorded, open_answer) = match (&self.known, self.connection.upgrade()) {
            (Some(_), _) => (self.known.clone(), self.open_answer.clone()),
            (None, Some(connection)) => {
                let Ok(later) = connection.find_task(&mut serving).await else {
                    return connection.served(serving);
                };
                if !connection.asks_again(&serving).await {
                    return connection.served(serving);
                }
                (connection.record(&serving).await, self.open_answer.clone().or(later))
            }
            (None, None) => return,
        };
        let is_refused = self.permit.is_refused;
        let reply = match is_refused {
            true => Some(Reply {
                text: serving.request.respond(Err(too_many())),
                outcome: None,
                held: None,
            }),
            false => self.reply(&serving, recorded.as_ref(), open_answer).await,
        };
        let Some(used) = self.connection.upgrade() else { return };
        let is_sent = !self.is_earlier || earlier::is_wanted(&used, &serving);
        if let Some(reply) = reply.filter(|_| is_sent) {
            let recorded = recorded.filter(|_| !is_refused);
            used.send_reply(&serving, reply, recorded).await;
        }
        if let Some(connection) = self.connection.upgrade() {
            connection.served(serving);
        }
    }

    /// What the user answers; nothing if the question is withdrawn before.
    async fn reply(
        &self,
        serving: &ActiveRequest,
        recorded: Option<&RecordedQuestion>,
        open_answer: Option<OpenAnswer>,
    ) -> Option<Reply> {
        let reply = reply(&self.connection, serving, recorded, open_answer, &self.answer);
        let reply = async {
            match self.is_earlier {
                true => tokio::join!(reply, until_not_asked_again(&self.connection)).0,
                false => reply.await,
            }
        };
        tokio::select! {
            biased;
            () = self.withdrawn.notified() => {
                if let Some(recorded) = recorded {
                    recorded.withdrawn().await;
                }
                None
            }
            reply = reply => reply,
        }
    }
}

fn too_many() -> RpcFailure {
    RpcFailure {
        code: -32603,
        message: format!("This client serves {MAX_SERVED} requests already").into(),
        data: None,
    }
}

fn is_question(method: &str) -> bool {
    matches!(method, "elicitation/create" | "sampling/createMessage" | "roots/list")
}

fn asked_by(serving: &ActiveRequest, recorded: Option<&RecordedQuestion>) -> InputRequest {
    InputRequest {
        key: recorded.and_then(RecordedQuestion::key).cloned(),
        task: serving.task.clone(),
        source: serving.source,
        request: serving.reference.clone(),
        ..InputRequest::of(serving.request.method.clone(), serving.request.params.clone())
    }
}
