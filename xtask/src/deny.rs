//! `cargo xtask deny`: what we depend on, held against `deny.toml`.

use crate::{
    process::{self, ProcessError},
    requirement::{self, RequirementError},
    workspace,
};

/// Why the dependencies are not in order, or could not be looked at.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DenyError {
    #[error(transparent)]
    Requirement(#[from] RequirementError),
    #[error(transparent)]
    Check(#[from] ProcessError),
}

/// Checks bans, licenses and sources. Advisories are left out: they change without us, and a test must not.
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

/// Whether it can be run without installing anything.
pub(crate) fn is_installed() -> bool {
    process::answers(workspace::cargo().args(["deny", "--version"]))
}
