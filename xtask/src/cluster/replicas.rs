//! Some servers on one database, behind a load balancer that knows nothing, for what is tested with one server otherwise.

use super::{ClusterError, balancer::Balancer};
use crate::{postgres::Postgres, server::Server};
use std::{net::SocketAddr, path::Path, process::Command};

/// The fixture server: one, or several. They end when this is dropped.
pub(crate) struct Fixture {
    address: SocketAddr,
    /// What is behind the address.
    _servers: Servers,
}

enum Servers {
    One { _server: Server },
    Several { _replicas: Replicas },
}

impl Fixture {
    /// Starts this program once with a folder of its own, or so many times on one database. Logs are in this folder.
    pub(crate) fn start(program: &Path, nodes: Option<usize>, logs: &Path) -> Result<Self, ClusterError> {
        let listening = || {
            let mut command = Command::new(program);
            command.args(["--listen", "127.0.0.1:0"]);
            command
        };
        if let Some(count) = nodes {
            let with_store = |url: &str| {
                let mut command = listening();
                command.args(["--store", url]);
                command
            };
            let replicas = Replicas::start(count, logs, with_store)?;
            return Ok(Self {
                address: replicas.balancer.address(),
                _servers: Servers::Several { _replicas: replicas },
            });
        }
        let mut server = Server::start(&mut listening(), &logs.join("server.log"))?;
        Ok(Self {
            address: server.ready()?,
            _servers: Servers::One { _server: server },
        })
    }

    /// Where clients find it.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

struct Replicas {
    balancer: Balancer,
    _servers: Vec<Server>,
    _postgres: Postgres,
}

impl Replicas {
    /// Starts `count` servers, each with a log in this folder. `command` gets the URL of the database.
    fn start(count: usize, logs: &Path, command: impl Fn(&str) -> Command) -> Result<Self, ClusterError> {
        let postgres = Postgres::create(&[])?;
        let url = Postgres::url_at(postgres.address());
        let balancer = Balancer::start(vec![None; count])?;
        let mut servers = Vec::new();
        for nth in 0..count {
            let mut server = Server::start(&mut command(&url), &logs.join(format!("server-{nth}.log")))?;
            balancer.set(nth, Some(server.ready()?));
            servers.push(server);
        }
        Ok(Self {
            balancer,
            _servers: servers,
            _postgres: postgres,
        })
    }
}
