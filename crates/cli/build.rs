//! What `longhaul --version` says: version, commit and build.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// The commit, for builds without a repository.
const COMMIT: &str = "LONGHAUL_COMMIT";
/// Where this crate is in the repository of Longhaul. If it is anywhere else in a repository, as in a vendor folder, that one is not Longhaul's, and its commit says nothing.
const FOLDER: &str = "crates/cli/";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed={COMMIT}");
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let given = variable(COMMIT);
    let commit = match given
        .chars()
        .all(|char| char.is_ascii_alphanumeric() || "-_.+".contains(char))
    {
        true if !given.is_empty() => Some(given),
        _ => commit(),
    };
    let target = ["CARGO_CFG_TARGET_ARCH", "CARGO_CFG_TARGET_OS", "CARGO_CFG_TARGET_ENV"].map(variable);
    let target: Vec<String> = target.into_iter().filter(|part| !part.is_empty()).collect();
    let version = variable("CARGO_PKG_VERSION");
    let version = match commit {
        Some(commit) => format!("{version} ({commit}, {}, {})", variable("PROFILE"), target.join("-")),
        None => version,
    };
    println!("cargo:rustc-env=LONGHAUL_VERSION={version}");
}

/// The commit that is checked out; `None` without git or a repository.
fn commit() -> Option<String> {
    if git(&["rev-parse", "--show-prefix"])? != FOLDER {
        return None;
    }
    let file = |name: &str| git(&["rev-parse", "--git-path", name]).map(PathBuf::from);
    // A file that is not there would make each build stale.
    let watch = |path: &Path| {
        let is_there = path.exists();
        if is_there {
            println!("cargo:rerun-if-changed={}", path.display());
        }
        is_there
    };
    watch(&file("HEAD")?);
    if let Some(branch) = git(&["symbolic-ref", "--quiet", "HEAD"])
        && !watch(&file(&branch)?)
    {
        // The next commit writes its file, and the log of all.
        watch(&file("packed-refs")?);
        watch(&file("logs/HEAD")?);
    }
    git(&["rev-parse", "--short=7", "HEAD"])
}

fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    output
        .status
        .success()
        .then(|| said.trim().to_owned())
        .filter(|said| !said.is_empty())
}
