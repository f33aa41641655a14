//! Finds or installs the programs that the commands need.

use harness::{
    postgres::{self, PostgresError},
    process::{self, ProcessError},
    workspace,
};
use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

/// Why a needed program is missing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequirementError {
    #[error(transparent)]
    Install(#[from] ProcessError),
    #[error("{name} is needed and not installed; install it, for example with `apt-get install {name}`")]
    Program { name: &'static str },
    #[error(
        "npm is needed to get Node 22, the conformance suite and the clients and servers in TypeScript; install Node with npm, any version"
    )]
    Npm,
    #[error(
        "python3, 3.11 or later, and its pip are needed for the client and the servers in Python; install them, for example with `apt-get install python3-pip`"
    )]
    Python,
    #[error(
        "commit {commit} is needed for the upgrade test and is not in this repository; in a shallow clone, run `git fetch --unshallow`, or leave the \
         test out with --without-upgrade"
    )]
    Commit { commit: &'static str },
    #[error(transparent)]
    Postgres(#[from] PostgresError),
    #[error("{what} cannot be installed: {source}")]
    Folder { what: String, source: io::Error },
}

/// Installs a subcommand of cargo, unless it is installed. It is built without optimisation: that takes a third of the time, and it only starts other programs.
pub(crate) fn cargo_command(name: &str) -> Result<(), RequirementError> {
    if process::answers(workspace::cargo().args([name, "--version"])) {
        return Ok(());
    }
    let package = format!("cargo-{name}");
    Ok(process::run(
        workspace::cargo().args(["install", "--locked", "--debug", &package]),
    )?)
}

/// Installs mdBook, unless it is installed, as it is needed to make a site: with search, and without its server.
pub(crate) fn mdbook() -> Result<(), RequirementError> {
    if process::answers(Command::new("mdbook").arg("--version")) {
        return Ok(());
    }
    let mut install = workspace::cargo();
    install.args(["install", "--locked", "--debug", "mdbook", "--version", "^0.5"]);
    Ok(process::run(install.args([
        "--no-default-features",
        "--features",
        "search",
    ]))?)
}

/// Checks that a program is installed, and installs the package of the same name if we have the permission.
pub(crate) fn program(name: &'static str) -> Result<(), RequirementError> {
    let there = || process::answers(Command::new(name).arg("--version"));
    if !there() {
        install_package(name)?;
    }
    there().then_some(()).ok_or(RequirementError::Program { name })
}

/// Checks that systemd's reader of units is installed, and installs it if we have the permission.
pub(crate) fn systemd_analyze() -> Result<(), RequirementError> {
    let there = || process::answers(Command::new("systemd-analyze").arg("--version"));
    if !there() {
        install_package("systemd")?;
    }
    there()
        .then_some(())
        .ok_or(RequirementError::Program { name: "systemd" })
}

/// Installs a package of Debian, if we have the permission.
fn install_package(name: &str) -> Result<(), RequirementError> {
    let has_apt = process::answers(Command::new("apt-get").arg("--version"));
    if !rustix::process::geteuid().is_root() || !has_apt {
        return Ok(());
    }
    let apt = |words: &[&str]| {
        process::run(
            Command::new("apt-get")
                .env("DEBIAN_FRONTEND", "noninteractive")
                .args(words),
        )
    };
    // If the package lists cannot be updated, they may be recent enough.
    let _ = apt(&["update", "--quiet"]);
    Ok(apt(&["install", "--yes", "--quiet", name])?)
}

/// Checks that the programs of PostgreSQL are installed, and installs them if we have the permission. The tests start a server of their own with them.
pub(crate) fn postgres() -> Result<(), RequirementError> {
    if postgres::program("initdb").is_err() {
        install_package("postgresql")?;
    }
    Ok(postgres::program("initdb").map(drop)?)
}

/// A minimal root of this machine's release of Debian, for packages to be installed in. It is made once.
pub(crate) fn debian_root() -> Result<PathBuf, RequirementError> {
    program("mmdebstrap")?;
    let text = |said: Vec<u8>| String::from_utf8_lossy(&said).trim().to_owned();
    let suite = text(process::read(
        Command::new("sh").args(["-c", ". /etc/os-release && echo \"$VERSION_CODENAME\""]),
    )?);
    let root = workspace::target().join(format!("debian-{suite}"));
    if !root.exists() {
        let sources = ["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"];
        let sources = text(process::read(Command::new("apt-get").args(sources))?);
        install_whole(&root, |draft| {
            let mut make = Command::new("mmdebstrap");
            make.args([
                "--quiet",
                "--mode=root",
                "--variant=essential",
                "--include=adduser,libgcc-s1",
            ]);
            Ok(process::run(make.arg(&suite).arg(draft).args(sources.lines().next()))?)
        })?;
    }
    Ok(root)
}

/// Checks that this repository has a commit.
pub(crate) fn commit(commit: &'static str) -> Result<(), RequirementError> {
    let mut git = Command::new("git");
    git.current_dir(workspace::root())
        .args(["cat-file", "-e", &format!("{commit}^{{commit}}")]);
    process::answers(&mut git)
        .then_some(())
        .ok_or(RequirementError::Commit { commit })
}

/// Whether this is a repository with all of its commits: no shallow clone, and no copy of the files alone.
pub(crate) fn has_whole_history() -> bool {
    let mut git = Command::new("git");
    git.current_dir(workspace::root())
        .args(["rev-parse", "--is-shallow-repository"]);
    git.output().is_ok_and(|said| said.stdout.starts_with(b"false"))
}

/// Checks that npm is installed.
pub(crate) fn npm() -> Result<(), RequirementError> {
    let there = process::answers(Command::new("npm").arg("--version"));
    there.then_some(()).ok_or(RequirementError::Npm)
}

/// Checks that Python and pip are installed. Returns the version of Python.
pub(crate) fn python() -> Result<String, RequirementError> {
    const VERSION: &str = "import sys; assert sys.version_info >= (3, 11); print(sys.implementation.cache_tag)";
    let version = Command::new("python3").args(["-c", VERSION]).output();
    let pip = || process::answers(Command::new("python3").args(["-m", "pip", "--version"]));
    match version {
        Ok(said) if said.status.success() && pip() => Ok(String::from_utf8_lossy(&said.stdout).trim().to_owned()),
        _ => Err(RequirementError::Python),
    }
}

/// Fills a folder under a temporary name and renames it, so that an interrupted installation is not taken for a complete one.
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
