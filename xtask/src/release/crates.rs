//! `cargo xtask crates`: packages the crates as they are published, and uses them outside this repository.

use harness::{
    process::{self, ProcessError},
    workspace,
};
use serde_json::{Value, json};
use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::Command,
};

/// The programs outside, one without the features of the other.
const PROGRAMS: [&str; 2] = ["server", "client"];

/// `cargo xtask crates`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Then build programs outside this repository with the packages and run them, and install the command: minutes
    #[arg(long)]
    pub(crate) test: bool,
    /// Report as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Why the crates cannot be published, or do not work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CratesError {
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("the description of the crates by cargo cannot be read: {0}")]
    Metadata(#[from] serde_json::Error),
    #[error("the program outside said {0:?}")]
    Said(String),
}

/// Packages all crates, and uses them if that is asked for.
pub(crate) fn run(args: &Args) -> Result<(), CratesError> {
    package()?;
    let published = published()?;
    if args.test {
        let outside = env::temp_dir().join(format!("longhaul-crates-{}", std::process::id()));
        remove(&outside)?;
        let used = use_outside(&outside, &published).and_then(|()| install(&outside));
        remove(&outside)?;
        used?;
    }
    match args.json {
        true => println!("{}", json!({"crates": published, "tested": args.test})),
        false => println!("{} crates can be published", published.len()),
    }
    Ok(())
}

/// Packages all crates.
pub(crate) fn package() -> Result<(), CratesError> {
    let mut package = workspace::cargo();
    // What a lock file has is looked up at the registry for each crate, and only who installs the command uses it.
    package.args([
        "package",
        "--workspace",
        "--no-verify",
        "--allow-dirty",
        "--exclude-lockfile",
    ]);
    package.arg("--target-dir").arg(workspace::target());
    Ok(process::run(&mut package)?)
}

/// What cargo says about the crates.
pub(crate) fn metadata() -> Result<Value, CratesError> {
    let mut metadata = workspace::cargo();
    metadata.args(["metadata", "--no-deps", "--format-version", "1", "--locked"]);
    Ok(serde_json::from_slice(&process::read(&mut metadata)?)?)
}

/// Those that are published.
pub(crate) fn published_of(metadata: &Value) -> impl Iterator<Item = &Value> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    // An empty list of registries is `publish = false`.
    packages.filter(|package| package["publish"].is_null())
}

/// The crates that are published, by name and version.
fn published() -> Result<Vec<(String, String)>, CratesError> {
    let metadata = metadata()?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let both = |package: &Value| (text(&package["name"]), text(&package["version"]));
    Ok(published_of(&metadata).map(both).collect())
}

/// Builds the programs in a folder of their own, each for itself, and lets the client call the server.
fn use_outside(outside: &Path, published: &[(String, String)]) -> Result<(), CratesError> {
    let mut manifest =
        "[workspace]\nmembers = [\"client\", \"server\"]\nresolver = \"3\"\n\n[patch.crates-io]\n".to_owned();
    make_folder(&outside.join("crates"))?;
    for (name, version) in published {
        let file = workspace::target().join(format!("package/{name}-{version}.crate"));
        process::run(
            Command::new("tar")
                .arg("-xzf")
                .arg(file)
                .arg("-C")
                .arg(outside.join("crates")),
        )?;
        manifest += &format!("{name} = {{ path = \"crates/{name}-{version}\" }}\n");
    }
    fs::write(outside.join("Cargo.toml"), manifest).map_err(at(outside))?;
    // The versions that the tests here have had.
    copy(&workspace::root().join("Cargo.lock"), &outside.join("Cargo.lock"))?;
    let target = workspace::target().join("crates-build");
    for program in PROGRAMS {
        let source = workspace::root().join("packaging/crates").join(program);
        make_folder(&outside.join(program).join("src"))?;
        for file in ["Cargo.toml", "src/main.rs"] {
            copy(&source.join(file), &outside.join(program).join(file))?;
        }
    }
    for program in PROGRAMS {
        let mut build = workspace::cargo();
        build
            .current_dir(outside)
            .args(["build", "--package", &format!("outside-{program}")]);
        process::run(build.arg("--target-dir").arg(&target))?;
    }
    let [server, client] = PROGRAMS.map(|program| target.join(format!("debug/outside-{program}")));
    let said = process::read(Command::new(client).arg(server))?;
    match said == b"Hello!\n" {
        true => Ok(()),
        false => Err(CratesError::Said(String::from_utf8_lossy(&said).into_owned())),
    }
}

/// Installs the command from its folder, unoptimised, and runs it.
fn install(outside: &Path) -> Result<(), CratesError> {
    let mut install = workspace::cargo();
    install.args(["install", "--path", "crates/cli", "--locked", "--debug", "--no-track"]);
    process::run(
        install
            .arg("--root")
            .arg(outside)
            .arg("--target-dir")
            .arg(workspace::target()),
    )?;
    Ok(process::run(
        Command::new(outside.join("bin/longhaul")).arg("--version"),
    )?)
}

fn make_folder(folder: &Path) -> Result<(), CratesError> {
    fs::create_dir_all(folder).map_err(at(folder))
}

fn copy(from: &Path, to: &Path) -> Result<(), CratesError> {
    fs::copy(from, to).map(drop).map_err(at(from))
}

fn remove(folder: &Path) -> Result<(), CratesError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(folder)(error)),
        _ => Ok(()),
    }
}

/// For `map_err`: an error with its path.
fn at(path: &Path) -> impl FnOnce(io::Error) -> CratesError {
    let path = path.to_owned();
    |source| CratesError::File { path, source }
}
