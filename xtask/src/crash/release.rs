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
}

impl Release {
    /// Takes the `chosen` program or builds `program`, and builds it at the commit to upgrade from.
    pub(super) fn build(program: &Program, chosen: Option<&PathBuf>, from: Option<&str>) -> Result<Self, CrashError> {
        Ok(Self {
            older: from.map(|commit| build_at(program, commit)).transpose()?,
            program: program.or_build(chosen)?,
        })
    }

    /// The server of round `round` of `rounds`. In the last round it is the newer one.
    pub(super) fn of_round(&self, round: u32, rounds: u32) -> &Path {
        match &self.older {
            Some(older) if round <= rounds / 2 => older,
            _ => &self.program,
        }
    }
}

/// Builds `program` as it was at `commit`, in a clone of its own below the target folder. A second run builds nothing.
fn build_at(program: &Program, commit: &str) -> Result<PathBuf, CrashError> {
    let folder = workspace::target().join("upgrade");
    let (clone, target) = (folder.join("source"), folder.join("target"));
    fs::create_dir_all(&folder)?;
    if !clone.exists() {
        let mut git = Command::new("git");
        git.args(["clone", "--quiet", "--no-checkout"])
            .arg(workspace::root())
            .arg(&clone);
        process::run(&mut git)?;
    }
    let git = |args: &[&str]| process::run(Command::new("git").arg("-C").arg(&clone).args(args));
    git(&["fetch", "--quiet", "origin"])?;
    git(&["checkout", "--quiet", "--detach", commit])?;
    process::run(program.build().current_dir(&clone).env("CARGO_TARGET_DIR", &target))?;
    // The next program is built in the same target folder.
    let built = program.path_in(&target);
    let kept = folder.join(format!("{}-{commit}", program.name()));
    fs::copy(built, &kept)?;
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upgrade_is_in_the_middle() {
        let release = Release {
            program: "new".into(),
            older: Some("old".into()),
        };
        let started: Vec<_> = (1..=4).map(|round| release.of_round(round, 4)).collect();
        assert_eq!(started, ["old", "old", "new", "new"].map(Path::new));
        let release = Release { older: None, ..release };
        assert_eq!(release.of_round(1, 4), Path::new("new"));
    }
}
