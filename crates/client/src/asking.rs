//! Asking the user: each question once, whichever process of the user asks.

use crate::{Asked, Connection, InputRequest, InputResponse, RequestError, call_record::CallRecord};
use longhaul_core::{Json, Millis};

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

    /// The server has refused the answer.
    pub(crate) async fn refused(mut self) {
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

impl Connection {
    /// Asks the handler, unless the user has answered the question before: then that is the answer. `key` names the question among those of its call.
    /// Never completes if the server has an answer.
    pub(crate) async fn ask_once(
        &self,
        request: InputRequest,
        record: Option<&CallRecord>,
        key: &str,
    ) -> Result<Answered, RequestError> {
        let Some(record) = record else {
            let response = self.ask(request).await?;
            return Ok(Answered { response, held: None });
        };
        loop {
            let asked = record.ask(key).await;
            match asked {
                Ok(Asked::Accepted) => return std::future::pending().await,
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
                    return Ok(Answered { response, held });
                }
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, "a question is not recorded"),
            }
            let response = self.ask(request.clone()).await?;
            match record.record_answer(key, Json::from(response.as_value().clone())).await {
                Ok(true) => {}
                // Another process was faster: its answer counts.
                Ok(false) => continue,
                Err(error) => tracing::warn!(%error, "an answer is not recorded"),
            }
            let held = Some(held);
            return Ok(Answered { response, held });
        }
    }
}
