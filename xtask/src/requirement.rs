//! What the commands need from the machine, and how it is got.

use crate::{
    process::{self, ProcessError},
    workspace,
};
use std::process::Command;

/// Why something needed is not there.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequirementError {
    #[error(transparent)]
    Install(#[from] ProcessError),
    #[error("strace is needed and not installed; install it, for example with `apt-get install strace`")]
    Strace,
    #[error("npm is needed to get the conformance suite; install Node with npm, any version")]
    Npm,
}

/// Makes sure of a subcommand of cargo.
pub(crate) fn cargo_command(name: &str) -> Result<(), RequirementError> {
    if process::answers(workspace::cargo().args([name, "--version"])) {
        return Ok(());
    }
    let package = format!("cargo-{name}");
    Ok(process::run(
        workspace::cargo().args(["install", "--locked", &package]),
    )?)
}

/// Makes sure of strace; where we may install it, we do.
pub(crate) fn strace() -> Result<(), RequirementError> {
    let there = || process::answers(Command::new("strace").arg("--version"));
    if there() {
        return Ok(());
    }
    let apt = || process::answers(Command::new("apt-get").arg("--version"));
    if rustix::process::geteuid().is_root() && apt() {
        let apt = |words: &[&str]| {
            process::run(
                Command::new("apt-get")
                    .env("DEBIAN_FRONTEND", "noninteractive")
                    .args(words),
            )
        };
        // A list that cannot be refreshed may be fresh enough.
        let _ = apt(&["update", "--quiet"]);
        apt(&["install", "--yes", "--quiet", "strace"])?;
    }
    there().then_some(()).ok_or(RequirementError::Strace)
}

/// Makes sure of npm.
pub(crate) fn npm() -> Result<(), RequirementError> {
    let there = process::answers(Command::new("npm").arg("--version"));
    there.then_some(()).ok_or(RequirementError::Npm)
}
