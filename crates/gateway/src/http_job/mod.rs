//! Jobs of an HTTP API as tools: submits one, asks for its state until it has an end, and reads its result.

mod body;
pub(crate) mod definition;
pub(crate) mod provider;
mod submit;
mod url;

use crate::{
    executor::is_unsent,
    raw_json,
    remote_job::{
        JobAnswer, JobPhase, JobStatus, NotCancelled, RemoteJob, follow,
        states::{failed_job, result_of, shown},
    },
    upstream::words,
};
use definition::{HttpJob, JobRequest, SubmitAnswer, same_origin};
use http::{Method, header};
use longhaul_client::{HttpAnswer, HttpExchange, RequestError, Url};
use longhaul_core::{BoxFuture, Json, Millis, Outcome, Principal};
use longhaul_runtime::{ExecutionEnd, Executor, ExecutorAttempt, Ports, TaskContext};
use serde::{Deserialize, Serialize};
use std::{sync::Arc, time::Duration};

/// How often a question for a state or a result is sent on to another URL of the same server.
const MOST_REDIRECTS: u32 = 5;
/// The characters of an answer that an error shows.
const MOST_SHOWN: usize = 500;

/// Runs the calls of an HTTP job.
pub(crate) struct HttpJobExecutor {
    job: HttpJob,
    http: Arc<HttpExchange>,
    ports: Ports,
}

/// What a job is found again by, version 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct StoredHttpJob {
    version: u32,
    status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result: Option<String>,
    /// Or why nobody can cancel it.
    cancel: Result<String, String>,
}

impl StoredHttpJob {
    fn read(checkpoint: &Json) -> Option<Self> {
        let stored: Self = serde_json::from_str(checkpoint.as_str()).ok()?;
        (stored.version == 1).then_some(stored)
    }
}

/// A job that a server runs.
struct RunningHttpJob {
    executor: Arc<HttpJobExecutor>,
    stored: StoredHttpJob,
    arguments: Json,
}

impl Executor for HttpJobExecutor {
    fn check(&self, arguments: &str, _: &serde_json::Map<String, serde_json::Value>) -> Result<(), String> {
        let arguments = self.job.with_defaults(Json::trusted(arguments));
        self.job.submit_request(&arguments, "key").map(drop)
    }

    /// The job outlives it.
    fn outlives_process(&self) -> bool {
        true
    }

    fn may_log(&self) -> bool {
        false
    }

    fn run(self: Arc<Self>, mut attempt: ExecutorAttempt, cx: TaskContext) -> BoxFuture<'static, ExecutionEnd> {
        Box::pin(async move {
            attempt.arguments = self.job.with_defaults(attempt.arguments);
            let (url, answer) = match self.submit(&attempt, &cx).await {
                Ok(answered) => answered,
                Err(end) => return end,
            };
            let body = document(&answer);
            let stored = match self.stored_job(&attempt.arguments, &url, &answer, &body) {
                Ok(stored) => stored,
                Err(end) => return end,
            };
            let checkpoint = Json::trusted(serde_json::to_string(&stored).unwrap_or_default());
            if let Err(error) = cx.checkpoint(checkpoint).await {
                tracing::warn!(%error, task = cx.task().short(), "the URL of a job was not recorded");
            }
            cx.becomes_task();
            self.follow(stored, attempt.arguments, &cx).await
        })
    }

    fn resume(self: Arc<Self>, mut attempt: ExecutorAttempt, cx: TaskContext) -> BoxFuture<'static, ExecutionEnd> {
        Box::pin(async move {
            attempt.arguments = self.job.with_defaults(attempt.arguments);
            if let Some(stored) = attempt.checkpoint.as_ref().and_then(StoredHttpJob::read) {
                return self.follow(stored, attempt.arguments, &cx).await;
            }
            let why = "the server was stopped while it submitted the job";
            match cx.stop_requested() {
                Some(reason) => {
                    if !is_unsent(&attempt) {
                        cx.status(format!("{why}, so nobody can cancel it: one may go on"));
                    }
                    ExecutionEnd::Stopped(reason)
                }
                None if is_unsent(&attempt) || self.job.has_idempotency_header() => self.run(attempt, cx).await,
                None => ExecutionEnd::Lost(self.unknown(why)),
            }
        })
    }
}

impl HttpJobExecutor {
    fn server(&self) -> String {
        format!("the API of `{}`", self.job.definition.tool)
    }

    /// The end of a call that the server has not carried out.
    fn failed(&self, why: &str) -> ExecutionEnd {
        ExecutionEnd::Errored(Outcome::tool_error(&format!("{}: {why}", self.server())))
    }

    /// The end of a call that the server has accepted: it is not made again, whatever the retry policy says.
    fn over(&self, why: &str) -> ExecutionEnd {
        ExecutionEnd::Finished(Outcome::tool_error(&format!("{}: {why}", self.server())))
    }

    /// What is wrong with an answer that is no success.
    fn refusal(&self, url: &Url, answer: &HttpAnswer) -> String {
        let status = answer.status;
        if (300..400).contains(&status) {
            let location = answer.headers.get(header::LOCATION);
            let target = location.and_then(|target| url.join(target.to_str().ok()?).ok());
            let target = target.map(|target| target.origin().ascii_serialization());
            let target = target.unwrap_or_else(|| "no URL".to_owned());
            return format!("it redirects to {target} (HTTP status {status}), which is not followed");
        }
        let body = document(answer);
        let reason = self
            .job
            .definition
            .states
            .reason(&body)
            .unwrap_or_else(|| shown(body.as_str()));
        match excerpt(&reason) {
            reason if reason.is_empty() || body.as_str() == "null" => format!("HTTP status {status}"),
            reason => format!("HTTP status {status}: {reason}"),
        }
    }

    /// What the job of an accepted answer is found again by.
    ///
    /// # Errors
    /// The end of the call: there is no job to follow, since it has ended already, or since nobody can find it.
    fn stored_job(
        &self,
        arguments: &Json,
        url: &Url,
        answer: &HttpAnswer,
        body: &Json,
    ) -> Result<StoredHttpJob, ExecutionEnd> {
        let (job, states) = (&self.job, &self.job.definition.states);
        let status = states.status(body.clone());
        if let Some(status) = &status {
            match status.phase {
                JobPhase::Failed => return Err(self.job_failure(status)),
                JobPhase::Done if job.result_from.is_none() => return Err(self.job_result(body)),
                _ => {}
            }
        }
        let submitted = SubmitAnswer {
            body,
            headers: &answer.headers,
            url,
        };
        let url_of = |request: &JobRequest| job.url_of(request, arguments, &submitted).map(String::from);
        let found = url_of(&job.status).map_err(|why| match answer.status {
            // It has answered at once.
            200 | 203 if status.is_none() => match states.reason(body) {
                Some(reason) => self.failed(&excerpt(&reason)),
                None => self.job_result(body),
            },
            code => self.over(&format!(
                "the job was submitted (HTTP status {code}), but {why}, so nobody can follow it"
            )),
        })?;
        let result = job.result_from.as_ref().map(url_of).transpose();
        Ok(StoredHttpJob {
            version: 1,
            status: found,
            result: result.map_err(|why| self.over(&format!("the job was submitted, but {why}")))?,
            cancel: match &job.cancel {
                Some(request) => url_of(request),
                None => Err("no request that cancels it is configured".to_owned()),
            },
        })
    }

    /// The end of a job that has failed. It is submitted again if the retry policy says so.
    fn job_failure(&self, status: &JobStatus) -> ExecutionEnd {
        let reason = self.job.definition.states.reason(&status.answer);
        let reason = reason.unwrap_or_else(|| shown(status.answer.as_str()));
        ExecutionEnd::Errored(failed_job(&status.state, &reason))
    }

    /// The end of a job that is done.
    fn job_result(&self, answer: &Json) -> ExecutionEnd {
        let at = self.job.definition.states.result_at.as_deref();
        let value = at.and_then(|at| raw_json::at(answer.as_str(), at));
        ExecutionEnd::Finished(result_of(value.unwrap_or(answer.as_str())))
    }

    async fn follow(self: Arc<Self>, stored: StoredHttpJob, arguments: Json, cx: &TaskContext) -> ExecutionEnd {
        let job = RunningHttpJob {
            executor: self,
            stored,
            arguments,
        };
        follow(&Arc::new(job), cx).await
    }

    /// Sends a request, and reads the answer.
    async fn send(&self, request: http::Request<Vec<u8>>) -> Result<HttpAnswer, RequestError> {
        let definition = &self.job.definition;
        let most = usize::try_from(definition.max_response).unwrap_or(usize::MAX);
        let timeout = Duration::from_millis(definition.request_timeout);
        self.http.send(request, timeout, most).await
    }
}

impl RunningHttpJob {
    /// Asks, and follows redirects within the server.
    async fn ask(&self, request: &JobRequest, url: &str, cx: &TaskContext) -> JobAnswer<HttpAnswer> {
        let executor = &self.executor;
        let refused = |why: &str| JobAnswer::Refused(executor.over(why));
        let mut url = match Url::parse(url) {
            Ok(url) => url,
            Err(error) => return refused(&error.to_string()),
        };
        let mut method = request.method.clone();
        for _ in 0..=MOST_REDIRECTS {
            let sent = match executor.job.request(&method, &url, &self.arguments) {
                Ok(request) => executor.send(request),
                Err(why) => return refused(&why),
            };
            let answer = tokio::select! {
                biased;
                reason = cx.stopped() => return JobAnswer::Stopped(reason),
                answer = sent => answer,
            };
            let answer = match answer {
                Ok(answer) => answer,
                Err(RequestError::TooLarge { limit }) => {
                    return refused(&format!(
                        "it has answered with more than {limit} bytes (`max_response`)"
                    ));
                }
                Err(error) => return self.away(&words(&error, *cx.principal() == Principal::local()), None),
            };
            match answer.status {
                200..=299 => return JobAnswer::Known(answer),
                301 | 302 | 303 | 307 | 308 => {
                    let location = answer.headers.get(header::LOCATION);
                    let next = location.and_then(|location| same_origin(&url, location.to_str().ok()?).ok());
                    let Some(next) = next else {
                        return refused(&executor.refusal(&url, &answer));
                    };
                    url = next;
                    if !matches!(answer.status, 307 | 308) {
                        method = Method::GET;
                    }
                }
                401 | 403 | 408 | 425 | 429 | 500..=599 => {
                    return self.away(&executor.refusal(&url, &answer), answer.retry_after);
                }
                _ => return refused(&executor.refusal(&url, &answer)),
            }
        }
        refused("it redirects in a circle")
    }

    fn away<T>(&self, why: &str, retry_after: Option<Millis>) -> JobAnswer<T> {
        JobAnswer::Away {
            why: format!("{}: {why}", self.server()),
            retry_after,
        }
    }
}

impl RemoteJob for RunningHttpJob {
    fn server(&self) -> String {
        self.executor.server()
    }

    fn shown(&self) -> String {
        "the job".to_owned()
    }

    fn ports(&self) -> &Ports {
        &self.executor.ports
    }

    fn poll(&self) -> Millis {
        self.executor.job.definition.poll
    }

    fn status<'a>(&'a self, cx: &'a TaskContext) -> BoxFuture<'a, JobAnswer<JobStatus>> {
        Box::pin(async move {
            let (job, states) = (&self.executor.job, &self.executor.job.definition.states);
            let answer = self.ask(&job.status, &self.stored.status, cx).await;
            answer.and_then(|answer| {
                let body = document(&answer);
                let phase = match answer.status {
                    202 => JobPhase::Running,
                    _ => JobPhase::Done,
                };
                let status = match (&states.state, states.status(body.clone())) {
                    (Some(_), Some(status)) => status,
                    (Some(at), None) if phase == JobPhase::Done => {
                        let why = format!("its answer has no state at {at:?}");
                        return JobAnswer::Refused(self.executor.over(&why));
                    }
                    _ => states.status_in(body, phase, "running"),
                };
                JobAnswer::Known(JobStatus {
                    retry_after: answer.retry_after,
                    ..status
                })
            })
        })
    }

    fn result<'a>(&'a self, status: JobStatus, cx: &'a TaskContext) -> BoxFuture<'a, JobAnswer<ExecutionEnd>> {
        Box::pin(async move {
            match (&self.executor.job.result_from, &self.stored.result) {
                (Some(request), Some(url)) => {
                    let answer = self.ask(request, url, cx).await;
                    answer.and_then(|answer| JobAnswer::Known(self.executor.job_result(&document(&answer))))
                }
                _ => JobAnswer::Known(self.executor.job_result(&status.answer)),
            }
        })
    }

    fn failure(&self, status: &JobStatus) -> ExecutionEnd {
        self.executor.job_failure(status)
    }

    fn cannot_cancel(&self) -> Option<String> {
        self.stored.cancel.clone().err()
    }

    fn cancel<'a>(&'a self, _: &'a TaskContext) -> BoxFuture<'a, Result<(), NotCancelled>> {
        Box::pin(async move {
            let (Ok(url), Some(request)) = (&self.stored.cancel, &self.executor.job.cancel) else {
                return Ok(());
            };
            let url = Url::parse(url).map_err(|error| error.to_string())?;
            let request = self.executor.job.request(&request.method, &url, &self.arguments)?;
            match self.executor.send(request).await {
                // The last three: the job has ended.
                Ok(HttpAnswer {
                    status: 200..=299 | 404 | 409 | 410,
                    ..
                })
                | Err(RequestError::TooLarge { .. }) => Ok(()),
                Ok(answer) => Err(NotCancelled {
                    why: self.executor.refusal(&url, &answer),
                    is_transient: matches!(answer.status, 408 | 429 | 500..=599),
                }),
                Err(error) => Err(NotCancelled {
                    why: error.to_string(),
                    is_transient: true,
                }),
            }
        })
    }
}

/// An answer as JSON: its body if that is JSON, else its text.
fn document(answer: &HttpAnswer) -> Json {
    let text = String::from_utf8_lossy(&answer.body);
    match text.trim() {
        "" => Json::trusted("null"),
        text => Json::parse(text).unwrap_or_else(|_| serde_json::Value::from(text).into()),
    }
}

fn excerpt(text: &str) -> String {
    let end = text.floor_char_boundary(MOST_SHOWN);
    let cut = if end < text.len() { "…" } else { "" };
    format!("{}{cut}", text[..end].trim().replace(char::is_control, " "))
}
