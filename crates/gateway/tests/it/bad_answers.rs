//! An upstream that refuses a job at first, and cannot say for a while how its task stands.

use crate::{
    client::{Client, end, says, success},
    upstream::Tasks,
    world::{RunningGateway, at_url, guarded, until, with_every_call_a_task},
};
use axum::{Json, Router, extract::State, http::StatusCode, response::IntoResponse as _, routing::any};
use http::{HeaderMap, HeaderValue};
use longhaul_client::Outcome;
use longhaul_core::{Retry, RetryOn};
use longhaul_gateway::{JobTools, Target, UpstreamOptions};
use serde_json::{Value, json};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

/// How often it was called, asked for its task, and asked to cancel that; whether its job is done, and whether it says how its work stands.
#[derive(Clone, Default)]
struct Seen {
    calls: Arc<AtomicUsize>,
    polls: Arc<AtomicUsize>,
    is_done: Arc<AtomicBool>,
    is_secret: Arc<AtomicBool>,
    cancellations: Arc<AtomicUsize>,
    /// The key that it accepts; any, if there is none.
    key: Arc<Mutex<Option<&'static str>>>,
}

impl Seen {
    /// The upstream at an address of its own.
    #[expect(clippy::disallowed_methods, reason = "the test is the outside world")]
    async fn serve(&self) -> UpstreamOptions {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = at_url(format!("http://{}/mcp", listener.local_addr().unwrap()));
        let router = Router::new().fallback(any(serve)).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        UpstreamOptions::new("up", target)
    }
}

fn task(id: &str, status: &str) -> Value {
    let at = "2026-01-01T00:00:00Z";
    json!({"taskId": id, "status": status, "createdAt": at, "lastUpdatedAt": at, "ttl": null, "pollInterval": 10})
}

async fn serve(State(seen): State<Seen>, headers: HeaderMap, body: String) -> axum::response::Response {
    let is_let_in = |key: &str| headers.get("x-key").is_some_and(|sent| *sent == *key);
    if !seen.key.lock().unwrap().is_none_or(is_let_in) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let request: Value = serde_json::from_str(&body).unwrap_or_default();
    if request["id"].is_null() {
        return StatusCode::ACCEPTED.into_response();
    }
    let result = |result: Value| json!({"result": result});
    let answer = match request["method"].as_str().unwrap_or_default() {
        "initialize" => result(json!({
            "protocolVersion": "2025-11-25", "serverInfo": {"name": "up", "version": "1"},
            "capabilities": {"tools": {}, "tasks": {"requests": {"tools": {"call": {}}}}},
        })),
        "tools/list" => result(json!({"tools": [
            {"name": "work", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"}},
            {"name": "submit", "inputSchema": {"type": "object"}},
            {"name": "status", "inputSchema": {"type": "object"}},
        ]})),
        "tools/call" if request["params"]["name"] == "status" => {
            if seen.is_secret.load(Ordering::SeqCst) {
                return match seen.polls.fetch_add(1, Ordering::SeqCst) % 2 {
                    0 => StatusCode::FORBIDDEN.into_response(),
                    _ => StatusCode::NOT_FOUND.into_response(),
                };
            }
            let is_done = seen.is_done.load(Ordering::SeqCst);
            let state = if is_done { "done" } else { "running" };
            result(json!({"content": [], "structuredContent": {"state": state}}))
        }
        "tools/call" if request["params"]["name"] == "submit" => match seen.calls.fetch_add(1, Ordering::SeqCst) {
            0 => return (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "30")]).into_response(),
            _ => result(json!({"content": [], "structuredContent": {"id": "j-1"}})),
        },
        "tools/call" => {
            seen.calls.fetch_add(1, Ordering::SeqCst);
            result(json!({"task": task("t-1", "working")}))
        }
        "tasks/get" if seen.is_secret.load(Ordering::SeqCst) => {
            seen.polls.fetch_add(1, Ordering::SeqCst);
            return StatusCode::NOT_FOUND.into_response();
        }
        "tasks/cancel" => {
            seen.cancellations.fetch_add(1, Ordering::SeqCst);
            result(task("t-1", "cancelled"))
        }
        "tasks/get" => match seen.polls.fetch_add(1, Ordering::SeqCst) % 12 {
            0 | 1 => json!({"error": {"code": -32603, "message": "the store is away"}}),
            2 | 3 => result(json!("nonsense")),
            4 | 5 => result(task("t-2", "completed")),
            6 => return StatusCode::NOT_FOUND.into_response(),
            7 => return StatusCode::FORBIDDEN.into_response(),
            8 => return StatusCode::BAD_REQUEST.into_response(),
            9 => return StatusCode::METHOD_NOT_ALLOWED.into_response(),
            _ => result(task("t-1", "completed")),
        },
        "tasks/result" => result(json!({"content": [{"type": "text", "text": "done"}]})),
        "ping" => result(json!({})),
        _ => json!({"error": {"code": -32601, "message": "Method not found"}}),
    };
    let mut response = json!({"jsonrpc": "2.0", "id": request["id"]});
    let members = response.as_object_mut().unwrap();
    members.extend(answer.as_object().unwrap().clone());
    Json(response).into_response()
}

/// The task goes on there, and is not made again.
#[tokio::test]
async fn bad_answers_about_a_task_do_not_end_it() {
    let seen = Seen::default();
    let mut options = with_every_call_a_task(seen.serve().await);
    options.rules[0].retry = Some(Retry {
        attempts: 3,
        backoff: 10,
        on: vec![RetryOn::Error],
    });
    let directory = tempfile::tempdir().unwrap();
    let gateway = RunningGateway::start_bare(directory.path(), vec![options]).await;
    let client = Client::connect(&gateway.url, Tasks::Modern);
    let task = client.task("work", json!({})).await;
    let outcome = end(&task).await;
    assert!(success(&outcome).contains("done"), "{outcome:?}");
    let expected = Some("upstream `up` says again how its task stands");
    assert_eq!(task.get().await.unwrap().message.as_deref(), expected);
    assert!(seen.polls.load(Ordering::SeqCst) >= 11);
    assert_eq!(seen.calls.load(Ordering::SeqCst), 1);
    gateway.stop().await;
}

/// Most of the time it waits before it asks again.
#[tokio::test]
async fn a_task_of_which_nothing_is_told_is_cancelled_at_its_upstream() {
    let seen = Seen::default();
    seen.is_secret.store(true, Ordering::SeqCst);
    let directory = tempfile::tempdir().unwrap();
    let options = with_every_call_a_task(seen.serve().await);
    let gateway = RunningGateway::start_bare(directory.path(), vec![options]).await;
    let client = Client::connect(&gateway.url, Tasks::Modern);
    let task = client.task("work", json!({})).await;
    says(&task, "that nothing is told", |message| message.contains("404")).await;
    task.cancel().await.unwrap();
    let outcome = end(&task).await;
    assert_eq!(outcome, Outcome::Cancelled);
    let told = guarded("the task", task.get()).await.unwrap().message;
    let expected = Some("upstream `up` was asked to cancel its task, which may go on");
    assert_eq!(told.as_deref(), expected);
    assert_eq!(seen.cancellations.load(Ordering::SeqCst), 1);
    gateway.stop().await;
}

fn job() -> JobTools {
    serde_json::from_value(json!({
        "name": "job", "submit": "submit", "status": "status", "id": "/id", "id_argument": "id",
        "state": "/state", "done": ["done"], "failed": ["failed"], "poll": 20,
    }))
    .unwrap()
}

/// A proxy may answer so while it is set up, and the job goes on. The status says why nothing is known.
#[tokio::test]
async fn a_job_of_which_nothing_is_told_is_asked_about_again() {
    let seen = Seen::default();
    seen.is_secret.store(true, Ordering::SeqCst);
    seen.is_done.store(true, Ordering::SeqCst);
    // The first submission is refused for half a minute.
    seen.calls.store(1, Ordering::SeqCst);
    let options = UpstreamOptions {
        jobs: vec![job()],
        ..with_every_call_a_task(seen.serve().await)
    };
    let directory = tempfile::tempdir().unwrap();
    let gateway = RunningGateway::start_bare(directory.path(), vec![options]).await;
    let client = Client::connect(&gateway.url, Tasks::Modern);
    let task = client.task("job", json!({})).await;
    for status in ["403", "404"] {
        let why = "the state of the job is asked again";
        let why = format!("upstream `up`: the server answered with HTTP status {status}; {why}");
        says(&task, status, |message| message == why.as_str()).await;
    }
    until("eight refusals", || seen.polls.load(Ordering::SeqCst) >= 8).await;
    seen.is_secret.store(false, Ordering::SeqCst);
    let outcome = end(&task).await;
    success(&outcome);
    assert_eq!(task.get().await.unwrap().message.as_deref(), Some("done"));
    gateway.stop().await;
}

/// Who replaces a key replaces it for what runs, too.
#[tokio::test]
async fn a_job_goes_on_with_the_headers_of_a_later_configuration() {
    let seen = Seen::default();
    // The first submission is refused for half a minute.
    seen.calls.store(1, Ordering::SeqCst);
    let options = UpstreamOptions {
        jobs: vec![job()],
        ..with_every_call_a_task(seen.serve().await)
    };
    let directory = tempfile::tempdir().unwrap();
    let gateway = RunningGateway::start_bare(directory.path(), vec![options.clone()]).await;
    let client = Client::connect(&gateway.url, Tasks::Modern);
    let task = client.task("job", json!({})).await;
    let says = async |part: &str| {
        says(&task, part, |message| message.contains(part)).await;
    };
    says("running").await;
    let mut later = options;
    for key in ["second", "third"] {
        *seen.key.lock().unwrap() = Some(key);
        says("HTTP status 401").await;
        let Target::Http { headers, .. } = &mut later.target else {
            unreachable!()
        };
        headers.insert("x-key", HeaderValue::from_static(key));
        gateway.reload_bare(vec![later.clone()]).await.unwrap();
        says("running").await;
    }
    seen.is_done.store(true, Ordering::SeqCst);
    let outcome = end(&task).await;
    success(&outcome);
    assert_eq!(seen.calls.load(Ordering::SeqCst), 2, "it was submitted once");
    gateway.stop().await;
}

/// Each process knows how it stands: it was refused, it was submitted, it is done.
#[tokio::test]
async fn a_job_that_was_refused_at_first_is_submitted_once_over_restarts() {
    let seen = Seen::default();
    let options = UpstreamOptions {
        jobs: vec![job()],
        ..with_every_call_a_task(seen.serve().await)
    };
    let directory = tempfile::tempdir().unwrap();
    let start = async || RunningGateway::start_bare(directory.path(), vec![options.clone()]).await;
    let says = async |gateway: &RunningGateway, id: &str, status: &str| {
        let task = Client::connect(&gateway.url, Tasks::Modern).connection.task(id);
        says(&task, status, |message| message.starts_with(status)).await;
    };
    let gateway = start().await;
    let client = Client::connect(&gateway.url, Tasks::Modern);
    let task = client.task("job", json!({})).await;
    says(&gateway, task.id(), "waiting for upstream").await;
    gateway.stop().await;
    let gateway = start().await;
    says(&gateway, task.id(), "running").await;
    gateway.stop().await;
    seen.is_done.store(true, Ordering::SeqCst);
    let gateway = start().await;
    let task = Client::connect(&gateway.url, Tasks::Modern).connection.task(task.id());
    let outcome = end(&task).await;
    success(&outcome);
    assert_eq!(seen.calls.load(Ordering::SeqCst), 2, "refused, and accepted");
    gateway.stop().await;
}
