//! Tools that do what a test tells them, and tell what was done to them.

use longhaul_core::{BoxFuture, Json, Outcome, Retry, RpcFailure, StopReason, TaskId, TaskPolicy, text_result};
use longhaul_runtime::{
    Catalog, End, Executor, LogChunk, LogError, LogRange, Provider, TaskContext, Tool, ToolSettings,
};
use longhaul_upstream::in_process::{self, function};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::watch;

/// What the tools share with the test. Counters only rise, so a test can wait for one.
#[derive(Clone)]
pub(crate) struct Stage {
    pub(crate) begun: Counter,
    pub(crate) stopped: Counter,
    pub(crate) finished: Counter,
    /// How many waiting acts may end.
    pub(crate) released: Counter,
}

#[derive(Clone)]
pub(crate) struct Counter(Arc<watch::Sender<usize>>);

impl Counter {
    fn new() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }

    pub(crate) fn count(&self) -> usize {
        self.0.send_modify(|count| *count += 1);
        self.get()
    }

    pub(crate) fn get(&self) -> usize {
        *self.0.borrow()
    }

    /// Completes when it has reached `least`.
    pub(crate) async fn reaches(&self, least: usize) {
        self.0.subscribe().wait_for(|count| *count >= least).await.unwrap();
    }
}

/// The tools: one for each row of the table in design section 7, and one that is promoted at once.
pub(crate) const TOOLS: [(&str, TaskPolicy); 5] = [
    ("never", TaskPolicy::Never),
    ("optional", TaskPolicy::Optional),
    ("always", TaskPolicy::Always),
    ("after_an_hour", TaskPolicy::After(3_600_000)),
    ("after_a_moment", TaskPolicy::After(1)),
];

impl Stage {
    pub(crate) fn new() -> Self {
        Self {
            begun: Counter::new(),
            stopped: Counter::new(),
            finished: Counter::new(),
            released: Counter::new(),
        }
    }

    pub(crate) fn catalog(&self) -> Catalog {
        Catalog::new(TOOLS.map(|(name, policy)| Tool::new(self.settings(name, policy)).unwrap())).unwrap()
    }

    fn settings(&self, name: &str, policy: TaskPolicy) -> ToolSettings {
        ToolSettings {
            name: name.into(),
            description: format!("Does what it is told; {policy:?} a task"),
            input_schema: json!({
                "type": "object",
                "properties": {"act": {"type": "string"}},
                "required": ["act"],
            }),
            output_schema: None,
            annotations: Some(json!({"readOnlyHint": true})),
            policy,
            deadline: None,
            queue_timeout: None,
            retention: 3_600_000,
            concurrency: None,
            retry: Retry::default(),
            kind: in_process::KIND.into(),
            definition: Json::trusted("{}"),
            executor: self.executor(),
        }
    }

    fn executor(&self) -> Arc<dyn Executor> {
        let stage = self.clone();
        function(move |arguments, cx| {
            let stage = stage.clone();
            async move {
                let arguments: Value = serde_json::from_str(arguments.as_str()).unwrap();
                stage.begun.count();
                let end = stage.play(&arguments, &cx).await;
                let counter = if matches!(end, End::Stopped(_)) {
                    &stage.stopped
                } else {
                    &stage.finished
                };
                counter.count();
                end
            }
        })
    }

    async fn play(&self, arguments: &Value, cx: &TaskContext) -> End {
        let (act, rest) = arguments["act"]
            .as_str()
            .unwrap()
            .split_once(' ')
            .unwrap_or((arguments["act"].as_str().unwrap(), ""));
        match act {
            "say" => said("done"),
            "wait" => self.wait(cx).await,
            "refuse" => End::Finished(Outcome::tool_error("no")),
            "break" => End::Finished(Outcome::RpcError(RpcFailure {
                code: -32002,
                message: "broken".into(),
                data: None,
            })),
            "blob" => said(&"x".repeat(rest.parse().unwrap())),
            "ask" => match cx.ask(question()).await {
                Ok(answer) => said(answer.as_str()),
                Err(error) => End::Finished(Outcome::tool_error(&error.to_string())),
            },
            // Each figure waits for the test, which waits for its notification.
            "report" => {
                for (nth, figure) in rest.split(' ').enumerate() {
                    cx.progress(figure.parse().unwrap(), Some(10.0));
                    if let Some(reason) = self.released_or_stopped(nth + 1, cx).await {
                        return End::Stopped(reason);
                    }
                }
                said("done")
            }
            other => panic!("no such act: {other}"),
        }
    }

    async fn wait(&self, cx: &TaskContext) -> End {
        match self.released_or_stopped(1, cx).await {
            Some(reason) => End::Stopped(reason),
            None => said("done"),
        }
    }

    async fn released_or_stopped(&self, nth: usize, cx: &TaskContext) -> Option<StopReason> {
        tokio::select! {
            () = self.released.reaches(nth) => None,
            reason = cx.stopped() => Some(reason),
        }
    }
}

fn said(text: &str) -> End {
    End::Finished(Outcome::result(text_result(text, false)))
}

fn question() -> Json {
    Json::from(json!({
        "method": "elicitation/create",
        "params": {
            "mode": "form",
            "message": "Sure?",
            "requestedSchema": {"type": "object", "properties": {"sure": {"type": "boolean"}}},
        },
    }))
}

/// A log for every task that has begun: ten bytes.
pub(crate) struct Logs;

pub(crate) const LOG: &str = "0123456789";

impl Provider for Logs {
    fn kind(&self) -> &'static str {
        in_process::KIND
    }

    fn revive(&self, _definition: &Json) -> Result<Arc<dyn Executor>, String> {
        Err("a closure cannot be revived".to_owned())
    }

    fn read_log(&self, _: &TaskId, _: u32, range: LogRange) -> BoxFuture<'_, Result<Option<LogChunk>, LogError>> {
        let total = LOG.len();
        let from = (range.offset.unwrap_or(0) as usize).min(total);
        let to = range.limit.map_or(total, |limit| (from + limit as usize).min(total));
        Box::pin(async move {
            Ok(Some(LogChunk {
                text: LOG[from..to].to_owned(),
                offset: from as u64,
                next: to as u64,
                total: total as u64,
            }))
        })
    }
}
