//! Serving the requests of a legacy server, each beside everything else. One that belongs to a recorded task is recorded before anyone is asked.

use crate::{
    Connection, RequestError, RpcFailure, TaskSnapshot, TaskStatus,
    asking::{Answered, AskedBy, HeldQuestion, ask_recorded},
    call_record::CallRecord,
    connection::WeakConnection,
    era::Era,
    input::{InputRequest, InputResponse, not_offered},
    journal::{NewServerRequest, ServerRequestRecord},
    legacy_questions::{QuestionName, RequestDigest, ServedAnswer, digest, of_plain_call},
    listening::{MAX_SERVED, ServedRequest},
    polling,
    recorded_questions::{Recorded, RecordedPlace, read_again, related_result},
    response::ServerRequest,
};
use futures_util::{FutureExt, TryFutureExt};
use longhaul_core::{BoxFuture, Json, Outcome};
use longhaul_wire::{Method, meta};
use serde_json::json;
use std::{sync::Arc, time::Duration};
use tokio::sync::{Notify, watch};

/// How often a response is sent again: for about a minute.
const RETRIES: u32 = 8;

/// A request that is being served.
struct Serving {
    request: ServerRequest,
    era: Arc<Era>,
    task: Option<String>,
    /// The number of the request on whose stream it came.
    source: Option<u64>,
    /// The plain call that asks, if it is recorded.
    call: Option<CallRecord>,
    digest: RequestDigest,
    /// The name of its question, if no other question of the task ever has it.
    unique_name: Option<String>,
}

/// On which stream a request came.
#[derive(Default)]
struct Stream {
    /// The number of its request.
    source: Option<u64>,
    /// The recorded plain call that it belongs to.
    call: Option<CallRecord>,
}

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
        self.serve_request(request, era, task, Stream { source, call }, None);
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
            let recorded = Recorded::of(record, &known);
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
        known: Option<Recorded>,
    ) {
        let served = Arc::clone(&self.listening().served).try_acquire_owned();
        let permit = served
            .map(Ok)
            .or_else(|_| Arc::clone(&self.listening().refusals).try_acquire_owned().map(Err));
        let Ok(permit) = permit else {
            tracing::warn!(
                method = request.method,
                "ignored a request of the server: it sends too many"
            );
            return;
        };
        let (id, digest) = (request.id.clone(), digest(&request));
        let unique_name = (task.as_deref().filter(|_| is_question(&request.method)))
            .map(|task| QuestionName::of(&request, task))
            .and_then(|name| name.is_unique.then_some(name.name));
        // Held until the entry is made, so that it is not made after the request was served.
        let mut entries = self.listening().serving.lock();
        match entries.get_mut(&id) {
            Some(served) if served.digest == digest => {
                // The server may have taken the response already, and ask the same again under the same id.
                served.came_again |= known.is_none() && served.answer.borrow().is_some();
                tracing::debug!(id, "a request of the server came twice");
                return;
            }
            Some(served) => served.running.abort(),
            None => {}
        }
        // The user is being asked the same under another id.
        let open_answer = match task.is_some() && is_question(&request.method) {
            // What comes after the answer may be another question.
            true => entries.values().find(|open| {
                let is_same_question = unique_name.is_some() && open.unique_name == unique_name;
                let is_open = known.is_some() || open.answer.borrow().is_none();
                open.task == task && open.digest == digest && (is_same_question || is_open)
            }),
            false => None,
        };
        let open_answer = open_answer.map(|open| open.answer.clone());
        let (answer_sender, answer) = watch::channel(None);
        let (withdrawn, is_recorded) = (Arc::new(Notify::new()), known.is_some());
        let entry = |running| ServedRequest {
            running,
            withdrawn: Arc::clone(&withdrawn),
            is_recorded,
            came_again: false,
            task: task.clone(),
            call: stream.call.as_ref().map(CallRecord::call),
            digest,
            unique_name: unique_name.clone(),
            was_seen: false,
            answer,
        };
        let serving = Serving {
            request,
            era: Arc::clone(era),
            task: task.clone(),
            source: stream.source,
            call: stream.call.clone(),
            digest,
            unique_name: unique_name.clone(),
        };
        let served = tokio::spawn({
            // The connection is not held while the user is asked, so that dropping it withdraws the question.
            let (connection, withdrawn) = (self.downgrade(), Arc::clone(&withdrawn));
            async move {
                let recorded = match (known, connection.upgrade()) {
                    (Some(known), _) => Some(known),
                    (None, Some(connection)) => connection.record(&serving).await,
                    (None, None) => return,
                };
                let reply = match &permit {
                    Ok(_) => {
                        let reply = reply(&connection, &serving, recorded.as_ref(), open_answer, &answer_sender);
                        tokio::select! {
                            biased;
                            () = withdrawn.notified() => {
                                if let Some(recorded) = &recorded {
                                    recorded.withdrawn().await;
                                }
                                None
                            }
                            reply = reply => reply,
                        }
                    }
                    Err(_) => Some(Reply {
                        text: serving.request.respond(Err(too_many())),
                        outcome: None,
                        held: None,
                    }),
                };
                let Some(connection) = connection.upgrade() else { return };
                if let Some(reply) = reply {
                    let recorded = recorded.filter(|_| permit.is_ok());
                    connection.send_reply(&serving, reply, recorded).await;
                }
                connection.served(serving);
            }
        });
        entries.insert(id, entry(served.abort_handle()));
    }

    /// The request is served, unless it came again.
    fn served(&self, serving: Serving) {
        let ended = {
            let mut entries = self.listening().serving.lock();
            let is_own = |served: &ServedRequest| served.digest == serving.digest;
            match entries.get(&serving.request.id).is_some_and(is_own) {
                true => entries.remove(&serving.request.id),
                false => None,
            }
        };
        if ended.is_some_and(|ended| ended.came_again) {
            self.serve(serving.request, &serving.era, serving.source, serving.call.as_ref());
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

    /// Records a question of a task whose call is recorded, or of a plain call that is.
    async fn record(&self, serving: &Serving) -> Option<Recorded> {
        let request = &serving.request;
        let is_asked = is_question(&request.method) && self.options().inputs.is_some();
        if !is_asked || self.is_answered_with_task(request) {
            return None;
        }
        let task = match (&serving.task, &serving.call) {
            (Some(task), _) => task.clone(),
            (None, Some(call)) => return Some(Recorded::of_plain_call(call, request)),
            (None, None) => {
                self.legacy_tasks()
                    .asking_soon(request.params["message"].as_str()?)
                    .await?
            }
        };
        let task = task.as_str();
        let record = self.legacy_tasks().record_of(task).await?;
        let QuestionName { name, is_unique } = QuestionName::of(request, task);
        let key = of_plain_call(request, record.next_question()).1;
        let recorded = Recorded {
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
            params: request.params.to_string(),
        };
        match recorded.record.record_request(new).await {
            Ok(Some(known)) => return Some(Recorded::of(&recorded.record, &known)),
            Ok(None) => tracing::warn!(
                task,
                "a question of a task is not recorded: it is too long, or one of too many"
            ),
            Err(error) => tracing::warn!(%error, task, "a question of a task is not recorded"),
        }
        Some(recorded)
    }

    /// Sends a response to the server, again while it is not available. What becomes of a recorded answer depends on whether the server takes it.
    async fn send_reply(&self, serving: &Serving, reply: Reply, recorded: Option<Recorded>) {
        let Serving { request, era, .. } = serving;
        let mut failures = 0;
        let sent = loop {
            match self.send_message(era, reply.text.clone()).await {
                Err(error) if error.is_transient() && failures < RETRIES && !self.transport().is_session() => {
                    failures += 1;
                    let wait = polling::next_retry(failures, error.retry_after(), self.jitter());
                    self.sleep(wait).await;
                }
                sent => break sent,
            }
        };
        let may_come_again = match &sent {
            Ok(true) => {
                if let (Some(task), Some(name), Some(outcome)) = (&serving.task, &serving.unique_name, &reply.outcome) {
                    let mut taken = self.listening().taken_answers.lock();
                    taken.keep(task.clone(), name.clone(), outcome.clone());
                }
                if let Some(recorded) = &recorded {
                    if let Some(outcome) = &reply.outcome {
                        self.answer_earlier(serving, recorded, outcome).await;
                    }
                    recorded.answered(reply.held).await;
                }
                false
            }
            // It is sent when the question comes again: the server, or its session, was gone.
            Ok(false) => true,
            Err(error) if error.is_transient() || matches!(error, RequestError::Http { status: 404, .. }) => true,
            // The request stays recorded: the user can give another answer.
            Err(_) => {
                if let Some(held) = reply.held {
                    held.discarded().await;
                }
                false
            }
        };
        let mut unsent = self.listening().sent_responses.lock();
        match may_come_again && is_question(&request.method) {
            true => unsent.keep(&request.id, serving.digest, &reply.text),
            false => unsent.forget(&request.id),
        }
        drop(unsent);
        match (&sent, &self.options().inputs) {
            (Ok(true), Some(inputs)) => inputs.delivered(&asked_by(serving, recorded.as_ref())),
            (Ok(true), None) => {}
            (Ok(false), _) => tracing::debug!(
                method = request.method,
                "a request of the server was not answered: its session has ended"
            ),
            (Err(error), _) => {
                tracing::warn!(%error, method = request.method, "the server did not get the answer to its request");
            }
        }
    }

    /// Sends an answer to the earlier requests that ask the same, too: earlier processes got them.
    async fn answer_earlier(&self, serving: &Serving, recorded: &Recorded, outcome: &ServedAnswer) {
        let Some(number) = recorded.number() else { return };
        let session = self.session_of(&serving.era).map(|session| session.id);
        let open = recorded.record.open_requests().await.unwrap_or_default();
        let is_same = |known: &ServerRequestRecord| {
            let asks_same = known.request.question == recorded.name && known.request.session == session;
            // What this process serves gets the answer anyway.
            asks_same && known.number < number && !self.listening().serving.lock().contains_key(&known.request.id)
        };
        for known in open.into_iter().filter(is_same) {
            let response = read_again(&known).respond(outcome.clone());
            if let Err(error) = self.send_message(&serving.era, response).await {
                tracing::debug!(%error, "a request that was sent twice was answered once");
            }
        }
    }

    /// The answer to the same question that the server has taken.
    fn taken_answer(&self, serving: &Serving) -> Option<ServedAnswer> {
        let (task, name) = (serving.task.as_ref()?, serving.unique_name.as_ref()?);
        self.listening().taken_answers.lock().find(task, name)
    }

    /// Whether the answer is a task of this client.
    fn is_answered_with_task(&self, request: &ServerRequest) -> bool {
        request.params["task"].is_object() && self.options().hosts(&request.method)
    }

    /// Answers a request with a task of this client, which ends with `answer` or with its time.
    #[expect(clippy::disallowed_methods, reason = "the client is not simulated")]
    fn answer_as_task(
        &self,
        request: &ServerRequest,
        answer: BoxFuture<'static, Result<InputResponse, RpcFailure>>,
    ) -> ServedAnswer {
        let created = self.hosted_tasks().create(&request.method, &request.params)?;
        let (hosted, clock) = (Arc::downgrade(self.hosted_tasks()), Arc::clone(&self.options().clock));
        let id = created.id.clone();
        let running = tokio::spawn(async move {
            let outcome = tokio::select! {
                answer = answer => match answer {
                    Ok(answer) => Outcome::result(Json::from(answer.into_value())),
                    Err(failure) => Outcome::RpcError(failure),
                },
                () = clock.sleep(Duration::from_millis(created.ttl)) => return,
            };
            if let Some(hosted) = hosted.upgrade() {
                hosted.finish(&id, outcome);
            }
        });
        self.hosted_tasks().started(&created.id, running.abort_handle());
        Ok(created.result)
    }
}

/// The response to a request. `None` if the server has it.
async fn reply(
    connection: &WeakConnection,
    serving: &Serving,
    recorded: Option<&Recorded>,
    open_answer: Option<watch::Receiver<Option<ServedAnswer>>>,
    answer: &watch::Sender<Option<ServedAnswer>>,
) -> Option<Reply> {
    let request = &serving.request;
    let sent_before = {
        let connection = connection.upgrade()?;
        let sent = connection.listening().sent_responses.lock();
        sent.find(&request.id, &serving.digest)
    };
    if let Some(text) = sent_before {
        return Some(Reply {
            text,
            outcome: None,
            held: None,
        });
    }
    let answered = match answer_of(open_answer).await {
        Some(outcome) => Some(outcome),
        None => connection.upgrade()?.taken_answer(serving),
    };
    let (outcome, held) = match answered {
        Some(outcome) => (outcome, None),
        None => answer_request(connection, serving, recorded).await?,
    };
    answer.send_replace(Some(outcome.clone()));
    let text = request.respond(outcome.clone());
    Some(Reply {
        text,
        outcome: Some(outcome),
        held,
    })
}

/// Reads the task once more before its answer is recorded. If it asks and has changed when this process is gone, the server has got the answer. `false` if the task
/// does not ask any more: another client was faster.
fn still_asks(connection: &WeakConnection, serving: &Serving, recorded: Option<&Recorded>) -> BoxFuture<'static, bool> {
    let Some(task) = serving.task.clone() else {
        return std::future::ready(true).boxed();
    };
    let has_number = recorded.is_some_and(|recorded| recorded.number().is_some());
    let (connection, record) = (connection.clone(), recorded.map(|recorded| recorded.record.clone()));
    async move {
        let Some(connection) = connection.upgrade() else {
            return true;
        };
        let was_seen = connection.listening().was_seen_asking(&task);
        if !has_number && !was_seen {
            return true;
        }
        let mut handle = connection.task(task);
        if let Some(record) = &record {
            handle = handle.recorded(record.clone());
        }
        match handle.get().await {
            Ok(task) => task.status == TaskStatus::InputRequired || !(was_seen || task.status.is_final()),
            Err(error) => {
                tracing::debug!(%error, "a task that asks was not read");
                if let Some(record) = record {
                    record.saw_asking(None);
                }
                true
            }
        }
    }
    .boxed()
}

/// `None` if the server has an answer, or wants none.
async fn answer_request(
    weak: &WeakConnection,
    serving: &Serving,
    recorded: Option<&Recorded>,
) -> Option<(ServedAnswer, Option<HeldQuestion>)> {
    let request = &serving.request;
    let method = request.method.as_str();
    if method == Method::Ping.as_str() {
        return Some((Ok(json!({})), None));
    }
    let connection = weak.upgrade()?;
    let hosted = Arc::clone(connection.hosted_tasks());
    match method {
        _ if !connection.options().hosts_tasks => {}
        "tasks/get" => return Some((hosted.get(&request.params), None)),
        "tasks/list" => return Some((hosted.list(&request.params), None)),
        "tasks/cancel" => return Some((hosted.cancel(&request.params), None)),
        "tasks/result" => {
            drop(connection);
            return Some((hosted.result(&request.params).await, None));
        }
        _ => {}
    }
    let Some(inputs) = connection.options().inputs.clone() else {
        return Some((Err(not_offered(method)), None));
    };
    let asked = asked_by(serving, recorded);
    if connection.is_answered_with_task(request) {
        return Some((connection.answer_as_task(request, inputs.answer(asked)), None));
    }
    drop(connection);
    let ask = || {
        let (answer, still_asks) = (inputs.answer(asked.clone()), still_asks(weak, serving, recorded));
        async move {
            let answer = answer.map_err(Unanswered::Failed).await?;
            match still_asks.await {
                true => Ok(answer),
                false => Err(Unanswered::TooLate),
            }
        }
        .boxed()
    };
    let (record, name, number) = match recorded {
        Some(recorded) => (Some(&recorded.record), recorded.name.as_str(), recorded.number()),
        None => (None, "", None),
    };
    let asked_by = match (recorded.map(|recorded| &recorded.place), number) {
        (Some(RecordedPlace::PlainCall(_)), _) => AskedBy::PlainCall(&asked),
        (Some(RecordedPlace::Connection(_)), _) => AskedBy::BoundTask(&asked),
        (_, Some(number)) => AskedBy::Request(number),
        (_, None) => AskedBy::Task,
    };
    let too_late = || inputs.not_taken(&asked);
    let Answered { response, held } = match ask_recorded(record, name, asked_by, &ask, &too_late).await {
        Ok(answered) => answered?,
        Err(Unanswered::Failed(failure)) => return Some((Err(failure), None)),
        Err(Unanswered::TooLate) => {
            too_late();
            if let Some(recorded) = recorded {
                recorded.withdrawn().await;
            }
            return None;
        }
    };
    Some((Ok(related_result(request, response)), held))
}

/// The answer to another request, if it gets one.
async fn answer_of(other: Option<watch::Receiver<Option<ServedAnswer>>>) -> Option<ServedAnswer> {
    let mut other = other?;
    let answer = other.wait_for(Option::is_some).await.ok()?;
    answer.clone()
}

/// Why a question has no answer.
enum Unanswered {
    Failed(RpcFailure),
    /// The task does not ask any more.
    TooLate,
}

impl From<RequestError> for Unanswered {
    fn from(error: RequestError) -> Self {
        Self::Failed(RpcFailure {
            code: -32603,
            message: error.to_string().into(),
            data: None,
        })
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

fn asked_by(serving: &Serving, recorded: Option<&Recorded>) -> InputRequest {
    InputRequest {
        key: recorded.and_then(Recorded::key).cloned(),
        task: serving.task.clone(),
        source: serving.source,
        method: serving.request.method.clone(),
        params: serving.request.params.clone(),
    }
}
