//! The clients of others, and what their scripts and those of the servers need.

use super::InteropError;
use crate::{
    peers::node::{self, Node},
    requirement::{self, RequirementError},
};
use harness::{process, workspace};
use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    io,
    path::{Path, PathBuf},
    process::Command,
};

/// A client and its script in the folder `interop`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    /// A program of this workspace, with the official Rust SDK.
    Rmcp,
    Python(&'static str),
    TypeScript(&'static str),
}

impl Peer {
    pub(super) fn name(self) -> String {
        match self {
            Self::Rmcp => "rmcp".to_owned(),
            Self::Python(file) => format!("python/{file}"),
            Self::TypeScript(file) => format!("typescript/{file}"),
        }
    }

    /// Installs what the script needs, and returns the command that runs it.
    pub(super) fn command(self) -> Result<Command, InteropError> {
        match self {
            Self::Rmcp => Ok(Command::new(workspace::interop_rmcp().or_build(None)?)),
            Self::Python(file) => python("python", "requirements.txt", file),
            Self::TypeScript(file) => typescript(file),
        }
    }
}

/// The command that runs a script of a folder in `interop`. Installs the packages that it needs.
pub(crate) fn python(folder: &str, requirements: &str, script: &str) -> Result<Command, InteropError> {
    let mut command = Command::new("python3");
    // `-B`: writes no byte code into the source folder.
    command.arg("-B").arg(source(folder).join(script));
    command.env("PYTHONPATH", python_packages(folder, requirements)?);
    Ok(command)
}

/// The command that runs a script of the folder `interop/typescript`. Installs the packages that it needs.
pub(crate) fn typescript(script: &str) -> Result<Command, InteropError> {
    let mut command = Node::install()?.command();
    command.arg(node_scripts("typescript")?.join(script));
    Ok(command)
}

/// The folder where the packages for Python are installed that a file in a folder of `interop` lists.
pub(crate) fn python_packages(folder: &str, requirements: &str) -> Result<PathBuf, InteropError> {
    Ok(python_packages_of(&source(folder).join(requirements))?)
}

/// The folder where the packages for Python are installed that a file lists.
pub(crate) fn python_packages_of(wanted: &Path) -> Result<PathBuf, RequirementError> {
    let version = requirement::python()?;
    let listed = fs::read(wanted).map_err(|source| RequirementError::Folder {
        what: wanted.display().to_string(),
        source,
    })?;
    let packages = installed("python", &(version, listed));
    if !packages.exists() {
        requirement::install_whole(&packages, |draft| {
            let mut pip = Command::new("python3");
            pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
            // The folder is separate from everything else that is installed.
            pip.args(["--no-warn-conflicts", "--root-user-action", "ignore"]);
            pip.arg("--requirement").arg(wanted).arg("--target").arg(draft);
            Ok(process::run(&mut pip)?)
        })?;
    }
    Ok(packages)
}

/// The folder with the scripts of a folder in `interop` and the packages that they need: Node finds these beside the script.
pub(crate) fn node_scripts(folder: &str) -> Result<PathBuf, InteropError> {
    let home = node_packages(folder)?;
    copy(&source(folder), &home, "mjs")?;
    Ok(home)
}

/// The folder where the packages for Node are installed that a folder in `interop` needs.
pub(crate) fn node_packages(folder: &str) -> Result<PathBuf, InteropError> {
    let source = source(folder);
    let lock = source.join("package-lock.json");
    // The hosts have none: each is one package with what it needs, and a lock must list those for every other system, which not all registries have.
    let (pins, install): (_, &[&str]) = match lock.exists() {
        true => (lock, &["ci"]),
        false => (source.join("package.json"), &["install", "--no-package-lock"]),
    };
    let home = installed(folder, &fs::read(pins)?);
    if !home.exists() {
        requirement::install_whole(&home, |draft| {
            copy(&source, draft, "json").map_err(|source| RequirementError::Folder {
                what: draft.display().to_string(),
                source,
            })?;
            // No package needs its own scripts, and those of some compile.
            node::npm(draft, &[install, &["--ignore-scripts"]].concat())
        })?;
    }
    Ok(home)
}

/// A folder in `interop`.
pub(crate) fn source(folder: &str) -> PathBuf {
    workspace::root().join("interop").join(folder)
}

/// The folder of an installation; `description` identifies its content.
fn installed(language: &str, description: &impl Hash) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    description.hash(&mut hasher);
    let name = format!("{language}-{:016x}", hasher.finish());
    workspace::target().join("interop").join(name)
}

/// Copies the files with this extension.
fn copy(from: &Path, to: &Path, extension: &str) -> io::Result<()> {
    for file in fs::read_dir(from)? {
        let path = file?.path();
        if let Some(name) = path.file_name()
            && path.extension().is_some_and(|it| it == extension)
        {
            fs::copy(&path, to.join(name))?;
        }
    }
    Ok(())
}
