//! Submits a job: again only while the server has certainly not accepted it, or where an idempotency header makes the second submit the same job.

use super::HttpJobExecutor;
use crate::{executor::SendState, upstream::words};
use http::Request;
use longhaul_client::{HttpAnswer, RequestError, Url};
use longhaul_core::{Millis, Outcome, Principal, RpcFailure};
use longhaul_runtime::{ExecutionEnd, ExecutorAttempt, TaskContext};
use serde_json::json;
use std::time::Duration;

/// The first pause before a job is submitted again, and the longest one unless the server asks for more, in milliseconds.
const PAUSES: (Millis, Millis) = (1_000, 30_000);
/// How long that is tried.
const LONGEST_WAIT: Duration = Duration::from_secs(600);
/// How long the answer is waited for that names the job of a task that is to stop: less than a stopping task has.
const SUBMIT_GRACE: Duration = Duration::from_secs(8);

/// What an answer to `submit` says.
enum SubmitVerdict {
    Accepted(HttpAnswer),
    /// The server has not accepted the job, and may do so later.
    NotNow(String, Option<Millis>),
    /// It will not accept it.
    Refused(ExecutionEnd),
    /// Nobody knows.
    Unknown(String),
}

impl HttpJobExecutor {
    /// Submits the job of an attempt.
    ///
    /// # Errors
    /// The end of the attempt.
    pub(super) async fn submit(
        &self,
        attempt: &ExecutorAttempt,
        cx: &TaskContext,
    ) -> Result<(Url, HttpAnswer), ExecutionEnd> {
        let task = attempt.task.as_str();
        let key = match self.job.definition.key_per_attempt {
            true => format!("{task}-{}", attempt.epoch),
            false => task.to_owned(),
        };
        let built = self.job.submit_request(&attempt.arguments, &key);
        let (url, request) = built.map_err(|why| self.failed(&why))?;
        let send_state = SendState::of(attempt);
        let since = self.ports.clock.monotonic();
        let mut pause = PAUSES.0;
        // An earlier request may have arrived.
        let mut unknown: Option<String> = None;
        loop {
            if let Some(reason) = cx.stop_requested() {
                if let Some(why) = &unknown {
                    self.tell_unknown(why, cx);
                }
                return Err(ExecutionEnd::Stopped(reason));
            }
            if let Some(end) = send_state.end_unless_it_may_begin(cx) {
                return Err(end);
            }
            let begun = send_state.begins(cx).await;
            begun.map_err(|error| self.failed(&error.to_string()))?;
            // From here on a later process does not take it for one that was never sent.
            cx.record_start().await?;
            let (why, retry_after) = match self.send_submit(&url, request.clone(), unknown.is_some(), cx).await? {
                SubmitVerdict::Accepted(answer) => return Ok((url, answer)),
                SubmitVerdict::Refused(end) => return Err(end),
                SubmitVerdict::NotNow(why, retry_after) => {
                    if unknown.is_none() {
                        send_state.was_refused(attempt, cx).await;
                    }
                    (why, retry_after)
                }
                SubmitVerdict::Unknown(why) if self.job.has_idempotency_header() => {
                    unknown = Some(why.clone());
                    (why, None)
                }
                SubmitVerdict::Unknown(why) => return Err(ExecutionEnd::Lost(self.unknown(&why))),
            };
            pause = pause.max(retry_after.unwrap_or_default());
            let waited = self.ports.clock.monotonic().saturating_sub(since);
            if waited + Duration::from_millis(pause) > LONGEST_WAIT {
                return Err(match unknown {
                    None => self.failed(&why),
                    Some(why) => ExecutionEnd::OutcomeUnknown(self.unknown(&why)),
                });
            }
            cx.status(format!("{}: {why}; the job is submitted again", self.server()));
            tokio::select! {
                biased;
                _ = cx.stopped() => {}
                () = self.ports.clock.sleep(Duration::from_millis(pause)) => {}
            }
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// Sends the request once. The answer is waited for a while after the task is to stop.
    async fn send_submit(
        &self,
        url: &Url,
        request: Request<Vec<u8>>,
        is_repeated: bool,
        cx: &TaskContext,
    ) -> Result<SubmitVerdict, ExecutionEnd> {
        let sent = self.send(request);
        tokio::pin!(sent);
        let answer = tokio::select! {
            biased;
            answer = &mut sent => answer,
            reason = cx.stopped() => match self.ports.within(SUBMIT_GRACE, sent).await {
                Some(answer) => answer,
                None => {
                    self.tell_unknown("it has not answered", cx);
                    return Err(ExecutionEnd::Stopped(reason));
                }
            },
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(RequestError::TooLarge { limit }) => {
                return Ok(SubmitVerdict::Refused(self.over(&format!(
                    "it has answered with more than {limit} bytes (`max_response`), so nobody can follow the job, which may go on"
                ))));
            }
            Err(error) => {
                let why = words(&error, *cx.principal() == Principal::local());
                return Ok(match error.is_unsent() {
                    true => SubmitVerdict::NotNow(why, None),
                    false => SubmitVerdict::Unknown(why),
                });
            }
        };
        let why = self.refusal(url, &answer);
        Ok(match answer.status {
            200..=299 => SubmitVerdict::Accepted(answer),
            429 | 503 => SubmitVerdict::NotNow(why, answer.retry_after),
            408 | 502 | 504 => SubmitVerdict::Unknown(why),
            // The server works on the earlier request.
            409 if is_repeated => SubmitVerdict::Unknown(why),
            _ => SubmitVerdict::Refused(self.failed(&why)),
        })
    }

    fn tell_unknown(&self, why: &str, cx: &TaskContext) {
        cx.status(format!(
            "{}: {why}, so nobody can cancel the job: one may go on",
            self.server()
        ));
    }

    /// The outcome of a call whose job may run.
    pub(super) fn unknown(&self, why: &str) -> Outcome {
        let message = format!(
            "Interrupted: it is not known whether {} runs a job: {why}",
            self.server()
        );
        Outcome::RpcError(RpcFailure {
            code: -32603,
            message: message.into(),
            data: Some(json!({"reason": "interrupted"}).into()),
        })
    }
}
