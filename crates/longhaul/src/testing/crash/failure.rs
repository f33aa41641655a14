//! What a crash test found.

use super::plan::ONLY;

/// A tool did not survive, or the test could not be made.
#[derive(Debug, thiserror::Error)]
pub enum CrashFailure {
    /// The test could not be made.
    #[error("the crash test cannot be made: {0}")]
    Impossible(String),
    /// Without any crash the tool did not come to an end, or not soundly.
    #[error("crash test of {tool:?}, called {manner}: {run}\n  {}", .faults.join("\n  "))]
    Unharmed {
        /// The tool.
        tool: String,
        /// How the call was driven, in words.
        manner: &'static str,
        /// Which run: alone, or with each write made twice.
        run: &'static str,
        /// All that was wrong.
        faults: Vec<String>,
    },
    /// A process was killed, and what came of it is not what was promised.
    #[error(transparent)]
    Harmed(Box<Harm>),
}

/// What a kill has done to a call.
#[derive(Debug, thiserror::Error)]
#[error(
    "crash test of {tool:?}, called {manner}: killed {point}:\n  {}\njournal of the run without a crash:{expected}\njournal of this run:{found}\n\
     its files: {files}\nonly this point again: {ONLY}={again} cargo test -- --exact {test}",
    .faults.join("\n  ")
)]
pub struct Harm {
    /// The tool.
    pub tool: String,
    /// How the call was driven, in words.
    pub manner: &'static str,
    /// Where its process was killed, in words.
    pub point: String,
    /// All that was wrong.
    pub faults: Vec<String>,
    /// The journal of the run without a crash, for people.
    pub expected: String,
    /// The journal of the run with the crash, for people; nothing if it came to no end.
    pub found: String,
    /// Where the run's store and trace are; they stay there.
    pub files: String,
    /// Names the point in `LONGHAUL_CRASH_ONLY`.
    pub again: String,
    /// The test function.
    pub test: String,
}

impl From<std::io::Error> for CrashFailure {
    fn from(error: std::io::Error) -> Self {
        Self::Impossible(error.to_string())
    }
}
