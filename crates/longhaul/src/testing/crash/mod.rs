//! A test that kills the server: whether a durable tool survives a crash at each of its writes.
//!
//! ```no_run
//! use longhaul::{Server, TaskContext, Tool, ToolResult, testing::crash::CrashTest};
//! use serde_json::json;
//!
//! # #[derive(serde::Deserialize, schemars::JsonSchema)] struct Release { rev: String }
//! # async fn build(_: &str) -> Result<u32, std::io::Error> { Ok(1) }
//! async fn release(cx: TaskContext, args: Release) -> ToolResult<String> {
//!     let build = cx.step("build", || build(&args.rev)).await?;
//!     Ok(format!("built {build}"))
//! }
//!
//! #[test]
//! # fn hidden() {}
//! fn release_survives() {
//!     CrashTest::new(|_| Server::new("ci", "1.0.0").tool(Tool::durable("release", release)))
//!         .call("release", json!({"rev": "abc"}))
//!         .run();
//! }
//! ```
//!
//! **What it does.** The test function runs itself again in processes of its own:
//!
//! - once without a crash, to count the writes of the call;
//! - three times for each write, with `kill -9` before its commit (the work is done and not journaled), between its commit and its
//!   acknowledgement, and after its acknowledgement. A new process then starts on the same data directory and makes the call again, with the
//!   same idempotency key;
//! - once with each write made twice, as if its acknowledgement had been lost.
//!
//! All of this is done for a modern client, whose call stays in memory while it waits, and for a client of 2025-11-25, whose call is suspended
//! at each wait (see [`Server::suspend_after`]).
//!
//! **What it checks.**
//!
//! - The call is one task with one outcome, like that of the run without a crash, and its client receives that outcome.
//! - No step begins again once its result is journaled. Before that it may: the crash can come between effect and entry.
//! - Every acknowledged entry is in the journal.
//! - Nothing is left over: no question is open, and all children have ended.
//!
//! A failure says where the process was killed, shows both journals, and says how to run this point alone.
//!
//! **What it does not check.** `kill -9` does not lose the page cache, so it says nothing about the loss of power. It does not see what a tool
//! does outside its steps, nor whether the other side tolerates a step that runs twice: have your steps leave traces, and check them with
//! [`check_effects`](CrashTest::check_effects). A tool whose number of writes varies, such as one that polls, has points that it misses. Writes that
//! are committed together are one point.
//!
//! **What it needs.** It waits for timers: give the tool short ones, by its arguments or by the answers. Outcomes are compared by success or
//! failure, unless [`same_output`](CrashTest::same_output) is called. A child that is not durable is lost in a crash unless its
//! [`retry`](crate::Tool::retry) policy runs it again. Unix only.

mod campaign;
mod checks;
mod failure;
mod kill_point;
mod killing_store;
mod plan;
mod process;
mod run_mode;
mod trace;
mod worker;
mod write_name;

pub use failure::{CrashFailure, CrashRunFailure};

use crate::{Era, Server};
use campaign::Campaign;
use checks::OutcomeComparison;
use futures_util::future::{LocalBoxFuture, ready};
use plan::Plan;
use run_mode::RunMode;
use serde_json::{Value, json};
use std::{cell::Cell, path::Path, sync::Arc, time::Duration};

/// The time limit of one process, unless the test sets another.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Builds the server; is given the folder for the effects of its tools.
type BuildServer = dyn Fn(&Path) -> LocalBoxFuture<'static, Server> + Send + Sync;

/// Checks the folder for effects.
type CheckEffects = dyn Fn(&Path) -> Result<(), String> + Send + Sync;

thread_local! {
    /// How many crash tests the test function on this thread has created.
    static CREATED: Cell<u32> = const { Cell::new(0) };
}

/// Whether a crash test has started this process. Then the test function must not repeat its set-up: the parent process has done it.
pub fn is_child_process() -> bool {
    std::env::var_os(plan::VARIABLE).is_some()
}

/// A crash test of one call; see the [module](self).
#[must_use = "nothing is tested until `run`"]
pub struct CrashTest {
    server: Box<BuildServer>,
    keeps_journal: bool,
    tool: String,
    arguments: Value,
    answering: Arc<dyn Fn(&Value) -> Value + Send + Sync>,
    comparison: OutcomeComparison,
    check_effects: Box<CheckEffects>,
    timeout: Duration,
    test_name: Option<String>,
    era: Option<Era>,
}

/// What a crash test has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CrashReport {
    /// The writes of the two runs without a crash; each write has three kill points.
    pub writes: u32,
    /// All runs: without a crash, killed, and with each write made twice.
    pub runs: usize,
    /// How often the task was suspended, in the runs without a crash.
    pub suspensions: u32,
    /// The kill points that were reached. After the last writes a call may end before its process is killed.
    pub killed: usize,
}

impl CrashReport {
    fn add(&mut self, other: Self) {
        self.writes += other.writes;
        self.runs += other.runs;
        self.killed += other.killed;
        self.suspensions += other.suspensions;
    }
}

impl CrashTest {
    /// A crash test of a server, which each process builds anew; the test sets its data directory. `server` is given a folder for the effects of
    /// its tools: empty at first, and after a kill as the killed process left it. Each kill has a folder of its own.
    pub fn new(server: impl Fn(&Path) -> Server + Send + Sync + 'static) -> Self {
        Self::new_async(move |effects| ready(server(effects)))
    }

    /// As [`new`](Self::new), for a server that is built by async code.
    pub fn new_async<F: Future<Output = Server> + 'static>(
        server: impl Fn(&Path) -> F + Send + Sync + 'static,
    ) -> Self {
        Self {
            server: Box::new(move |effects| Box::pin(server(effects))),
            keeps_journal: true,
            tool: String::new(),
            arguments: json!({}),
            answering: Arc::new(worker::no_answer),
            comparison: OutcomeComparison::Verdict,
            check_effects: Box::new(|_| Ok(())),
            timeout: TIMEOUT,
            test_name: None,
            era: None,
        }
    }

    /// The call to make.
    pub fn call(mut self, tool: impl Into<String>, arguments: Value) -> Self {
        self.tool = tool.into();
        self.arguments = arguments;
        self
    }

    /// Allows a tool that keeps no journal and starts from scratch after a crash; its [`retry`](crate::Tool::retry) policy must allow that.
    /// Without this such a tool fails the test.
    pub fn without_journal(mut self) -> Self {
        self.keeps_journal = false;
        self
    }

    /// Answers the tool's questions. `question` is `{"method":…,"params":…}`, and `answer` returns the result of that request. It is called in
    /// each process, and again for an answer that a killed process had not recorded.
    ///
    /// ```no_run
    /// # use longhaul::{Server, testing::crash::CrashTest};
    /// # fn f(server: fn(&std::path::Path) -> Server) {
    /// use serde_json::json;
    /// CrashTest::new(server)
    ///     .call("release", json!({"rev": "abc"}))
    ///     .answering(|question| match question["method"].as_str() {
    ///         Some("elicitation/create") => json!({"action": "accept", "content": {"approved": true}}),
    ///         _ => json!({"action": "decline"}),
    ///     })
    ///     .run();
    /// # }
    /// ```
    pub fn answering(mut self, answer: impl Fn(&Value) -> Value + Send + Sync + 'static) -> Self {
        self.answering = Arc::new(answer);
        self
    }

    /// Requires exactly the same output in all runs, instead of success or failure in all.
    pub fn same_output(mut self) -> Self {
        self.comparison = OutcomeComparison::Output;
        self
    }

    /// Checks the folder for effects after each run; an error says what is wrong.
    pub fn check_effects(mut self, check: impl Fn(&Path) -> Result<(), String> + Send + Sync + 'static) -> Self {
        self.check_effects = Box::new(check);
        self
    }

    /// Makes the call only with clients of this era: once staying in memory while it waits, and once suspended at each wait. By default a modern
    /// client makes it in the first way and a legacy client in the second.
    pub fn era(mut self, era: Era) -> Self {
        self.era = Some(era);
        self
    }

    /// The time limit of each process; by default a minute.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The full name of the test function, as `cargo test -- --list` shows it. Needed if the crash test does not run on the thread of the test
    /// function.
    pub fn test_name(mut self, name: impl Into<String>) -> Self {
        self.test_name = Some(name.into());
        self
    }

    /// Runs the test.
    ///
    /// # Panics
    /// With a [`CrashFailure`], if the tool does not survive.
    #[track_caller]
    pub fn run(self) -> CrashReport {
        self.check().unwrap_or_else(|failure| panic!("{failure}"))
    }

    /// Runs the test. In the processes that it starts, this does not return.
    ///
    /// # Errors
    /// The first failure.
    pub fn check(self) -> Result<CrashReport, CrashFailure> {
        let nth = CREATED.replace(CREATED.get() + 1);
        match Plan::of_this_process().map_err(CrashFailure::Impossible)? {
            Some(plan) if plan.nth == nth => worker::run(&self, &plan),
            // The plan is for another crash test of the same function, which comes later.
            Some(_) => Ok(CrashReport::default()),
            None => self.campaign(nth),
        }
    }

    fn campaign(self, nth: u32) -> Result<CrashReport, CrashFailure> {
        let thread = std::thread::current();
        let name = self
            .test_name
            .clone()
            .or_else(|| thread.name().filter(|name| *name != "main").map(str::to_owned));
        let name = name.ok_or_else(|| {
            CrashFailure::Impossible(
                "its thread does not have the name of a test function; give it with `test_name`".to_owned(),
            )
        })?;
        let only = plan::only().map_err(CrashFailure::Impossible)?;
        let modes = only.map_or_else(|| RunMode::of(self.era).to_vec(), |(mode, _)| vec![mode]);
        let campaigns = modes.into_iter().map(|mode| Campaign {
            test: &self,
            name: name.clone(),
            nth,
            mode,
            era_tested_before: mode.suspends && self.era.is_some() && only.is_none(),
            only: only.map(|(_, point)| point),
        });
        let impossible = |error: std::io::Error| CrashFailure::Impossible(error.to_string());
        std::thread::scope(|scope| {
            // The test may run in a runtime, which cannot block on another one.
            let runs = std::thread::Builder::new()
                .name("crash tests".to_owned())
                .spawn_scoped(scope, || {
                    let runtime = tokio::runtime::Builder::new_current_thread()
                        .enable_all()
                        .build()
                        .map_err(impossible)?;
                    runtime.block_on(async {
                        let mut report = CrashReport::default();
                        for campaign in campaigns {
                            report.add(campaign.run().await?);
                        }
                        Ok(report)
                    })
                });
            let joined = runs.map_err(impossible)?.join();
            joined.unwrap_or_else(|_| Err(CrashFailure::Impossible("it panicked".to_owned())))
        })
    }
}
