//! The errors of a crash test.

use super::plan::ONLY;

/// A crash test failed.
#[derive(Debug, thiserror::Error)]
pub enum CrashFailure {
    /// The test could not run.
    #[error("the crash test cannot run: {0}")]
    Impossible(String),
    /// A run without a crash failed.
    #[error("crash test of {tool:?}, called {mode}: {run}\n  {}", .problems.join("\n  "))]
    WithoutCrash {
        /// The tool.
        tool: String,
        /// How the call was made.
        mode: &'static str,
        /// Which run: the plain one, or the one with each write made twice.
        run: &'static str,
        /// Everything that is wrong.
        problems: Vec<String>,
    },
    /// Something was wrong in a run whose process was killed, or was to be killed.
    #[error(transparent)]
    AfterCrash(Box<CrashRunFailure>),
}

/// What was wrong in a run whose process was killed, or was to be killed.
#[derive(Debug, thiserror::Error)]
#[error(
    "crash test of {tool:?}, called {mode}: {point}:\n  {}\njournal of the run without a crash:{expected}\njournal of this run:{found}\n\
     its files: {files}\nto run only this point: {ONLY}={rerun} cargo test -- --exact {test}",
    .problems.join("\n  ")
)]
pub struct CrashRunFailure {
    /// The tool.
    pub tool: String,
    /// How the call was made.
    pub mode: &'static str,
    /// Where its process was killed; or that it was not, and where it should have been.
    pub point: String,
    /// Everything that is wrong.
    pub problems: Vec<String>,
    /// The journal of the run without a crash.
    pub expected: String,
    /// The journal of the run with the crash; empty if the run did not end.
    pub found: String,
    /// The directory with the run's store and trace; it is not deleted.
    pub files: String,
    /// The value of `LONGHAUL_CRASH_ONLY` that runs only this point.
    pub rerun: String,
    /// The test function.
    pub test: String,
}

impl From<std::io::Error> for CrashFailure {
    fn from(error: std::io::Error) -> Self {
        Self::Impossible(error.to_string())
    }
}
