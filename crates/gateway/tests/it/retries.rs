//! Calls that fail so that nobody knows whether they have run, and how often they are made again.

use crate::{
    client::{Called, Client, end, failure, says, success},
    upstream::Tasks,
    world::{RunningGateway, at_url, guarded},
};
use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{Method, Response},
    routing::any,
};
use longhaul_client::{ChildOptions, Event, Outcome, RequestError};
use longhaul_core::{Retry, RetryOn, TaskPolicy};
use longhaul_gateway::{Target, ToolRule, UpstreamOptions};
use serde_json::{Value, json};
use std::{
    fs,
    sync::{Arc, Mutex},
};

/// An upstream whose first calls fail: a child dies in the middle of them, a server over HTTP answers with status 503, behind which the tool may have run.
enum Failing {
    Child { folder: tempfile::TempDir, failures: usize },
    Http { url: String, calls: Arc<Mutex<usize>> },
}

impl Failing {
    fn child(failures: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::Child { folder, failures }
    }

    #[expect(clippy::disallowed_methods, reason = "the test is the outside world")]
    async fn http(failures: usize) -> Self {
        let calls = Arc::<Mutex<usize>>::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let router = Router::new()
            .fallback(any(serve))
            .with_state((failures, Arc::clone(&calls)));
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self::Http { url, calls }
    }

    fn options(&self, retry: Option<Retry>, task: TaskPolicy) -> UpstreamOptions {
        let target = match self {
            Self::Child { folder, failures } => {
                let mut child = ChildOptions::new("sh", ["-c", include_str!("retries.sh")]);
                let calls = folder.path().join("calls").display().to_string();
                child.env = vec![("CALLS".into(), calls), ("FAILURES".into(), failures.to_string())];
                Target::Command(child)
            }
            Self::Http { url, .. } => at_url(url.clone()),
        };
        let mut every_tool = ToolRule::new("*".parse().unwrap());
        (every_tool.task, every_tool.retry) = (Some(task), retry);
        UpstreamOptions {
            rules: vec![every_tool],
            ..UpstreamOptions::new("up", target)
        }
    }

    fn calls(&self) -> usize {
        match self {
            Self::Child { folder, .. } => {
                let calls = fs::read_to_string(folder.path().join("calls")).unwrap_or_default();
                calls.lines().count()
            }
            Self::Http { calls, .. } => *calls.lock().unwrap(),
        }
    }
}

async fn serve(
    State((failures, calls)): State<(usize, Arc<Mutex<usize>>)>,
    verb: Method,
    body: Bytes,
) -> Response<Body> {
    let empty = |status: u16| Response::builder().status(status).body(Body::empty()).unwrap();
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    if verb != "POST" {
        return empty(405);
    }
    if request["id"].is_null() {
        return empty(202);
    }
    let answer = match request["method"].as_str().unwrap_or_default() {
        "initialize" => json!({"result": {
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "fails", "version": "1"},
        }}),
        "ping" => json!({"result": {}}),
        "tools/list" => json!({"result": {"tools": [
            {"name": "repeat", "inputSchema": {"type": "object"}, "annotations": {"idempotentHint": true}},
            {"name": "once", "inputSchema": {"type": "object"}},
            {"name": "limited", "inputSchema": {"type": "object"}},
            {"name": "busy", "inputSchema": {"type": "object"}},
            {"name": "later", "inputSchema": {"type": "object"}},
        ]}}),
        "tools/call" => {
            let mut calls = calls.lock().unwrap();
            *calls += 1;
            if request["params"]["name"] == "limited" {
                let refused = Response::builder().status(429).header("retry-after", "1800");
                return refused.body(Body::empty()).unwrap();
            }
            let after = match request["params"]["name"].as_str() {
                Some("busy") => "0",
                Some("later") => "30",
                _ => "",
            };
            if *calls <= failures && !after.is_empty() {
                let refused = Response::builder().status(429).header("retry-after", after);
                return refused.body(Body::empty()).unwrap();
            }
            if *calls <= failures {
                return empty(503);
            }
            json!({"result": {"content": [{"type": "text", "text": "done"}]}})
        }
        _ => json!({"error": {"code": -32601, "message": "scripted"}}),
    };
    let mut response = json!({"jsonrpc": "2.0", "id": request["id"]});
    let members = response.as_object_mut().unwrap();
    members.extend(answer.as_object().unwrap().clone());
    let built = Response::builder().header("content-type", "application/json");
    built.body(Body::from(response.to_string())).unwrap()
}

/// Three calls at most.
fn three_calls() -> Option<Retry> {
    Some(Retry {
        attempts: 3,
        backoff: 10,
        on: vec![RetryOn::Crash],
    })
}

/// What a call of the tool comes to, and how often the upstream was called.
async fn call(upstream: &Failing, retry: Option<Retry>, task: TaskPolicy, tool: &str) -> (Outcome, usize) {
    let (outcome, _) = call_and_asked(upstream, retry, task, tool).await;
    (outcome, upstream.calls())
}

/// What a call of the tool comes to, and what its client was asked.
async fn call_and_asked(
    upstream: &Failing,
    retry: Option<Retry>,
    task: TaskPolicy,
    tool: &str,
) -> (Outcome, Vec<String>) {
    let directory = tempfile::tempdir().unwrap();
    let gateway = RunningGateway::start_bare(directory.path(), vec![upstream.options(retry, task)]).await;
    let client = Client::connect(&gateway.url, Tasks::Modern);
    let outcome = match client.start(tool, json!({})).await {
        Ok(Called::Task(task)) => end(&task).await,
        Ok(Called::Done(outcome)) => outcome,
        Err(RequestError::Rpc(failure)) => Outcome::RpcError(failure),
        Err(error) => panic!("{error}"),
    };
    gateway.stop().await;
    let asked = client.asked.lock().unwrap().clone();
    (outcome, asked)
}

async fn failing(failures: usize) -> [Failing; 2] {
    [Failing::http(failures).await, Failing::child(failures)]
}

fn assert_done(outcome: &Outcome) {
    assert!(success(outcome).contains("done"), "{outcome:?}");
}

fn assert_unknown(outcome: &Outcome, tool: &str) {
    let failure = failure(outcome);
    let expected = format!("it is not known whether `{tool}` has run on upstream `up`");
    assert!(failure.message.contains(&expected), "{failure:?}");
}

const POLICIES: [TaskPolicy; 2] = [TaskPolicy::Optional, TaskPolicy::Never];

/// The model learns when to come back, in place of a call that waits.
#[tokio::test]
async fn a_call_that_is_refused_for_long_fails_at_once() {
    for task in POLICIES {
        let upstream = Failing::http(0).await;
        let (outcome, calls) = call(&upstream, None, task, "limited").await;
        let told = format!("{outcome:?}");
        assert!(told.contains("asks to be called again in 30m"), "{told}");
        assert_eq!(calls, 1);
    }
}

/// A call that was refused may be refused again, so its status does not say that it waits no more.
#[tokio::test]
async fn the_status_of_a_call_that_is_sent_again_says_so() {
    let upstream = Failing::http(2).await;
    let directory = tempfile::tempdir().unwrap();
    let options = upstream.options(None, TaskPolicy::Always);
    let gateway = RunningGateway::start_bare(directory.path(), vec![options]).await;
    let client = Client::connect(&gateway.url, Tasks::Modern);
    let task = client.task("busy", json!({})).await;
    let mut statuses = Vec::new();
    let noted = &mut |event: Event<'_>| {
        if let Event::Status(task) = event {
            statuses.extend(task.message.clone());
        }
    };
    assert_done(&guarded("the end", task.wait(noted)).await.unwrap());
    assert_eq!(upstream.calls(), 3);
    let last = statuses.last().map(String::as_str);
    assert_eq!(last, Some("sent to upstream `up` again"), "{statuses:?}");
    gateway.stop().await;
}

/// Nobody is in doubt whether it has run.
#[tokio::test]
async fn a_call_that_was_refused_before_a_restart_is_sent_once_after_it() {
    let upstream = Failing::http(1).await;
    let directory = tempfile::tempdir().unwrap();
    let options = upstream.options(None, TaskPolicy::Always);
    let gateway = RunningGateway::start_bare(directory.path(), vec![options.clone()]).await;
    let client = Client::connect(&gateway.url, Tasks::Modern);
    let task = client.task("later", json!({})).await;
    says(&task, "the refusal", |message| {
        message.starts_with("waiting for upstream")
    })
    .await;
    gateway.stop().await;
    let gateway = RunningGateway::start_bare(directory.path(), vec![options]).await;
    let client = Client::connect(&gateway.url, Tasks::Modern);
    let task = client.connection.task(task.id());
    assert_done(&end(&task).await);
    assert_eq!(upstream.calls(), 2);
    gateway.stop().await;
}

#[tokio::test]
async fn an_idempotent_call_is_made_again_until_it_succeeds() {
    for task in POLICIES {
        for upstream in failing(2).await {
            let (outcome, calls) = call(&upstream, three_calls(), task, "repeat").await;
            assert_done(&outcome);
            assert_eq!(calls, 3);
        }
    }
}

#[tokio::test]
async fn an_idempotent_call_is_made_as_often_as_its_policy_says() {
    for task in POLICIES {
        for upstream in failing(10).await {
            let (outcome, calls) = call(&upstream, three_calls(), task, "repeat").await;
            assert_unknown(&outcome, "repeat");
            assert_eq!(calls, 3);
        }
    }
    // A policy that does not name crashes allows none.
    let only_errors = three_calls().map(|retry| Retry {
        on: vec![RetryOn::Error],
        ..retry
    });
    for upstream in failing(10).await {
        let (outcome, calls) = call(&upstream, only_errors.clone(), TaskPolicy::Optional, "repeat").await;
        assert_unknown(&outcome, "repeat");
        assert_eq!(calls, 1);
    }
}

#[tokio::test]
async fn a_call_that_is_not_idempotent_is_made_once_whatever_its_policy_says() {
    for task in POLICIES {
        for upstream in failing(10).await {
            let (outcome, calls) = call(&upstream, three_calls(), task, "once").await;
            assert_unknown(&outcome, "once");
            assert_eq!(calls, 1);
        }
    }
}

/// The tool has run.
#[tokio::test]
async fn a_call_whose_answer_cannot_be_read_is_made_once_whatever_its_policy_says() {
    let every_failure = three_calls().map(|retry| Retry {
        on: vec![RetryOn::Error, RetryOn::Crash],
        ..retry
    });
    for task in POLICIES {
        let upstream = Failing::child(0);
        let (outcome, calls) = call(&upstream, every_failure.clone(), task, "odd").await;
        let told = format!("{outcome:?}");
        let why = "upstream `up`: the server's response is invalid";
        assert!(told.contains(why), "{told}");
        assert_eq!(calls, 1);
    }
}

#[tokio::test]
async fn an_idempotent_call_is_made_again_without_a_policy() {
    for upstream in failing(1).await {
        let (outcome, calls) = call(&upstream, None, TaskPolicy::Optional, "repeat").await;
        assert_done(&outcome);
        assert_eq!(calls, 2);
    }
}

/// The upstream dies when it has asked. The client is asked once, and its answer goes to the call that is made again.
#[tokio::test]
async fn a_question_of_a_call_that_is_made_again_is_put_once() {
    for task in POLICIES {
        let upstream = Failing::child(1);
        let (outcome, asked) = call_and_asked(&upstream, three_calls(), task, "ask").await;
        assert_done(&outcome);
        assert_eq!((asked.len(), upstream.calls()), (1, 2), "{asked:?}");
    }
}
