//! `cargo xtask counts`: counts the instructions and allocations of the hot requests with valgrind.
//!
//! They are set beside those in docs/performance-parts.md. One that is clearly higher is an error: the page is updated by the commit that needs more, and says why.

use crate::requirement::{self, RequirementError};
use harness::{
    process::{self, ProcessError},
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
    #[error("{PAGE} has no instructions for {0:?}")]
    Undocumented(&'static str),
    #[error("{name} takes {counted} instructions, and {PAGE} says {documented}: find out why, and update the page")]
    More {
        name: String,
        counted: u64,
        documented: u64,
    },
    #[error("no instruction of {name} was counted; a linker such as mold hides what is counted from valgrind")]
    Nothing { name: String },
}

/// The page with the counts.
const PAGE: &str = "docs/performance-parts.md";
/// How far a count may be above the page, in percent. The seeds of hash maps and the linker move it by one or two.
const TOLERANCE: u64 = 10;
/// The rows of the page, by benchmark.
const ROWS: [(&str, &str); 10] = [
    ("answer tasks_get_modern", "`tasks/get`, modern"),
    ("answer tasks_get_legacy", "`tasks/get`, legacy"),
    ("answer tools_call_modern", "`tools/call`, plain, modern"),
    ("answer tools_call_legacy", "`tools/call`, plain, legacy"),
    ("answer create_task_modern", "`tools/call` → acknowledged task, modern"),
    ("answer create_task_legacy", "`tools/call` → acknowledged task, legacy"),
    ("answer tools_list_modern", "`tools/list`, two tools, modern"),
    ("answer tools_list_legacy", "`tools/list`, two tools, legacy"),
    ("answer discover", "`server/discover`"),
    ("answer ping", "`ping`, legacy"),
];

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
    let counts = count_all(&runner)?;
    counts.iter().for_each(|count| count.report(args.json));
    let page = fs::read_to_string(workspace::root().join(PAGE))?;
    counts.iter().try_for_each(|count| count.compare(&page))
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
            "--debug",
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

    /// Sets it beside the page, if that has a row for it.
    fn compare(&self, page: &str) -> Result<(), CountsError> {
        if self.instructions == 0 {
            let name = self.name.clone();
            return Err(CountsError::Nothing { name });
        }
        let Some((_, row)) = ROWS.iter().find(|(name, _)| *name == self.name) else {
            return Ok(());
        };
        let documented = documented(page, row).ok_or(CountsError::Undocumented(row))?;
        match self.instructions * 100 > documented * (100 + TOLERANCE) {
            true => Err(CountsError::More {
                name: self.name.clone(),
                counted: self.instructions,
                documented,
            }),
            false => Ok(()),
        }
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

/// The instructions in the row of the page that begins with these words.
fn documented(page: &str, row: &str) -> Option<u64> {
    let line = page
        .lines()
        .find_map(|line| line.strip_prefix("| ")?.strip_prefix(row))?;
    line.split(" | ").nth(1)?.replace(',', "").parse().ok()
}
