//! Asking the user: each question once, whichever process of the user asks.

use crate::{Asked, Connection, InputRequest, InputResponse, RequestError, call_record::CallRecord};
use futures_util::FutureExt;
use longhaul_core::{BoxFuture, Json, Millis};

/// How long to wait for an answer that another process is asking for, before the journal is read again.
const LOOK_AGAIN: Millis = 500;

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

impl Drop for HeldQuestion {
    fn drop(&mut self) {
        if let Some(record) = &self.record {
            record.release_question(self.key.clone());
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
        self.ask_recorded(record, key, &ask).await
    }

    /// Asks with `ask`, unless the user has answered the question before: then that is the answer. `None` if the server has an answer.
    pub(crate) async fn ask_recorded<E: From<RequestError>>(
        &self,
        record: Option<&CallRecord>,
        key: &str,
        ask: Ask<'_, E>,
    ) -> Result<Option<Answered>, E> {
        let Some(record) = record else {
            let response = ask().await?;
            return Ok(Some(Answered { response, held: None }));
        };
        loop {
            let asked = record.ask(key).await;
            match asked {
                Ok(Asked::Accepted) => return Ok(None),
                Ok(Asked::Pending) => {
                    self.sleep(LOOK_AGAIN).await;
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
            let response = ask().await?;
            match record.record_answer(key, Json::from(response.as_value().clone())).await {
                Ok(true) => {}
                // Another process was faster: its answer counts.
                Ok(false) => continue,
                Err(error) => tracing::warn!(%error, "an answer is not recorded"),
            }
            let held = Some(held);
            return Ok(Some(Answered { response, held }));
        }
    }
}
