//! The suite: installs it, lists its scenarios, and runs them.

use super::{
    ConformanceError,
    case::{Case, Side, VERSION},
    verdict::{Check, Verdict},
};
use crate::{
    peers::node::{self, Node},
    requirement,
};
use harness::{process::ProcessError, workspace};
use std::{
    fs::{self, File},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

const PACKAGE: &str = "@modelcontextprotocol/conformance";
/// The suite and the Node it runs under.
pub(super) struct Suite {
    node: Node,
    program: PathBuf,
}

impl Suite {
    /// Installs the suite below the target folder, unless it is there.
    pub(super) fn install() -> Result<Self, ConformanceError> {
        let home = workspace::target().join("conformance").join(VERSION);
        let program = home.join("node_modules").join(PACKAGE).join("dist/index.js");
        if !program.exists() {
            let package = format!("{PACKAGE}@{VERSION}");
            requirement::install_whole(&home, |draft| node::npm(draft, &["install", &package]))?;
        }
        let node = Node::install()?;
        Ok(Self { node, program })
    }

    fn command(&self) -> Command {
        let mut command = self.node.command();
        command.arg(&self.program).stdin(Stdio::null());
        command
    }

    /// The scenarios of a revision for servers and clients, scored or not, in the suite's order.
    pub(super) fn list(&self, revision: &'static str) -> Result<Vec<Case>, ConformanceError> {
        let mut command = self.command();
        command.args(["list", "--requirements", revision]);
        let output = command.output().map_err(|source| ProcessError::Start {
            line: "the suite's list".into(),
            source,
        })?;
        let ScenarioList {
            scenarios,
            required: listed,
            announced,
        } = ScenarioList::read(&String::from_utf8_lossy(&output.stdout));
        // With an empty or incomplete list the run would pass without having tested anything.
        if listed != announced || scenarios.is_empty() {
            return Err(ConformanceError::List {
                revision,
                listed,
                announced,
            });
        }
        let cases = scenarios.into_iter().map(|(side, scenario)| Case {
            revision,
            side,
            scenario,
        });
        Ok(cases.collect())
    }

    /// Runs these scenarios, all that a revision has for servers, one after the other in one process: to start one takes longer than most scenarios do.
    pub(super) fn run_for_server(
        &self,
        cases: &[Case],
        tested: &TestTarget,
        reports: &Path,
    ) -> Result<Vec<Verdict>, ConformanceError> {
        let Some(Case { revision, .. }) = cases.first() else {
            return Ok(Vec::new());
        };
        let folder = reports.join(revision).join("in-one-process");
        fs::create_dir_all(&folder)?;
        let output = File::create(folder.join("output.log"))?;
        let mut command = self.command();
        command.args(["server", "--url", &format!("http://{}/mcp", tested.server)]);
        command.args(["--requirements", revision, "--output-dir"]).arg(&folder);
        command.stdout(output.try_clone()?).stderr(output);
        command.status().map_err(|source| ProcessError::Start {
            line: format!("the suite's scenarios of {revision}"),
            source,
        })?;
        let verdicts = cases.iter().map(|case| {
            let mut checks = Vec::new();
            for entry in fs::read_dir(&folder)? {
                let entry = entry?;
                if is_of(&entry.file_name().to_string_lossy(), &case.scenario) {
                    checks.extend(read_checks(&entry.path())?);
                }
            }
            let verdict = match checks.is_empty() {
                false => Verdict::new(case, checks),
                // It did not come to this one.
                true => self.run(case, tested, reports)?,
            };
            verdict.print_progress();
            Ok(verdict)
        });
        verdicts.collect()
    }

    /// Runs one scenario. Its own exit status leaves out what it does not score, so every check is read instead.
    pub(super) fn run(&self, case: &Case, tested: &TestTarget, reports: &Path) -> Result<Verdict, ConformanceError> {
        let folder = reports.join(case.revision).join(&case.scenario);
        fs::create_dir_all(&folder)?;
        let output = File::create(folder.join("output.log"))?;
        let mut command = self.command();
        match case.side {
            Side::Server => command.args(["server", "--url", &format!("http://{}/mcp", tested.server)]),
            Side::Client => command.arg("client").arg("--command").arg(&tested.client),
        };
        // Forced, because the scenarios of extensions are on no revision's time line.
        command.args(["--scenario", &case.scenario, "--spec-version", case.revision, "--force"]);
        command.arg("--output-dir").arg(&folder);
        command.stdout(output.try_clone()?).stderr(output);
        command.status().map_err(|source| ProcessError::Start {
            line: format!("the suite's scenario {}", case.scenario),
            source,
        })?;
        Ok(Verdict::new(case, read_checks(&folder)?))
    }
}

/// What the suite tests.
pub(super) struct TestTarget {
    pub(super) server: SocketAddr,
    /// A program that the suite starts with the URL of its own server.
    pub(super) client: PathBuf,
}

/// Whether a folder has the report of this scenario for servers: `server-SCENARIO-2026-07-28T12-00-00-000Z`.
fn is_of(folder: &str, scenario: &str) -> bool {
    let date = folder
        .strip_prefix("server-")
        .and_then(|rest| rest.strip_prefix(scenario));
    date.is_some_and(|date| {
        date.len() == "-2026-07-28T12-00-00-000Z".len() && date.ends_with('Z') && !date.contains("--")
    })
}

/// The checks of every run in a folder: the suite makes a folder of its own for each, with a date in its name, and one around it for each slash in the name of
/// the scenario.
fn read_checks(folder: &Path) -> Result<Vec<Check>, ConformanceError> {
    let mut checks = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            checks.extend(read_checks(&path)?);
        } else if path.ends_with("checks.json") {
            checks.extend(serde_json::from_slice::<Vec<Check>>(&fs::read(path)?)?);
        }
    }
    Ok(checks)
}

/// The suite's list for a revision, which is prose:
///
/// ```text
/// Required for 2026-07-28 (69 scenarios, frozen; …):
///
/// Server scenarios (test against a server):
///   - server-stateless
/// Client scenarios (test against a client):
///   - request-metadata
/// Run and reported, but never scored:
///   extension (16):
///     - tasks-lifecycle [server]
/// ```
#[derive(Default)]
struct ScenarioList {
    /// All scenarios, scored or not.
    scenarios: Vec<(Side, String)>,
    /// How many required scenarios were read, for servers and clients together.
    required: usize,
    /// How many required scenarios the list announces.
    announced: usize,
}

impl ScenarioList {
    fn read(text: &str) -> Self {
        let mut listed = Self::default();
        let mut heading = "";
        for line in text.lines() {
            match line.trim_start().strip_prefix("- ") {
                Some(item) => listed.add(heading, item.trim_end()),
                None if line.starts_with("Required for ") => listed.announced = number_in_brackets(line),
                None if line.starts_with(char::is_alphabetic) => heading = line,
                None => {}
            }
        }
        listed
    }

    fn add(&mut self, heading: &str, item: &str) {
        let (side, scenario) = match heading {
            heading if heading.starts_with("Server scenarios") => (Side::Server, Some(item)),
            heading if heading.starts_with("Client scenarios") => (Side::Client, Some(item)),
            _ => match item.strip_suffix(" [server]") {
                Some(scenario) => (Side::Server, Some(scenario)),
                None => (Side::Client, item.strip_suffix(" [client]")),
            },
        };
        if scenario == Some(item) {
            self.required += 1;
        }
        self.scenarios
            .extend(scenario.map(|scenario| (side, scenario.to_owned())));
    }
}

fn number_in_brackets(line: &str) -> usize {
    let after = line.split_once('(').map_or("", |(_, after)| after);
    let digits = after.split(' ').next().unwrap_or_default();
    digits.parse().unwrap_or_default()
}
