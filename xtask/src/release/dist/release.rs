//! What a release needs of the artefacts, and how they are published.

use super::{HOMEPAGE, VERSION, archive, deb, npm, registry};
use harness::{process, workspace};
use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// What stands where a person must name a place or an address.
const PLACEHOLDER: &str = "example";

/// The placeholders, and where they are filled in.
pub(crate) fn placeholders() -> Vec<String> {
    let values = [
        ("`homepage` in Cargo.toml", HOMEPAGE),
        ("`repository` in Cargo.toml", env!("CARGO_PKG_REPOSITORY")),
        ("`NAME` in xtask/src/release/dist/registry.rs", registry::NAME),
        ("`MAINTAINER` in xtask/src/release/dist/deb.rs", deb::MAINTAINER),
    ];
    let left = values.into_iter().filter(|(_, value)| value.contains(PLACEHOLDER));
    left.map(|(place, value)| format!("{place} is a placeholder: {value}"))
        .collect()
}

/// Artefacts that are missing, damaged or of another commit.
pub(crate) fn flaws(commit: &str) -> Vec<String> {
    let out = workspace::target().join("dist");
    let arch = env::consts::ARCH;
    let archive = out.join(format!("{}.tar.xz", archive::name()));
    let mut files = vec![archive.clone(), deb::file(&out, VERSION)];
    files.extend(["install.sh", "server.json"].map(|name| out.join(name)));
    files.push(out.join(format!("longhaul-{VERSION}.cdx.json")));
    files.push(npm::launcher(&out));
    files.extend(npm::PLATFORMS.map(|platform| npm::with_program(&out, platform)));
    let missing = files.iter().filter(|file| !file.is_file());
    let mut flaws: Vec<String> = missing.map(|file| format!("{} is missing", file.display())).collect();
    if wheel(&out).is_none() {
        flaws.push(format!("{} has no wheel for {arch}", out.display()));
    }
    let mut sums = Command::new("sha256sum");
    if !process::answers(sums.args(["--check", "--strict", "SHA256SUMS"]).current_dir(&out)) {
        flaws.push(format!("{} has files of other sums than SHA256SUMS", out.display()));
    }
    flaws.extend(program_flaw(&archive, commit));
    flaws
}

fn wheel(out: &Path) -> Option<PathBuf> {
    let files = out.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
    let (begin, end) = (format!("longhaul-{VERSION}-"), format!("{}.whl", env::consts::ARCH));
    let mut files = files.filter(|file| {
        file.file_name().is_some_and(|name| {
            let name = name.to_string_lossy();
            name.starts_with(&begin) && name.ends_with(&end)
        })
    });
    files.next()
}

/// How the program in the archive is another one than a release of this commit.
fn program_flaw(archive: &Path, commit: &str) -> Option<String> {
    let folder = workspace::target().join("release-check");
    let program = format!("{}/bin/longhaul", archive::name());
    let said = super::make_folder(&folder).ok().and_then(|()| {
        process::read(
            Command::new("tar")
                .arg("-xJf")
                .arg(archive)
                .arg("-C")
                .arg(&folder)
                .arg(&program),
        )
        .ok()?;
        process::read(Command::new(folder.join(&program)).arg("--version")).ok()
    });
    let said = said.map(|said| String::from_utf8_lossy(&said).trim().to_owned());
    let expected = format!("longhaul {VERSION} ({}, release", commit.get(..7).unwrap_or(commit));
    match said {
        Some(said) if said.starts_with(&expected) => None,
        Some(said) => Some(format!(
            "the program in {} says {said:?}, and not {expected:?}",
            archive.display()
        )),
        None => Some(format!("the program in {} does not say its version", archive.display())),
    }
}

/// The commands that publish them. Platforms go before the launcher that needs them.
pub(crate) fn publishing_commands() -> Vec<String> {
    let out = Path::new("./target/dist");
    let npm = npm::PLATFORMS
        .map(|platform| npm::with_program(out, platform))
        .into_iter();
    let npm = npm.chain([npm::launcher(out)]);
    let mut commands: Vec<String> = npm
        .map(|file| format!("npm publish --access public {}", file.display()))
        .collect();
    commands.extend([
        format!("twine upload {}/longhaul-{VERSION}-*.whl", out.display()),
        format!(
            "# copy {}/* to {}, from where install.sh downloads",
            out.display(),
            archive::download()
        ),
        format!("(cd {} && mcp-publisher publish)", out.display()),
    ]);
    commands
}
