//! Some servers on one database, behind a load balancer that knows nothing, for what is tested with one server otherwise.

use crate::{network::balancer::Balancer, postgres::Postgres, rounds::RunError, server::Server};
use std::{net::SocketAddr, path::Path, process::Command};

/// The fixture server: one, or several. They end when this is dropped.
pub struct Replicas {
    address: SocketAddr,
    _servers: Vec<Server>,
    _shared: Option<(Balancer, Postgres)>,
}

impl Replicas {
    /// Starts this program once with a folder of its own, or so many times on one database. Logs are in this folder.
    pub fn start(program: &Path, nodes: Option<usize>, logs: &Path) -> Result<Self, RunError> {
        let mut command = Command::new(program);
        command.args(["--listen", "127.0.0.1:0"]);
        let Some(count) = nodes else {
            let mut server = Server::start(&mut command, &logs.join("server.log"))?;
            return Ok(Self {
                address: server.ready()?,
                _servers: vec![server],
                _shared: None,
            });
        };
        let postgres = Postgres::create(&[])?;
        let balancer = Balancer::start(vec![None; count])?;
        command.args(["--store", &Postgres::url_at(postgres.address())]);
        let mut servers = Vec::new();
        for nth in 0..count {
            let mut server = Server::start(&mut command, &logs.join(format!("server-{nth}.log")))?;
            balancer.set(nth, Some(server.ready()?));
            servers.push(server);
        }
        Ok(Self {
            address: balancer.address(),
            _servers: servers,
            _shared: Some((balancer, postgres)),
        })
    }

    /// Where clients find it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}
