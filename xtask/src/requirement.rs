//! What the commands need from the machine, and how it is got.

use crate::{
    process::{self, ProcessError},
    workspace,
};
use std::{fs, io, path::Path, process::Command};

/// Why something needed is not there.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequirementError {
    #[error(transparent)]
    Install(#[from] ProcessError),
    #[error("{name} is needed and not installed; install it, for example with `apt-get install {name}`")]
    Program { name: &'static str },
    #[error(
        "npm is needed to get Node 22, the conformance suite and the clients in TypeScript; install Node with npm, any version"
    )]
    Npm,
    #[error(
        "python3, 3.11 or later, and its pip are needed for the client in Python; install them, for example with `apt-get install python3-pip`"
    )]
    Python,
    #[error("{what} cannot be put in place: {source}")]
    Folder { what: String, source: io::Error },
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

/// Makes sure of a program that comes in a package of its name; where we may install it, we do.
pub(crate) fn program(name: &'static str) -> Result<(), RequirementError> {
    let there = || process::answers(Command::new(name).arg("--version"));
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
        apt(&["install", "--yes", "--quiet", name])?;
    }
    there().then_some(()).ok_or(RequirementError::Program { name })
}

/// Makes sure of npm.
pub(crate) fn npm() -> Result<(), RequirementError> {
    let there = process::answers(Command::new("npm").arg("--version"));
    there.then_some(()).ok_or(RequirementError::Npm)
}

/// Makes sure of Python and pip, and says its version.
pub(crate) fn python() -> Result<String, RequirementError> {
    const VERSION: &str = "import sys; assert sys.version_info >= (3, 11); print(sys.implementation.cache_tag)";
    let version = Command::new("python3").args(["-c", VERSION]).output();
    let pip = || process::answers(Command::new("python3").args(["-m", "pip", "--version"]));
    match version {
        Ok(said) if said.status.success() && pip() => Ok(String::from_utf8_lossy(&said.stdout).trim().to_owned()),
        _ => Err(RequirementError::Python),
    }
}

/// Fills a folder, under another name until it is whole: an installation that was broken off must not look like one.
pub(crate) fn install_whole(
    folder: &Path,
    fill: impl FnOnce(&Path) -> Result<(), RequirementError>,
) -> Result<(), RequirementError> {
    let failed = |source| RequirementError::Folder {
        what: folder.display().to_string(),
        source,
    };
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let draft = folder.with_file_name(format!("{name}-{}", std::process::id()));
    fs::create_dir_all(&draft).map_err(failed)?;
    fill(&draft)?;
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(failed)?;
    }
    fs::rename(draft, folder).map_err(failed)
}
