//! `cargo xtask interop`: clients of other projects against the fixture server, and our client against their servers.
//!
//! The scripts are in the folder `interop` and also serve as examples. Each client writes one line of JSON for each step.

mod login;
pub(crate) mod peer;
mod report;
pub(crate) mod server_peer;
mod upstreams;

use crate::requirement::RequirementError;
use harness::{
    clock,
    process::{self, ProcessError},
    replicas::Replicas,
    rounds::RunError,
    server::ServerError,
    side_by_side, workspace,
};
use login::{LoginClient, Tokens};
use peer::Peer;
use report::Verdict;
use server_peer::{Programs, Revision, ServerPeer};
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
    /// That of 2024-11-05, over HTTP.
    Sse,
    /// The client starts the server.
    Stdio,
}

/// A client and a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    /// A client of others, and our fixture server.
    Client(Peer, Transport),
    /// Our client, and a server.
    Server(ServerPeer, Transport),
    /// The `longhaul` command, and a server over HTTP.
    Command(ServerPeer),
    /// A client that has to log in, and our server.
    Login(LoginClient, Tokens),
    /// Servers behind the gateway, and the same without it: one, or all of them behind one gateway.
    Upstreams(Option<&'static str>),
}

/// All runs; the slowest first.
const RUNS: &[Run] = &[
    Run::Upstreams(None),
    Run::Server(ServerPeer::Reference, Transport::Http),
    Run::Server(ServerPeer::Reference, Transport::Sse),
    Run::Server(ServerPeer::Reference, Transport::Stdio),
    Run::Server(ServerPeer::FastMcp3, Transport::Http),
    Run::Server(ServerPeer::FastMcp3, Transport::Stdio),
    Run::Server(ServerPeer::FastMcp4, Transport::Http),
    Run::Server(ServerPeer::FastMcp4, Transport::Stdio),
    Run::Server(ServerPeer::Mcp1, Transport::Http),
    Run::Server(ServerPeer::Mcp1, Transport::Sse),
    Run::Server(ServerPeer::Mcp1, Transport::Stdio),
    Run::Server(ServerPeer::Rmcp(Revision::Modern), Transport::Http),
    Run::Server(ServerPeer::Rmcp(Revision::Modern), Transport::Stdio),
    Run::Server(ServerPeer::Rmcp(Revision::Legacy), Transport::Http),
    Run::Server(ServerPeer::Rmcp(Revision::Legacy), Transport::Stdio),
    Run::Server(ServerPeer::Fixtures(Revision::Modern), Transport::Http),
    Run::Server(ServerPeer::Fixtures(Revision::Modern), Transport::Stdio),
    Run::Server(ServerPeer::Fixtures(Revision::Legacy), Transport::Http),
    Run::Server(ServerPeer::Fixtures(Revision::Legacy), Transport::Stdio),
    Run::Server(ServerPeer::Relay(Revision::Modern), Transport::Stdio),
    Run::Server(ServerPeer::Relay(Revision::Legacy), Transport::Stdio),
    Run::Command(ServerPeer::Reference),
    Run::Command(ServerPeer::Mcp1),
    Run::Command(ServerPeer::FastMcp3),
    Run::Command(ServerPeer::FastMcp4),
    Run::Upstreams(Some("filesystem")),
    Run::Upstreams(Some("memory")),
    Run::Upstreams(Some("sequential-thinking")),
    Run::Upstreams(Some("everything")),
    Run::Upstreams(Some("commands")),
    Run::Upstreams(Some("git")),
    Run::Upstreams(Some("time")),
    Run::Upstreams(Some("fetch")),
    Run::Upstreams(Some("sqlite")),
    Run::Upstreams(Some("calculator")),
    Run::Login(LoginClient::Command, Tokens::Jwt),
    Run::Login(LoginClient::Command, Tokens::Opaque),
    Run::Login(LoginClient::Peer(Peer::Python("login.py")), Tokens::Jwt),
    Run::Login(LoginClient::Peer(Peer::Python("login.py")), Tokens::Opaque),
    Run::Login(LoginClient::Peer(Peer::TypeScript("login.mjs")), Tokens::Jwt),
    Run::Login(LoginClient::Peer(Peer::TypeScript("login.mjs")), Tokens::Opaque),
    Run::Login(LoginClient::Peer(Peer::Rmcp), Tokens::Jwt),
    Run::Login(LoginClient::Peer(Peer::Rmcp), Tokens::Opaque),
    Run::Client(Peer::Rmcp, Transport::Http),
    Run::Client(Peer::Python("tasks.py"), Transport::Http),
    Run::Client(Peer::Python("hosted_tasks.py"), Transport::Http),
    Run::Client(Peer::TypeScript("tasks.mjs"), Transport::Http),
    Run::Client(Peer::TypeScript("hosted_tasks.mjs"), Transport::Http),
    Run::Client(Peer::TypeScript("ext_tasks.mjs"), Transport::Http),
    Run::Client(Peer::TypeScript("modern.mjs"), Transport::Http),
    Run::Client(Peer::Rmcp, Transport::Stdio),
    Run::Client(Peer::Python("tasks.py"), Transport::Stdio),
    Run::Client(Peer::Python("hosted_tasks.py"), Transport::Stdio),
    Run::Client(Peer::TypeScript("tasks.mjs"), Transport::Stdio),
    Run::Client(Peer::TypeScript("hosted_tasks.mjs"), Transport::Stdio),
    Run::Client(Peer::TypeScript("ext_tasks.mjs"), Transport::Stdio),
    Run::Client(Peer::TypeScript("modern.mjs"), Transport::Stdio),
];

/// `cargo xtask interop`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only runs with this in their name, like `python/tasks` or `servers/`; may be given several times
    #[arg(long, value_name = "PART")]
    pub(crate) script: Vec<String>,
    /// Use this fixture server instead of building one
    #[arg(long, value_name = "FILE")]
    pub(crate) program: Option<PathBuf>,
    /// Only clients of others over HTTP, each with so many fixture servers that share a PostgreSQL database, behind a load balancer that sends each request to
    /// the next one
    #[arg(long)]
    pub(crate) nodes: Option<usize>,
    /// Whether all programs of this workspace are built
    #[arg(skip)]
    pub(crate) is_built: bool,
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
    #[error(transparent)]
    Cluster(#[from] RunError),
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

/// Installs the clients and servers, and runs each pair.
pub(crate) fn run(args: &Args) -> Result<(), InteropError> {
    let mut runs = chosen(&args.script)?;
    if args.nodes.is_some() {
        runs.retain(|run| matches!(run, Run::Client(_, Transport::Http)));
    }
    let programs = programs(args)?;
    let commands = runs.iter().map(|run| run.command(&programs));
    let commands = commands.collect::<Result<Vec<_>, _>>()?;
    let folder = workspace::target()
        .join("interop")
        .join(format!("run-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let runs = runs.into_iter().zip(commands).collect();
    let verdicts = side_by_side::map(runs, AT_A_TIME, |(run, command)| {
        run_one(run, command, &programs, args.nodes, &folder)
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

/// Builds our programs, unless they are built.
fn programs(args: &Args) -> Result<Programs, InteropError> {
    let all = [
        workspace::fixtures(),
        workspace::interop_client(),
        workspace::longhaul(),
        workspace::interop_rmcp_server(),
    ];
    if !args.is_built {
        process::run(&mut workspace::build(&all))?;
    }
    let [fixtures, client, longhaul, rmcp_server] = all.map(|program| program.path());
    Ok(Programs {
        fixtures: args.program.clone().unwrap_or(fixtures),
        client,
        longhaul,
        rmcp_server,
    })
}

fn chosen(asked: &[String]) -> Result<Vec<Run>, InteropError> {
    let fits = |part: &String, run: &Run| run.name().contains(part.as_str());
    if let Some(part) = asked.iter().find(|part| !RUNS.iter().any(|run| fits(part, run))) {
        return Err(InteropError::UnknownScript(part.clone()));
    }
    let wanted = |run: &&Run| asked.is_empty() || asked.iter().any(|part| fits(part, run));
    Ok(RUNS.iter().filter(wanted).copied().collect())
}

impl Run {
    fn name(self) -> String {
        match self {
            Self::Client(peer, transport) => format!("{} {}", peer.name(), transport.name()),
            Self::Server(peer, transport) => format!("{} {}", peer.name(), transport.name()),
            Self::Command(peer) => format!("command/{}", peer.short_name()),
            Self::Login(client, tokens) => client.name(tokens),
            Self::Upstreams(server) => format!("upstreams/{}", server.unwrap_or("all")),
        }
    }

    /// Installs what the program of others needs, and returns the command that runs it.
    fn command(self, programs: &Programs) -> Result<Command, InteropError> {
        match self {
            Self::Client(peer, _) => peer.command(),
            Self::Server(peer, transport) => peer.command(transport, programs),
            Self::Command(peer) => peer.command(Transport::Http, programs),
            Self::Login(client, _) => client.command(),
            Self::Upstreams(server) => upstreams::compare(&upstreams::servers(server)),
        }
    }
}

fn run_one(
    run: Run,
    mut command: Command,
    programs: &Programs,
    nodes: Option<usize>,
    folder: &Path,
) -> Result<Verdict, InteropError> {
    let name = run.name();
    let folder = folder.join(name.replace(['/', ' '], "-"));
    fs::create_dir_all(&folder)?;
    let mut fixture = None;
    let running = match run {
        Run::Client(_, Transport::Http | Transport::Sse) => {
            let server = fixture.insert(Replicas::start(&programs.fixtures, nodes, &folder)?);
            command.args(["--url", &format!("http://{}/mcp", server.address())]);
            Vec::new()
        }
        Run::Client(_, Transport::Stdio) => {
            command.arg("--stdio").arg(&programs.fixtures).arg("--stdio");
            Vec::new()
        }
        Run::Server(peer, transport) => {
            let server = std::mem::replace(&mut command, Command::new(&programs.client));
            Vec::from_iter(peer.connect(transport, &mut command, server, &folder)?)
        }
        Run::Command(peer) => {
            let mut steps = Command::new("python3");
            steps.arg("-B").arg(peer::source("command").join("steps.py"));
            let server = std::mem::replace(&mut command, steps);
            vec![peer.connect_command(&mut command, server, programs, &folder)?]
        }
        Run::Upstreams(server) => {
            upstreams::connect(&mut command, server.is_some(), programs, &folder);
            Vec::new()
        }
        Run::Login(client, tokens) => client.connect(tokens, &mut command, programs, &folder)?.into(),
    };
    let (output, log) = follow(&mut command, &name, &folder)?;
    drop((running, fixture));
    if let Run::Server(peer, _) = run {
        peer.wait_for_end(&folder)?;
    }
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
            Self::Sse => "sse",
            Self::Stdio => "stdio",
        }
    }
}
