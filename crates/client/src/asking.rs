//! Asking the user: each question once, whichever process of the user asks.

use crate::{
    Asked, Connection, InputRequest, InputResponse, RequestError, call_record::CallRecord, journal::RequestNumber,
};
use futures_util::FutureExt;
use longhaul_core::{BoxFuture, Clock, Json};
use std::{sync::Arc, time::Duration};

/// How long to wait for an answer that another process is asking for, before the journal is read again.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// The answer to a question.
pub(crate) struct Answered {
    pub(crate) response: InputResponse,
    /// Kept until the server has the answer.
    pub(crate) held: Option<HeldQuestion>,
}

/// A recorded question that this process deals with until this is dropped.
pub(crate) struct HeldQuestion {
    /// `None` once nothing more is to be recorded.
    record: Option<CallRecord>,
    key: String,
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
        if let Some(record) = &self.record {
            record.release_question(self.key.clone());
        }
    }
}

/// What asks a question.
#[derive(Clone, Copy)]
pub(crate) enum AskedBy<'a> {
    /// A task, in its list of questions.
    Task,
    /// A recorded request of a legacy server.
    Request(RequestNumber),
    /// A call that is no task. The user may answer this in another process.
    Call(&'a InputRequest),
}

impl AskedBy<'_> {
    fn number(self) -> Option<RequestNumber> {
        match self {
            Self::Request(number) => Some(number),
            Self::Task | Self::Call(_) => None,
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
    ) -> Result<Option<Answered>, RequestError> {
        let ask = || {
            let (connection, request) = (self.clone(), request.clone());
            async move { connection.ask(request).await }.boxed()
        };
        let asked_by = match request.task {
            Some(_) => AskedBy::Task,
            None => AskedBy::Call(&request),
        };
        ask_recorded(Arc::clone(&self.options().clock), record, key, asked_by, &ask).await
    }
}

/// Asks with `ask`, unless the user has answered the question before: then that is the answer. `None` if the server has an answer, also to
/// the recorded request that asks.
pub(crate) async fn ask_recorded<E: From<RequestError>>(
    clock: Arc<dyn Clock>,
    record: Option<&CallRecord>,
    key: &str,
    asked_by: AskedBy<'_>,
    ask: Ask<'_, E>,
) -> Result<Option<Answered>, E> {
    let Some(record) = record else {
        let response = ask().await?;
        return Ok(Some(Answered { response, held: None }));
    };
    loop {
        let asked = match asked_by {
            AskedBy::Call(request) => record.ask_in_call(key, request).await,
            AskedBy::Task | AskedBy::Request(_) => record.ask(key, asked_by.number()).await,
        };
        match asked {
            Ok(Asked::Accepted) => return Ok(None),
            Ok(Asked::Pending) => {
                clock.sleep(LOOK_AGAIN).await;
                continue;
            }
            _ => {}
        }
        let held = HeldQuestion {
            record: Some(record.clone()),
            key: key.to_owned(),
        };
        match asked {
            Ok(Asked::Answered(answer)) => {
                let response = InputResponse::recorded(&answer)?;
                let held = Some(held);
                return Ok(Some(Answered { response, held }));
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "a question is not recorded"),
        }
        let response = match asked_by {
            AskedBy::Task | AskedBy::Request(_) => ask().await?,
            AskedBy::Call(_) => tokio::select! {
                biased;
                response = ask() => response?,
                () = answered_elsewhere(&*clock, record, key) => continue,
            },
        };
        let answer = Json::from(response.as_value().clone());
        match record.record_answer(key, asked_by.number(), answer).await {
            Ok(true) => {}
            // Another process was faster: its answer counts.
            Ok(false) => continue,
            Err(error) => tracing::warn!(%error, "an answer is not recorded"),
        }
        let held = Some(held);
        return Ok(Some(Answered { response, held }));
    }
}

/// Waits until another process has recorded the answer to a question that this one asks.
async fn answered_elsewhere(clock: &dyn Clock, record: &CallRecord, key: &str) {
    loop {
        clock.sleep(LOOK_AGAIN).await;
        // Without a journal that can be read there is only the answer of this process.
        if record.has_answer(key).await.unwrap_or_default() {
            return;
        }
    }
}
