//! A server that the gateway is in front of. A test lets its work go on.

use longhaul::{
    Error, HttpListener, Prompt, Resource, Server, ServerHandle, TaskContext, TaskPolicy, Tool, ToolOutput, ToolResult,
};
use longhaul_client::EraChoice;
use longhaul_gateway::{Target, UpstreamOptions};
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use tokio::sync::{Semaphore, oneshot};

/// What a side of the gateway speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tasks {
    /// Tasks of 2025-11-25.
    Legacy,
    /// Tasks of 2026-07-28.
    Modern,
    /// None.
    None,
}

impl Tasks {
    pub(crate) const ALL: [Self; 3] = [Self::Legacy, Self::Modern, Self::None];

    pub(crate) fn era(self) -> EraChoice {
        match self {
            Self::Modern => EraChoice::Modern,
            Self::Legacy | Self::None => EraChoice::Legacy,
        }
    }
}

/// What the tools of an upstream have done.
#[derive(Default)]
pub(crate) struct Work {
    /// How often `hold` and `repeat` have begun.
    pub(crate) begun: AtomicUsize,
    /// How often they were cancelled.
    pub(crate) cancelled: AtomicUsize,
}

/// A running upstream.
pub(crate) struct Upstream {
    pub(crate) url: String,
    pub(crate) tasks: Tasks,
    pub(crate) work: Arc<Work>,
    /// A permit lets one `hold` end.
    pub(crate) gate: Arc<Semaphore>,
    pub(crate) server: ServerHandle,
    stop: oneshot::Sender<()>,
    stopped: tokio::task::JoinHandle<()>,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Confirmation {
    confirm: bool,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Size {
    bytes: usize,
}

async fn hold(cx: TaskContext, work: Arc<Work>, gate: Arc<Semaphore>) -> ToolResult {
    cx.report(1, 2, "half").await?;
    work.begun.fetch_add(1, Ordering::SeqCst);
    tokio::select! {
        permit = gate.acquire() => {
            permit.unwrap().forget();
            Ok(ToolOutput::text("held"))
        }
        error = cx.cancelled() => {
            work.cancelled.fetch_add(1, Ordering::SeqCst);
            Err(error.into())
        }
    }
}

async fn confirm(cx: TaskContext) -> ToolResult {
    let answer: Confirmation = cx.elicit("Really?").await?;
    Ok(ToolOutput::text(format!("confirmed: {}", answer.confirm)))
}

impl Upstream {
    pub(crate) async fn start(tasks: Tasks) -> Self {
        Self::start_at("127.0.0.1:0", tasks).await
    }

    /// Where another one was before.
    pub(crate) async fn start_at(address: &str, tasks: Tasks) -> Self {
        let (work, gate) = (Arc::new(Work::default()), Arc::new(Semaphore::new(0)));
        let policy = match tasks {
            Tasks::None => TaskPolicy::Never,
            _ => TaskPolicy::Optional,
        };
        let holding = |idempotent: bool| {
            let (work, gate) = (Arc::clone(&work), Arc::clone(&gate));
            let name = if idempotent { "repeat" } else { "hold" };
            let tool = Tool::new(name, move |cx: TaskContext| {
                hold(cx, Arc::clone(&work), Arc::clone(&gate))
            })
            .task(policy);
            if idempotent { tool.idempotent() } else { tool }
        };
        let server = Server::new("upstream", "1.0.0")
            .tool(holding(false))
            .tool(holding(true))
            .tool(Tool::new("confirm", confirm).task(policy))
            .tool(
                Tool::new("echo", async |arguments: Value| {
                    ToolOutput::json(&json!({"echo": arguments})).unwrap()
                })
                .input_schema(json!({"type": "object"}))
                .task(policy),
            )
            .tool(Tool::new("fail", async || Err::<String, _>(Error::new("it did not work"))).task(policy))
            .tool(Tool::new("large", async |size: Size| ToolOutput::text("x".repeat(size.bytes))).task(policy))
            .prompt(Prompt::new("greet", async || "Hello!").description("Greets"))
            .resource(Resource::text("note://1", "first"))
            .resource(Resource::text("note://2", "second"));
        let server = server.start().await.unwrap();
        let listener: HttpListener = server.listen(address).await.unwrap();
        let url = listener.url();
        let (stop, stopped) = oneshot::channel();
        #[expect(clippy::disallowed_methods, reason = "the test is the outside world")]
        let stopped = tokio::spawn(async move {
            let serving = listener.serve_until(async move {
                let _: Result<(), _> = stopped.await;
            });
            serving.await;
        });
        Self {
            url,
            tasks,
            work,
            gate,
            server,
            stop,
            stopped,
        }
    }

    /// Ends it; returns where it was.
    pub(crate) async fn stop(self) -> String {
        drop(self.stop);
        self.stopped.await.unwrap();
        self.server.stop().await;
        self.url
            .trim_start_matches("http://")
            .trim_end_matches("/mcp")
            .to_owned()
    }

    /// As a gateway is configured with it.
    pub(crate) fn options(&self, name: &str) -> UpstreamOptions {
        let target = Target::Http {
            url: self.url.clone(),
            headers: http::HeaderMap::new(),
            tokens: None,
        };
        UpstreamOptions {
            era: self.tasks.era(),
            ..UpstreamOptions::new(name, target)
        }
    }

    /// Lets one `hold` end.
    pub(crate) fn release(&self) {
        self.gate.add_permits(1);
    }

    pub(crate) async fn has_begun(&self, times: usize) {
        super::world::until("the work to begin", || self.work.begun.load(Ordering::SeqCst) >= times).await;
    }

    pub(crate) async fn was_cancelled(&self, times: usize) {
        super::world::until("the cancellation", || {
            self.work.cancelled.load(Ordering::SeqCst) >= times
        })
        .await;
    }

    pub(crate) fn begun(&self) -> usize {
        self.work.begun.load(Ordering::SeqCst)
    }
}
