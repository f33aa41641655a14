//! The servers that are compared with themselves behind the gateway.

use super::{Args, ConformanceError};
use crate::peers::interop::{peer, server_peer};
use clap::ValueEnum as _;
use harness::{server::Server, workspace};
use std::{net::SocketAddr, path::Path, process::Command, time::Duration};

/// How long the start of a server in another language may take on a busy machine.
pub(super) const START: Duration = Duration::from_secs(60);

/// A server with the tools of the suite, or most of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Upstream {
    /// Our fixture server
    Everything,
    /// FastMCP 4
    FastMcp,
    /// The TypeScript SDK, with 2025-11-25
    TypeScript,
    /// The official Rust SDK
    Rmcp,
    /// `@modelcontextprotocol/server-everything`, which has other tools than the suite's, with 2025-11-25
    Reference,
}

impl Upstream {
    /// Those asked for, or all.
    pub(super) fn chosen(asked: &[Self]) -> Vec<Self> {
        match asked {
            [] => Self::value_variants().to_vec(),
            asked => asked.to_vec(),
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Everything => "everything",
            Self::FastMcp => "fast-mcp",
            Self::TypeScript => "type-script",
            Self::Rmcp => "rmcp",
            Self::Reference => "reference",
        }
    }

    /// Whether it is tested in this revision. One that does not speak it would only show what the gateway does.
    pub(super) fn is_tested_in(self, revision: &str, args: &Args) -> bool {
        match self {
            Self::TypeScript | Self::Reference => revision == "2025-11-25",
            Self::Rmcp => revision == "2026-07-28" || !args.short,
            Self::Everything | Self::FastMcp => true,
        }
    }

    /// Installs the server and starts it on a free port.
    pub(super) fn start(self, args: &Args, log: &Path) -> Result<(Server, SocketAddr), ConformanceError> {
        let mut command = match self {
            Self::Reference => return Ok(server_peer::start_reference(log)?),
            Self::Everything => {
                let mut command = Command::new(workspace::fixtures().or_build(args.program.as_ref())?);
                command.args(["--listen", "127.0.0.1:0"]);
                command
            }
            Self::FastMcp => peer::python("servers", "fastmcp_4.txt", "conformance_fastmcp.py")?,
            Self::TypeScript => peer::typescript("conformance_server.mjs")?,
            Self::Rmcp => Command::new(workspace::interop_rmcp_server().or_build(args.rmcp.as_ref())?),
        };
        let mut server = Server::start(&mut command, log)?;
        let address = server.ready_within(START)?;
        Ok((server, address))
    }
}
