//! Tools that a test controls, with counters of what happened to them.

use futures_util::future::try_join_all;
use longhaul_command::in_process::{self, function};
use longhaul_core::{
    BoxFuture, Capability, Json, LogLevel, Outcome, RpcFailure, StopReason, TaskId, TaskPolicy, text_result,
};
use longhaul_runtime::{
    Artifact, ArtifactChunk, ArtifactList, AskError, AttemptExit, Catalog, ExecutionEnd, Executor, ExecutorAttempt,
    HandlerError, Handoff, LogChunk, LogError, LogRange, MAX_ARTIFACT_READ, PastAttempt, Provider, Question,
    TaskContext, Tool, ToolSettings,
};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::watch;

/// What the tools share with the test. Counters only rise, so a test can wait for one.
#[derive(Clone, Default)]
pub(crate) struct Stage {
    pub(crate) begun: Counter,
    pub(crate) stopped: Counter,
    pub(crate) finished: Counter,
    /// How many acts wait after an answer.
    pub(crate) answered: Counter,
    /// How many waiting acts may end.
    pub(crate) released: Counter,
    /// How much the logs have grown.
    pub(crate) logged: Counter,
    /// Whether the commands that the acts simulate have ended.
    pub(crate) exited: Counter,
    /// How often their ends were read.
    pub(crate) exits_read: Counter,
}

#[derive(Clone, Default)]
pub(crate) struct Counter(Arc<watch::Sender<usize>>);

impl Counter {
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

/// The tools: one for each policy, and one that is promoted at once.
pub(crate) const TOOLS: [(&str, TaskPolicy); 5] = [
    ("never", TaskPolicy::Never),
    ("optional", TaskPolicy::Optional),
    ("always", TaskPolicy::Always),
    ("after_an_hour", TaskPolicy::After(3_600_000)),
    ("after_a_moment", TaskPolicy::After(1)),
];

/// What handlers of tests return.
pub(crate) type HandlerFuture<T> = BoxFuture<'static, Result<T, HandlerError>>;

/// A tool that hands off almost at once.
pub(crate) const HANDED_OFF: &str = "handed_off";

impl Stage {
    pub(crate) fn catalog(&self) -> Catalog {
        let tools = TOOLS.map(|(name, policy)| Tool::new(self.settings(name, policy)).unwrap());
        let handed_off = ToolSettings {
            handoff: Handoff::After(1),
            output_schema: Some(json!({"type": "object", "required": ["total"]})),
            ..self.settings(HANDED_OFF, TaskPolicy::Optional)
        };
        Catalog::new(tools.into_iter().chain([Tool::new(handed_off).unwrap()])).unwrap()
    }

    pub(crate) fn settings(&self, name: &str, policy: TaskPolicy) -> ToolSettings {
        ToolSettings {
            description: format!("Acts as requested; {policy:?} a task"),
            input_schema: json!({
                "type": "object",
                "properties": {"act": {"type": "string"}},
                "required": ["act"],
            }),
            annotations: Some(json!({"readOnlyHint": true})),
            policy,
            retention: 3_600_000,
            ..ToolSettings::new(name, in_process::KIND, Json::trusted("{}"), self.executor())
        }
    }

    fn executor(&self) -> Arc<dyn Executor> {
        let stage = self.clone();
        let acts = function(move |arguments, cx| {
            let stage = stage.clone();
            async move {
                let arguments: Value = serde_json::from_str(arguments.as_str()).unwrap();
                stage.begun.count();
                let end = stage.play(&arguments, &cx).await;
                match end {
                    ExecutionEnd::Stopped(_) => stage.stopped.count(),
                    _ => stage.finished.count(),
                };
                end
            }
        });
        Arc::new(Outliving {
            acts,
            stage: self.clone(),
        })
    }

    async fn play(&self, arguments: &Value, cx: &TaskContext) -> ExecutionEnd {
        let act = arguments["act"].as_str().unwrap();
        let (act, rest) = act.split_once(' ').unwrap_or((act, ""));
        match act {
            "say" => finished_with("done"),
            "echo" => finished_with(rest),
            "wait" => self.wait(cx).await,
            "refuse" => ExecutionEnd::Finished(Outcome::tool_error("no")),
            "break" => ExecutionEnd::Finished(Outcome::RpcError(RpcFailure {
                code: -32002,
                message: "broken".into(),
                data: None,
            })),
            "blob" => finished_with(&"x".repeat(rest.parse().unwrap())),
            "ask" | "ask_and_outlive" => answered(cx.ask(question()).await, cx),
            // All names at once, then the answers in their order.
            "ask_all" => {
                let asked = rest.split(' ').map(|name| cx.ask(form(name)));
                answered(try_join_all(asked).await.map(|answers| joined(&answers)), cx)
            }
            "ask_each" => {
                let answers = async {
                    let mut answers = Vec::new();
                    for name in rest.split(' ') {
                        answers.push(cx.ask(form(name)).await?);
                    }
                    Ok::<_, AskError>(joined(&answers))
                };
                answered(answers.await, cx)
            }
            "wait_then_ask" => {
                self.wait(cx).await;
                answered(cx.ask(form(rest)).await, cx)
            }
            // Asks, works until it is released, and asks again.
            "ask_then_wait" => {
                let (first, second) = rest.split_once(' ').unwrap();
                let answers = async {
                    let first = cx.ask(form(first)).await?;
                    self.answered.count();
                    self.wait(cx).await;
                    if let Some(reason) = cx.stop_requested() {
                        return Err(AskError::Stopped(reason));
                    }
                    Ok::<_, AskError>(joined(&[first, cx.ask(form(second)).await?]))
                };
                answered(answers.await, cx)
            }
            "sample" => answered(cx.ask(sampling()).await, cx),
            "close_stream" => {
                cx.close_stream();
                self.wait(cx).await
            }
            // Levels and figures, in order.
            "tell" => {
                for what in rest.split(' ') {
                    match LogLevel::parse(what) {
                        Some(level) => cx.log(level, Some("stage"), Json::from(json!(what))),
                        None => cx.report(what.parse().unwrap(), None, Some(what)),
                    }
                }
                finished_with("done")
            }
            "ask_two" => {
                let (one, two) = tokio::join!(cx.ask(question()), cx.ask(question()));
                finished_with(&format!("{} {}", one.unwrap().as_str(), two.unwrap().as_str()))
            }
            // Never pauses while it waits for the answer.
            "ask_while_talking" => tokio::select! {
                answer = cx.ask(form(rest)) => finished_with(answer.unwrap().as_str()),
                () = talk(cx) => unreachable!("it never ends"),
            },
            "flood" => {
                for figure in 1..=rest.parse().unwrap() {
                    cx.progress(f64::from(figure), None);
                }
                finished_with("done")
            }
            // The test ends the tool's wait for the answer.
            "ask_or_not" => tokio::select! {
                answer = cx.ask(question()) => finished_with(answer.unwrap().as_str()),
                () = self.released.reaches(1) => finished_with("never mind"),
            },
            // One at each level, each time the test allows it.
            "log" => {
                cx.status("ready");
                for nth in 1..=rest.parse().unwrap() {
                    self.released.reaches(nth).await;
                    for level in [LogLevel::Debug, LogLevel::Info, LogLevel::Error] {
                        cx.log(level, Some("stage"), Json::from(json!({"nth": nth})));
                    }
                }
                ExecutionEnd::Stopped(cx.stopped().await)
            }
            "status" => {
                cx.status(rest);
                self.wait(cx).await
            }
            // Each figure waits for the test, which waits for its notification.
            "report" => {
                for (nth, figure) in rest.split(' ').enumerate() {
                    cx.progress(figure.parse().unwrap(), Some(10.0));
                    if let Some(reason) = self.released_or_stopped(nth + 1, cx).await {
                        return ExecutionEnd::Stopped(reason);
                    }
                }
                finished_with("done")
            }
            other => panic!("no such act: {other}"),
        }
    }

    async fn wait(&self, cx: &TaskContext) -> ExecutionEnd {
        match self.released_or_stopped(1, cx).await {
            Some(reason) => ExecutionEnd::Stopped(reason),
            None => finished_with("done"),
        }
    }

    async fn released_or_stopped(&self, nth: usize, cx: &TaskContext) -> Option<StopReason> {
        tokio::select! {
            () = self.released.reaches(nth) => None,
            reason = cx.stopped() => Some(reason),
        }
    }
}

/// Acts of which `ask_and_outlive` continues in the next process, its question still open.
struct Outliving {
    acts: Arc<dyn Executor>,
    stage: Stage,
}

impl Executor for Outliving {
    fn run(self: Arc<Self>, attempt: ExecutorAttempt, cx: TaskContext) -> BoxFuture<'static, ExecutionEnd> {
        Arc::clone(&self.acts).run(attempt, cx)
    }

    fn resume(self: Arc<Self>, attempt: ExecutorAttempt, cx: TaskContext) -> BoxFuture<'static, ExecutionEnd> {
        if !attempt.arguments.as_str().contains("ask_and_outlive") {
            return Arc::clone(&self.acts).resume(attempt, cx);
        }
        Box::pin(async move { self.stage.wait(&cx).await })
    }
}

/// Reports more than can be sent.
async fn talk(cx: &TaskContext) {
    let mut figure = 0.0;
    loop {
        for _ in 0..50 {
            figure += 1.0;
            cx.progress(figure, None);
        }
        tokio::task::yield_now().await;
    }
}

fn finished_with(text: &str) -> ExecutionEnd {
    ExecutionEnd::Finished(Outcome::result(text_result(text, false)))
}

fn answered(answer: Result<Json, AskError>, cx: &TaskContext) -> ExecutionEnd {
    match answer {
        Ok(answer) => finished_with(answer.as_str()),
        Err(error) => error.into_end(cx.requestor()),
    }
}

fn joined(answers: &[Json]) -> Json {
    let answers: Vec<_> = answers.iter().map(Json::as_str).collect();
    Json::trusted(format!("[{}]", answers.join(",")))
}

/// A form of this name, for clients that can show one.
pub(crate) fn form(name: &str) -> Question {
    let schema = json!({"type": "object", "properties": {name: {"type": "string"}}, "required": [name]});
    let params = json!({"mode": "form", "message": format!("What is your {name}?"), "requestedSchema": schema});
    Question {
        name: Some(name.into()),
        request: Json::from(json!({"method": "elicitation/create", "params": params})),
        needs: Some(Capability::ElicitationForm),
        within: None,
    }
}

fn sampling() -> Question {
    let messages = json!([{"role": "user", "content": {"type": "text", "text": "What is the capital of France?"}}]);
    let request = json!({"method": "sampling/createMessage", "params": {"messages": messages, "maxTokens": 100}});
    Question {
        name: Some("capital".into()),
        request: Json::from(request),
        needs: Some(Capability::Sampling),
        within: None,
    }
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

/// A log for every task that has begun: ten bytes, and ten more each time the test allows it.
pub(crate) struct Logs(pub(crate) Stage);

pub(crate) const LOG: &str = "0123456789";

/// How all of them have ended, once the test allows it.
pub(crate) fn exit() -> Value {
    json!({"signal": "TERM"})
}

/// What each attempt has left, with its size.
pub(crate) const FILES: [(&str, u64); 3] = [("out/a b?.txt", 10), ("data.bin", 2_500_000), ("large.bin", 9 << 20)];

/// A byte of one of them.
pub(crate) fn file_byte(name: &str, at: u64) -> u8 {
    match name.ends_with(".txt") {
        true => LOG.as_bytes()[at as usize],
        false => (at % 251) as u8,
    }
}

fn artifact(name: &str, size: u64) -> Artifact {
    Artifact {
        name: name.to_owned(),
        size,
        sha256: format!("{size:064x}"),
    }
}

impl Provider for Logs {
    fn kind(&self) -> &'static str {
        in_process::KIND
    }

    fn revive(&self, _definition: &Json) -> Result<Arc<dyn Executor>, String> {
        Err("a closure cannot be revived".to_owned())
    }

    fn attempts(
        &self,
        _: &TaskId,
        epoch: u32,
        _after: u32,
        _limit: usize,
    ) -> BoxFuture<'_, Result<Vec<PastAttempt>, LogError>> {
        self.0.exits_read.count();
        let exit = (self.0.exited.get() > 0).then(|| AttemptExit::Signal("TERM".to_owned()));
        let attempt = PastAttempt {
            epoch,
            began: None,
            ended: None,
            succeeded: false,
            timed_out: false,
            last_line: None,
            command: Vec::new(),
            pid: None,
            exit,
        };
        Box::pin(async move { Ok(vec![attempt]) })
    }

    fn read_log(&self, _: &TaskId, _: u32, range: LogRange) -> BoxFuture<'_, Result<Option<LogChunk>, LogError>> {
        let log = LOG.repeat(1 + self.0.logged.get());
        let total = log.len();
        let from = (range.offset.unwrap_or(0) as usize).min(total);
        let to = range.limit.map_or(total, |limit| (from + limit as usize).min(total));
        Box::pin(async move {
            Ok(Some(LogChunk {
                text: log[from..to].to_owned(),
                offset: from as u64,
                next: to as u64,
                total: total as u64,
            }))
        })
    }

    fn artifacts(&self, _: &TaskId, epoch: u32) -> BoxFuture<'_, Result<Option<ArtifactList>, LogError>> {
        let list = ArtifactList {
            kept: FILES.map(|(name, size)| artifact(name, size)).to_vec(),
            problems: vec!["`x` is left out".to_owned()],
            notes: Vec::new(),
        };
        Box::pin(async move { Ok((epoch == 1).then_some(list)) })
    }

    fn read_artifact(
        &self,
        _: &TaskId,
        _: u32,
        name: &str,
        offset: u64,
        limit: u64,
    ) -> BoxFuture<'_, Result<Option<ArtifactChunk>, LogError>> {
        let found = FILES.into_iter().find(|(known, _)| *known == name);
        let chunk = found.map(|(name, size)| {
            let offset = offset.min(size);
            let bytes = offset..(offset + limit.min(MAX_ARTIFACT_READ)).min(size);
            ArtifactChunk {
                artifact: artifact(name, size),
                offset,
                bytes: bytes.map(|at| file_byte(name, at)).collect(),
            }
        });
        Box::pin(async move { Ok(chunk) })
    }
}
