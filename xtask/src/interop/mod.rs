//! `cargo xtask interop`: clients of other projects against the fixture server.
//!
//! The scripts are in the folder `interop` and also serve as examples. Each writes one line of JSON for each step.

mod peer;
mod report;

use crate::{
    clock,
    process::ProcessError,
    requirement::RequirementError,
    server::{Server, ServerError},
    side_by_side, workspace,
};
use peer::Peer;
use report::Verdict;
use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

/// The time limit of a script; each step has a limit of its own.
const SCRIPT_TIMEOUT: Duration = Duration::from_secs(300);

/// How many scripts run at once: most of the time they wait for tasks.
const AT_A_TIME: usize = 4;

/// How a client reaches the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    Http,
    /// The client starts the server.
    Stdio,
}

/// All scripts, with their transports.
const RUNS: &[(Peer, Transport)] = &[
    (Peer::Rmcp, Transport::Http),
    (Peer::Python("tasks.py"), Transport::Http),
    (Peer::Python("hosted_tasks.py"), Transport::Http),
    (Peer::TypeScript("tasks.mjs"), Transport::Http),
    (Peer::TypeScript("hosted_tasks.mjs"), Transport::Http),
    (Peer::TypeScript("ext_tasks.mjs"), Transport::Http),
    (Peer::TypeScript("modern.mjs"), Transport::Http),
    (Peer::Rmcp, Transport::Stdio),
    (Peer::Python("tasks.py"), Transport::Stdio),
    (Peer::Python("hosted_tasks.py"), Transport::Stdio),
    (Peer::TypeScript("tasks.mjs"), Transport::Stdio),
    (Peer::TypeScript("hosted_tasks.mjs"), Transport::Stdio),
    (Peer::TypeScript("ext_tasks.mjs"), Transport::Stdio),
    (Peer::TypeScript("modern.mjs"), Transport::Stdio),
];

/// `cargo xtask interop`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only scripts with this in their name, like `python/tasks`; may be given several times
    #[arg(long, value_name = "PART")]
    pub(crate) script: Vec<String>,
    /// Use this server instead of building one
    #[arg(long, value_name = "FILE")]
    pub(crate) program: Option<PathBuf>,
    /// Report as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Why the scripts failed or could not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InteropError {
    #[error(transparent)]
    Requirement(#[from] RequirementError),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error("the files of a run cannot be used: {0}")]
    Io(#[from] io::Error),
    #[error("no script has `{0}` in its name")]
    UnknownScript(String),
    #[error("{failed} of {scripts} scripts did not pass; their output is in {kept}")]
    Failed {
        failed: usize,
        scripts: usize,
        kept: PathBuf,
    },
}

type Run = (Peer, Transport);

/// Installs the clients and runs each script against a server of its own.
pub(crate) fn run(args: &Args) -> Result<(), InteropError> {
    let runs = chosen(&args.script)?;
    let server = workspace::fixtures().or_build(args.program.as_ref())?;
    let commands = runs.iter().map(|(peer, _)| peer.command());
    let commands = commands.collect::<Result<Vec<_>, _>>()?;
    let folder = workspace::target()
        .join("interop")
        .join(format!("run-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let runs = runs.into_iter().zip(commands).collect();
    let verdicts = side_by_side::map(runs, AT_A_TIME, |(run, command)| {
        run_one(run, command, &server, &folder)
    });
    let verdicts = verdicts.into_iter().collect::<Result<Vec<_>, _>>()?;
    report::report(args.json, &verdicts);
    let failed = verdicts.iter().filter(|verdict| !verdict.is_good()).count();
    if failed > 0 {
        return Err(InteropError::Failed {
            failed,
            scripts: verdicts.len(),
            kept: folder,
        });
    }
    Ok(fs::remove_dir_all(folder)?)
}

fn chosen(asked: &[String]) -> Result<Vec<Run>, InteropError> {
    let fits = |part: &String, (peer, _): &Run| peer.name().contains(part.as_str());
    if let Some(part) = asked.iter().find(|part| !RUNS.iter().any(|run| fits(part, run))) {
        return Err(InteropError::UnknownScript(part.clone()));
    }
    let wanted = |run: &&Run| asked.is_empty() || asked.iter().any(|part| fits(part, run));
    Ok(RUNS.iter().filter(wanted).copied().collect())
}

fn run_one(
    (peer, transport): Run,
    mut command: Command,
    server: &Path,
    folder: &Path,
) -> Result<Verdict, InteropError> {
    let name = format!("{} {}", peer.name(), transport.name());
    let folder = folder.join(name.replace(['/', ' '], "-"));
    fs::create_dir_all(&folder)?;
    let running = match transport {
        Transport::Http => {
            let mut listen = Command::new(server);
            let mut server = Server::start(listen.args(["--listen", "127.0.0.1:0"]), &folder.join("server.log"))?;
            command.args(["--url", &format!("http://{}/mcp", server.ready()?)]);
            Some(server)
        }
        Transport::Stdio => {
            command.arg("--stdio").arg(server).arg("--stdio");
            None
        }
    };
    let (output, log) = follow(&mut command, &name, &folder)?;
    drop(running);
    let verdict = Verdict::read(name, &output, &log);
    verdict.print_progress();
    Ok(verdict)
}

/// Runs a script and kills it after the timeout. Returns the lines of its steps, and its log.
fn follow(command: &mut Command, name: &str, folder: &Path) -> Result<(String, String), InteropError> {
    let output = folder.join("steps.jsonl");
    let log = folder.join("client.log");
    command
        .stdin(Stdio::null())
        .stdout(File::create(&output)?)
        .stderr(File::create(&log)?);
    let mut child = command.spawn().map_err(|source| ProcessError::Start {
        line: name.to_owned(),
        source,
    })?;
    if clock::wait_for(SCRIPT_TIMEOUT, || child.try_wait().transpose()).is_none() {
        child.kill()?;
        child.wait()?;
    }
    let log = String::from_utf8_lossy(&fs::read(log)?).into_owned();
    Ok((fs::read_to_string(output)?, log))
}

impl Transport {
    fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Stdio => "stdio",
        }
    }
}
