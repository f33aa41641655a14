//! The proxies: how each is installed and started in front of a server that is a child of it.

use super::ProxiesError;
use crate::peers::{
    interop::peer::{node_packages, python_packages},
    node::Node,
};
use harness::{
    clock,
    mcp::{Client, ClientEra, RequestError},
    server::{self, Server},
};
use serde_json::json;
use std::{
    fs, io,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    process::Command,
    time::Duration,
};

/// How long a proxy may take to start: Python reads many files.
const START: Duration = Duration::from_secs(60);

/// A program that offers a server over HTTP which speaks MCP over stdio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proxy {
    Longhaul,
    /// `mcp-proxy` from npm.
    McpProxyNode,
    Supergateway,
    /// `mcp-proxy` from PyPI.
    McpProxyPython,
}

impl Proxy {
    pub(super) const ALL: [Self; 4] = [
        Self::Longhaul,
        Self::McpProxyNode,
        Self::Supergateway,
        Self::McpProxyPython,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Longhaul => "longhaul",
            Self::McpProxyNode => "mcp-proxy (npm)",
            Self::Supergateway => "supergateway",
            Self::McpProxyPython => "mcp-proxy (PyPI)",
        }
    }

    /// Whether one process can stand in front of several servers.
    pub(super) fn takes_several(self) -> bool {
        matches!(self, Self::Longhaul | Self::McpProxyPython)
    }

    /// Starts the proxy in front of so many copies of the server.
    pub(super) fn start(self, upstreams: usize, site: &ProxySite) -> Result<RunningProxy, ProxiesError> {
        let address = free_address()?;
        let mut command = self.command(upstreams, address.port(), site)?;
        let log = site.folder.join(format!("{}.log", self.name()));
        let server = Server::start(&mut command, &log)?;
        let mut running = RunningProxy { server, address };
        let connected = clock::wait_for(START, || {
            let is_there = TcpStream::connect(address).is_ok();
            (is_there || !running.server.lives()).then_some(is_there)
        });
        match connected {
            Some(true) => Ok(running),
            _ => Err(ProxiesError::Start { name: self.name(), log }),
        }
    }

    fn command(self, upstreams: usize, port: u16, site: &ProxySite) -> Result<Command, ProxiesError> {
        let port = port.to_string();
        let [program, word] = site.upstream();
        let mut command;
        match self {
            Self::Longhaul => {
                let config = site.folder.join("longhaul.toml");
                fs::write(&config, configuration(upstreams, &program, &word))?;
                command = server::serve(&site.longhaul, &config);
                command.arg("--data-dir");
                command.arg(site.folder.join(format!("data-{port}")));
                command.args(["--listen", &format!("127.0.0.1:{port}")]);
            }
            Self::McpProxyNode => {
                command = node("mcp-proxy/dist/bin/mcp-proxy.mjs")?;
                command.args(["--server", "stream", "--host", "127.0.0.1", "--port", &port]);
                command.args(["--", &program, &word]);
            }
            Self::Supergateway => {
                command = node("supergateway/dist/index.js")?;
                command.args([
                    "--outputTransport",
                    "streamableHttp",
                    "--stateful",
                    "--logLevel",
                    "none",
                ]);
                command.args(["--port", &port, "--stdio", &format!("'{program}' {word}")]);
            }
            Self::McpProxyPython => {
                command = Command::new("python3");
                command.env("PYTHONPATH", python_packages("proxies", "requirements.txt")?);
                command.args(["-m", "mcp_proxy", "--log-level", "ERROR", "--port", &port]);
                for nth in 1..upstreams {
                    command.args(["--named-server", &format!("u{nth}"), &format!("'{program}' {word}")]);
                }
                command.args(["--", &program, &word]);
            }
        }
        Ok(command)
    }
}

fn node(file: &str) -> Result<Command, ProxiesError> {
    let mut command = Node::install()?.command();
    command.arg(node_packages("proxies")?.join("node_modules").join(file));
    Ok(command)
}

fn configuration(upstreams: usize, program: &str, word: &str) -> String {
    let command = json!([program, word]);
    let mut text = "[server]\nname = \"gateway\"\n".to_owned();
    for nth in 0..upstreams {
        text += &format!("\n[upstream.u{nth}]\ncommand = {command}\n");
    }
    text
}

/// What a run has: the folder for its files, and the program of the gateway.
pub(super) struct ProxySite {
    pub(super) folder: PathBuf,
    pub(super) longhaul: PathBuf,
    pub(super) xtask: PathBuf,
}

impl ProxySite {
    /// How the server behind the proxies is started.
    pub(super) fn upstream(&self) -> [String; 2] {
        [self.xtask.display().to_string(), "upstream".to_owned()]
    }
}

/// A proxy that runs. Dropping it kills it.
pub(super) struct RunningProxy {
    server: Server,
    address: SocketAddr,
}

impl RunningProxy {
    /// A client of the proxy, with a session of its own.
    pub(super) fn client(&self) -> Client {
        Client::new(ClientEra::Legacy, self.address)
    }

    /// A client in the session of another, whose first request has this id.
    pub(super) fn client_in(&self, first: &mut Client, first_id: u64) -> Result<Client, RequestError> {
        first.in_same_session(self.address, first_id)
    }

    /// The CPU time of the proxy alone, without the servers behind it.
    pub(super) fn cpu(&self) -> io::Result<Duration> {
        server::cpu(self.server.id(), false)
    }

    /// The resident memory of the proxy alone, in bytes.
    pub(super) fn resident(&self) -> io::Result<u64> {
        self.server.memory("VmRSS")
    }
}

fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}
