//! `cargo xtask conformance`: the official suite against the fixture server.

use crate::{
    process::{self, ProcessError},
    requirement::{self, RequirementError},
    server::{Server, ServerError},
    workspace,
};
use serde::Deserialize;
use serde_json::json;
use std::{
    fs::{self, File},
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

const SUITE: &str = "@modelcontextprotocol/conformance";
const SUITE_VERSION: &str = "0.2.0-alpha.12";
/// The suite does not load under an older one.
const NODE: &str = "node@22";
const NODE_VERSION_PREFIX: &str = "v22.";

/// The scenarios that have to pass, whole.
const SCENARIOS: [&str; 6] = [
    "tasks-lifecycle",
    "tasks-capability-negotiation",
    "tasks-wire-fields",
    "tasks-request-state-removal",
    "tasks-request-headers",
    "tasks-required-task-error",
];

/// `cargo xtask conformance`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only this scenario; may be given several times
    #[arg(long, value_name = "NAME")]
    pub(crate) scenario: Vec<String>,
    /// Take this server instead of building one
    #[arg(long, value_name = "FILE")]
    pub(crate) program: Option<PathBuf>,
    /// Report as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Why the suite did not pass.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConformanceError {
    #[error(transparent)]
    Requirement(#[from] RequirementError),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error("the suite's files cannot be used: {0}")]
    Io(#[from] io::Error),
    #[error("the suite's report cannot be read: {0}")]
    Report(#[from] serde_json::Error),
    #[error("{failed} of {scenarios} scenarios did not pass; what the suite said is in {kept}")]
    Failed {
        failed: usize,
        scenarios: usize,
        kept: PathBuf,
    },
}

/// Installs the suite and runs its scenarios, one by one, on the fixture server.
pub(crate) fn run(args: &Args) -> Result<(), ConformanceError> {
    let suite = Suite::install()?;
    let fixtures = workspace::fixtures().or_build(args.program.as_ref())?;
    let reports = workspace::target()
        .join("conformance")
        .join(format!("report-{}", std::process::id()));
    fs::create_dir_all(&reports)?;
    let mut server = Server::start(
        Command::new(fixtures).args(["--listen", "127.0.0.1:0"]),
        &reports.join("server.log"),
    )?;
    let address = server.ready()?;
    let names: Vec<&str> = match args.scenario.as_slice() {
        [] => SCENARIOS.to_vec(),
        chosen => chosen.iter().map(String::as_str).collect(),
    };
    let mut verdicts = Vec::new();
    for name in names {
        eprintln!("conformance: {name}");
        let verdict = suite.run(name, address, &reports)?;
        verdict
            .failing
            .iter()
            .for_each(|check| eprintln!("conformance: {name}: {check}"));
        verdicts.push(verdict);
    }
    report(args.json, &verdicts);
    let failed = verdicts.iter().filter(|verdict| !verdict.is_good()).count();
    if failed > 0 {
        return Err(ConformanceError::Failed {
            failed,
            scenarios: verdicts.len(),
            kept: reports,
        });
    }
    drop(server);
    Ok(fs::remove_dir_all(reports)?)
}

/// What came of a scenario.
struct Verdict {
    scenario: String,
    passed: usize,
    skipped: usize,
    /// What failed, and why.
    failing: Vec<String>,
}

impl Verdict {
    /// A scenario that checked nothing shows nothing.
    fn is_good(&self) -> bool {
        self.failing.is_empty() && self.passed > 0
    }
}

fn report(as_json: bool, verdicts: &[Verdict]) {
    if as_json {
        let scenarios = verdicts.iter().map(|verdict| {
            json!({
                "scenario": verdict.scenario, "passed": verdict.passed,
                "skipped": verdict.skipped, "failed": verdict.failing,
            })
        });
        println!(
            "{}",
            json!({"suite": SUITE_VERSION, "scenarios": scenarios.collect::<Vec<_>>()})
        );
        return;
    }
    let width = verdicts
        .iter()
        .map(|verdict| verdict.scenario.len())
        .max()
        .unwrap_or_default();
    for Verdict {
        scenario,
        passed,
        skipped,
        failing,
    } in verdicts
    {
        let all = passed + failing.len();
        let skipped = if *skipped > 0 {
            format!(", {skipped} skipped")
        } else {
            String::new()
        };
        println!("{scenario:width$}  {passed}/{all}{skipped}");
    }
}

/// The suite and the Node it runs under.
struct Suite(PathBuf);

impl Suite {
    /// Installs the suite below the target folder, unless it is there.
    fn install() -> Result<Self, ConformanceError> {
        let home = workspace::target().join("conformance");
        let suite = Self(home.join(SUITE_VERSION));
        if suite.works() {
            return Ok(suite);
        }
        requirement::npm()?;
        // Under another name until it is whole: an installation that was broken off must not look like one.
        let draft = home.join(format!("{SUITE_VERSION}-{}", std::process::id()));
        let package = format!("{SUITE}@{SUITE_VERSION}");
        fs::create_dir_all(&draft)?;
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--loglevel", "error", "--prefix"]);
        process::run(npm.arg(&draft).args([NODE, &package]))?;
        if suite.0.exists() {
            fs::remove_dir_all(&suite.0)?;
        }
        fs::rename(draft, &suite.0)?;
        Ok(suite)
    }

    fn node(&self) -> PathBuf {
        self.0.join("node_modules/node/bin/node")
    }

    fn program(&self) -> PathBuf {
        self.0.join("node_modules").join(SUITE).join("dist/index.js")
    }

    fn works(&self) -> bool {
        let version = Command::new(self.node()).arg("--version").output();
        self.program().exists() && version.is_ok_and(|said| said.stdout.starts_with(NODE_VERSION_PREFIX.as_bytes()))
    }

    /// Runs one scenario. Its own exit status leaves out what it does not score, so every check is read instead.
    fn run(&self, scenario: &str, address: SocketAddr, reports: &Path) -> Result<Verdict, ConformanceError> {
        let folder = reports.join(scenario);
        fs::create_dir_all(&folder)?;
        let said = File::create(folder.join("output.log"))?;
        let mut command = Command::new(self.node());
        command
            .arg(self.program())
            .args(["server", "--url", &format!("http://{address}/mcp")]);
        command.args(["--scenario", scenario, "--output-dir"]).arg(&folder);
        command.stdin(Stdio::null()).stdout(said.try_clone()?).stderr(said);
        let line = format!("the suite's scenario {scenario}");
        command
            .status()
            .map_err(|source| ProcessError::Start { line, source })?;
        let mut verdict = Verdict {
            scenario: scenario.to_owned(),
            passed: 0,
            skipped: 0,
            failing: Vec::new(),
        };
        for check in read_checks(&folder)? {
            match check.status.as_str() {
                "SUCCESS" => verdict.passed += 1,
                "SKIPPED" => verdict.skipped += 1,
                "INFO" => {}
                status => {
                    let why = check.error_message.unwrap_or_default();
                    verdict.failing.push(format!("{status} {}: {why}", check.id));
                }
            }
        }
        Ok(verdict)
    }
}

#[derive(Deserialize)]
struct Check {
    id: String,
    status: String,
    #[serde(rename = "errorMessage")]
    error_message: Option<String>,
}

/// The checks of every run in a folder: the suite makes a folder of its own for each, with a date in its name.
fn read_checks(folder: &Path) -> Result<Vec<Check>, ConformanceError> {
    let mut checks = Vec::new();
    for run in fs::read_dir(folder)? {
        let file = run?.path().join("checks.json");
        if file.exists() {
            checks.extend(serde_json::from_slice::<Vec<Check>>(&fs::read(file)?)?);
        }
    }
    Ok(checks)
}
