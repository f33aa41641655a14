//! The network between the hosts and the database, which a fault breaks: network namespaces, or proxies where namespaces are not allowed.

use super::{faults::LinkState, proxy::Proxy, switch::Switch};
use harness::{
    network::namespace::{Namespace, NamespaceError},
    postgres::Postgres,
    rounds::RunError,
};
use std::net::SocketAddr;

/// How the network is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum NetworkKind {
    /// Each host and the database in a network namespace; this needs root, `ip` and `ss`
    Namespaces,
    /// A TCP proxy between each host and the database
    Proxy,
}

impl NetworkKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Proxy => "proxy",
        }
    }
}

/// The network of a run.
pub(super) enum Network {
    Namespaces(Switch),
    /// One for each host.
    Proxies(Vec<Proxy>),
}

impl Network {
    /// Makes the network, as chosen or as is possible, and starts a database with these settings on it.
    pub(super) fn start(
        chosen: Option<NetworkKind>,
        hosts: usize,
        settings: &'static [&'static str],
    ) -> Result<(Self, Postgres), RunError> {
        let switch = match chosen {
            Some(NetworkKind::Proxy) => None,
            Some(NetworkKind::Namespaces) => {
                let impossible =
                    |why| format!("network namespaces cannot be used: {why}; `--network proxy` does without them");
                Some(Switch::create(hosts).map_err(|why| RunError::Impossible(impossible(why)))?)
            }
            None => Switch::create(hosts)
                .inspect_err(|why| eprintln!("cluster: no network namespaces, so proxies break the network: {why}"))
                .ok(),
        };
        if let Some(switch) = switch {
            let postgres = Postgres::create_on(Some(switch.database().clone()), settings)?;
            return Ok((Self::Namespaces(switch), postgres));
        }
        let postgres = Postgres::create(settings)?;
        let proxies = (0..hosts).map(|_| Proxy::to(postgres.address()));
        Ok((Self::Proxies(proxies.collect::<Result<_, _>>()?), postgres))
    }

    pub(super) fn kind(&self) -> NetworkKind {
        match self {
            Self::Namespaces(_) => NetworkKind::Namespaces,
            Self::Proxies(_) => NetworkKind::Proxy,
        }
    }

    /// Where the nodes of a host run.
    pub(super) fn namespace(&self, host: usize) -> Option<&Namespace> {
        match self {
            Self::Namespaces(switch) => Some(&switch.host(host).namespace),
            Self::Proxies(_) => None,
        }
    }

    /// Where the nodes of a host find the database.
    pub(super) fn address(&self, host: usize, database: &Postgres) -> SocketAddr {
        match self {
            Self::Namespaces(_) => database.address(),
            Self::Proxies(proxies) => proxies[host].address(),
        }
    }

    pub(super) fn set(&self, host: usize, state: LinkState) -> Result<(), NamespaceError> {
        match self {
            Self::Namespaces(switch) => switch.set(host, state),
            Self::Proxies(proxies) => {
                proxies[host].set(state);
                Ok(())
            }
        }
    }
}
