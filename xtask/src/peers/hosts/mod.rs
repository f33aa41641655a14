//! `cargo xtask hosts`: the hosts that people use, each with a scripted model and a server of ours between which everything is recorded.
//!
//! Each case of a host is a process of `interop/hosts/case.py`, in a network of its own with nothing but loopback, among processes of its own, which
//! end with it, and in an empty home. No host gets anybody's credentials.

mod report;

use super::{
    interop::{
        InteropError,
        peer::{node_packages, source},
    },
    node::Node,
};
use crate::requirement::{self, RequirementError};
use harness::{clock, process::ProcessError, side_by_side, workspace};
use report::{CaseResult, Report};
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

/// How many hosts run at once. Most of their time they wait.
const AT_A_TIME: usize = 6;
/// Longer than any case takes.
const TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// What is short enough to be run with every change.
const QUICK: [&str; 3] = ["quick", "hand-off", "question"];

/// `cargo xtask hosts`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only this host; several times for several
    #[arg(long = "host", value_name = "NAME")]
    pub(crate) hosts: Vec<String>,
    /// Only this case; several times for several
    #[arg(long = "case", value_name = "NAME")]
    pub(crate) cases: Vec<String>,
    /// Only the cases that take seconds
    #[arg(long)]
    pub(crate) quick: bool,
    /// The `longhaul` to test; it is built if absent
    #[arg(long, value_name = "FILE")]
    pub(crate) program: Option<PathBuf>,
    /// Where the homes and logs of the cases go; below the target folder if absent
    #[arg(long)]
    pub(crate) folder: Option<PathBuf>,
    /// Report as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The hosts were not tested, or do not get what they rely on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HostsError {
    #[error(transparent)]
    Requirement(#[from] RequirementError),
    #[error(transparent)]
    Packages(#[from] InteropError),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error("the files of a run cannot be used: {0}")]
    Io(#[from] io::Error),
    #[error("the scripts do not list their cases: {0}")]
    List(#[from] serde_json::Error),
    #[error("there is no {0:?}; there are {1}")]
    Unknown(String, String),
    #[error("{failed} of {cases} cases failed; what they have left is in {kept}")]
    Failed { failed: usize, cases: usize, kept: PathBuf },
}

/// What `case.py --list` prints.
#[derive(Deserialize)]
struct CaseList {
    date: String,
    hosts: Vec<String>,
    cases: Vec<ListedCase>,
}

#[derive(Deserialize)]
struct ListedCase {
    name: String,
    /// How the host reaches the server: the commands of `longhaul`, or HTTP.
    ways: Vec<String>,
}

/// One case of one host.
#[derive(Clone)]
struct Run {
    host: String,
    case: String,
    way: String,
}

/// The programs that a case needs.
struct Programs {
    longhaul: PathBuf,
    node: PathBuf,
    packages: PathBuf,
}

/// Installs the hosts and runs the cases.
pub(crate) fn run(args: &Args) -> Result<(), HostsError> {
    requirement::python()?;
    let listed = list()?;
    let runs = chosen(args, &listed)?;
    let home = node_packages("hosts")?;
    let programs = Programs {
        longhaul: fs::canonicalize(workspace::longhaul().or_build(args.program.as_ref())?)?,
        node: Node::install()?.path().to_owned(),
        packages: home.join("node_modules"),
    };
    let folder = args.folder.clone().unwrap_or_else(|| workspace::target().join("hosts"));
    let folder = folder.join(std::process::id().to_string());
    let results = side_by_side::map(runs, AT_A_TIME, |run| {
        let result = run_one(&run, &programs, &folder);
        result.inspect(|result| eprintln!("hosts: {result}"))
    });
    let results = results.into_iter().collect::<Result<Vec<_>, _>>()?;
    let (cases, failed) = (results.len(), results.iter().filter(|result| !result.is_good()).count());
    let order = listed.cases.into_iter().map(|case| case.name).collect();
    Report::new(listed.date, versions(&home)?, listed.hosts, order, results).print(args.json)?;
    if failed > 0 {
        return Err(HostsError::Failed {
            failed,
            cases,
            kept: folder,
        });
    }
    Ok(fs::remove_dir_all(folder)?)
}

fn script() -> Command {
    let mut command = Command::new("python3");
    // `-B`: writes no byte code into the source folder.
    command.arg("-B").arg(source("hosts").join("case.py"));
    command
}

fn list() -> Result<CaseList, HostsError> {
    let output = script().arg("--list").stderr(Stdio::inherit()).output()?;
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The versions of the packages, as they are pinned.
fn versions(home: &Path) -> Result<BTreeMap<String, String>, HostsError> {
    #[derive(Deserialize)]
    struct Package {
        dependencies: BTreeMap<String, String>,
    }
    let package: Package = serde_json::from_slice(&fs::read(home.join("package.json"))?)?;
    Ok(package.dependencies)
}

/// The runs that were asked for, the longest first.
fn chosen(args: &Args, listed: &CaseList) -> Result<Vec<Run>, HostsError> {
    let known: Vec<&str> = listed.cases.iter().map(|case| case.name.as_str()).collect();
    let hosts: Vec<&str> = listed.hosts.iter().map(String::as_str).collect();
    for (asked, known) in [(&args.cases, &known), (&args.hosts, &hosts)] {
        if let Some(unknown) = asked.iter().find(|name| !known.contains(&name.as_str())) {
            return Err(HostsError::Unknown(unknown.clone(), known.join(", ")));
        }
    }
    let is_asked = |asked: &[String], name: &str| asked.is_empty() || asked.iter().any(|it| it == name);
    let cases = listed.cases.iter().rev();
    let cases = cases.filter(|case| is_asked(&args.cases, &case.name) && (!args.quick || QUICK.contains(&&*case.name)));
    let runs = cases.flat_map(|case| {
        let of_host = move |host: &&str| is_asked(&args.hosts, host);
        let hosts = hosts.iter().copied().filter(of_host);
        hosts.flat_map(move |host| {
            case.ways.iter().map(move |way| Run {
                host: host.to_owned(),
                case: case.name.clone(),
                way: way.clone(),
            })
        })
    });
    Ok(runs.collect())
}

/// Runs a case alone in a network and among processes of its own.
fn run_one(run: &Run, programs: &Programs, folder: &Path) -> Result<CaseResult, HostsError> {
    let folder = folder.join(format!("{}-{}-{}", run.host, run.case, run.way));
    fs::create_dir_all(&folder)?;
    let script = script();
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.arg("--map-root-user");
    }
    command
        .args(["--net", "--pid", "--fork", "--kill-child", "--mount-proc"])
        .arg(script.get_program())
        .args(script.get_args())
        .args(["--host", &run.host, "--case", &run.case, "--way", &run.way])
        .arg("--program")
        .arg(&programs.longhaul)
        .arg("--packages")
        .arg(&programs.packages)
        .arg("--node")
        .arg(&programs.node)
        .arg("--folder")
        .arg(&folder);
    let (output, log) = (folder.join("result.json"), folder.join("case.log"));
    command
        .stdin(Stdio::null())
        .stdout(File::create(&output)?)
        .stderr(File::create(&log)?);
    let mut child = command.spawn().map_err(|source| ProcessError::Start {
        line: "unshare".to_owned(),
        source,
    })?;
    if clock::wait_for(TIMEOUT, || child.try_wait().transpose()).is_none() {
        child.kill()?;
        child.wait()?;
    }
    let result = CaseResult::read(run, &fs::read(output)?, &fs::read_to_string(log)?);
    if result.is_good() {
        // What was said is kept to be compared; homes and databases are large.
        fs::remove_dir_all(folder.join("home"))?;
        fs::remove_dir_all(folder.join("served"))?;
    }
    Ok(result)
}
