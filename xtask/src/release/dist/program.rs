//! The program that is packaged.

use super::{DistError, VERSION, make_folder};
use crate::peers::interop::peer;
use harness::{
    process::{self, ProcessError},
    workspace,
};
use std::{
    env, fmt, fs,
    path::{Path, PathBuf},
    process::Command,
    str::FromStr,
};

/// What a released program may need: that of Debian 10, Ubuntu 20.04 and RHEL 8.
pub(super) const MOST_GLIBC: Glibc = Glibc { major: 2, minor: 28 };

/// A version of glibc.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Glibc {
    pub(super) major: u32,
    pub(super) minor: u32,
}

impl fmt::Display for Glibc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl FromStr for Glibc {
    type Err = ();

    /// Reads `2.28`, and `2.2.5` as 2.2.
    fn from_str(text: &str) -> Result<Self, ()> {
        let mut numbers = text.split('.').map(|number| number.parse().map_err(drop));
        match (numbers.next(), numbers.next()) {
            (Some(major), Some(minor)) => Ok(Self {
                major: major?,
                minor: minor?,
            }),
            _ => Err(()),
        }
    }
}

/// A stripped copy of the program, and what is known of it.
pub(super) struct PackagedProgram {
    pub(super) path: PathBuf,
    /// What it needs.
    pub(super) glibc: Glibc,
    /// The version of `libgcc_s` that it needs, if it does.
    pub(super) libgcc: Option<u32>,
    /// Whether it was built here to be released. If not, compression is quick.
    pub(super) is_release: bool,
    /// The time of the commit, for the files in the artefacts: so two builds of a commit are the same.
    pub(super) time: String,
}

impl PackagedProgram {
    /// Copies this program, or builds one.
    pub(super) fn new(chosen: Option<&Path>, stage: &Path) -> Result<Self, DistError> {
        if !cfg!(all(target_os = "linux", target_env = "gnu")) {
            return Err(DistError::Machine(env::consts::OS));
        }
        let built = match chosen {
            Some(chosen) => chosen.to_owned(),
            None => build()?,
        };
        let path = stage.join("longhaul");
        process::run(Command::new("strip").arg("-o").arg(&path).arg(&built))?;
        let said = process::read(Command::new(&path).arg("--version"))?;
        let said = String::from_utf8_lossy(&said).trim().to_owned();
        let version = said.split_whitespace().nth(1);
        if version != Some(VERSION) {
            return Err(DistError::OtherVersion { path: built, said });
        }
        let (glibc, libgcc) = needs(&path)?;
        if chosen.is_none() && glibc > MOST_GLIBC {
            return Err(DistError::Glibc(glibc));
        }
        Ok(Self {
            path,
            glibc,
            libgcc,
            is_release: chosen.is_none(),
            time: commit_time(),
        })
    }

    /// The level of xz.
    pub(super) fn xz_level(&self) -> &'static str {
        if self.is_release { "-9" } else { "-0" }
    }

    /// Runs the program, and returns what it prints.
    pub(super) fn prints(&self, words: &[&str]) -> Result<Vec<u8>, ProcessError> {
        process::read(Command::new(&self.path).args(words))
    }
}

/// The machine's name in Rust.
pub(super) fn target() -> String {
    format!("{}-unknown-linux-gnu", env::consts::ARCH)
}

/// Builds the program as it is released: linked with an old glibc, which zig has.
fn build() -> Result<PathBuf, DistError> {
    let packages = peer::python_packages_of(&workspace::root().join("packaging/build.txt"))?;
    let target = target();
    // Not in `target/dist`, where cargo would put it and the artefacts are.
    let folder = workspace::target().join("dist-build");
    make_folder(&folder)?;
    let mut build = Command::new(packages.join("bin/cargo-zigbuild"));
    build.current_dir(workspace::root()).env("PYTHONPATH", &packages);
    build.args([
        "zigbuild",
        "--locked",
        "--profile",
        "dist",
        "--package",
        "longhaul-cli",
        "--bin",
        "longhaul",
    ]);
    build.arg("--target").arg(format!("{target}.{MOST_GLIBC}"));
    build.arg("--target-dir").arg(&folder);
    process::run(&mut build)?;
    Ok(folder.join(target).join("dist/longhaul"))
}

/// The newest versions of glibc and of libgcc that a program needs.
fn needs(path: &Path) -> Result<(Glibc, Option<u32>), DistError> {
    let versions = process::read(Command::new("readelf").args(["--wide", "--version-info"]).arg(path))?;
    let versions = String::from_utf8_lossy(&versions);
    let of = |prefix| {
        versions
            .split_whitespace()
            .filter_map(move |word| word.strip_prefix(prefix))
    };
    let glibc = of("GLIBC_").filter_map(|version| version.parse().ok()).max();
    let libgcc = of("GCC_").filter_map(|version| version.split('.').next()?.parse().ok());
    Ok((glibc.ok_or_else(|| DistError::NoGlibc(path.to_owned()))?, libgcc.max()))
}

/// The seconds of the commit's time. In a copy without git, those of the changelog.
fn commit_time() -> String {
    let mut git = Command::new("git");
    git.current_dir(workspace::root()).args(["log", "-1", "--format=%ct"]);
    let seconds = process::read(&mut git)
        .ok()
        .map(|said| String::from_utf8_lossy(&said).trim().to_owned());
    let changelog = || {
        let modified = fs::metadata(workspace::root().join("CHANGELOG.md"))
            .and_then(|file| file.modified())
            .ok()?;
        Some(
            modified
                .duration_since(std::time::UNIX_EPOCH)
                .ok()?
                .as_secs()
                .to_string(),
        )
    };
    seconds
        .filter(|seconds| !seconds.is_empty())
        .or_else(changelog)
        .unwrap_or_else(|| "0".to_owned())
}
