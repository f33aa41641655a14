//! The image for containers: the Debian package on a minimal Debian, by `packaging/Containerfile`.

use super::{DistError, VERSION, at, check, deb, installed::Home, make_folder, program::PackagedProgram};
use crate::requirement;
use harness::{process, workspace};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

const NAME: &str = "image";
const BASE: &str = "localhost/longhaul-base";
const TAG: &str = "localhost/longhaul";

/// Whether images can be made here.
pub(super) fn is_possible() -> bool {
    rustix::process::geteuid().is_root() && requirement::program("buildah").is_ok()
}

fn file(out: &Path) -> PathBuf {
    out.join(format!("longhaul-{VERSION}-oci.tar"))
}

/// buildah with a storage of its own, and without a daemon, a network or mounts.
fn buildah(storage: &Path, words: &[&str]) -> Command {
    let mut buildah = Command::new("buildah");
    buildah
        .arg("--root")
        .arg(storage.join("root"))
        .arg("--runroot")
        .arg(storage.join("run"));
    buildah.args(["--storage-driver", "vfs"]).args(words);
    buildah.env("BUILDAH_ISOLATION", "chroot");
    buildah
}

/// A new container from an image.
fn container(storage: &Path, image: &str) -> Result<String, DistError> {
    let name = process::read(&mut buildah(storage, &["from", "--quiet", image]))?;
    Ok(String::from_utf8_lossy(&name).trim().to_owned())
}

/// Makes the image, as one file.
pub(super) fn make(packaged: &PackagedProgram, stage: &Path, out: &Path) -> Result<(), DistError> {
    let storage = stage.join("image");
    let context = storage.join("context");
    make_folder(&context)?;
    let package = deb::file(out, VERSION);
    fs::copy(&package, context.join("longhaul.deb")).map_err(at(&package))?;
    let root = requirement::debian_root()?;
    let base = container(&storage, "scratch")?;
    process::run(&mut buildah(
        &storage,
        &["add", "--quiet", &base, &root.to_string_lossy(), "/"],
    ))?;
    process::run(&mut buildah(
        &storage,
        &["commit", "--quiet", "--rm", "--timestamp", &packaged.time, &base, BASE],
    ))?;
    let mut build = buildah(
        &storage,
        &["build", "--quiet", "--network", "host", "--timestamp", &packaged.time],
    );
    build
        .arg("--build-arg")
        .arg(format!("BASE={BASE}"))
        .args(["--tag", TAG, "--file"]);
    build
        .arg(workspace::root().join("packaging/Containerfile"))
        .arg(&context);
    process::run(&mut build)?;
    let archive = format!("oci-archive:{}", file(out).display());
    let compression = if packaged.is_release {
        "--disable-compression=false"
    } else {
        "--disable-compression"
    };
    process::run(&mut buildah(&storage, &["push", "--quiet", compression, TAG, &archive]))?;
    super::remove_folder(&storage)
}

/// Runs the image from its file.
pub(super) fn test(out: &Path) -> Result<(), DistError> {
    const SERVE_AND_CALL: &str = r#"
        longhaul serve /etc/longhaul/jobs.toml --listen 127.0.0.1:0 --json > /tmp/serve & pid=$!
        until url=$(sed -n 's/.*"url": *"\([^"]*\)".*/\1/p' /tmp/serve) && [ -n "$url" ]; do sleep 0.05; done
        longhaul call "$url" hash_tree path=/etc/longhaul
        kill $pid; wait $pid"#;
    let home = Home::create(NAME)?;
    let image = format!("oci-archive:{}", file(out).display());
    let name = container(&home.path, &image)?;
    let run = |words: &[&str]| {
        home.output(&mut buildah(&home.path, &[&["run", &name], words].concat()))?
            .expect(NAME)
    };
    let said = run(&["longhaul", "--version"])?.out;
    check(NAME, said.starts_with(&format!("longhaul {VERSION}")), said)?;
    let said = run(&["sh", "-c", SERVE_AND_CALL])?.out;
    check(NAME, said.contains("/etc/longhaul/jobs.toml"), said)?;
    home.remove()
}
