//! What one process of a crash test does.

use super::{kill_point::KillPoint, run_mode::RunMode};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The variable that holds the plan of a process that a crash test has started.
pub(super) const VARIABLE: &str = "LONGHAUL_CRASH_TEST";

/// The variable by which an author asks for one kill point only: `legacy:3:before-commit`.
pub(super) const ONLY: &str = "LONGHAUL_CRASH_ONLY";

/// One process of a crash test.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Plan {
    /// Which crash test of the test function, counted from 0.
    pub(super) nth: u32,
    /// The directory of the run; all processes of the run share it.
    pub(super) directory: PathBuf,
    pub(super) mode: RunMode,
    pub(super) behavior: Behavior,
    /// Whether the client checks messages against the schemas: only in runs without a crash.
    pub(super) check_schemas: bool,
}

/// What a process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Behavior {
    /// Runs to the end of the task.
    RunToEnd,
    /// Runs to the end of the task and makes each write twice.
    RepeatWrites,
    /// Kills itself at this point.
    KillAt(KillPoint),
}

/// The kill point that the author asks for, if any.
///
/// # Errors
/// The variable has no valid value.
pub(super) fn only() -> Result<Option<(RunMode, KillPoint)>, String> {
    let Ok(text) = std::env::var(ONLY) else {
        return Ok(None);
    };
    let (mode, point) = text
        .split_once(':')
        .ok_or_else(|| format!("{ONLY} must look like `modern:3:before-commit`, not `{text}`"))?;
    Ok(Some((mode.parse()?, point.parse()?)))
}

impl Plan {
    /// The plan of this process, if it has one.
    ///
    /// # Errors
    /// The variable has no valid value.
    pub(super) fn of_this_process() -> Result<Option<Self>, String> {
        match std::env::var(VARIABLE) {
            Ok(text) => match serde_json::from_str(&text) {
                Ok(plan) => Ok(Some(plan)),
                Err(error) => Err(format!(
                    "only crash tests set {VARIABLE}, and its value is not a plan: {error}"
                )),
            },
            Err(_) => Ok(None),
        }
    }

    pub(super) fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    pub(super) fn trace(&self) -> PathBuf {
        trace_in(&self.directory)
    }

    pub(super) fn report(&self) -> PathBuf {
        report_in(&self.directory)
    }
}

/// The folder for the effects of the tool.
pub(super) fn effects_in(directory: &Path) -> PathBuf {
    directory.join("outside")
}

pub(super) fn trace_in(directory: &Path) -> PathBuf {
    directory.join("trace.jsonl")
}

pub(super) fn report_in(directory: &Path) -> PathBuf {
    directory.join("report.json")
}
