//! The servers that our client is run against: those of others, and our own.

use super::{
    InteropError, Transport,
    peer::{self, node_packages},
};
use crate::peers::node::Node;
use harness::{clock, server::Server};
use rustix::fs::{FlockOperation, flock};
use std::sync::atomic::{AtomicU16, Ordering};
use std::{
    fs::{self, File},
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

/// The next port to try for a server that cannot choose one.
static NEXT_PORT: AtomicU16 = AtomicU16::new(0);
/// How long a server may take to start: Python reads many files.
const START: Duration = Duration::from_secs(60);
/// How long a server that `longhaul stdio` has started may take to stop when it is idle.
const STOP: Duration = Duration::from_secs(20);

/// What every server has.
const PLAIN: [&str; 3] = ["connect", "list-tools", "plain"];
const TASKS: [&str; 4] = ["task", "cancel", "read-again", "unknown-task"];

/// A server, and what is tested with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerPeer {
    /// `@modelcontextprotocol/server-everything`.
    Reference,
    /// The official Python SDK with the tasks of 2025-11-25.
    Mcp1,
    FastMcp3,
    FastMcp4,
    /// The official Rust SDK, which has no tasks of 2025-11-25.
    Rmcp(Revision),
    /// Our fixture server.
    Fixtures(Revision),
    /// Our server with commands, reached through `longhaul stdio`.
    Relay(Revision),
}

/// The revision that is spoken with a server of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Revision {
    Modern,
    Legacy,
}

impl Revision {
    fn name(self) -> &'static str {
        match self {
            Self::Modern => "2026-07-28",
            Self::Legacy => "2025-11-25",
        }
    }
}

/// The programs of this workspace that take part.
pub(super) struct Programs {
    pub(super) fixtures: PathBuf,
    pub(super) client: PathBuf,
    pub(super) longhaul: PathBuf,
    pub(super) rmcp_server: PathBuf,
}

impl ServerPeer {
    pub(super) fn name(self) -> String {
        match self {
            Self::Reference => "servers/server-everything".to_owned(),
            Self::Mcp1 => "servers/mcp_1.py".to_owned(),
            Self::FastMcp3 => "servers/fastmcp_3.py".to_owned(),
            Self::FastMcp4 => "servers/fastmcp_4.py".to_owned(),
            Self::Rmcp(revision) => format!("servers/rmcp {}", revision.name()),
            Self::Fixtures(revision) => format!("servers/fixtures {}", revision.name()),
            Self::Relay(revision) => format!("servers/relay {}", revision.name()),
        }
    }

    /// The name without its folder.
    pub(super) fn short_name(self) -> String {
        self.name().trim_start_matches("servers/").to_owned()
    }

    fn revision(self) -> Revision {
        match self {
            Self::Reference | Self::Mcp1 | Self::FastMcp3 => Revision::Legacy,
            Self::FastMcp4 => Revision::Modern,
            Self::Rmcp(revision) | Self::Fixtures(revision) | Self::Relay(revision) => revision,
        }
    }

    /// The steps of the client.
    fn steps(self, transport: Transport) -> Vec<&'static str> {
        let asks = ["task-asks", "task-is-declined", "cancel-while-it-asks"];
        let mut steps = PLAIN.to_vec();
        match self {
            // It asks one thing at a time.
            Self::Reference => steps.extend(
                ["progress", "ask", "sample", "hosted-task", "roots"]
                    .iter()
                    .chain(&asks),
            ),
            Self::Mcp1 => {
                steps.extend(["progress", "ask", "sample", "questions-at-once", "tool-error"]);
                steps.extend(asks);
            }
            // A task has one open question at most.
            Self::FastMcp3 => steps.extend(["progress", "ask", "sample", "tool-error"].iter().chain(&asks)),
            Self::FastMcp4 | Self::Rmcp(Revision::Modern) => {
                steps.extend(["progress", "ask", "questions-at-once", "tool-error"]);
                steps.extend(asks);
            }
            Self::Rmcp(Revision::Legacy) => {
                steps.extend(["progress", "ask", "sample", "slow"]);
                return steps;
            }
            // Its tools become tasks wherever they may, so they report no progress.
            Self::Fixtures(_) => {
                steps.extend(["ask", "sample", "questions-at-once", "tool-error"]);
                steps.extend(asks);
            }
            // A command asks nothing.
            Self::Relay(_) => steps.push("tool-error"),
        }
        steps.extend(TASKS);
        if transport == Transport::Http {
            steps.extend(self.steps_with_journal(&steps));
        }
        if !self.keeps_tasks_of_others(transport) {
            steps.push("task-of-another-session");
            return steps;
        }
        steps.push("killed-caller");
        // FastMCP 3 asks in the session that is gone, and nowhere else.
        if steps.contains(&"task-asks") && self != Self::FastMcp3 {
            steps.push("killed-while-it-asks");
        }
        steps
    }

    /// Those in which another process is killed and this one goes on from its journal. The server must outlive that process.
    fn steps_with_journal(self, steps: &[&str]) -> Vec<&'static str> {
        let mut more = vec!["journal-killed-caller"];
        // FastMCP 3 asks once, on a stream that is gone.
        if steps.contains(&"task-asks") && self != Self::FastMcp3 {
            more.push("journal-killed-while-it-asks");
        }
        if steps.contains(&"questions-at-once") {
            more.push("journal-killed-with-questions");
        }
        more
    }

    /// Whether another connection can read a task. Over stdio another connection has another server.
    fn keeps_tasks_of_others(self, transport: Transport) -> bool {
        match self {
            Self::Reference | Self::Mcp1 => false,
            Self::Relay(_) => true,
            _ => transport == Transport::Http,
        }
    }

    /// Installs what the server needs, and returns the command that runs it.
    pub(super) fn command(self, transport: Transport, programs: &Programs) -> Result<Command, InteropError> {
        let mut command = match self {
            Self::Reference => {
                return reference_command(match transport {
                    Transport::Http => "streamableHttp",
                    Transport::Sse => "sse",
                    Transport::Stdio => "stdio",
                });
            }
            Self::Mcp1 => {
                let requirements = peer::source("python").join("requirements.txt");
                peer::python("servers", &requirements.to_string_lossy(), "mcp_1.py")?
            }
            Self::FastMcp3 => peer::python("servers", "fastmcp_3.txt", "fastmcp_3.py")?,
            Self::FastMcp4 => peer::python("servers", "fastmcp_4.txt", "fastmcp_4.py")?,
            Self::Rmcp(_) => Command::new(&programs.rmcp_server),
            Self::Fixtures(_) => Command::new(&programs.fixtures),
            Self::Relay(_) => {
                let mut command = Command::new(&programs.longhaul);
                command.arg("stdio").arg(peer::source("servers").join("longhaul.toml"));
                return Ok(command);
            }
        };
        match transport {
            Transport::Http => {}
            Transport::Sse => drop(command.arg("--sse")),
            Transport::Stdio => drop(command.arg("--stdio")),
        }
        Ok(command)
    }

    /// Completes the command of the client. Over HTTP, starts the server for it.
    pub(super) fn connect(
        self,
        transport: Transport,
        client: &mut Command,
        mut server: Command,
        folder: &Path,
    ) -> Result<Option<Server>, InteropError> {
        client.args(["--version", self.revision().name()]);
        client.args(["--only", &self.steps(transport).join(",")]);
        if self == Self::Reference {
            client.args(["--tools", "reference"]);
        }
        if let Self::Relay(_) = self {
            server.arg("--data-dir").arg(folder.join("data"));
        }
        match transport {
            Transport::Stdio => {
                client.envs(server.get_envs().filter_map(|(name, value)| Some((name, value?))));
                client.arg("--stdio").arg(server.get_program()).args(server.get_args());
                Ok(None)
            }
            Transport::Http | Transport::Sse => {
                let path = if transport == Transport::Sse { "sse" } else { "mcp" };
                let (server, url) = self.listen(server, path, &folder.join("server.log"))?;
                client.args(["--url", &url]);
                Ok(Some(server))
            }
        }
    }

    /// Starts the server, and completes the command that uses it through `longhaul`.
    pub(super) fn connect_command(
        self,
        steps: &mut Command,
        server: Command,
        programs: &Programs,
        folder: &Path,
    ) -> Result<Server, InteropError> {
        let (server, url) = self.listen(server, "mcp", &folder.join("server.log"))?;
        let tools = if self == Self::Reference {
            "reference"
        } else {
            "fixture"
        };
        steps.args(["--server", &self.short_name(), "--tools", tools, "--url", &url]);
        steps.arg("--program").arg(&programs.longhaul);
        steps.arg("--home").arg(folder.join("home"));
        Ok(server)
    }

    fn listen(self, mut command: Command, path: &str, log: &Path) -> Result<(Server, String), InteropError> {
        if self != Self::Reference {
            let mut server = Server::start(&mut command, log)?;
            let address = server.ready_within(START)?;
            return Ok((server, format!("http://{address}/{path}")));
        }
        let (server, address) = listen_at_a_free_port(command, log)?;
        Ok((server, format!("http://{address}/{path}")))
    }

    /// Waits until no server uses the folder any more. One that `longhaul stdio` has started stays for a moment.
    pub(super) fn wait_for_end(self, folder: &Path) -> io::Result<()> {
        let lock = folder.join("data").join("lock");
        if !matches!(self, Self::Relay(_)) || !fs::exists(&lock)? {
            return Ok(());
        }
        let lock = File::open(lock)?;
        let free = clock::wait_for(STOP, || flock(&lock, FlockOperation::NonBlockingLockExclusive).ok());
        free.ok_or_else(|| io::Error::other("the server that `longhaul stdio` has started does not stop"))
    }
}

/// Installs `@modelcontextprotocol/server-everything` and starts it over HTTP.
pub(crate) fn start_reference(log: &Path) -> Result<(Server, SocketAddr), InteropError> {
    listen_at_a_free_port(reference_command("streamableHttp")?, log)
}

fn reference_command(transport: &str) -> Result<Command, InteropError> {
    let home = node_packages("servers")?;
    let mut command = Node::install()?.command();
    command.arg(home.join("node_modules/@modelcontextprotocol/server-everything/dist/index.js"));
    command.arg(transport);
    Ok(command)
}

/// The reference server cannot choose a free port, and tells nobody which one it has. So the port is one that the system gives to no connection meanwhile.
fn listen_at_a_free_port(mut command: Command, log: &Path) -> Result<(Server, SocketAddr), InteropError> {
    let mut free = (0..10_000).filter_map(|_| {
        let port = 20_000 + NEXT_PORT.fetch_add(1, Ordering::Relaxed) % 10_000;
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()?.local_addr().ok()
    });
    let address = free.next().ok_or_else(|| io::Error::other("no port is free"))?;
    let server = Server::start(command.env("PORT", address.port().to_string()), log)?;
    // If it does not start, the client says so.
    clock::wait_for(START, || TcpStream::connect(address).ok());
    Ok((server, address))
}
