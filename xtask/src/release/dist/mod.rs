//! `cargo xtask dist`: what a release consists of, for the machine it runs on. Each artefact is in a file of its own, with the test that installs and uses it.

mod archive;
mod deb;
mod image;
mod installed;
mod npm;
mod program;
mod registry;
mod release;
mod sbom;
mod share;
mod wheel;

use crate::requirement::{self, RequirementError};
use harness::{
    process::{self, ProcessError},
    server::ServerError,
    workspace,
};
use program::PackagedProgram;
pub(crate) use release::{flaws as release_flaws, placeholders, publishing_commands};
use serde_json::json;
use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

/// The version of the workspace.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Where the project is found.
const HOMEPAGE: &str = env!("CARGO_PKG_HOMEPAGE");
/// What `SHA256SUMS` is about.
const ARTEFACTS: [&str; 7] = [".tar.xz", "-oci.tar", ".whl", ".tgz", ".deb", ".sh", ".json"];

/// `cargo xtask dist`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Package this program instead of building one: with what it needs of the system, and compressed little
    #[arg(long, value_name = "FILE")]
    pub(crate) program: Option<PathBuf>,
    /// Make only these
    #[arg(long, value_enum, value_name = "KIND", value_delimiter = ',')]
    pub(crate) only: Vec<Kind>,
    /// Then install and use each, as its users do
    #[arg(long)]
    pub(crate) test: bool,
    /// Report as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// A kind of artefact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// `longhaul-*.tar.xz` and `install.sh`
    Archive,
    /// `longhaul-*.tgz`: the launcher and the package with the program
    Npm,
    /// `longhaul-*.whl`
    Wheel,
    /// `longhaul_*.deb`
    Deb,
    /// `longhaul-*-oci.tar`, where buildah is and this is root
    Image,
    /// `longhaul-*.cdx.json`: the crates in the program
    Sbom,
    /// `server.json`, for a registry of MCP servers
    Registry,
}

/// All, in the order in which they are made.
pub(crate) const KINDS: [Kind; 7] = [
    Kind::Archive,
    Kind::Npm,
    Kind::Wheel,
    Kind::Deb,
    Kind::Image,
    Kind::Sbom,
    Kind::Registry,
];

/// Why an artefact was not made, or does not work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DistError {
    #[error(transparent)]
    Requirement(#[from] RequirementError),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{0}: packages are made for Linux with glibc only")]
    Machine(&'static str),
    #[error("{} says {said:?}, and not that it is version {VERSION}", path.display())]
    OtherVersion { path: PathBuf, said: String },
    #[error("the program needs glibc {0}, and must not need more than {most}", most = program::MOST_GLIBC)]
    Glibc(program::Glibc),
    #[error("{} needs no version of glibc", .0.display())]
    NoGlibc(PathBuf),
    #[error("{artefact}: {what}")]
    Broken { artefact: &'static str, what: String },
}

/// Installs what the tests need, besides npm and Python.
pub(crate) fn requirements() -> Result<(), RequirementError> {
    for name in ["shellcheck", "lintian"] {
        requirement::program(name)?;
    }
    match rustix::process::geteuid().is_root() {
        true => requirement::debian_root().map(drop),
        false => Ok(()),
    }
}

/// Makes the artefacts.
pub(crate) fn run(args: &Args) -> Result<(), DistError> {
    let chosen = |kind: &Kind| args.only.is_empty() || args.only.contains(kind);
    let mut kinds: Vec<Kind> = KINDS.into_iter().filter(chosen).collect();
    if kinds.contains(&Kind::Image) && !image::is_possible() {
        eprintln!("no image is made: that needs buildah, and root");
        kinds.retain(|kind| *kind != Kind::Image);
    }
    let out = workspace::target().join("dist");
    let stage = workspace::target().join("dist-stage");
    if args.only.is_empty() {
        remove_folder(&out)?;
    }
    remove_folder(&stage)?;
    make_folder(&out)?;
    make_folder(&stage)?;
    let packaged = PackagedProgram::new(args.program.as_deref(), &stage)?;
    for kind in &kinds {
        match kind {
            Kind::Archive => archive::make(&packaged, &stage, &out)?,
            Kind::Npm => npm::make(&packaged, &stage, &out)?,
            Kind::Wheel => wheel::make(&packaged, &stage, &out)?,
            Kind::Deb => deb::make(&packaged, &stage, &out)?,
            Kind::Image => image::make(&packaged, &stage, &out)?,
            Kind::Sbom => sbom::make(&out)?,
            Kind::Registry => registry::make(&out)?,
        }
    }
    let files = write_sums(&out)?;
    if args.test {
        requirements()?;
        for kind in &kinds {
            eprintln!("\n== {kind:?}");
            match kind {
                Kind::Archive => archive::test(&out)?,
                Kind::Npm => npm::test(&out)?,
                Kind::Wheel => wheel::test(&packaged, &out)?,
                Kind::Deb => deb::test(&packaged, &stage, &out)?,
                Kind::Image => image::test(&out)?,
                // They are not installed.
                Kind::Sbom | Kind::Registry => {}
            }
        }
    }
    report(args, &packaged, &out, &files)
}

/// Writes `SHA256SUMS`, and returns the names of the artefacts.
fn write_sums(out: &Path) -> Result<BTreeSet<String>, DistError> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(out).map_err(at(out))? {
        let name = entry.map_err(at(out))?.file_name().to_string_lossy().into_owned();
        if ARTEFACTS.iter().any(|ending| name.ends_with(ending)) {
            names.insert(name);
        }
    }
    let sums = process::read(Command::new("sha256sum").args(&names).current_dir(out))?;
    write(&out.join("SHA256SUMS"), &sums)?;
    Ok(names)
}

fn report(args: &Args, packaged: &PackagedProgram, out: &Path, files: &BTreeSet<String>) -> Result<(), DistError> {
    let size = |name: &String| {
        let path = out.join(name);
        Ok::<_, DistError>((name.clone(), fs::metadata(&path).map_err(at(&path))?.len()))
    };
    let sizes = files.iter().map(size).collect::<Result<Vec<_>, _>>()?;
    if args.json {
        let sizes: Vec<_> = sizes
            .iter()
            .map(|(file, bytes)| json!({"file": file, "bytes": bytes}))
            .collect();
        let glibc = packaged.glibc.to_string();
        println!(
            "{}",
            json!({"folder": out, "version": VERSION, "glibc": glibc, "tested": args.test, "files": sizes})
        );
        return Ok(());
    }
    println!(
        "{}: longhaul {VERSION}, which needs glibc {} or later",
        out.display(),
        packaged.glibc
    );
    for (file, bytes) in sizes {
        println!("{:>8.1} MB  {file}", bytes as f64 / 1e6);
    }
    Ok(())
}

/// For `map_err`: an error with its path.
fn at(path: &Path) -> impl FnOnce(io::Error) -> DistError {
    let path = path.to_owned();
    |source| DistError::File { path, source }
}

fn remove_folder(folder: &Path) -> Result<(), DistError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(folder)(error)),
        _ => Ok(()),
    }
}

fn make_folder(folder: &Path) -> Result<(), DistError> {
    fs::create_dir_all(folder).map_err(at(folder))
}

/// Writes a file, and makes its folder.
fn write(path: &Path, bytes: &[u8]) -> Result<(), DistError> {
    make_folder(path.parent().unwrap_or(path))?;
    fs::write(path, bytes).map_err(at(path))
}

/// Writes a file that can be run.
fn write_program(path: &Path, bytes: &[u8]) -> Result<(), DistError> {
    use std::os::unix::fs::PermissionsExt as _;
    write(path, bytes)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).map_err(at(path))
}

/// A file of this repository.
fn source(path: &str) -> Result<String, DistError> {
    let path = workspace::root().join(path);
    fs::read_to_string(&path).map_err(at(&path))
}

/// A check of a test.
fn check(artefact: &'static str, holds: bool, what: impl Into<String>) -> Result<(), DistError> {
    match holds {
        true => Ok(()),
        false => Err(DistError::Broken {
            artefact,
            what: what.into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The commands of the page name files of this version.
    #[test]
    fn the_page_names_the_files_of_this_version() {
        let page = source("docs/install.md").unwrap();
        let files: BTreeSet<&str> = page
            .split(|c: char| c.is_whitespace() || "/`".contains(c))
            .filter(|word| word.starts_with("longhaul") && ARTEFACTS.iter().any(|ending| word.ends_with(ending)))
            .collect();
        let expected = [
            format!("longhaul-{VERSION}-x86_64-unknown-linux-gnu.tar.xz"),
            format!("longhaul-{VERSION}-oci.tar"),
            format!("longhaul-{VERSION}.cdx.json"),
            format!("longhaul-{VERSION}.tgz"),
            format!("longhaul-linux-x64-gnu-{VERSION}.tgz"),
            format!("longhaul_{VERSION}-1_amd64.deb"),
        ];
        assert_eq!(files, expected.iter().map(String::as_str).collect());
    }
}
