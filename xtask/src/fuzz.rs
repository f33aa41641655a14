//! `cargo xtask fuzz`: fuzzes each target with libFuzzer.
//!
//! The targets are ordinary tests, which replay their corpus and some random inputs. Here they are built with coverage
//! instrumentation, which stable Rust supports. Inputs that fail go to the target's folder `crashes`, which the tests replay from
//! then on.

mod corpus;

use harness::{
    process::{self, ProcessError},
    workspace,
};
use serde::Deserialize;
use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

const PACKAGES: [&str; 5] = [
    "longhaul-client",
    "longhaul-core",
    "longhaul-json-schema",
    "longhaul-wire",
    "longhaul-server",
];

/// How long one input may take, in seconds.
const TIMEOUT: u32 = 20;

/// Compiler flags that instrument branches and comparisons for libFuzzer.
const FLAGS: &[&str] = &[
    "--cfg fuzzing",
    "--cfg fuzzing_libfuzzer",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    #[cfg(target_os = "linux")]
    "-Cllvm-args=-sanitizer-coverage-stack-depth",
];

/// `cargo xtask fuzz`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Fuzz only this target
    #[arg(long, value_name = "NAME")]
    target: Vec<String>,
    /// How long to fuzz each target
    #[arg(long, default_value_t = 5, value_name = "N")]
    minutes: u32,
    /// Replace the corpus in the repository: the few inputs that together have the most coverage
    #[arg(long)]
    keep: bool,
}

/// Why fuzzing failed, or which target did.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FuzzError {
    #[error("{0} (the targets need a C++ compiler besides Rust)")]
    Build(#[from] ProcessError),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("there is no target {name}; there are {known}")]
    Unknown { name: String, known: String },
    #[error("{name}: an input failed; it is kept in {} and replayed by `cargo nextest run -p {package} {test}`", crashes.display())]
    Found {
        name: String,
        package: String,
        test: String,
        crashes: PathBuf,
    },
}

/// A fuzz target, as its test describes it.
#[derive(Debug, Deserialize)]
struct Target {
    exe: PathBuf,
    work_dir: PathBuf,
    package_name: String,
    test_name: String,
}

/// Fuzzes the targets; stops at the first that fails.
pub(crate) fn run(args: &Args) -> Result<(), FuzzError> {
    let targets = targets()?;
    let known = || targets.iter().map(Target::name).collect::<Vec<_>>().join(", ");
    if let Some(name) = args
        .target
        .iter()
        .find(|name| !targets.iter().any(|target| target.name() == **name))
    {
        return Err(FuzzError::Unknown {
            name: name.clone(),
            known: known(),
        });
    }
    for target in &targets {
        if args.target.is_empty() || args.target.contains(&target.name()) {
            target.search(args.minutes)?;
            if args.keep {
                corpus::renew(target)?;
            }
        }
    }
    Ok(())
}

/// Builds the tests for libFuzzer and finds their targets.
fn targets() -> Result<Vec<Target>, FuzzError> {
    let host = host()?;
    process::run(test(&host).arg("--no-run"))?;
    let asked = test(&host)
        .args(["fuzz::", "--", "--nocapture", "--test-threads", "1"])
        .env("CARGO_BOLERO_SELECT", "all")
        .stderr(Stdio::null())
        .output()?;
    let described = String::from_utf8_lossy(&asked.stdout);
    let mut targets: Vec<Target> = described
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    targets.sort_by_key(Target::name);
    Ok(targets)
}

/// Cargo with the flags for libFuzzer. An explicit `--target` keeps the flags away from build scripts.
fn test(host: &str) -> Command {
    let mut cargo = workspace::cargo();
    cargo.args([
        "test",
        "--locked",
        "--profile",
        "fuzz",
        "--target",
        host,
        "--test",
        "it",
    ]);
    cargo.args(PACKAGES.iter().flat_map(|package| ["--package", package]));
    cargo.arg("--target-dir").arg(home());
    cargo.env("RUSTFLAGS", FLAGS.join(" "));
    cargo
}

/// The target triple of this machine.
fn host() -> io::Result<String> {
    let told = Command::new("rustc").arg("-vV").output()?;
    let told = String::from_utf8_lossy(&told.stdout);
    let host = told.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned)
        .ok_or_else(|| io::Error::other("rustc does not say which machine this is"))
}

/// The folder of all files that fuzzing creates.
fn home() -> PathBuf {
    workspace::target().join("fuzz")
}

impl Target {
    /// The name of the target's folder.
    fn name(&self) -> String {
        let name = self.work_dir.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// The folder of the inputs that the tests replay.
    fn corpus(&self) -> PathBuf {
        self.work_dir.join("corpus")
    }

    /// The folder of the inputs that libFuzzer has kept so far.
    fn finds(&self) -> PathBuf {
        home().join("finds").join(self.name())
    }

    fn search(&self, minutes: u32) -> Result<(), FuzzError> {
        let crashes = self.work_dir.join("crashes");
        let (finds, corpus) = (self.finds(), self.corpus());
        for folder in [&crashes, &finds, &corpus] {
            fs::create_dir_all(folder)?;
        }
        let arguments = [
            finds.display().to_string(),
            corpus.display().to_string(),
            format!("-artifact_prefix={}/", crashes.display()),
            format!("-max_total_time={}", minutes * 60),
            format!("-timeout={TIMEOUT}"),
            "-len_control=0".to_owned(),
            "-print_final_stats=1".to_owned(),
        ];
        let searched = self.libfuzzer(&arguments);
        // Git does not keep empty folders.
        let _ = fs::remove_dir(&crashes);
        searched.map_err(|_| FuzzError::Found {
            name: self.name(),
            package: self.package_name.clone(),
            test: self.test_name.clone(),
            crashes,
        })
    }

    fn libfuzzer(&self, arguments: &[String]) -> Result<(), ProcessError> {
        eprintln!("\n== {}", self.name());
        process::run(
            Command::new(&self.exe)
                .args([
                    &self.test_name,
                    "--exact",
                    "--nocapture",
                    "--quiet",
                    "--test-threads",
                    "1",
                ])
                .current_dir(workspace::root())
                .env("BOLERO_TEST_NAME", &self.test_name)
                .env("BOLERO_LIBTEST_HARNESS", "1")
                .env("BOLERO_LIBFUZZER_ARGS", arguments.join(" ")),
        )
    }
}

/// The files of a folder, in order.
fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries: Result<Vec<_>, _> = fs::read_dir(folder)?.collect();
    let mut files: Vec<PathBuf> = entries?.iter().map(fs::DirEntry::path).collect();
    files.sort();
    Ok(files)
}
