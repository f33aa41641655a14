//! Node, for the conformance suite and the clients in TypeScript.

use crate::requirement::{self, RequirementError};
use harness::{process, workspace};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// The suite does not load under an older one.
const PACKAGE: &str = "node@22";
const VERSION_PREFIX: &str = "v22.";

/// A Node of the version that we need, independent of the machine's.
pub(crate) struct Node(PathBuf);

impl Node {
    /// Installs Node below the target folder, unless it is installed there.
    pub(crate) fn install() -> Result<Self, RequirementError> {
        let home = workspace::target().join("node");
        let node = Self(home.join("node_modules/node/bin/node"));
        if !node.works() {
            requirement::install_whole(&home, |draft| npm(draft, &["install", PACKAGE]))?;
        }
        Ok(node)
    }

    fn works(&self) -> bool {
        let version = self.command().arg("--version").output();
        version.is_ok_and(|said| said.stdout.starts_with(VERSION_PREFIX.as_bytes()))
    }

    /// Where the program is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// A command that runs Node.
    pub(crate) fn command(&self) -> Command {
        Command::new(&self.0)
    }
}

/// Runs npm in a folder.
pub(crate) fn npm(folder: &Path, words: &[&str]) -> Result<(), RequirementError> {
    requirement::npm()?;
    let mut npm = Command::new("npm");
    npm.args(words)
        .args(["--no-audit", "--no-fund", "--loglevel", "error", "--prefix"]);
    Ok(process::run(npm.arg(folder))?)
}
