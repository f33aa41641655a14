//! A server that the gateway is in front of. A test lets its work go on.

use crate::world::{at_url, until};
use longhaul::{
    Error, HttpListener, Prompt, Resource, Server, ServerHandle, TaskContext, TaskPolicy, Tool, ToolOutput, ToolResult,
};
use longhaul_client::EraChoice;
use longhaul_core::LogLevel;
use longhaul_gateway::UpstreamOptions;
use serde_json::{Value, json};
use std::{
    fs::OpenOptions,
    io::Write as _,
    path::{Path, PathBuf},
};
use tempfile::TempDir;
use tokio::sync::oneshot;

/// What an upstream tells the model.
pub(crate) const INSTRUCTIONS: &str = "Do not call `hold` lightly.";

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

/// What the tools of an upstream have done, and what lets them end: files, since it may be another process.
#[derive(Debug, Clone)]
pub(crate) struct Work(PathBuf);

impl Work {
    pub(crate) fn new(folder: &Path) -> Self {
        Self(folder.to_owned())
    }

    fn note(&self, what: &str) {
        let file = OpenOptions::new().create(true).append(true).open(self.0.join(what));
        file.unwrap().write_all(b"x").unwrap();
    }

    fn count(&self, what: &str) -> usize {
        std::fs::metadata(self.0.join(what)).map_or(0, |file| file.len() as usize)
    }

    fn note_process(&self) {
        std::fs::write(self.0.join("process"), std::process::id().to_string()).unwrap();
    }

    /// The process that has last begun.
    pub(crate) fn process(&self) -> String {
        std::fs::read_to_string(self.0.join("process")).unwrap()
    }

    /// How often `hold` and `repeat` have begun.
    pub(crate) fn begun(&self) -> usize {
        self.count("begun")
    }

    /// Lets one `hold` end.
    pub(crate) fn release(&self) {
        self.note("released");
    }

    /// How many may end that have not.
    pub(crate) fn unused(&self) -> usize {
        self.count("released").saturating_sub(self.count("ended"))
    }

    pub(crate) async fn has_begun(&self, times: usize) {
        until("the work to begin", || self.begun() >= times).await;
    }

    pub(crate) async fn was_cancelled(&self, times: usize) {
        until("the cancellation", || self.cancelled() >= times).await;
    }

    /// How often they were cancelled.
    pub(crate) fn cancelled(&self) -> usize {
        self.count("cancelled")
    }
}

/// A running upstream.
pub(crate) struct Upstream {
    pub(crate) url: String,
    pub(crate) tasks: Tasks,
    pub(crate) work: Work,
    pub(crate) server: ServerHandle,
    folder: TempDir,
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

/// Reports further progress, since nobody may have listened before, up to the end.
#[expect(clippy::disallowed_methods, reason = "the test is the outside world")]
async fn report_on(cx: &TaskContext) {
    for step in 1..1_000_u32 {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        // Whether the task is cancelled is asked elsewhere.
        let _ = cx.report(1.0 + f64::from(step) / 1_000.0, 2, "half").await;
    }
}

async fn hold(cx: TaskContext, work: Work) -> ToolResult {
    cx.report(1, 2, "half").await?;
    work.note_process();
    work.note("begun");
    let reporting = report_on(&cx);
    tokio::select! {
        () = reporting => panic!("its time is over"),
        () = until("the release", || work.unused() > 0) => {
            work.note("ended");
            Ok(ToolOutput::text("held"))
        }
        error = cx.cancelled() => {
            work.note("cancelled");
            Err(error.into())
        }
    }
}

async fn confirm(cx: TaskContext) -> ToolResult {
    let answer: Confirmation = cx.elicit("Really?").await?;
    Ok(ToolOutput::text(format!("confirmed: {}", answer.confirm)))
}

/// The server of an upstream.
pub(crate) fn server(tasks: Tasks, work: &Work) -> Server {
    let policy = match tasks {
        Tasks::None => TaskPolicy::Never,
        _ => TaskPolicy::Optional,
    };
    let holding = |idempotent: bool| {
        let work = work.clone();
        let name = if idempotent { "repeat" } else { "hold" };
        let tool = Tool::new(name, move |cx: TaskContext| hold(cx, work.clone())).task(policy);
        if idempotent { tool.idempotent() } else { tool }
    };
    Server::new("upstream", "1.0.0")
        .instructions(INSTRUCTIONS)
        .tool(Tool::new("talk", async |cx: TaskContext| -> ToolResult {
            cx.log(LogLevel::Debug, "a detail").await?;
            cx.log(LogLevel::Info, "the news").await?;
            Ok(ToolOutput::text("talked"))
        }))
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
        .resource(Resource::text("note://2", "second"))
}

impl Upstream {
    pub(crate) async fn start(tasks: Tasks) -> Self {
        Self::start_at("127.0.0.1:0", tasks).await
    }

    /// One of each generation.
    pub(crate) async fn of_both_eras() -> [Self; 2] {
        [Self::start(Tasks::Legacy).await, Self::start(Tasks::Modern).await]
    }

    /// Where another one was before.
    pub(crate) async fn start_at(address: &str, tasks: Tasks) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), address, tasks).await
    }

    async fn start_in(folder: TempDir, address: &str, tasks: Tasks) -> Self {
        let work = Work::new(folder.path());
        let server = server(tasks, &work);
        let server = server.start().await.unwrap();
        // Another socket may have the port for a moment.
        let listener: HttpListener = loop {
            match server.listen(address).await {
                Ok(listener) => break listener,
                Err(error) => assert!(error.to_string().contains("in use"), "{error}"),
            }
            tokio::task::yield_now().await;
        };
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
            server,
            folder,
            stop,
            stopped,
        }
    }

    /// Ends it; returns where it was.
    pub(crate) async fn stop(self) -> String {
        drop(self.stop);
        self.stopped.await.unwrap();
        self.server.stop().await;
        address_of(&self.url).to_owned()
    }

    /// As a gateway is configured with it.
    pub(crate) fn options(&self, name: &str) -> UpstreamOptions {
        UpstreamOptions {
            era: self.tasks.era(),
            ..UpstreamOptions::new(name, at_url(self.url.clone()))
        }
    }

    /// Ends it, and starts it where it was. It knows what its tools have done, and none of its tasks.
    pub(crate) async fn restarted(self) -> Self {
        drop(self.stop);
        self.stopped.await.unwrap();
        self.server.stop().await;
        Self::start_in(self.folder, address_of(&self.url), self.tasks).await
    }

    pub(crate) fn release(&self) {
        self.work.release();
    }

    pub(crate) async fn has_begun(&self, times: usize) {
        self.work.has_begun(times).await;
    }

    pub(crate) fn begun(&self) -> usize {
        self.work.begun()
    }
}

fn address_of(url: &str) -> &str {
    url.trim_start_matches("http://").trim_end_matches("/mcp")
}
