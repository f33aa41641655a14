//! The tools of the simulated nodes: executors that run programs.

pub(crate) mod command;
mod run_context;

use crate::{
    checker::{CONFIRMATION, GROUP_LIMIT, LIMIT, RATED},
    deploys::Build,
    executor::Process,
    program::{self, Act, ActKind, Program},
    world::World,
};
use command::Command;
use futures_util::future::{Either, join, select};
use longhaul_core::{
    BoxFuture, ConfirmBy, EntryKey, Fence, HostId, Json, Outcome, Priority, Retry, RetryOn, StopReason, TaskId,
    text_result,
};
use longhaul_runtime::{
    AskError, Backoff, ChildError, ConcurrencyKey, ConfirmSettings, ExecutionEnd, Executor, ExecutorAttempt,
    JournalError, PollPolicy, Polled, Question, StepError, StepFailure, StepObserver, StepPolicy, TaskContext, Tool,
    ToolSettings,
};
use run_context::{GRACE, RunContext};
use serde_json::json;
use std::{future::poll_fn, panic::resume_unwind, sync::Arc, task::Poll, time::Duration};

/// A durable tool that runs programs.
pub(crate) const DURABLE: &str = "durable";
/// A tool without a journal, which is retried from its start.
pub(crate) const PLAIN: &str = "plain";
/// As [`DURABLE`], with a deadline and a concurrency of 1.
pub(crate) const WITH_DEADLINE: &str = "with_deadline";
/// As [`PLAIN`], with a concurrency of [`LIMIT`].
pub(crate) const LIMITED: &str = "limited";
/// As [`DURABLE`], and one live task for each program.
pub(crate) const UNIQUE: &str = "unique";

/// What schedules start. It ends soon.
pub(crate) const SCHEDULED: &str = "scheduled";
/// As [`PLAIN`], with a concurrency of [`GROUP_LIMIT`] for each of [`GROUPS`] values.
pub(crate) const GROUPED: &str = "grouped";
/// As [`DURABLE`], with the same.
pub(crate) const DURABLE_GROUPED: &str = "durable_grouped";
/// As [`PLAIN`], and each call has to be confirmed.
pub(crate) const CONFIRMED: &str = "confirmed";

/// A command, which runs outside of the nodes.
pub(crate) const COMMAND: &str = "command";

/// How many concurrency values the calls of a tool have.
const GROUPS: u64 = 2;
/// Longer than all clock jumps of a run, so that no blocked task times out.
const BLOCKED_TIMEOUT: u64 = 60 * 86_400_000;

/// The tools of every node.
pub(crate) fn tools(world: &Arc<World>, process: Process, host: &HostId, build: Build) -> Vec<Tool> {
    let run = RunContext {
        world: Arc::clone(world),
        process,
        host: host.clone(),
        build,
    };
    let settings = |name: &str, executor: Arc<dyn Executor>| ToolSettings {
        retention: world.retention,
        blocked_timeout: BLOCKED_TIMEOUT,
        // Some calls ask for less.
        priority: Priority::HIGHEST,
        retry: Retry {
            attempts: 4,
            backoff: 200,
            on: vec![RetryOn::Crash, RetryOn::Error],
        },
        ..ToolSettings::new(name, "simulated", Json::from(json!({"name": name})), executor)
    };
    let with_deadline = ToolSettings {
        deadline: Some(40_000),
        queue_timeout: Some(20_000),
        concurrency: Some(1),
        ..settings(WITH_DEADLINE, Arc::new(Durable(run.clone())))
    };
    let limited = ToolSettings {
        concurrency: Some(LIMIT),
        ..settings(LIMITED, Arc::new(Plain(run.clone(), true)))
    };
    let unique = ToolSettings {
        unique: Some(Arc::new(|arguments| seed(arguments).to_string())),
        ..settings(UNIQUE, Arc::new(Durable(run.clone())))
    };
    // As `PLAIN`, with a start rate.
    let rated = ToolSettings {
        start_rate: "30/m".parse().ok(),
        ..settings(RATED, Arc::new(Plain(run.clone(), false)))
    };
    let concurrency_key = Some(ConcurrencyKey {
        value: Arc::new(|arguments| (seed(arguments) / 10 % GROUPS).to_string()),
        limit: GROUP_LIMIT,
    });
    let grouped = ToolSettings {
        concurrency_key: concurrency_key.clone(),
        ..settings(GROUPED, Arc::new(Plain(run.clone(), true)))
    };
    let durable_grouped = ToolSettings {
        concurrency_key,
        ..settings(DURABLE_GROUPED, Arc::new(Durable(run.clone())))
    };
    let confirmed = ToolSettings {
        confirm: Some(ConfirmSettings {
            request: Arc::new(|_| Json::trusted(CONFIRMATION)),
            by: ConfirmBy::Client,
        }),
        input_timeout: 30_000,
        ..settings(CONFIRMED, Arc::new(Plain(run.clone(), false)))
    };
    let all = [
        unique,
        grouped,
        durable_grouped,
        rated,
        settings(SCHEDULED, Arc::new(Quick(run.clone()))),
        confirmed,
        settings(DURABLE, Arc::new(Durable(run.clone()))),
        settings(PLAIN, Arc::new(Plain(run.clone(), false))),
        limited,
        settings(COMMAND, Arc::new(Command(run))),
        with_deadline,
    ];
    all.into_iter()
        .filter_map(|settings| Tool::new(settings).ok())
        .collect()
}

/// Reports each step that begins to the checker.
pub(crate) struct CheckingStepObserver {
    pub(crate) world: Arc<World>,
    pub(crate) process: Process,
}

impl StepObserver for CheckingStepObserver {
    fn step_begins(&self, task: &TaskId, fence: Fence, step: &EntryKey) {
        let (world, process) = (&self.world, self.process);
        world.note(process, |checker| format!("{} begins {step}", checker.name(task)));
        world.check(|checker| checker.step_begins(&world.disk, task, fence, step));
    }
}

struct Durable(RunContext);

impl Executor for Durable {
    fn replays(&self) -> bool {
        true
    }

    fn run(self: Arc<Self>, attempt: ExecutorAttempt, cx: TaskContext) -> BoxFuture<'static, ExecutionEnd> {
        Box::pin(async move {
            self.0.report_attempt(&attempt);
            let seed = seed(&attempt.arguments);
            let program = self.0.build.program(seed, program::draw(seed));
            let work = std::pin::pin!(async {
                let result = run_program(&self.0, cx.clone(), &program).await;
                let fails = seed.is_multiple_of(7);
                match result {
                    Ok(()) if fails => ExecutionEnd::Errored(Outcome::tool_error("as the program says")),
                    Ok(()) => ExecutionEnd::Finished(Outcome::result(text_result("done", false))),
                    Err(fault) => fault.into(),
                }
            });
            let outlasted = std::pin::pin!(async {
                let reason = cx.stopped().await;
                self.0.world.sleep(GRACE).await;
                ExecutionEnd::Stopped(reason)
            });
            match select(work, outlasted).await {
                Either::Left((end, _)) | Either::Right((end, _)) => end,
            }
        })
    }
}

/// `1`: whether it is [`LIMITED`] or [`GROUPED`].
struct Plain(RunContext, bool);

impl Executor for Plain {
    fn run(self: Arc<Self>, attempt: ExecutorAttempt, cx: TaskContext) -> BoxFuture<'static, ExecutionEnd> {
        Box::pin(async move {
            let RunContext { world, .. } = &self.0;
            self.0.report_attempt(&attempt);
            cx.started();
            cx.status("at work");
            let work = std::pin::pin!(async {
                if self.1 {
                    self.0.limited_work(&attempt).await;
                }
                world.sleep(world.between(0..=3_000)).await;
                if world.one_in(3) {
                    let asked = Question {
                        within: Some(Duration::from_secs(60)),
                        ..Question::new(question(1))
                    };
                    match cx.ask(asked).await {
                        Ok(_) => {}
                        Err(AskError::Stopped(reason)) => return ExecutionEnd::Stopped(reason),
                        Err(error) => return ExecutionEnd::Errored(Outcome::tool_error(&error.to_string())),
                    }
                }
                cx.progress(1.0, Some(2.0));
                match world.between(0..=12) {
                    0 if !world.faults_are_over() => resume_unwind(Box::new("as drawn")),
                    1 if !world.faults_are_over() => ExecutionEnd::NeverStarted("as drawn".to_owned()),
                    2 => ExecutionEnd::Errored(Outcome::tool_error("as drawn")),
                    _ => ExecutionEnd::Finished(Outcome::result(text_result("done", false))),
                }
            });
            let stopped = std::pin::pin!(async {
                let reason = cx.stopped().await;
                world.sleep(world.between(0..=GRACE)).await;
                ExecutionEnd::Stopped(reason)
            });
            match select(work, stopped).await {
                Either::Left((end, _)) | Either::Right((end, _)) => end,
            }
        })
    }
}

/// Ends soon.
struct Quick(RunContext);

impl Executor for Quick {
    fn run(self: Arc<Self>, attempt: ExecutorAttempt, _: TaskContext) -> BoxFuture<'static, ExecutionEnd> {
        Box::pin(async move {
            let RunContext { world, .. } = &self.0;
            self.0.report_attempt(&attempt);
            world.sleep(world.between(0..=300)).await;
            ExecutionEnd::Finished(Outcome::result(text_result("done", false)))
        })
    }
}

fn seed(arguments: &Json) -> u64 {
    let arguments: serde_json::Value = serde_json::from_str(arguments.as_str()).unwrap_or_default();
    arguments["program"].as_u64().unwrap_or_default()
}

fn question(number: u32) -> Json {
    Json::from(json!({"method": "elicitation/create", "params": {"message": format!("question {number}")}}))
}

/// Why a program ends early.
enum ProgramError {
    Stopped(StopReason),
    /// A write to the store failed; the attempt crashes and is replayed.
    StoreFailed,
    Failed(String),
}

impl From<JournalError> for ProgramError {
    fn from(error: JournalError) -> Self {
        match error {
            JournalError::Stopped(reason) => Self::Stopped(reason),
            JournalError::Task(_) => Self::StoreFailed,
            other => Self::Failed(other.to_string()),
        }
    }
}

impl From<ProgramError> for ExecutionEnd {
    fn from(fault: ProgramError) -> Self {
        match fault {
            ProgramError::Stopped(reason) => Self::Stopped(reason),
            ProgramError::StoreFailed => Self::Crashed,
            ProgramError::Failed(text) => Self::Errored(Outcome::tool_error(&text)),
        }
    }
}

fn run_program<'a>(
    run: &'a RunContext,
    cx: TaskContext,
    program: &'a [Act],
) -> BoxFuture<'a, Result<(), ProgramError>> {
    Box::pin(async move {
        for act in program {
            if !run.world.faults_are_over() && run.world.one_in(150) {
                resume_unwind(Box::new("as drawn"));
            }
            perform(run, &cx, act).await?;
        }
        Ok(())
    })
}

fn perform<'a>(run: &'a RunContext, cx: &'a TaskContext, act: &'a Act) -> BoxFuture<'a, Result<(), ProgramError>> {
    Box::pin(async move {
        let number = act.number;
        let result = match &act.kind {
            ActKind::Step { tries, timeout } => return step(run, cx, number, *tries, *timeout).await,
            ActKind::Fork { race, branches } => return fork(run, cx, number, *race, branches).await,
            ActKind::Concurrent(first, second) => {
                let (first, second) = join(perform(run, cx, first), perform(run, cx, second)).await;
                return first.and(second);
            }
            ActKind::Sleep(millis) => {
                cx.sleep(Duration::from_millis(*millis)).await?;
                "()".to_owned()
            }
            ActKind::Ask(within) => ask(cx, number, *within).await?,
            ActKind::Call { durable, program } => call(run, cx, *durable, *program).await?,
            ActKind::Poll => poll(run, cx, number).await?,
            ActKind::Now => format!("{:?}", cx.draw_now().await?),
            ActKind::Random => format!("{:?}", cx.draw_random::<4>().await?),
            ActKind::Version => format!("{}", cx.version(&format!("v{number}")).await?),
            ActKind::Emit => {
                cx.emit(Json::from(json!({"output": number}))).await?;
                "()".to_owned()
            }
        };
        run.act_result(cx, number, None, &result);
        Ok(())
    })
}

/// A step with a random result and duration. A recorded result must stay the same.
async fn step(
    run: &RunContext,
    cx: &TaskContext,
    number: u32,
    tries: u32,
    timeout: Option<u64>,
) -> Result<(), ProgramError> {
    let world = &run.world;
    let name = format!("s{number}");
    let policy = StepPolicy {
        attempts: tries,
        backoff: Backoff {
            first: 100,
            longest: 2_000,
        },
        timeout: timeout.map(Duration::from_millis),
        key: None,
    };
    let work = || async {
        world
            .sleep(if world.one_in(2) { 0 } else { world.between(0..=800) })
            .await;
        match world.between(0..=9) {
            0 => Err(StepFailure {
                message: format!("failure {}", world.between(0..=1_000_000)),
                retriable: world.one_in(2),
            }),
            1..4 => Ok(Json::trusted("null")),
            _ => Ok(Json::trusted(world.between(0..=1_000_000).to_string())),
        }
    };
    let result = match cx.step(&name, &policy, work).await {
        Ok(value) => value.as_str().to_owned(),
        Err(StepError::Failed(trail)) => format!("{trail:?}"),
        Err(StepError::Journal(error)) => return Err(error.into()),
    };
    run.act_result(cx, number, Some(&name), &result);
    Ok(())
}

async fn ask(cx: &TaskContext, number: u32, within: u64) -> Result<String, ProgramError> {
    let asked = Question {
        within: Some(Duration::from_millis(within)),
        ..Question::new(question(number))
    };
    match cx.ask(asked).await {
        Ok(answer) => Ok(answer.as_str().to_owned()),
        Err(AskError::Unanswered) => Ok("no answer".to_owned()),
        Err(AskError::Stopped(reason)) => Err(ProgramError::Stopped(reason)),
        Err(AskError::Task(_)) => Err(ProgramError::StoreFailed),
        Err(AskError::Journal(error)) => Err(error.into()),
        Err(other) => Err(ProgramError::Failed(other.to_string())),
    }
}

async fn call(run: &RunContext, cx: &TaskContext, durable: bool, program: u64) -> Result<String, ProgramError> {
    let tool = if durable { DURABLE } else { PLAIN };
    let arguments = json!({"program": program, "call": run.world.new_call()});
    match cx.call(tool, Json::from(arguments)).await {
        Ok(end) => Ok(format!("{} {:?}", end.task, end.outcome)),
        Err(ChildError::Refused(why)) => Ok(why.to_string()),
        Err(ChildError::Journal(error)) => Err(error.into()),
    }
}

async fn poll(run: &RunContext, cx: &TaskContext, number: u32) -> Result<String, ProgramError> {
    let world = &run.world;
    let policy = PollPolicy {
        first: 500,
        longest: 5_000,
        failures: 3,
    };
    let poll = || async {
        match world.between(0..=5) {
            0 => Err(StepFailure {
                message: "no answer".to_owned(),
                retriable: true,
            }),
            1..4 => Ok(Polled::Pending(None)),
            4 => Ok(Polled::Ready(Json::trusted("null"))),
            _ => Ok(Polled::Ready(Json::trusted(world.between(0..=1_000_000).to_string()))),
        }
    };
    match cx.poll_until(&format!("p{number}"), policy, poll).await {
        Ok(value) => Ok(value.as_str().to_owned()),
        Err(StepError::Failed(trail)) => Ok(format!("{trail:?}")),
        Err(StepError::Journal(error)) => Err(error.into()),
    }
}

async fn fork(
    run: &RunContext,
    cx: &TaskContext,
    number: u32,
    race: bool,
    branches: &[Program],
) -> Result<(), ProgramError> {
    let fork = cx.fork(branches.len())?;
    let race = if race { Some(fork.winner()?) } else { None };
    let winner = race.as_ref().and_then(|race| race.winner);
    let mut running: Vec<(usize, BoxFuture<'_, Result<(), ProgramError>>)> = Vec::new();
    for (nth, program) in branches.iter().enumerate() {
        if winner.is_none_or(|winner| winner == nth)
            && let Some(branch) = fork.begin(nth)
        {
            running.push((nth, run_program(run, branch, program)));
        }
    }
    if let Some(race) = race {
        let (winner, result) = first(&mut running).await;
        fork.decide(race, winner).await?;
        run.act_result(cx, number, None, &format!("branch {winner}"));
        return result;
    }
    let mut all = Ok(());
    while !running.is_empty() {
        let (nth, result) = first(&mut running).await;
        fork.over(nth);
        all = all.and(result);
    }
    all
}

/// Waits for the next branch to end and removes it; of branches that end together, the first.
async fn first(
    running: &mut Vec<(usize, BoxFuture<'_, Result<(), ProgramError>>)>,
) -> (usize, Result<(), ProgramError>) {
    poll_fn(|cx| {
        for at in 0..running.len() {
            let (nth, branch) = &mut running[at];
            if let Poll::Ready(result) = branch.as_mut().poll(cx) {
                let nth = *nth;
                drop(running.remove(at));
                return Poll::Ready((nth, result));
            }
        }
        Poll::Pending
    })
    .await
}
