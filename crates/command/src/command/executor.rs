//! Commands as the runtime sees them: the adapter to its `Executor` and `Provider` ports.

mod finish;
mod supervisor_connection;

use super::{
    attempt_dir::{
        AttemptDir, Attempts, artifacts, log,
        past_attempt::past_attempt,
        record::{LaunchSpec, SupervisorEvent},
        secret_input::SecretInput,
        verdict::{AttemptVerdict, connect, judge_and_clean},
    },
    definition::{
        CommandDefinition, CommandTool, DefinitionError, Invocation, arguments::Arguments, harmless::HarmlessValues,
    },
    launch::{Launcher, process_context::ProcessContext, supervisor_process::SupervisorProcess},
    output::{self, unwritten::UnwrittenOutput},
    progress::{OutputReport, read_report},
};
use longhaul_core::{
    AttemptState, BoxFuture, FailureLine, FailureStreak, Json, Millis, Outcome, RpcFailure, StopReason, TaskId,
};
use longhaul_runtime::{
    ArtifactChunk, ArtifactList, ExecutionEnd, Executor, ExecutorAttempt, LogChunk, LogError, LogRange, PastAttempt,
    Ports, Provider, TaskContext,
};
use serde_json::json;
use std::{collections::BTreeSet, io, path::Path, sync::Arc, time::Duration};
use supervisor_connection::{end, into_tokio, request, unanswered};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
};
use tracing::{error, warn};

/// The kind of executor, as kept with each tool's definition.
pub const KIND: &str = "command";

/// The least that is kept of a standard output, in bytes: the frames of progress in it become few when it is shown.
const LEAST_KEPT: u64 = 1 << 20;

/// From the stop signal to SIGKILL, for tools that do not say.
const KILL_GRACE: Millis = 10_000;
/// Between two attempts to connect to a supervisor that is alive but does not listen: it is starting, or just ending.
const RECONNECT_EVERY: Duration = Duration::from_millis(20);
/// How long after the SIGKILL that ends a command its supervisor may take to read the rest of its output and record its end.
const REACTION_TIME: Duration = Duration::from_secs(10);
/// How long after it listens a supervisor has started its command, or has given the attempt back.
const STARTED_AFTER: Duration = Duration::from_secs(1);
/// Between two attempts to judge an attempt whose directory cannot be read or written.
const JUDGE_EVERY: Duration = Duration::from_secs(1);

/// Runs commands, with the folders of their attempts in one directory.
pub struct CommandProvider {
    shared: Arc<Shared>,
    ports: Ports,
}

#[derive(Clone)]
struct Shared {
    attempts: Attempts,
    launcher: Launcher,
    kill_grace: Millis,
    least_free: u64,
    unwritten: Arc<UnwrittenOutput>,
}

impl CommandProvider {
    /// Commands whose attempts live in `attempts`, under supervisors that `launcher` starts.
    pub fn new(attempts: Attempts, launcher: Launcher, ports: Ports) -> Self {
        Self {
            shared: Arc::new(Shared {
                attempts,
                launcher,
                kill_grace: KILL_GRACE,
                least_free: 0,
                unwritten: Arc::default(),
            }),
            ports,
        }
    }

    /// The same with another time from the stop signal to SIGKILL, in milliseconds, for tools that do not say.
    pub fn with_kill_grace(mut self, kill_grace: Millis) -> Self {
        Arc::make_mut(&mut self.shared).kill_grace = kill_grace;
        self
    }

    /// The same with logs that leave so many bytes of their disk free: the output that comes while it has less is not in the log.
    pub fn with_least_free(mut self, bytes: u64) -> Self {
        Arc::make_mut(&mut self.shared).least_free = bytes;
        self
    }

    /// An executor for a tool of the configuration. `names` are the properties of its input, if no others are allowed; those with `harmless` values may
    /// stand in scripts.
    ///
    /// # Errors
    /// [`DefinitionError`]: what is wrong with the definition, and where.
    pub fn executor(
        &self,
        definition: CommandDefinition,
        names: Option<&BTreeSet<String>>,
        harmless: &HarmlessValues,
    ) -> Result<Arc<CommandExecutor>, DefinitionError> {
        definition.check_scripts(harmless)?;
        Ok(Arc::new(self.run_by(CommandTool::new(definition, names)?)))
    }

    fn run_by(&self, tool: CommandTool) -> CommandExecutor {
        CommandExecutor {
            shared: Arc::clone(&self.shared),
            tool: Arc::new(tool),
        }
    }

    /// Bytes on disk that all attempts take. Reads every attempt's directory.
    ///
    /// # Errors
    /// When a directory cannot be read.
    pub async fn bytes_held(&self) -> io::Result<u64> {
        let attempts = self.shared.attempts.clone();
        blocking(&self.ports, move || attempts.bytes_held()).await
    }
}

impl Provider for CommandProvider {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn revive(&self, definition: &Json) -> Result<Arc<dyn Executor>, String> {
        let definition = CommandDefinition::from_json(definition.as_str()).map_err(|error| error.to_string())?;
        let tool = CommandTool::new(definition, None).map_err(|error| error.to_string())?;
        Ok(Arc::new(self.run_by(tool)))
    }

    fn left_by(&self, tasks: Vec<TaskId>) -> BoxFuture<'_, Vec<TaskId>> {
        let attempts = self.shared.attempts.clone();
        Box::pin(async move {
            let all = tasks.clone();
            let with_folder = move || tasks.into_iter().filter(|task| attempts.has_folder(task)).collect();
            // Nothing could be checked because the server is stopping: all may have one.
            self.ports.blocking(with_folder).await.unwrap_or(all)
        })
    }

    fn forget(&self, task: &TaskId) -> BoxFuture<'_, Result<(), String>> {
        let (attempts, task) = (self.shared.attempts.clone(), task.clone());
        Box::pin(async move {
            blocking(&self.ports, move || attempts.remove(&task))
                .await
                .map_err(|error| error.to_string())
        })
    }

    fn running_outside(&self) -> BoxFuture<'_, Result<Vec<(TaskId, u32)>, LogError>> {
        let attempts = self.shared.attempts.clone();
        Box::pin(async move {
            blocking(&self.ports, move || attempts.held())
                .await
                .map_err(|error| LogError(error.to_string()))
        })
    }

    fn end_outside(&self, task: &TaskId, epoch: u32) -> BoxFuture<'_, ()> {
        let dir = self.shared.attempts.dir(task, epoch);
        Box::pin(async move {
            loop {
                let judged = dir.clone();
                match blocking(&self.ports, move || judge_and_clean(&judged, AttemptState::Live, true)).await {
                    Ok(AttemptVerdict::Held) => match connect(&dir).and_then(into_tokio) {
                        Ok(stream) => end(stream).await,
                        Err(_) => self.ports.clock.sleep(RECONNECT_EVERY).await,
                    },
                    Ok(_) => return,
                    Err(error) => {
                        warn!(%error, "an attempt's directory cannot be judged; trying again");
                        self.ports.clock.sleep(JUDGE_EVERY).await;
                    }
                }
            }
        })
    }

    fn attempts(
        &self,
        task: &TaskId,
        epoch: u32,
        after: u32,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<PastAttempt>, LogError>> {
        let (attempts, task) = (self.shared.attempts.clone(), task.clone());
        Box::pin(async move {
            let read = move || {
                let mut found = Vec::new();
                for epoch in after.saturating_add(1)..=epoch {
                    if found.len() >= limit {
                        break;
                    }
                    found.extend(past_attempt(&attempts.dir(&task, epoch), epoch)?);
                }
                Ok(found)
            };
            blocking(&self.ports, read)
                .await
                .map_err(|error| LogError(error.to_string()))
        })
    }

    fn read_log(
        &self,
        task: &TaskId,
        epoch: u32,
        range: LogRange,
    ) -> BoxFuture<'_, Result<Option<LogChunk>, LogError>> {
        let dir = self.shared.attempts.dir(task, epoch);
        Box::pin(async move {
            let read = move || {
                Ok(if dir.is_there()? {
                    Some(log::read(&dir, range)?)
                } else {
                    None
                })
            };
            blocking(&self.ports, read)
                .await
                .map_err(|error| LogError(error.to_string()))
        })
    }

    fn artifacts(&self, task: &TaskId, epoch: u32) -> BoxFuture<'_, Result<Option<ArtifactList>, LogError>> {
        let dir = self.shared.attempts.dir(task, epoch);
        Box::pin(async move {
            let read = blocking(&self.ports, move || artifacts::list(&dir)).await;
            read.map_err(|error| LogError(error.to_string()))
        })
    }

    fn read_artifact(
        &self,
        task: &TaskId,
        epoch: u32,
        name: &str,
        offset: u64,
        limit: u64,
    ) -> BoxFuture<'_, Result<Option<ArtifactChunk>, LogError>> {
        let (dir, name) = (self.shared.attempts.dir(task, epoch), name.to_owned());
        Box::pin(async move {
            let read = blocking(&self.ports, move || artifacts::read(&dir, &name, offset, limit)).await;
            read.map_err(|error| LogError(error.to_string()))
        })
    }
}

/// Runs one tool's command.
pub struct CommandExecutor {
    shared: Arc<Shared>,
    tool: Arc<CommandTool>,
}

impl Executor for CommandExecutor {
    fn host_bound(&self) -> bool {
        true
    }

    fn keeps_artifacts(&self) -> bool {
        self.tool.definition().artifacts.is_some()
    }

    /// What it prints is in the log of its task.
    fn may_log(&self) -> bool {
        false
    }

    fn check(&self, arguments: &str, _: &serde_json::Map<String, serde_json::Value>) -> Result<(), String> {
        // Where the attempt's folder will be is not known yet, and no value depends on it.
        self.invocation(arguments, Path::new("/")).map(drop)
    }

    fn run(self: Arc<Self>, attempt: ExecutorAttempt, cx: TaskContext) -> BoxFuture<'static, ExecutionEnd> {
        Box::pin(async move {
            let dir = self.shared.attempts.dir(&attempt.task, attempt.epoch);
            let invocation = match self.invocation(attempt.arguments.as_str(), dir.path()) {
                Ok(invocation) => invocation,
                Err(problem) => return ExecutionEnd::Finished(Outcome::tool_error(&problem)),
            };
            if let Some(reason) = cx.stop_requested() {
                return ExecutionEnd::Stopped(reason);
            }
            let process_context = match self.process_context(&invocation, &cx).await {
                Ok(Ok(process_context)) => process_context,
                // It may be there in the next attempt.
                Ok(Err(missing)) => return ExecutionEnd::Errored(Outcome::tool_error(&missing)),
                Err(error) => return ExecutionEnd::NeverStarted(error.to_string()),
            };
            let (state, problem) = match self.prepare(&dir, invocation, process_context, &attempt, &cx).await {
                Ok(secret) => {
                    // Committed before the command can run: from here on a directory that is missing was removed.
                    if let Err(end) = cx.record_start().await {
                        return end;
                    }
                    let failed = self.shared.launcher.launch_with(&dir, &secret).await.err();
                    let problem = failed.map(|error| format!("no process could be started: {error}"));
                    (AttemptState::Live, problem)
                }
                Err(error) => {
                    let problem = format!("the folder of the attempt could not be made: {error}");
                    (AttemptState::Starting, Some(problem))
                }
            };
            if problem.is_none() && attempt.epoch > 1 {
                // The status is still that of the attempt before it.
                cx.status(self.started_again(&attempt, &cx).await);
            }
            self.follow(dir, state, problem, cx).await
        })
    }

    fn resume(self: Arc<Self>, attempt: ExecutorAttempt, cx: TaskContext) -> BoxFuture<'static, ExecutionEnd> {
        let dir = self.shared.attempts.dir(&attempt.task, attempt.epoch);
        Box::pin(async move { self.follow(dir, attempt.state, None, cx).await })
    }
}

impl CommandExecutor {
    /// The definition as it is to be kept with each task.
    pub fn definition(&self) -> Json {
        Json::trusted(self.tool.definition().to_json())
    }

    fn kill_grace(&self) -> Millis {
        self.tool.definition().stop.grace_ms.unwrap_or(self.shared.kill_grace)
    }

    fn invocation(&self, arguments: &str, folder: &Path) -> Result<Invocation, String> {
        Arguments::parse(arguments)
            .and_then(|arguments| self.tool.expand(&arguments, folder))
            .map_err(|error| error.to_string())
    }

    /// The environment and the folder of the attempt, or what is missing of them.
    async fn process_context(
        &self,
        invocation: &Invocation,
        cx: &TaskContext,
    ) -> io::Result<Result<ProcessContext, String>> {
        let (tool, invocation) = (Arc::clone(&self.tool), invocation.clone());
        blocking(cx.ports(), move || {
            Ok(ProcessContext::look_up(tool.definition(), &invocation))
        })
        .await
    }

    /// Writes the folder of the attempt, and returns what must not be in it. If this fails, the folder shows how far it got.
    async fn prepare(
        &self,
        dir: &AttemptDir,
        invocation: Invocation,
        process_context: ProcessContext,
        attempt: &ExecutorAttempt,
        cx: &TaskContext,
    ) -> io::Result<SecretInput> {
        let definition = self.tool.definition();
        let clock = &cx.ports().clock;
        // The supervisor has the system's clock only.
        let deadline = attempt.deadline_at.map(|at| clock.wall().plus(at.since(clock.now())));
        let Invocation {
            argv,
            stdin,
            files,
            secret,
            ..
        } = invocation;
        let mut process_context = process_context;
        if definition.artifacts.is_some() {
            process_context.set(artifacts::FOLDER_VARIABLE, dir.path().join(artifacts::FOLDER));
        }
        let spec = LaunchSpec {
            argv,
            env: process_context.env,
            env_bytes: process_context.env_bytes,
            cwd: process_context.cwd,
            cwd_within: process_context.cwd_within,
            has_secrets: !secret.is_empty(),
            max_output: definition.max_output.max(LEAST_KEPT),
            max_log: definition.max_log,
            least_free: self.shared.least_free,
            deadline_ms: deadline.map(|deadline| deadline.0),
            timeout_ms: definition.timeout_ms,
            stop_signal: definition.stop.signal,
            kill_grace_ms: self.kill_grace(),
            success: definition.success.clone(),
            artifacts: definition.artifacts.clone(),
        };
        let prepared = dir.clone();
        blocking(cx.ports(), move || prepared.prepare(&spec, &stdin, &files)).await?;
        Ok(secret)
    }

    /// The status of an attempt that is not the first one: why the one before it has failed, if it has written how it ended.
    async fn started_again(&self, attempt: &ExecutorAttempt, cx: &TaskContext) -> String {
        let before = attempt.epoch - 1;
        let dir = self.shared.attempts.dir(&attempt.task, before);
        let summary = blocking(cx.ports(), move || past_attempt(&dir, before)).await;
        match summary.ok().flatten().and_then(|before| before.failure()) {
            Some(why) => format!("attempt {} started; attempt {before} failed: {why}", attempt.epoch),
            None => "started".to_owned(),
        }
    }

    /// Follows an attempt to its end, whatever its state. `problem`: what kept it from being started, if that is known.
    async fn follow(
        &self,
        dir: AttemptDir,
        mut state: AttemptState,
        problem: Option<String>,
        cx: TaskContext,
    ) -> ExecutionEnd {
        let mut unjudged = FailureStreak::default();
        // Until it is confirmed that the command has started.
        let mut began = Some(cx.ports().clock.monotonic());
        loop {
            let judged = dir.clone();
            let has_secrets = !self.tool.definition().secrets.is_empty();
            match blocking(cx.ports(), move || judge_and_clean(&judged, state, has_secrets)).await {
                Ok(AttemptVerdict::Held) => {
                    if state == AttemptState::Starting {
                        // A release that recorded starts late started it. An end that this reports comes from the supervisor too.
                        state = AttemptState::Live;
                        let _ = cx.record_start().await;
                    }
                    match connect(&dir).and_then(into_tokio) {
                        Ok(stream) => self.attend(stream, &mut began, &cx).await,
                        Err(_) => cx.ports().clock.sleep(RECONNECT_EVERY).await,
                    }
                }
                Ok(AttemptVerdict::Finished(exit)) => {
                    if let Some(began) = began {
                        cx.confirm_start(began);
                    }
                    return self.finished(dir, exit, &cx).await;
                }
                Ok(AttemptVerdict::Interrupted) => return ExecutionEnd::SupervisorKilled,
                Ok(AttemptVerdict::Damaged) => return ExecutionEnd::RecordDamaged,
                Ok(AttemptVerdict::NeverStarted) => {
                    let given_back = || dir.given_back_for();
                    let why = problem.or_else(given_back);
                    return ExecutionEnd::NeverStarted(why.unwrap_or_else(|| "no command was started".to_owned()));
                }
                Ok(AttemptVerdict::Lost) => {
                    error!(
                        "the folder of an attempt was removed after its start; what became of its command is not known, and it may still run"
                    );
                    return ExecutionEnd::Lost(interrupted(
                        "the folder of this attempt was removed after its command was started, so its result is lost and the command may \
                         still run; it was not run again",
                    ));
                }
                Ok(AttemptVerdict::UnknownVersion { found }) => {
                    return ExecutionEnd::Lost(interrupted(&format!(
                        "another version of this server ran it and keeps its records in format {found}"
                    )));
                }
                Err(error) => {
                    match unjudged.failed(cx.ports().clock.monotonic()) {
                        Some(FailureLine::Begun) => {
                            warn!(%error, "an attempt's directory cannot be judged; trying again");
                        }
                        Some(FailureLine::Reminder(so_far)) => {
                            let count = so_far.count;
                            warn!(%error, "an attempt's directory can still not be judged, after {count} tries");
                        }
                        None => {}
                    }
                    cx.ports().clock.sleep(JUDGE_EVERY).await;
                }
            }
        }
    }

    /// Reports new output and passes a request to stop on, until the supervisor closes the connection.
    async fn attend(&self, mut stream: UnixStream, began: &mut Option<Duration>, cx: &TaskContext) {
        let supervisor = SupervisorProcess::behind(&stream);
        let (events, mut requests) = stream.split();
        let mut events = BufReader::new(events).lines();
        let mut asked = None;
        let clock = &cx.ports().clock;
        let mut overdue: BoxFuture<'static, ()> = Box::pin(std::future::pending());
        let mut started = clock.sleep(STARTED_AFTER);
        loop {
            tokio::select! {
                event = events.next_line() => match event {
                    Ok(Some(line)) => self.report(&line, cx),
                    Ok(None) | Err(_) => return,
                },
                reason = cx.stopped(), if asked.is_none() => {
                    asked = Some(reason);
                    if requests.write_all(request(reason)).await.is_err() {
                        return;
                    }
                    // The connection is still open after the process was looked up, so it is the supervisor. A suspended one could not act.
                    supervisor.resume();
                    let grace = Duration::from_millis(self.kill_grace());
                    overdue = clock.sleep(grace + REACTION_TIME);
                }
                () = &mut started, if began.is_some() => {
                    began.take().into_iter().for_each(|began| cx.confirm_start(began));
                }
                () = &mut overdue => {
                    overdue = Box::pin(std::future::pending());
                    let status = unanswered(asked.unwrap_or(StopReason::Cancel));
                    warn!(task = cx.task().short(), supervisor = supervisor.id(), "{status}");
                    cx.status(status);
                }
            }
        }
    }

    fn report(&self, line: &str, cx: &TaskContext) {
        // A supervisor of a later release may send events that are not known here.
        let Ok(event) = serde_json::from_str::<SupervisorEvent>(line) else {
            return;
        };
        let ends = match (output::shows_standard_output(&self.tool), event.is_stderr) {
            (false, Some(true)) => [&*event.tail, ""],
            (false, Some(false)) => ["", &*event.other],
            _ => [&*event.tail, &*event.other],
        };
        tell(read_report(&ends, self.tool.progress(), false), cx);
    }
}

fn tell(report: OutputReport, cx: &TaskContext) {
    if let Some(status) = report.status {
        cx.status(status);
    }
    if let Some(current) = report.current {
        cx.progress(current, report.total);
    }
}

/// File work, away from the threads that run futures.
async fn blocking<T: Send + 'static>(
    ports: &Ports,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    ports
        .blocking(work)
        .await
        .unwrap_or_else(|| Err(io::Error::other("the server is stopping")))
}

/// The outcome of a command that may still run, and of which it is not known how it ends.
fn interrupted(why: &str) -> Outcome {
    Outcome::RpcError(RpcFailure {
        code: -32603,
        message: format!("interrupted: {why}").into(),
        data: Some(Json::from(json!({"reason": "interrupted"}))),
    })
}
