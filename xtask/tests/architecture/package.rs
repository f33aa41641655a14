//! The crates of the workspace, as Cargo knows them.

use serde_json::Value;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
};

/// A crate of the workspace.
pub(crate) struct Package {
    pub(crate) name: String,
    /// Relative to the workspace, with `/`.
    pub(crate) folder: String,
    /// The folders of the crates of this workspace which it needs to be built; tests and features that are off apart.
    pub(crate) uses: BTreeSet<String>,
    /// The first files of its library and its programs.
    pub(crate) roots: Vec<PathBuf>,
    /// All that cargo says of it.
    pub(crate) manifest: Value,
}

/// The workspace's directory.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask is a folder of the workspace")
}

/// Every crate of the workspace.
pub(crate) fn all() -> Vec<Package> {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--format-version",
            "1",
            "--locked",
            "--offline",
        ])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo's answer is JSON");
    let packages: Vec<Package> = members(&metadata["packages"]).map(package).collect();
    assert!(packages.len() > 10, "cargo names only {} crates", packages.len());
    packages
}

fn package(package: &Value) -> Package {
    let folder = Path::new(text(&package["manifest_path"])).parent();
    let uses = members(&package["dependencies"])
        .filter(|dependency| dependency["kind"] != "dev" && dependency["optional"] != true)
        .filter_map(|dependency| dependency["path"].as_str())
        .map(|path| relative(Path::new(path)));
    let roots = members(&package["targets"])
        .filter(|target| {
            members(&target["kind"]).any(|kind| ["lib", "bin", "cdylib", "proc-macro"].contains(&text(kind)))
        })
        .map(|target| PathBuf::from(text(&target["src_path"])));
    Package {
        name: text(&package["name"]).to_owned(),
        folder: relative(folder.expect("a manifest is in a folder")),
        uses: uses.collect(),
        roots: roots.collect(),
        manifest: package.clone(),
    }
}

pub(crate) fn members(array: &Value) -> impl Iterator<Item = &Value> {
    array.as_array().expect("an array").iter()
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

fn relative(path: &Path) -> String {
    let path = path.strip_prefix(root()).expect("a crate of this workspace");
    path.to_str().expect("a path in UTF-8").replace('\\', "/")
}
