//! Asking the user: each question once, whichever process of the user asks.

use crate::{
    Asked, Connection, InputRequest, InputResponse, JournalError, JournalWatch, RequestError, RequestNumber,
    journal::call_record::CallRecord,
};
use futures_util::FutureExt;
use longhaul_core::BoxFuture;

pub(crate) struct QuestionAnswer {
    pub(crate) response: InputResponse,
    /// Kept until the server has the answer.
    pub(crate) held: Option<HeldQuestion>,
}

/// A recorded question that this process deals with until this is dropped.
pub(crate) struct HeldQuestion {
    /// `None` once nothing more is to be recorded.
    record: Option<CallRecord>,
    key: String,
    /// Whether nobody can answer it once this process does not deal with it.
    is_passing: bool,
}

impl HeldQuestion {
    /// The server has accepted the answer.
    pub(crate) async fn accepted(mut self) {
        if let Some(record) = self.record.take() {
            record.answer_accepted(&self.key).await;
        }
    }

    /// Nothing is to be known of the question any more: the server has refused the answer, or a question that looks the same is another one from now on.
    pub(crate) async fn discarded(mut self) {
        if let Some(record) = self.record.take() {
            record.answer_refused(&self.key).await;
        }
    }
}

impl HeldQuestion {
    /// The record has another state by now.
    pub(crate) fn settled(mut self) {
        self.record = None;
    }
}

impl Drop for HeldQuestion {
    fn drop(&mut self) {
        match &self.record {
            Some(record) if self.is_passing => record.forget_question(self.key.clone()),
            Some(record) => record.release_question(self.key.clone()),
            None => {}
        }
    }
}

/// What asks a question.
#[derive(Clone, Copy)]
pub(crate) enum AskedBy<'a> {
    /// A task, in its list of questions.
    Task,
    /// A task that only this process reaches. The user may answer this in another process, which tells this one.
    BoundTask(&'a InputRequest),
    /// A recorded request of a legacy server.
    Request(RequestNumber),
    /// A call that is no task, in a round of it. The user may answer this in another process.
    Call(&'a InputRequest),
    /// The same, in a request of a legacy server.
    PlainCall(&'a InputRequest),
}

impl AskedBy<'_> {
    fn number(self) -> Option<RequestNumber> {
        match self {
            Self::Request(number) => Some(number),
            Self::Task | Self::BoundTask(_) | Self::Call(_) | Self::PlainCall(_) => None,
        }
    }
}

/// Asks the user.
pub(crate) type Ask<'a, E> = &'a (dyn Fn() -> BoxFuture<'static, Result<InputResponse, E>> + Send + Sync);

impl Connection {
    /// Asks the handler what a modern server asks, once. `key` names the question among those of its call. `None` if the server has an answer.
    pub(crate) async fn ask_once(
        &self,
        request: InputRequest,
        record: Option<&CallRecord>,
        key: &str,
    ) -> Result<Option<QuestionAnswer>, RequestError> {
        let ask = || {
            let (connection, request) = (self.clone(), request.clone());
            async move { connection.ask(request).await }.boxed()
        };
        let asked_by = match request.task {
            Some(_) if self.transport().is_session() => AskedBy::BoundTask(&request),
            Some(_) => AskedBy::Task,
            None => AskedBy::Call(&request),
        };
        let inputs = self.options().inputs.clone();
        let too_late = || {
            if let Some(inputs) = &inputs {
                inputs.not_taken(&request);
            }
        };
        ask_recorded(record, key, asked_by, &ask, &too_late).await
    }
}

/// Asks with `ask`, unless the user has answered the question before: then that is the answer. `None` if the server has an answer, also to
/// the recorded request that asks. `too_late` is called when the user has answered, and another process was faster.
pub(crate) async fn ask_recorded<E: From<RequestError>>(
    record: Option<&CallRecord>,
    key: &str,
    asked_by: AskedBy<'_>,
    ask: Ask<'_, E>,
    too_late: &(dyn Fn() + Send + Sync),
) -> Result<Option<QuestionAnswer>, E> {
    let Some(record) = record else {
        let response = ask().await?;
        return Ok(Some(QuestionAnswer { response, held: None }));
    };
    let is_passing = matches!(asked_by, AskedBy::PlainCall(_)) && !record.has_idempotency_key();
    let mut watch = record.watch();
    loop {
        let asked = match asked_by {
            AskedBy::BoundTask(request) | AskedBy::Call(request) | AskedBy::PlainCall(request) => {
                record.ask_in_call(key, request).await
            }
            AskedBy::Task | AskedBy::Request(_) => record.ask(key, asked_by.number()).await,
        };
        match asked {
            Ok(Asked::Accepted) => return Ok(None),
            // Another process has seen the end of the call.
            Err(JournalError::WrongState { .. }) => return Ok(None),
            Ok(Asked::Pending) => {
                watch.changed_or_ended().await;
                continue;
            }
            _ => {}
        }
        let held = HeldQuestion {
            record: Some(record.clone()),
            key: key.to_owned(),
            is_passing,
        };
        match asked {
            Ok(Asked::Answered(answer)) => {
                let response = InputResponse::recorded(&answer)?;
                let held = Some(held);
                return Ok(Some(QuestionAnswer { response, held }));
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "a question is not recorded"),
        }
        let response = tokio::select! {
            biased;
            response = ask() => response?,
            () = answered_elsewhere(&mut watch, record, key, asked_by.number()) => {
                held.settled();
                continue;
            }
        };
        let answer = response.as_json().clone();
        match record.record_answer(key, asked_by.number(), answer).await {
            Ok(true) => {}
            // Another process was faster: its answer counts.
            Ok(false) => {
                too_late();
                if is_passing {
                    held.settled();
                }
                continue;
            }
            Err(error) => tracing::warn!(%error, "an answer is not recorded"),
        }
        let held = Some(held);
        return Ok(Some(QuestionAnswer { response, held }));
    }
}

/// Records what the user answers without being asked. `false` if the server has another answer, and this one must not be sent. An answer that another process is
/// sending is waited for: it may be refused.
pub(crate) async fn claim_answer(
    record: &CallRecord,
    key: &str,
    request: Option<RequestNumber>,
    answer: &InputResponse,
) -> bool {
    let mut watch = record.watch();
    loop {
        let answer = answer.as_json().clone();
        let asked = match record.record_answer(key, request, answer).await {
            Ok(true) => return true,
            Ok(false) => record.ask(key, request).await,
            Err(error) => Err(error),
        };
        match asked {
            Ok(Asked::Accepted) => return false,
            Ok(Asked::Pending) => watch.changed_or_ended().await,
            // One that nobody sends may not have arrived. The server takes the first.
            Ok(Asked::First | Asked::Answered(_)) => return true,
            Err(error) => {
                tracing::warn!(%error, "an answer is not recorded");
                return true;
            }
        }
    }
}

/// Waits until another process has recorded the answer to a question that this one asks.
async fn answered_elsewhere(watch: &mut JournalWatch, record: &CallRecord, key: &str, request: Option<RequestNumber>) {
    loop {
        watch.changed().await;
        // Without a journal that can be read there is only the answer of this process.
        if record.has_answer(key, request).await.unwrap_or_default() {
            return;
        }
    }
}
