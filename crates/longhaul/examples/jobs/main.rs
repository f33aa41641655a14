//! A job of another system, driven over HTTP: submitted once, and found again after a crash of this server.
//!
//! `jobs --service ADDR` is a job service to try it with (see `service.rs`), and `jobs [--listen ADDR | --stdio] [--data-dir DIR]` the MCP
//! server that drives it. `JOBS_SERVICE` says where the service is, by default `http://127.0.0.1:7420`.

#[path = "../program/mod.rs"]
mod program;
pub mod service;

use longhaul::{
    NonRetryable, Poll, Server, StepError, TaskContext, Tool, ToolResult,
    schemars::JsonSchema,
    time::{minutes, seconds},
};
use reqwest::{Client, Response, header::RETRY_AFTER};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{error::Error, sync::Arc};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    match (arguments.next().as_deref(), arguments.next()) {
        (Some("--service"), Some(address)) => service::serve(&address).await,
        _ => program::serve(server()).await,
    }
}

/// The server, for the service that `JOBS_SERVICE` names.
pub fn server() -> Server {
    server_for(std::env::var("JOBS_SERVICE").unwrap_or_else(|_| "http://127.0.0.1:7420".to_owned()))
}

/// The server, for the service at this URL.
pub fn server_for(url: impl Into<String>) -> Server {
    // Here reqwest is built without a crypto provider, and wants one for plain HTTP, too. An error says that there is one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let jobs = Arc::new(JobClient {
        url: url.into(),
        http: Client::new(),
    });
    let render = move |cx: TaskContext, args: Render| render(cx, args, Arc::clone(&jobs));
    Server::new("jobs", env!("CARGO_PKG_VERSION")).tool(Tool::durable("render", render))
}

/// Has a scene rendered by the job service.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Render {
    /// Which scene.
    scene: String,
    /// How many seconds the rendering takes.
    seconds: u64,
}

async fn render(cx: TaskContext, args: Render, jobs: Arc<JobClient>) -> ToolResult<String> {
    // If this process dies after the service has accepted the job and before the journal has the id, the step runs again with the same key: the
    // service recognizes the job and returns the same id.
    let key = cx.idempotency_key("render");
    let job = cx
        .step("submit", || jobs.submit(&args, &key))
        .max_attempts(5)
        .timeout(seconds(10))
        .idempotency_key(&*key)
        .await?;
    cx.status(format!("job {job} has been submitted")).await?;

    // Once the journal has the id, every later attempt finds the job by it. A job that runs for hours is polled once a minute, or sooner if
    // the service says so.
    let file = cx
        .poll_until("rendered", || jobs.poll(job))
        .interval(seconds(1), minutes(1))
        .max_consecutive_failures(100)
        .await?;
    Ok(format!("{} is in {file}", args.scene))
}

/// A client of the job service.
struct JobClient {
    url: String,
    http: Client,
}

/// A job, as the service shows it.
#[derive(Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
enum Job {
    Running,
    Done { result: String },
    Failed { why: String },
}

impl JobClient {
    async fn submit(&self, work: &Render, key: &str) -> Result<u64, StepError> {
        #[derive(Deserialize)]
        struct Submitted {
            id: u64,
        }
        let request = self.http.post(format!("{}/jobs", self.url));
        let request = request
            .header("idempotency-key", key)
            .body(serde_json::to_string(work)?);
        Ok(read::<Submitted>(check_status(request.send().await?)?).await?.id)
    }

    async fn poll(&self, job: u64) -> Result<Poll<String>, StepError> {
        let response = check_status(self.http.get(format!("{}/jobs/{job}", self.url)).send().await?)?;
        let pause = response
            .headers()
            .get(RETRY_AFTER)
            .and_then(|after| after.to_str().ok()?.parse().ok());
        match (read(response).await?, pause) {
            (Job::Done { result }, _) => Ok(Poll::Ready(result)),
            (Job::Failed { why }, _) => Err(NonRetryable(why).into()),
            (Job::Running, Some(pause)) => Ok(Poll::after(seconds(pause))),
            (Job::Running, None) => Ok(Poll::Pending),
        }
    }
}

/// A refusal by the service is final; any other failure may be retried.
fn check_status(response: Response) -> Result<Response, StepError> {
    let status = response.status();
    match status.is_client_error() {
        true => Err(NonRetryable(format!("the job service answered {status}")).into()),
        false => Ok(response.error_for_status()?),
    }
}

async fn read<T: DeserializeOwned>(response: Response) -> Result<T, StepError> {
    Ok(serde_json::from_slice(&response.bytes().await?)?)
}
