//! The programs of an older commit, and which of the two releases a round starts.

use harness::{
    process,
    rounds::RunError,
    workspace::{self, Program},
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The servers of one release.
#[derive(Clone)]
pub(crate) struct ServerPrograms {
    pub(crate) longhaul: PathBuf,
    pub(crate) under_fire: PathBuf,
    /// The option of `under_fire` that names the file of effects.
    pub(super) effects_flag: &'static str,
}

/// The servers of a run, and the older ones that its first half runs, if it shows an upgrade.
pub(super) struct Release {
    pub(super) newer: ServerPrograms,
    pub(super) older: Option<ServerPrograms>,
    pub(super) rounds: u32,
}

impl Release {
    /// The servers of a round. In the last round they are the newer ones.
    pub(super) fn of_round(&self, round: u32) -> &ServerPrograms {
        match &self.older {
            Some(older) if round <= self.rounds / 2 => older,
            _ => &self.newer,
        }
    }
}

/// The option of `under_fire` that names the file of effects, now and before 2026-11-22.
pub(super) const EFFECTS_FLAG: &str = "--effects";
const FORMER_EFFECTS_FLAG: &str = "--side";

/// Builds the programs as they were at `commit`, in a clone of its own below the target folder. A second run builds nothing.
pub(crate) fn build(commit: &str) -> Result<ServerPrograms, RunError> {
    let id = commit_id(commit)?;
    let folder = workspace::target().join("upgrade");
    let kept = |program: &Program| folder.join(format!("{}-{id}", program.name()));
    let programs = [workspace::longhaul(), workspace::under_fire()];
    if !programs.iter().all(|program| kept(program).exists()) {
        let target = folder.join("target");
        let clone = check_out(&folder, &id)?;
        let mut build = workspace::build(&programs);
        // Nobody debugs it, and without incremental compilation a first build is faster.
        build
            .current_dir(clone)
            .env("CARGO_TARGET_DIR", &target)
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("CARGO_INCREMENTAL", "0");
        process::run(&mut build)?;
        for program in &programs {
            // Under a temporary name first, so that an interrupted copy is not taken for a program.
            let partial = folder.join("partial");
            fs::copy(program.path_in(&target), &partial)?;
            fs::rename(partial, kept(program))?;
        }
    }
    let mut former = Command::new("git");
    former.current_dir(workspace::root()).args(["grep", "--quiet", "-e"]);
    former.args([FORMER_EFFECTS_FLAG, &id, "--", "crates/longhaul/examples/under_fire.rs"]);
    let [longhaul, under_fire] = programs.map(|program| kept(&program));
    Ok(ServerPrograms {
        longhaul,
        under_fire,
        effects_flag: match process::answers(&mut former) {
            true => FORMER_EFFECTS_FLAG,
            false => EFFECTS_FLAG,
        },
    })
}

/// The full id of a commit.
fn commit_id(commit: &str) -> Result<String, RunError> {
    let mut git = Command::new("git");
    git.current_dir(workspace::root());
    git.args(["rev-parse", "--quiet", "--verify", &format!("{commit}^{{commit}}")]);
    let found = git.output()?;
    if !found.status.success() {
        return Err(RunError::Impossible(format!(
            "commit {commit} is not in this repository; in a shallow clone, run `git fetch --unshallow`"
        )));
    }
    Ok(String::from_utf8_lossy(&found.stdout).trim().to_owned())
}

/// Checks a commit out into a clone in `folder`, and returns the path of the clone.
fn check_out(folder: &Path, id: &str) -> Result<PathBuf, RunError> {
    let clone = folder.join("source");
    fs::create_dir_all(folder)?;
    if !clone.exists() {
        let mut git = Command::new("git");
        git.args(["clone", "--quiet", "--no-checkout"])
            .arg(workspace::root())
            .arg(&clone);
        process::run(&mut git)?;
    }
    let git = |args: &[&str]| process::run(Command::new("git").arg("-C").arg(&clone).args(args));
    git(&["fetch", "--quiet", "origin"])?;
    git(&["checkout", "--quiet", "--detach", id])?;
    Ok(clone)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn programs(name: &str) -> ServerPrograms {
        ServerPrograms {
            longhaul: name.into(),
            under_fire: name.into(),
            effects_flag: EFFECTS_FLAG,
        }
    }

    #[test]
    fn an_upgrade_is_in_the_middle() {
        let release = Release {
            newer: programs("new"),
            older: Some(programs("old")),
            rounds: 4,
        };
        let started: Vec<_> = (1..=4).map(|round| &*release.of_round(round).longhaul).collect();
        assert_eq!(started, ["old", "old", "new", "new"].map(Path::new));
        let release = Release { older: None, ..release };
        assert_eq!(release.of_round(1).longhaul, Path::new("new"));
    }
}
