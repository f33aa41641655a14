//! Which server a round starts.

use super::CrashError;
use crate::{
    process,
    workspace::{self, Program},
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The server of a run, and the older one that its first half runs, if it shows an upgrade.
pub(super) struct Release {
    program: PathBuf,
    older: Option<PathBuf>,
    /// The option of the older server with durable tools that names the file of effects.
    older_effects_flag: &'static str,
}

/// The programs of an older commit.
pub(super) struct OlderPrograms {
    pub(super) longhaul: PathBuf,
    pub(super) under_fire: PathBuf,
    /// The option of `under_fire` that names the file of effects.
    pub(super) effects_flag: &'static str,
}

impl Release {
    /// Takes the `chosen` program or builds it, and builds it at the commit to upgrade from.
    pub(super) fn build(native: bool, chosen: Option<&PathBuf>, from: Option<&str>) -> Result<Self, CrashError> {
        let program = match native {
            true => workspace::under_fire(),
            false => workspace::longhaul(),
        };
        let older = from.map(build_older).transpose()?;
        Ok(Self {
            program: program.or_build(chosen)?,
            older_effects_flag: older.as_ref().map_or(EFFECTS_FLAG, |older| older.effects_flag),
            older: older.map(|older| if native { older.under_fire } else { older.longhaul }),
        })
    }

    /// The server of round `round` of `rounds`. In the last round it is the newer one.
    pub(super) fn of_round(&self, round: u32, rounds: u32) -> &Path {
        match &self.older {
            Some(older) if round <= rounds / 2 => older,
            _ => &self.program,
        }
    }

    /// The option of this round's server with durable tools that names the file of effects.
    pub(super) fn effects_flag(&self, round: u32, rounds: u32) -> &'static str {
        match self.of_round(round, rounds) == self.program {
            true => EFFECTS_FLAG,
            false => self.older_effects_flag,
        }
    }
}

/// The option of `under_fire` that names the file of effects, now and before 2026-11-22.
pub(super) const EFFECTS_FLAG: &str = "--effects";
const FORMER_EFFECTS_FLAG: &str = "--side";

/// Builds the programs as they were at `commit`, in a clone of its own below the target folder. A second run builds nothing.
pub(super) fn build_older(commit: &str) -> Result<OlderPrograms, CrashError> {
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
    Ok(OlderPrograms {
        longhaul,
        under_fire,
        effects_flag: match process::answers(&mut former) {
            true => FORMER_EFFECTS_FLAG,
            false => EFFECTS_FLAG,
        },
    })
}

/// The full id of a commit.
fn commit_id(commit: &str) -> Result<String, CrashError> {
    let mut git = Command::new("git");
    git.current_dir(workspace::root());
    git.args(["rev-parse", "--quiet", "--verify", &format!("{commit}^{{commit}}")]);
    let found = git.output()?;
    if !found.status.success() {
        return Err(CrashError::UnknownCommit(commit.to_owned()));
    }
    Ok(String::from_utf8_lossy(&found.stdout).trim().to_owned())
}

/// Checks a commit out into a clone in `folder`, and returns the path of the clone.
fn check_out(folder: &Path, id: &str) -> Result<PathBuf, CrashError> {
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

    #[test]
    fn an_upgrade_is_in_the_middle() {
        let release = Release {
            program: "new".into(),
            older: Some("old".into()),
            older_effects_flag: "--old",
        };
        let started: Vec<_> = (1..=4).map(|round| release.of_round(round, 4)).collect();
        assert_eq!(started, ["old", "old", "new", "new"].map(Path::new));
        assert_eq!(
            [2, 3].map(|round| release.effects_flag(round, 4)),
            ["--old", EFFECTS_FLAG]
        );
        let release = Release { older: None, ..release };
        assert_eq!(release.of_round(1, 4), Path::new("new"));
    }
}
