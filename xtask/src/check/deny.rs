//! `cargo xtask deny`: checks the dependencies against `deny.toml`.

use crate::requirement::{self, RequirementError};
use harness::{
    process::{self, ProcessError},
    workspace,
};

/// Why the check failed or could not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DenyError {
    #[error(transparent)]
    Requirement(#[from] RequirementError),
    #[error(transparent)]
    Check(#[from] ProcessError),
}

/// Checks bans, licenses and sources. Not advisories: a test must not fail because the advisories have changed.
pub(crate) fn run() -> Result<(), DenyError> {
    requirement::cargo_command("deny")?;
    Ok(process::run(workspace::cargo().args([
        "deny",
        "--locked",
        "check",
        "--hide-inclusion-graph",
        "bans",
        "licenses",
        "sources",
    ]))?)
}

/// Whether cargo-deny is installed.
pub(crate) fn is_installed() -> bool {
    process::answers(workspace::cargo().args(["deny", "--version"]))
}
