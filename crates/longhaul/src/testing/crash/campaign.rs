//! All runs of a crash test in one mode: one without a crash, which counts the writes of the call, one for each kill point, and one in which each
//! write is made twice.

use super::{
    CrashFailure, CrashReport, CrashRunFailure, CrashTest, checks,
    kill_point::{KillPoint, WritePhase},
    plan::{self, Behavior, Plan},
    process::{self, ProcessEnd},
    run_mode::RunMode,
    trace::{self, TraceLine},
    worker::RunReport,
    write_name,
};
use futures_util::{StreamExt, TryStreamExt, stream};
use std::path::Path;

/// How many runs are executed concurrently.
const CONCURRENT_RUNS: usize = 2;
/// How many writes a run may have: a test with more would take too long.
const MAX_WRITES: u32 = 200;

pub(super) struct Campaign<'t> {
    pub(super) test: &'t CrashTest,
    /// The name of the test function.
    pub(super) name: String,
    pub(super) nth: u32,
    pub(super) mode: RunMode,
    /// Whether an earlier campaign has tested the same era without suspending.
    pub(super) era_tested_before: bool,
    /// The only point at which a process is to be killed.
    pub(super) only: Option<KillPoint>,
}

/// A run that has ended.
struct Run {
    trace: Vec<TraceLine>,
    report: RunReport,
}

impl Run {
    /// How often the task was suspended.
    fn suspensions(&self) -> u32 {
        let writes = self.trace.iter().filter(|line| match line {
            TraceLine::Write { what, .. } => what == write_name::SUSPENSION,
            _ => false,
        });
        u32::try_from(writes.count()).unwrap_or(u32::MAX)
    }
}

impl Campaign<'_> {
    pub(super) async fn run(&self) -> Result<CrashReport, CrashFailure> {
        let reference = self
            .run_without_crash(Behavior::RunToEnd, "the run without a crash")
            .await?;
        let writes = self.count_writes(&reference)?;
        let suspensions = reference.suspensions();
        if self.era_tested_before && suspensions == 0 {
            // It never waits, so suspending it tests nothing new.
            return Ok(CrashReport {
                runs: 1,
                ..CrashReport::default()
            });
        }
        let points: Vec<KillPoint> = match self.only {
            Some(point) => vec![point],
            None => (1..=writes)
                .flat_map(|write| WritePhase::ALL.map(|phase| KillPoint { write, phase }))
                .collect(),
        };
        let (tool, mode) = (&self.test.tool, self.mode.describe());
        eprintln!(
            "crash test of {tool:?}, called {mode}: {writes} writes, {} points",
            points.len()
        );
        let mut runs = 1 + points.len();
        let killed_runs = stream::iter(points)
            .map(|point| self.run_killed(point, &reference.report))
            .buffered(CONCURRENT_RUNS);
        let killed: Vec<bool> = killed_runs.try_collect().await?;
        let killed = killed.into_iter().filter(|killed| *killed).count();
        if killed == 0 {
            return Err(CrashFailure::Impossible("no process reached its kill point".to_owned()));
        }
        if self.only.is_none() {
            self.run_without_crash(Behavior::RepeatWrites, "the run with each write made twice")
                .await?;
            runs += 1;
        }
        eprintln!("crash test of {tool:?}, called {mode}: killed {killed} times, and survived");
        Ok(CrashReport {
            writes,
            runs,
            killed,
            suspensions,
        })
    }

    fn count_writes(&self, reference: &Run) -> Result<u32, CrashFailure> {
        let impossible = |why: String| Err(CrashFailure::Impossible(why));
        let writes = reference
            .trace
            .iter()
            .filter(|line| matches!(line, TraceLine::Write { .. }))
            .count();
        let journal = reference.report.journals.get(&reference.report.task);
        if self.test.keeps_journal && journal.is_none_or(Vec::is_empty) {
            return impossible(format!(
                "{:?} keeps no journal: is it made by `Tool::durable`? If it should start from scratch after a crash, call `without_journal`",
                self.test.tool
            ));
        }
        match u32::try_from(writes) {
            Ok(writes) if writes <= MAX_WRITES => Ok(writes),
            _ => impossible(format!(
                "a run has {writes} writes, and at most {MAX_WRITES} are allowed: give the tool less to do"
            )),
        }
    }

    async fn run_process(
        &self,
        directory: &Path,
        behavior: Behavior,
        check_schemas: bool,
    ) -> Result<ProcessEnd, CrashFailure> {
        let plan = Plan {
            nth: self.nth,
            directory: directory.to_owned(),
            mode: self.mode,
            behavior,
            check_schemas,
        };
        Ok(process::run(&self.name, &plan, self.test.timeout).await?)
    }

    fn find_problems(&self, run: &Run, directory: &Path) -> Vec<String> {
        let mut problems = checks::problems(&run.trace, &run.report);
        problems.extend((self.test.check_effects)(&plan::effects_in(directory)).err());
        problems
    }

    /// A run in which no process is killed.
    async fn run_without_crash(&self, behavior: Behavior, run: &'static str) -> Result<Run, CrashFailure> {
        let directory = create_directory()?;
        let fail = |problems| {
            Err(CrashFailure::WithoutCrash {
                tool: self.test.tool.clone(),
                mode: self.mode.describe(),
                run,
                problems,
            })
        };
        match self.run_process(directory.path(), behavior, true).await? {
            ProcessEnd::Finished => {}
            ProcessEnd::Killed => return fail(vec!["it was killed by something else than the test".to_owned()]),
            ProcessEnd::Failed(why) => return fail(vec![why]),
        }
        let run = read_run(directory.path())?;
        match self.find_problems(&run, directory.path()) {
            problems if problems.is_empty() => Ok(run),
            problems => fail(problems),
        }
    }

    /// A run whose first process is killed at a point. Returns whether the process reached that point.
    async fn run_killed(&self, point: KillPoint, reference: &RunReport) -> Result<bool, CrashFailure> {
        let directory = create_directory()?;
        let mut ended = self
            .run_process(directory.path(), Behavior::KillAt(point), false)
            .await?;
        let killed = ended == ProcessEnd::Killed;
        if killed {
            ended = self.run_process(directory.path(), Behavior::RunToEnd, false).await?;
        }
        let mut found = String::new();
        let problems = match ended {
            ProcessEnd::Finished => {
                let run = read_run(directory.path())?;
                found = checks::journal(&run.report);
                let mut problems = self.find_problems(&run, directory.path());
                problems.extend(checks::outcome_difference(
                    &self.test.comparison,
                    reference,
                    &run.report,
                ));
                problems
            }
            ProcessEnd::Killed => {
                vec!["the process after the crash was killed by something else than the test".to_owned()]
            }
            ProcessEnd::Failed(why) => vec![format!(
                "the process {}: {why}",
                if killed {
                    "after the crash"
                } else {
                    "that was to be killed"
                }
            )],
        };
        if problems.is_empty() {
            return Ok(killed);
        }
        let trace = trace::read(&plan::trace_in(directory.path()))?;
        Err(CrashFailure::AfterCrash(Box::new(CrashRunFailure {
            tool: self.test.tool.clone(),
            mode: self.mode.describe(),
            point: describe(point, killed, &trace),
            problems,
            expected: checks::journal(reference),
            found,
            files: directory.keep().display().to_string(),
            rerun: format!("{}:{point}", self.mode),
            test: self.name.clone(),
        })))
    }
}

fn create_directory() -> std::io::Result<tempfile::TempDir> {
    tempfile::Builder::new().prefix("longhaul-crash-").tempdir()
}

fn read_run(directory: &Path) -> Result<Run, CrashFailure> {
    let text = std::fs::read_to_string(plan::report_in(directory))?;
    let report = serde_json::from_str(&text).map_err(|error| CrashFailure::Impossible(error.to_string()))?;
    let trace = trace::read(&plan::trace_in(directory))?;
    Ok(Run { trace, report })
}

/// Describes where the process was killed, or should have been. It is the first in the trace.
fn describe(point: KillPoint, killed: bool, trace: &[TraceLine]) -> String {
    let what = trace.iter().find_map(|line| match line {
        TraceLine::Write { nth, what } if *nth == point.write => Some(what.as_str()),
        _ => None,
    });
    let place = point.phase.describe(what.unwrap_or("a write that was not reached"));
    match killed {
        true => format!("killed {place}"),
        false => format!("not killed (to be killed {place})"),
    }
}
