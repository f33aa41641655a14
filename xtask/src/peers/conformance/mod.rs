//! `cargo xtask conformance`: the official suite against the fixture server and the fixture client.
//!
//! Both requirement sets run whole, scored or not, with their scenarios about authorization, and so does every scenario of the Tasks extension, which
//! belongs to the newer set. Left out are extensions of authorization that are not supported.

mod case;
mod differences;
mod gateway;
mod suite;
mod upstreams;
mod verdict;

use super::interop::InteropError;
use crate::requirement::RequirementError;
use case::{Case, Side};
use harness::{
    process::ProcessError, replicas::Replicas, rounds::RunError, server::ServerError, side_by_side, workspace,
};
use std::{
    fs, io,
    num::NonZero,
    panic,
    path::{Path, PathBuf},
    thread,
};
use suite::{Suite, TestTarget};
use upstreams::Upstream;
use verdict::Verdict;

/// The revisions whose requirement sets have to pass.
const REVISIONS: [&str; 2] = ["2026-07-28", "2025-11-25"];

/// How many scenarios run at once on each processor: most of the time they wait for tasks.
const AT_A_TIME: usize = 2;

/// `cargo xtask conformance`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only this scenario, in every set that lists it; may be given several times
    #[arg(long, value_name = "NAME")]
    pub(crate) scenario: Vec<String>,
    /// Use this server instead of building one
    #[arg(long, value_name = "FILE")]
    pub(crate) program: Option<PathBuf>,
    /// Use this client instead of building one
    #[arg(long, value_name = "FILE")]
    pub(crate) client: Option<PathBuf>,
    /// Test so many fixture servers that share a PostgreSQL database, behind a load balancer that sends each request to the next one. Only the scenarios for
    /// servers are run
    #[arg(long, conflicts_with_all = ["client", "gateway"])]
    pub(crate) nodes: Option<usize>,
    /// Compare servers with themselves behind the gateway, instead of testing the fixture server and client
    #[arg(long, conflicts_with = "client")]
    pub(crate) gateway: bool,
    /// With --gateway: only this server; may be given several times
    #[arg(long, value_name = "NAME", requires = "gateway")]
    pub(crate) upstream: Vec<Upstream>,
    /// With --gateway: use this gateway instead of building one
    #[arg(long, value_name = "FILE", requires = "gateway")]
    pub(crate) longhaul: Option<PathBuf>,
    /// With --gateway: use this server with the official Rust SDK instead of building one
    #[arg(long, value_name = "FILE", requires = "gateway")]
    pub(crate) rmcp: Option<PathBuf>,
    /// With --gateway: leave out what takes long and another server shows, too: the official Rust SDK in 2025-11-25
    #[arg(long, requires = "gateway")]
    pub(crate) short: bool,
    /// Report as lines of JSON, one for each run
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
    #[error(transparent)]
    Interop(#[from] InteropError),
    #[error(transparent)]
    Cluster(#[from] RunError),
    #[error("the suite's files cannot be used: {0}")]
    Io(#[from] io::Error),
    #[error("the suite's report cannot be read: {0}")]
    Report(#[from] serde_json::Error),
    #[error(
        "the suite's list of what {revision} requires was not understood: {listed} scenarios read, {announced} announced"
    )]
    List {
        revision: &'static str,
        listed: usize,
        announced: usize,
    },
    #[error("no requirement set lists a scenario `{0}`, or it is of an extension that is left out")]
    UnknownScenario(String),
    #[error("{failed} of {scenarios} scenarios did not pass; the suite's output is in {kept}")]
    Failed {
        failed: usize,
        scenarios: usize,
        kept: PathBuf,
    },
    #[error(
        "{unexplained} differences between a server and itself behind the gateway are not as xtask/src/peers/conformance/differences.txt lists them; the suite's output is in {kept}"
    )]
    Differs { unexplained: usize, kept: PathBuf },
    #[error(
        "a line of differences.txt is not `UPSTREAM REVISION SCENARIO CHECK: DIRECT -> RELAYED` below a reason: {0}"
    )]
    Difference(String),
}

/// Installs the suite and runs its scenarios on the fixture server.
pub(crate) fn run(args: &Args) -> Result<(), ConformanceError> {
    if args.gateway {
        return gateway::run(args);
    }
    let suite = Suite::install()?;
    let mut cases = chosen(&suite, &args.scenario)?;
    if args.nodes.is_some() {
        cases.retain(|case| case.side == Side::Server);
    }
    let program = workspace::fixtures().or_build(args.program.as_ref())?;
    let reports = workspace::target()
        .join("conformance")
        .join(format!("report-{}", std::process::id()));
    fs::create_dir_all(&reports)?;
    let client = workspace::conformance_client().or_build(args.client.as_ref())?;
    let server = Replicas::start(&program, args.nodes, &reports)?;
    let tested = TestTarget {
        server: server.address(),
        client,
    };
    let run = if args.scenario.is_empty() { run_all } else { run_each };
    let verdicts = run(&suite, cases, &tested, &reports)?;
    verdict::report(args.json, &verdicts);
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

/// The names of all scenarios that the requirement sets list.
pub(crate) fn scenarios() -> Result<Vec<String>, ConformanceError> {
    let cases = chosen(&Suite::install()?, &[])?;
    Ok(cases.into_iter().map(|case| case.scenario).collect())
}

/// The scenarios of the requirement sets; only those asked for, if any were.
fn chosen(suite: &Suite, asked: &[String]) -> Result<Vec<Case>, ConformanceError> {
    let mut cases = Vec::new();
    for revision in REVISIONS {
        cases.extend(suite.list(revision)?);
    }
    cases.retain(|case| !case.is_left_out());
    let unknown = |name: &&String| cases.iter().all(|case| case.scenario != **name);
    if let Some(name) = asked.iter().find(unknown) {
        return Err(ConformanceError::UnknownScenario(name.clone()));
    }
    if !asked.is_empty() {
        cases.retain(|case| asked.contains(&case.scenario));
    }
    Ok(cases)
}

/// Runs all cases: those for servers one by one, beside those for clients.
fn run_all(
    suite: &Suite,
    cases: Vec<Case>,
    tested: &TestTarget,
    reports: &Path,
) -> Result<Vec<Verdict>, ConformanceError> {
    let (for_server, for_client): (Vec<_>, Vec<_>) = cases.into_iter().partition(|case| case.side == Side::Server);
    thread::scope(|scope| {
        let clients = scope.spawn(|| run_each(suite, for_client, tested, reports));
        let mut verdicts = Vec::new();
        for revision in REVISIONS {
            let of_revision = for_server.iter().filter(|case| case.revision == revision).cloned();
            verdicts.extend(suite.run_for_server(&of_revision.collect::<Vec<_>>(), tested, reports)?);
        }
        let clients = clients.join().unwrap_or_else(|panic| panic::resume_unwind(panic));
        verdicts.extend(clients?);
        Ok(verdicts)
    })
}

/// Runs each case in a process of its own, those that disturb others first and one by one.
fn run_each(
    suite: &Suite,
    cases: Vec<Case>,
    tested: &TestTarget,
    reports: &Path,
) -> Result<Vec<Verdict>, ConformanceError> {
    let (disturbing, others) = cases.into_iter().partition(Case::disturbs);
    let run = |case: Case| {
        let verdict = suite.run(&case, tested, reports);
        verdict.inspect(Verdict::print_progress)
    };
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let mut verdicts = side_by_side::map(disturbing, 1, run);
    verdicts.extend(side_by_side::map(others, processors * AT_A_TIME, run));
    verdicts.into_iter().collect()
}
