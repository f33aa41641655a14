//! `cargo xtask counts`: counts the instructions and allocations of the hot requests with valgrind.
//!
//! It has no limits: the numbers change with the compiler and with every dependency.

use crate::{
    process::{self, ProcessError},
    requirement::{self, RequirementError},
    workspace,
};
use serde_json::{Value, json};
use std::{
    fs, io,
    path::PathBuf,
    process::{Command, Stdio},
};

/// `cargo xtask counts`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Report as lines of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Why nothing was counted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CountsError {
    #[error(transparent)]
    Requirement(#[from] RequirementError),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("the benchmark failed: {0}")]
    Failed(std::process::ExitStatus),
    #[error("Cargo.lock names no version of gungraun")]
    Version,
    #[error("gungraun's report is not understood: {line}")]
    Report { line: String },
}

/// The counts of one benchmark.
struct Count {
    name: String,
    instructions: u64,
    allocations: u64,
    bytes: u64,
}

/// Gets valgrind and gungraun's runner, counts, and prints a table.
pub(crate) fn run(args: &Args) -> Result<(), CountsError> {
    requirement::program("valgrind")?;
    let runner = runner()?;
    for count in count_all(&runner)? {
        count.report(args.json);
    }
    Ok(())
}

/// The runner, in the version that the benchmark's library needs; installed below the target folder, not into `PATH`.
fn runner() -> Result<PathBuf, CountsError> {
    let version = version()?;
    let root = workspace::target().join("tools").join(format!("gungraun-{version}"));
    let runner = root.join("bin").join("gungraun-runner");
    if !process::answers(Command::new(&runner).arg("--version")) {
        let mut cargo = workspace::cargo();
        cargo.args([
            "install",
            "--locked",
            "--version",
            &version,
            "gungraun-runner",
            "--root",
        ]);
        process::run(cargo.arg(&root))?;
    }
    Ok(runner)
}

fn version() -> Result<String, CountsError> {
    let lock = fs::read_to_string(workspace::root().join("Cargo.lock"))?;
    let entry = lock
        .split_once("name = \"gungraun\"\nversion = \"")
        .map(|(_, rest)| rest);
    let version = entry.and_then(|rest| rest.split('"').next());
    version.map(str::to_owned).ok_or(CountsError::Version)
}

fn count_all(runner: &PathBuf) -> Result<Vec<Count>, CountsError> {
    let mut cargo = workspace::cargo();
    cargo.args([
        "bench",
        "--locked",
        "--profile",
        "counts",
        "--package",
        "longhaul-counts",
    ]);
    cargo.args(["--bench", "counts", "--", "--output-format=json"]);
    cargo.env("GUNGRAUN_RUNNER", runner);
    let done = cargo.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    if !done.status.success() {
        return Err(CountsError::Failed(done.status));
    }
    let report = String::from_utf8_lossy(&done.stdout);
    report
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(Count::read)
        .collect()
}

impl Count {
    /// Reads one line of gungraun's report.
    fn read(line: &str) -> Result<Self, CountsError> {
        let invalid = || CountsError::Report { line: line.to_owned() };
        let report: Value = serde_json::from_str(line).map_err(|_| invalid())?;
        let metric = |name: &str| {
            let found = report["profiles"].as_array().into_iter().flatten().find_map(|profile| {
                profile
                    .pointer(&format!("/data/total/metrics/{name}/values/new"))?
                    .as_u64()
            });
            found.ok_or_else(invalid)
        };
        let part = |name: &str| report[name].as_str().ok_or_else(invalid);
        Ok(Self {
            name: format!("{} {}", part("function_name")?, part("id")?),
            instructions: metric("Ir")?,
            allocations: metric("TotalBlocks")?,
            bytes: metric("TotalBytes")?,
        })
    }

    fn report(&self, as_json: bool) {
        let Self {
            name,
            instructions,
            allocations,
            bytes,
        } = self;
        if as_json {
            println!(
                "{}",
                json!({"count": name, "instructions": instructions, "allocations": allocations, "bytes": bytes})
            );
        } else {
            println!("{name:<32} {instructions:>8} instructions {allocations:>4} allocations {bytes:>7} bytes");
        }
    }
}
