//! What legacy servers have asked about recorded tasks: listing it, and answering it from any process.

use crate::{
    InputRequest, InputResponse, JournalError, RequestError, RequestNumber, RequestRef, ServerRequestRecord,
    TaskHandle,
    connect::{
        legacy::questions::{QuestionName, TakenAnswer, of_plain_call},
        response::ServerRequest,
    },
    journal::call_record::CallRecord,
    question::asking::{HeldQuestion, claim_answer},
};
use longhaul_core::{Json, ParsedJson};
use longhaul_wire::{meta, relayed};

/// What is recorded of a question of a task or of a plain call.
#[derive(Clone)]
pub(crate) struct RecordedQuestion {
    pub(crate) record: CallRecord,
    pub(crate) name: String,
    pub(crate) has_own_key: bool,
    pub(crate) place: RecordedPlace,
}

/// Where a question is recorded. Those with a key can be answered by other processes.
#[derive(Clone)]
pub(crate) enum RecordedPlace {
    /// With the request of the server: its number, and the key of the question.
    Request(RequestNumber, String),
    /// With the plain call that asks, under this key.
    PlainCall(String),
    /// With the task, under this key, for as long as the connection lasts.
    Connection(String),
}

impl RecordedQuestion {
    pub(crate) fn of(record: &CallRecord, known: &ServerRequestRecord) -> Self {
        Self {
            record: record.clone(),
            name: known.request.question.clone(),
            has_own_key: QuestionName::is_unique(&known.request.question),
            place: RecordedPlace::Request(known.number, known.first.key()),
        }
    }

    /// The next question of a plain call.
    pub(crate) fn of_plain_call(record: &CallRecord, request: &ServerRequest) -> Self {
        let (name, key) = of_plain_call(request, record.next_question());
        Self {
            record: record.clone(),
            name,
            has_own_key: false,
            place: RecordedPlace::PlainCall(key),
        }
    }

    /// The key of the question for people, if other processes can answer it.
    pub(crate) fn key(&self) -> Option<&String> {
        match &self.place {
            RecordedPlace::Request(_, key) | RecordedPlace::PlainCall(key) | RecordedPlace::Connection(key) => {
                Some(key)
            }
        }
    }

    pub(crate) fn number(&self) -> Option<RequestNumber> {
        match self.place {
            RecordedPlace::Request(number, _) => Some(number),
            RecordedPlace::PlainCall(_) | RecordedPlace::Connection(_) => None,
        }
    }

    /// The server wants no answer any more.
    pub(crate) async fn withdrawn(&self) {
        match &self.place {
            RecordedPlace::Request(number, _) => self.record.request_withdrawn(*number).await,
            RecordedPlace::PlainCall(_) | RecordedPlace::Connection(_) => {
                self.record.forget_question(self.name.clone())
            }
        }
    }

    /// The server has the answer, or an error instead.
    pub(crate) async fn answered(&self, held: Option<HeldQuestion>) {
        match (&self.place, held) {
            // Kept for the same call under its idempotency key, which may ask it again; without one it is forgotten.
            (RecordedPlace::PlainCall(_), held) => drop(held),
            (RecordedPlace::Request(number, _), held) => {
                self.record.request_answered(*number, self.has_own_key).await;
                if let Some(held) = held {
                    held.settled();
                }
            }
            (RecordedPlace::Connection(_), Some(held)) if self.has_own_key => held.accepted().await,
            (RecordedPlace::Connection(_), Some(held)) => held.discarded().await,
            (RecordedPlace::Connection(_), None) => {}
        }
    }
}

impl TaskHandle {
    /// What a legacy server has asked about a recorded task, and nobody has answered. Sends no request. A modern server, which tells what a task asks whenever it
    /// is read, has none of these; neither has a task without a record.
    ///
    /// [`answer`](Self::answer) answers them, also in another process than the one that was asked.
    ///
    /// # Errors
    /// Those of the journal.
    pub async fn recorded_questions(&self) -> Result<Vec<InputRequest>, JournalError> {
        let Some(record) = self.record() else {
            return Ok(Vec::new());
        };
        let open = record.open_requests().await?;
        let first = open
            .into_iter()
            .filter(|known| known.is_unanswered && known.number == known.first);
        Ok(first.map(|known| self.input_request(&known)).collect())
    }

    /// What a recorded request asks.
    fn input_request(&self, known: &ServerRequestRecord) -> InputRequest {
        let request = read_again(known);
        let reference = RequestRef {
            session: known.request.session.clone(),
            id: known.request.id.clone(),
        };
        InputRequest {
            key: Some(known.first.key()),
            task: Some(self.id().to_owned()),
            request: Some(Box::new(reference)),
            ..InputRequest::of(request.method, request.params)
        }
    }

    /// Answers a recorded question of a legacy server, under all ids that it has in the present session.
    pub(crate) async fn answer_recorded(&self, key: &str, answer: &InputResponse) -> Result<(), RequestError> {
        self.send_recorded(key, answer).await?;
        self.note_answered(key);
        Ok(())
    }

    async fn send_recorded(&self, key: &str, answer: &InputResponse) -> Result<(), RequestError> {
        let era = self.connection().era().await?;
        let session = self.connection().session_of(&era).map(|session| session.id);
        let (record, open) = match self.record() {
            Some(record) => (record, record.open_requests().await.unwrap_or_default()),
            None => return self.answer_open(key, answer).await,
        };
        let is_asked = |known: &&ServerRequestRecord| known.first.key() == key && known.request.session == session;
        let asked: Vec<&ServerRequestRecord> = open.iter().filter(is_asked).collect();
        let Some(first) = asked.first() else {
            return self.answer_open(key, answer).await;
        };
        self.check_answer(key, &self.input_request(first), answer)?;
        let recorded = RecordedQuestion::of(record, first);
        if !claim_answer(record, &recorded.name, recorded.number(), answer).await {
            return Err(asks_not(self, key));
        }
        for known in asked {
            let request = read_again(known);
            // This process may be asking the user, too.
            let listening = self.connection().listening();
            let was_seen = listening.stop_serving(&request.id);
            let result = related_result(&request, answer.clone());
            let sent_at = listening.now();
            let response = request.respond(Ok(result.clone()));
            match self.connection().send_message(&era, response).await {
                Ok(true) => {
                    // It may have come on another stream before this.
                    listening.keep_taken(TakenAnswer {
                        task: self.id().to_owned(),
                        name: recorded.name.clone(),
                        sent_at,
                        was_seen,
                        answer: Ok(result),
                    });
                    record.request_answered(known.number, recorded.has_own_key).await;
                }
                Ok(false) => return Err(asks_not(self, key)),
                Err(error) => {
                    match error.is_transient() {
                        true => record.release_question(recorded.name),
                        false => record.answer_refused(&recorded.name).await,
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

impl TaskHandle {
    /// What the task asks now, and has no answer. A modern server says so whenever the task is read; a legacy one asks while the task is
    /// [waited for](Self::wait), so these are what it has asked this process since, and what is [recorded](Self::recorded_questions).
    ///
    /// ```no_run
    /// # async fn example(task: longhaul_client::TaskHandle) -> Result<(), longhaul_client::RequestError> {
    /// use longhaul_client::InputResponse;
    /// for question in task.questions().await? {
    ///     println!("{}", question.message());
    ///     let key = question.key.as_deref().unwrap_or_default();
    ///     task.answer(key, InputResponse::accept(question.defaults())).await?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Those of [`get`](Self::get) for a modern task. Of a legacy one, what is recorded is left out if the journal cannot be read.
    pub async fn questions(&self) -> Result<Vec<InputRequest>, RequestError> {
        if self.connection().era().await?.legacy().is_none() {
            let mut open = Vec::new();
            for question in self.get().await?.input_requests {
                let key = question.key.as_deref().unwrap_or_default();
                if !(self.has_answered(key) || self.has_taken_answer(key).await) {
                    open.push(question);
                }
            }
            return Ok(open);
        }
        let mut open = match self.recorded_questions().await {
            Ok(recorded) => recorded,
            Err(error) => {
                tracing::warn!(%error, "the recorded questions of a task cannot be read");
                Vec::new()
            }
        };
        for question in self.connection().listening().open_questions(self.id()) {
            if open.iter().all(|known| known.key != question.key) {
                open.push(question);
            }
        }
        open.retain(|question| !question.key.as_deref().is_some_and(|key| self.has_answered(key)));
        Ok(open)
    }

    /// Answers a question of a legacy task that is put to the handler of this process just now.
    async fn answer_open(&self, key: &str, answer: &InputResponse) -> Result<(), RequestError> {
        let listening = self.connection().listening();
        let mut open = listening.open_questions(self.id()).into_iter();
        if let Some(question) = open.find(|question| question.key.as_deref() == Some(key)) {
            self.check_answer(key, &question, answer)?;
        }
        let given = listening.give_answer(self.id(), key, answer);
        let taken = given.ok_or_else(|| asks_not(self, key))?;
        taken.await.unwrap_or_else(|_| Err(asks_not(self, key)))
    }
}

/// Nothing was sent.
pub(crate) fn asks_not(task: &TaskHandle, key: &str) -> RequestError {
    RequestError::NotAsked {
        task: task.id().to_owned(),
        key: key.to_owned(),
    }
}

/// A recorded request, as it came.
pub(crate) fn read_again(known: &ServerRequestRecord) -> ServerRequest {
    ServerRequest {
        id: known.request.id.clone(),
        method: known.request.method.clone(),
        params: ParsedJson::of(&known.request.params),
        malformed: None,
    }
}

/// The result, which names the task of the request.
pub(crate) fn related_result(request: &ServerRequest, response: InputResponse) -> Json {
    let related = &request.params["_meta"][meta::RELATED_TASK];
    match related.is_object() {
        true => relayed::related(response.as_json(), &related.to_string()),
        false => response.into_json(),
    }
}
