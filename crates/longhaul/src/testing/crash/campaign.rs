//! All runs of a crash test, from the one that learns the tool's writes to the last point.

use super::{
    CrashFailure, CrashTest, Harm, Survived,
    child::Report,
    manner::Manner,
    plan::{self, Act, Plan},
    point::{At, Point},
    process::{self, Ended},
    trace::{self, Line},
    verdict, write,
};
use futures_util::{StreamExt, TryStreamExt, stream};
use std::path::Path;

/// How many runs go on at once.
const AT_ONCE: usize = 2;
/// More writes than this are no test any more, but a load.
const MOST: u32 = 200;

pub(super) struct Campaign<'t> {
    pub(super) test: &'t CrashTest,
    /// The name of the test function.
    pub(super) name: String,
    pub(super) nth: u32,
    pub(super) manner: Manner,
    /// Whether there has been one in this generation, with the code kept in memory.
    pub(super) again: bool,
    /// The only point at which a process is to be killed.
    pub(super) only: Option<Point>,
}

/// A run that came to its end.
struct Run {
    trace: Vec<Line>,
    report: Report,
}

impl Run {
    /// How often the code was let go.
    fn let_go(&self) -> u32 {
        let writes = self.trace.iter().filter(|line| match line {
            Line::Write { what, .. } => what == write::LETTING_GO,
            _ => false,
        });
        u32::try_from(writes.count()).unwrap_or(u32::MAX)
    }
}

impl Campaign<'_> {
    pub(super) async fn run(&self) -> Result<Survived, CrashFailure> {
        let learned = self.unharmed(Act::Through, "the run without a crash").await?;
        let writes = self.writes(&learned)?;
        let let_go = learned.let_go();
        if self.again && let_go == 0 {
            // It never waits, so there is nothing new in this.
            return Ok(Survived {
                runs: 1,
                ..Survived::default()
            });
        }
        let points: Vec<Point> = match self.only {
            Some(point) => vec![point],
            None => (1..=writes)
                .flat_map(|write| At::ALL.map(|at| Point { write, at }))
                .collect(),
        };
        let (tool, manner) = (&self.test.tool, self.manner.describe());
        eprintln!(
            "crash test of {tool:?}, called {manner}: {writes} writes, {} points",
            points.len()
        );
        let mut runs = 1 + points.len();
        let harmed = stream::iter(points)
            .map(|point| self.harmed(point, &learned.report))
            .buffered(AT_ONCE);
        let killed: Vec<bool> = harmed.try_collect().await?;
        let killed = killed.into_iter().filter(|killed| *killed).count();
        if killed == 0 {
            return Err(CrashFailure::Impossible(
                "no process came to a point to be killed at".to_owned(),
            ));
        }
        if self.only.is_none() {
            self.unharmed(Act::Twice, "the run with each write made twice").await?;
            runs += 1;
        }
        eprintln!("crash test of {tool:?}, called {manner}: killed {killed} times, and survived");
        Ok(Survived {
            writes,
            runs,
            killed,
            let_go,
        })
    }

    fn writes(&self, learned: &Run) -> Result<u32, CrashFailure> {
        let impossible = |why: String| Err(CrashFailure::Impossible(why));
        let writes = learned
            .trace
            .iter()
            .filter(|line| matches!(line, Line::Write { .. }))
            .count();
        let journal = learned.report.journals.get(&learned.report.task);
        if self.test.keeps_journal && journal.is_none_or(Vec::is_empty) {
            return impossible(format!(
                "{:?} keeps no journal: is it made by `Tool::durable`? If it is to be run again from its start each time, say `without_journal`",
                self.test.tool
            ));
        }
        match u32::try_from(writes) {
            Ok(writes) if writes <= MOST => Ok(writes),
            _ => impossible(format!(
                "a run has {writes} writes, and may have {MOST}: give it less to do"
            )),
        }
    }

    async fn process(&self, directory: &Path, act: Act, unharmed: bool) -> Result<Ended, CrashFailure> {
        let plan = Plan {
            nth: self.nth,
            directory: directory.to_owned(),
            manner: self.manner,
            act,
            unharmed,
        };
        Ok(process::run(&self.name, &plan, self.test.limit).await?)
    }

    fn faults(&self, run: &Run, directory: &Path) -> Vec<String> {
        let mut faults = verdict::faults(&run.trace, &run.report);
        faults.extend((self.test.afterwards)(&plan::outside_in(directory)).err());
        faults
    }

    /// A run that nobody kills.
    async fn unharmed(&self, act: Act, run: &'static str) -> Result<Run, CrashFailure> {
        let directory = directory()?;
        let fail = |faults| {
            Err(CrashFailure::Unharmed {
                tool: self.test.tool.clone(),
                manner: self.manner.describe(),
                run,
                faults,
            })
        };
        match self.process(directory.path(), act, true).await? {
            Ended::Well => {}
            Ended::Killed => return fail(vec!["it was killed, and not by the test".to_owned()]),
            Ended::Badly(why) => return fail(vec![why]),
        }
        let run = read(directory.path())?;
        match self.faults(&run, directory.path()) {
            faults if faults.is_empty() => Ok(run),
            faults => fail(faults),
        }
    }

    /// A run whose first process is killed at a point; says whether it got there.
    async fn harmed(&self, point: Point, learned: &Report) -> Result<bool, CrashFailure> {
        let directory = directory()?;
        let mut ended = self.process(directory.path(), Act::Until(point), false).await?;
        let killed = ended == Ended::Killed;
        if killed {
            ended = self.process(directory.path(), Act::Through, false).await?;
        }
        let mut found = String::new();
        let faults = match ended {
            Ended::Well => {
                let run = read(directory.path())?;
                found = verdict::journal(&run.report);
                let mut faults = self.faults(&run, directory.path());
                faults.extend(verdict::unlike(&self.test.likeness, learned, &run.report));
                faults
            }
            Ended::Killed => vec!["the process after the crash was killed, and not by the test".to_owned()],
            Ended::Badly(why) => vec![format!(
                "the process {}: {why}",
                if killed {
                    "after the crash"
                } else {
                    "that was to be killed"
                }
            )],
        };
        if faults.is_empty() {
            return Ok(killed);
        }
        let trace = trace::read(&plan::trace_in(directory.path()))?;
        Err(CrashFailure::Harmed(Box::new(Harm {
            tool: self.test.tool.clone(),
            manner: self.manner.describe(),
            point: describe(point, &trace),
            faults,
            expected: verdict::journal(learned),
            found,
            files: directory.keep().display().to_string(),
            again: format!("{}:{point}", self.manner),
            test: self.name.clone(),
        })))
    }
}

fn directory() -> std::io::Result<tempfile::TempDir> {
    tempfile::Builder::new().prefix("longhaul-crash-").tempdir()
}

fn read(directory: &Path) -> Result<Run, CrashFailure> {
    let text = std::fs::read_to_string(plan::report_in(directory))?;
    let report = serde_json::from_str(&text).map_err(|error| CrashFailure::Impossible(error.to_string()))?;
    let trace = trace::read(&plan::trace_in(directory))?;
    Ok(Run { trace, report })
}

/// A point in words: the killed process is the first that the trace tells of.
fn describe(point: Point, trace: &[Line]) -> String {
    let what = trace.iter().find_map(|line| match line {
        Line::Write { nth, what } if *nth == point.write => Some(what.as_str()),
        _ => None,
    });
    point.at.describe(what.unwrap_or("a write that was not come to"))
}
