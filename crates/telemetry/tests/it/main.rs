//! A server, a caller with a trace of its own, and a collector that speaks OTLP.
#![allow(clippy::unwrap_used)]
#![expect(clippy::disallowed_methods, reason = "these tests run on the real runtime")]

mod collector;
mod metrics;

use collector::Collector;
use longhaul::{Era, Server, StepError, TaskContext, TaskPolicy, Tool, ToolResult, testing::Client};
use longhaul_telemetry::{CollectorSettings, Tracer};
use opentelemetry_proto::tonic::trace::v1::{Span, status::StatusCode};
use serde_json::{Value, json};
use std::{path::Path, time::Duration};
use tokio_util::sync::CancellationToken;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

async fn paused(cx: TaskContext) -> ToolResult<String> {
    let built: u32 = cx.step("build", || async { Ok::<_, StepError>(1) }).await?;
    let sure: Sure = cx.elicit("Really?").await?;
    let done: u32 = cx.step("deploy", || async { Ok::<_, StepError>(2) }).await?;
    Ok(format!("{built} {} {done}", sure.sure))
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Sure {
    sure: bool,
}

async fn parent(cx: TaskContext) -> ToolResult<String> {
    let child = cx.call("fails", json!({})).await;
    Ok(format!("{}", child.is_err()))
}

async fn fails() -> ToolResult<String> {
    Err("secret reason".into())
}

/// A server that sends its traces to `collector`.
struct Traced {
    server: longhaul::ServerHandle,
    client: Client,
    stop: CancellationToken,
    sending: tokio::task::JoinHandle<()>,
}

impl Traced {
    async fn start(directory: &Path, collector: &str) -> Self {
        let tracer = Tracer::new(CollectorSettings {
            endpoint: collector.to_owned(),
            service: "traced".to_owned(),
            version: "1.0.0".to_owned(),
        })
        .unwrap();
        let server = Server::new("traced", "1.0.0")
            .data_dir(directory)
            .tool(Tool::durable("paused", paused).task(TaskPolicy::Always))
            .tool(Tool::durable("parent", parent).task(TaskPolicy::Always))
            .tool(Tool::new("fails", fails))
            .suspend_after(Duration::ZERO)
            .wrap_engine_store(tracer.noting())
            .start()
            .await
            .unwrap();
        let stop = CancellationToken::new();
        let sending = tokio::spawn(tracer.run(server.engine().unwrap(), stop.clone()));
        let client = Client::connect(&server, Era::Modern)
            .declaring(json!({"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}))
            .await
            .unwrap();
        Self {
            server,
            client,
            stop,
            sending,
        }
    }

    /// Calls a tool as a task, within the caller's trace. Returns its id.
    async fn call(&self, tool: &str, flags: &str) -> String {
        let trace = format!("00-{TRACE}-{CALLER}-{flags}");
        let params = json!({"name": tool, "arguments": {}, "_meta": {"traceparent": trace}});
        let created = self.client.request("tools/call", params).await.unwrap();
        created["taskId"]
            .as_str()
            .unwrap_or_else(|| panic!("{created}"))
            .to_owned()
    }

    async fn until(&self, id: &str, is_met: impl Fn(&Value) -> bool) -> Value {
        loop {
            let task = self.client.request("tasks/get", json!({"taskId": id})).await.unwrap();
            if is_met(&task) {
                return task;
            }
            tokio::task::yield_now().await;
        }
    }

    async fn stop(self) {
        self.stop.cancel();
        self.sending.await.unwrap();
        self.server.stop().await;
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn named<'a>(spans: &'a [Span], name: &str) -> Vec<&'a Span> {
    spans.iter().filter(|span| span.name == name).collect()
}

/// The task waits for an answer, its server ends, the next one goes on: one trace, with the attempts of both.
#[tokio::test]
async fn a_task_is_one_trace_over_a_restart() {
    let (collector, directory) = (Collector::start().await, tempfile::tempdir().unwrap());
    let first = Traced::start(directory.path(), &collector.url).await;
    let id = first.call("paused", "01").await;
    let asked = first.until(&id, |task| task["status"] == "input_required").await;
    let key = asked["inputRequests"]
        .as_object()
        .unwrap()
        .keys()
        .next()
        .unwrap()
        .clone();
    collector.until(|spans| !named(spans, "attempt 1").is_empty()).await;
    first.stop().await;

    let second = Traced::start(directory.path(), &collector.url).await;
    let answer = json!({"action": "accept", "content": {"sure": true}});
    let update = json!({"taskId": id, "inputResponses": {key: answer}});
    second.client.request("tasks/update", update).await.unwrap();
    second.until(&id, |task| task["status"] == "completed").await;
    let spans = collector
        .until(|spans| !named(spans, "tools/call paused").is_empty())
        .await;
    second.stop().await;

    let [task] = named(&spans, "tools/call paused")[..] else {
        panic!("{spans:#?}")
    };
    assert!(spans.iter().all(|span| hex(&span.trace_id) == TRACE));
    assert_eq!(hex(&task.parent_span_id), CALLER);
    let attempts: Vec<&Span> = spans.iter().filter(|span| span.name.starts_with("attempt ")).collect();
    assert!(attempts.len() >= 2, "{attempts:#?}");
    assert!(attempts.iter().all(|attempt| attempt.parent_span_id == task.span_id));
    let above = |name: &str| {
        let [operation] = named(&spans, name)[..] else {
            panic!("{name}: {spans:#?}")
        };
        let attempt = attempts
            .iter()
            .find(|attempt| attempt.span_id == operation.parent_span_id);
        attempt
            .unwrap_or_else(|| panic!("{name} is below no attempt: {spans:#?}"))
            .name
            .clone()
    };
    assert_eq!(above("step \"build\""), "attempt 1");
    assert_ne!(above("step \"deploy\""), "attempt 1");
    assert!(task.start_time_unix_nano <= attempts[0].start_time_unix_nano);
    assert_eq!(collector.services(), ["traced"]);
}

#[tokio::test]
async fn a_child_is_below_the_entry_that_started_it_and_says_nothing_secret() {
    let (collector, directory) = (Collector::start().await, tempfile::tempdir().unwrap());
    let traced = Traced::start(directory.path(), &collector.url).await;
    let id = traced.call("parent", "01").await;
    traced.until(&id, |task| task["status"] == "completed").await;
    let spans = collector
        .until(|spans| !named(spans, "tools/call parent").is_empty())
        .await;
    traced.stop().await;
    let [child] = named(&spans, "tools/call fails")[..] else {
        panic!("{spans:#?}")
    };
    assert_eq!(child.status.as_ref().unwrap().code(), StatusCode::Error);
    let above = spans.iter().find(|span| span.span_id == child.parent_span_id);
    assert!(above.unwrap().name.starts_with("child "), "{above:?}");
    let all = format!("{spans:?}");
    assert!(!all.contains(&id) && !all.contains("secret"), "{all}");
}

#[tokio::test]
async fn a_caller_whose_trace_is_not_recorded_has_no_spans_here() {
    let (collector, directory) = (Collector::start().await, tempfile::tempdir().unwrap());
    let traced = Traced::start(directory.path(), &collector.url).await;
    let unrecorded = traced.call("parent", "00").await;
    traced.until(&unrecorded, |task| task["status"] == "completed").await;
    let recorded = traced.call("parent", "01").await;
    traced.until(&recorded, |task| task["status"] == "completed").await;
    let spans = collector
        .until(|spans| !named(spans, "tools/call parent").is_empty())
        .await;
    traced.stop().await;
    assert_eq!(named(&spans, "tools/call parent").len(), 1);
}

/// Nothing waits for a collector that is not there.
#[tokio::test]
async fn without_a_collector_everything_else_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let traced = Traced::start(directory.path(), "http://127.0.0.1:9").await;
    let id = traced.call("parent", "01").await;
    traced.until(&id, |task| task["status"] == "completed").await;
    traced.stop().await;
}
