//! A test that kills: whether a durable tool survives a crash at any of its writes.
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
//! The call is made by a client of each generation: a modern one, and one of 2025-11-25, which is asked on its connection and fetches the
//! result when it is there. While the code of the first call waits it stays in memory; that of the second is let go at once and run again
//! for what comes, as it is else after 30 s ([`Server::keep_waiting`]). For each of the two the test function runs itself again, in processes of their own: once to learn what the call
//! writes, once with each write made twice, as if its acknowledgement had been lost, and then, for each write, three times with `kill -9`: before the commit (what was done is not
//! journaled), between commit and acknowledgement, and after the acknowledgement, when the work goes on. After each kill a new process is
//! started over the same data directory, and makes the call again under the same idempotency key. Then all of this must hold:
//!
//! - The call is one task, and has one outcome, like that of the run without a crash, and its client is told that one.
//! - No step began again once it was journaled how it had ended. (Before that it may: the crash can come between effect and entry.)
//! - Every acknowledged entry is in the journal.
//! - Nothing is left over: no question is open, and no child lives.
//!
//! A failure says where the process was killed, shows both journals, and how to run this point alone.
//!
//! **What it does not prove.** The page cache survives `kill -9`, so nothing is said about the loss of power. What a tool does outside of
//! its steps is not seen. A step that is killed on its way is repeated, and whether the outside minds is not seen; let
//! your steps leave traces, and look at them [`afterwards`](CrashTest::afterwards). The points are those of the run without a crash: of a tool that writes more another time, as one
//! that polls, some are missed. Two writes that travel together are one point.
//!
//! **What it needs.** Waits are waited for: give the tool short ones by its arguments or by the answers. The outcome is compared by its
//! verdict, unless [`same_output`](CrashTest::same_output) is asked for. Children that are no durable tools are lost in a crash unless their
//! [`retry`](crate::Tool::retry) policy runs them again. Unix only.

mod campaign;
mod child;
mod failure;
mod manner;
mod plan;
mod point;
mod process;
mod store;
mod trace;
mod verdict;
mod write;

pub use failure::{CrashFailure, Harm};

use crate::{Era, Server};
use campaign::Campaign;
use futures_util::future::{LocalBoxFuture, ready};
use manner::Manner;
use plan::Plan;
use serde_json::{Value, json};
use std::{cell::Cell, path::Path, sync::Arc, time::Duration};
use verdict::Likeness;

/// How long one process may take, unless the test says otherwise.
const LIMIT: Duration = Duration::from_secs(60);

/// Builds the server, over a folder for what its tools do outside.
type Build = dyn Fn(&Path) -> LocalBoxFuture<'static, Server> + Send + Sync;

/// Looks at a folder; says what is wrong in it.
type Look = dyn Fn(&Path) -> Result<(), String> + Send + Sync;

thread_local! {
    /// How many crash tests the test function on this thread has made.
    static MADE: Cell<u32> = const { Cell::new(0) };
}

/// Whether this process is one that a crash test has started: then what the test function prepares before the test is prepared already.
pub fn is_inside() -> bool {
    std::env::var_os(plan::VARIABLE).is_some()
}

/// A crash test of one call; see the [module](self).
#[must_use = "nothing is tested until `run`"]
pub struct CrashTest {
    server: Box<Build>,
    keeps_journal: bool,
    tool: String,
    arguments: Value,
    answering: Arc<dyn Fn(&Value) -> Value + Send + Sync>,
    likeness: Likeness,
    afterwards: Box<Look>,
    limit: Duration,
    name: Option<String>,
    era: Option<Era>,
}

/// What a crash test did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Survived {
    /// Writes of the two runs without a crash; each write has three points to be killed at.
    pub writes: u32,
    /// All runs, each of which has made the call once: whether killed, unharmed or with each write made twice.
    pub runs: usize,
    /// How often the tool's code was let go while it waited, in the runs without a crash.
    pub let_go: u32,
    /// Points at which a process was killed. The last writes of a call may be over before a process can be killed after them.
    pub killed: usize,
}

impl Survived {
    fn add(&mut self, other: Self) {
        self.writes += other.writes;
        self.runs += other.runs;
        self.killed += other.killed;
        self.let_go += other.let_go;
    }
}

impl CrashTest {
    /// A crash test of a server, which is built anew in each process; where it keeps its tasks is the test's choice. `server` is given an empty
    /// folder for what the tool does outside: the process after the crash finds it as the killed one has left it, and each kill has its own.
    pub fn new(server: impl Fn(&Path) -> Server + Send + Sync + 'static) -> Self {
        Self::building(move |outside| ready(server(outside)))
    }

    /// As [`new`](Self::new), of a server that takes its time to be built, as one of another library's handler.
    pub fn building<F: Future<Output = Server> + 'static>(server: impl Fn(&Path) -> F + Send + Sync + 'static) -> Self {
        Self {
            server: Box::new(move |outside| Box::pin(server(outside))),
            keeps_journal: true,
            tool: String::new(),
            arguments: json!({}),
            answering: Arc::new(child::no_answer),
            likeness: Likeness::Verdict,
            afterwards: Box::new(|_| Ok(())),
            limit: LIMIT,
            name: None,
            era: None,
        }
    }

    /// The call that is made.
    pub fn call(mut self, tool: impl Into<String>, arguments: Value) -> Self {
        self.tool = tool.into();
        self.arguments = arguments;
        self
    }

    /// Says that the tool keeps no journal: what it does is done again from its start, which its [`retry`](crate::Tool::retry) has to let
    /// happen. Without this such a tool fails the test, since it is rarely meant.
    pub fn without_journal(mut self) -> Self {
        self.keeps_journal = false;
        self
    }

    /// Answers what the tool asks: `question` is `{"method":…,"params":…}`, and what is returned is its result. It is asked in each
    /// process, and again for what a killed one had not written.
    pub fn answering(mut self, answer: impl Fn(&Value) -> Value + Send + Sync + 'static) -> Self {
        self.answering = Arc::new(answer);
        self
    }

    /// Asks for the same output after each crash, to the letter; only for tools whose output is the same each time.
    pub fn same_output(mut self) -> Self {
        self.likeness = Likeness::Output;
        self
    }

    /// Looks at what the tool has done outside, in the folder that the server was built with, after each run; an error says what is wrong.
    pub fn afterwards(mut self, look: impl Fn(&Path) -> Result<(), String> + Send + Sync + 'static) -> Self {
        self.afterwards = Box::new(look);
        self
    }

    /// Has the call made by clients of this generation only, once with code that stays in memory while it waits, and once with code that is
    /// let go; by default it is made by a client of each, in one way each.
    pub fn era(mut self, era: Era) -> Self {
        self.era = Some(era);
        self
    }

    /// How long each process may take; by default a minute.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// The full name of the test function, as `cargo test -- --list` shows it. Needed where the test is made on a thread that is not
    /// the test's own.
    pub fn named(mut self, test: impl Into<String>) -> Self {
        self.name = Some(test.into());
        self
    }

    /// Makes the test.
    ///
    /// # Panics
    /// If the tool does not survive, with a [`CrashFailure`].
    #[track_caller]
    pub fn run(self) -> Survived {
        self.check().unwrap_or_else(|failure| panic!("{failure}"))
    }

    /// Makes the test. In the processes that it starts this does not return.
    ///
    /// # Errors
    /// The first thing that was found.
    pub fn check(self) -> Result<Survived, CrashFailure> {
        let nth = MADE.replace(MADE.get() + 1);
        match Plan::of_this_process().map_err(CrashFailure::Impossible)? {
            Some(plan) if plan.nth == nth => child::run(&self, &plan),
            // Another of the same function is meant, which comes later.
            Some(_) => Ok(Survived::default()),
            None => self.campaign(nth),
        }
    }

    fn campaign(self, nth: u32) -> Result<Survived, CrashFailure> {
        let thread = std::thread::current();
        let name = self
            .name
            .clone()
            .or_else(|| thread.name().filter(|name| *name != "main").map(str::to_owned));
        let name = name.ok_or_else(|| {
            CrashFailure::Impossible(
                "the thread it is made on has not the name of a test function; say which it is with `named`".to_owned(),
            )
        })?;
        let only = plan::only().map_err(CrashFailure::Impossible)?;
        let manners = only.map_or_else(|| Manner::of(self.era).to_vec(), |(manner, _)| vec![manner]);
        let campaigns = manners.into_iter().map(|manner| Campaign {
            test: &self,
            name: name.clone(),
            nth,
            manner,
            again: manner.lets_go && self.era.is_some() && only.is_none(),
            only: only.map(|(_, point)| point),
        });
        let impossible = |error: std::io::Error| CrashFailure::Impossible(error.to_string());
        std::thread::scope(|scope| {
            // The test may run in a runtime, which cannot wait for another on its own thread.
            let runs = std::thread::Builder::new()
                .name("crash tests".to_owned())
                .spawn_scoped(scope, || {
                    let runtime = tokio::runtime::Builder::new_current_thread()
                        .enable_all()
                        .build()
                        .map_err(impossible)?;
                    runtime.block_on(async {
                        let mut survived = Survived::default();
                        for campaign in campaigns {
                            survived.add(campaign.run().await?);
                        }
                        Ok(survived)
                    })
                });
            let joined = runs.map_err(impossible)?.join();
            joined.unwrap_or_else(|_| Err(CrashFailure::Impossible("it panicked".to_owned())))
        })
    }
}
