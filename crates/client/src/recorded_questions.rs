//! What legacy servers have asked about recorded tasks: listing it, and answering it from any process.

use crate::{
    InputRequest, InputResponse, JournalError, RequestError, TaskHandle,
    asking::HeldQuestion,
    call_record::CallRecord,
    journal::{RequestNumber, ServerRequestRecord},
    legacy_questions::QuestionName,
    response::ServerRequest,
};
use longhaul_core::Json;
use longhaul_wire::meta;
use serde_json::Value;

/// What is recorded of a question of a task.
#[derive(Clone)]
pub(crate) struct Recorded {
    pub(crate) record: CallRecord,
    pub(crate) name: String,
    pub(crate) has_own_key: bool,
    /// The number of the request, and the key of the question. `None` if only the answer is recorded.
    pub(crate) request: Option<(RequestNumber, String)>,
}

impl Recorded {
    pub(crate) fn of(record: &CallRecord, known: &ServerRequestRecord) -> Self {
        Self {
            record: record.clone(),
            name: known.request.question.clone(),
            has_own_key: QuestionName::is_unique(&known.request.question),
            request: Some((known.number, known.first.key())),
        }
    }

    pub(crate) fn number(&self) -> Option<RequestNumber> {
        self.request.as_ref().map(|(number, _)| *number)
    }

    /// The server has the answer, or an error instead.
    pub(crate) async fn answered(&self, held: Option<HeldQuestion>) {
        match (self.number(), held) {
            (Some(number), held) => {
                self.record.request_answered(number, self.has_own_key).await;
                if let Some(held) = held {
                    held.settled();
                }
            }
            (None, Some(held)) if self.has_own_key => held.accepted().await,
            (None, Some(held)) => held.discarded().await,
            (None, None) => {}
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
        Ok(first
            .map(|known| {
                let request = read_again(&known);
                InputRequest {
                    key: Some(known.first.key()),
                    task: Some(self.id().to_owned()),
                    source: None,
                    method: request.method,
                    params: request.params,
                }
            })
            .collect())
    }

    /// Answers a recorded question of a legacy server, under all ids that it has in the present session.
    pub(crate) async fn answer_recorded(&self, key: &str, answer: &InputResponse) -> Result<(), RequestError> {
        let era = self.connection().era().await?;
        let session = self.connection().session_of(&era).map(|session| session.id);
        let (record, open) = match self.record() {
            Some(record) => (record, record.open_requests().await.unwrap_or_default()),
            None => return Err(asks_not(self, key)),
        };
        let is_asked = |known: &&ServerRequestRecord| known.first.key() == key && known.request.session == session;
        let asked: Vec<&ServerRequestRecord> = open.iter().filter(is_asked).collect();
        let Some(first) = asked.first() else {
            return Err(asks_not(self, key));
        };
        let recorded = Recorded::of(record, first);
        let on_disk = Json::from(answer.as_value().clone());
        match record.record_answer(&recorded.name, recorded.number(), on_disk).await {
            // After another answer, which may not have arrived, the server decides: it takes one.
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "an answer is not recorded"),
        }
        for known in asked {
            let request = read_again(known);
            // This process may be asking the user, too.
            if let Some(served) = self.connection().listening().serving.lock().remove(&request.id) {
                served.running.abort();
            }
            let response = request.respond(Ok(related_result(&request, answer.clone())));
            match self.connection().send_message(&era, response).await {
                Ok(true) => record.request_answered(known.number, recorded.has_own_key).await,
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

fn asks_not(task: &TaskHandle, key: &str) -> RequestError {
    RequestError::Invalid(format!("its task {} does not ask {key:?} now", task.id()))
}

/// A recorded request, as it came.
pub(crate) fn read_again(known: &ServerRequestRecord) -> ServerRequest {
    ServerRequest {
        id: known.request.id.clone(),
        method: known.request.method.clone(),
        params: serde_json::from_str(&known.request.params).unwrap_or_default(),
    }
}

/// The result, which names the task of the request (G1-41).
pub(crate) fn related_result(request: &ServerRequest, response: InputResponse) -> Value {
    let mut result = response.into_value();
    let related = &request.params["_meta"][meta::RELATED_TASK];
    if related.is_object() && result.is_object() {
        result["_meta"][meta::RELATED_TASK] = related.clone();
    }
    result
}
