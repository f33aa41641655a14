//! The `[server]` section.

pub(super) mod audit;
pub(super) mod auth;
mod issuer;
mod keys;
pub(super) mod limits;
mod rules;
pub(super) mod shared_store;
mod tls;

pub(super) use keys::{read_data_dir, read_name};

use crate::config::{Display, paths::Environment, section::Section};
use audit::AuditConfig;
pub(crate) use auth::PLAIN_HTTP;
use auth::{AuthConfig, UNAUTHENTICATED};
use keys::ServerKeys;
use limits::LimitsConfig;
use longhaul_core::Millis;
use longhaul_server::http::{HttpOptions, PATH, TrustedProxy, is_loopback};
use shared_store::SharedStore;
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
};
use tls::TlsConfig;

/// What the path of a Unix socket has in front of it.
const UNIX: &str = "unix:";

/// The settings of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerConfig {
    /// The server's name: 1 to 64 of `A-Z a-z 0-9 _ - .`.
    pub(crate) name: String,
    /// Its title and icons.
    pub(crate) display: Display,
    /// Where people read about it.
    pub(crate) website_url: Option<String>,
    /// What the model is told of how to use the server.
    pub(crate) instructions: Option<String>,
    /// Where to listen.
    pub(crate) listen: Listen,
    /// Who may open the socket, if it is a file.
    pub(crate) socket_mode: u32,
    /// The data directory, as an absolute path. The server creates it if needed.
    pub(crate) data_dir: PathBuf,
    /// The database with the tasks, if they are not in the data directory.
    pub(crate) shared_store: Option<SharedStore>,
    /// Attempts at once on this node, at least 1.
    pub(crate) max_running: u32,
    /// Largest request body, in bytes.
    pub(crate) max_body: u64,
    /// How much room a file keeps for deletions on a full disk, in bytes; 0 for none.
    pub(crate) disk_reserve: u64,
    /// Whether `tasks/*` requests without `Mcp-Name` are refused, as the protocol says.
    pub(crate) strict_headers: bool,
    /// How long what runs may take to end when the server stops, in milliseconds.
    pub(crate) drain_timeout: Millis,
    /// How long a task may wait for a slot, in milliseconds.
    pub(crate) queue_timeout: Millis,
    /// Who may come in.
    pub(crate) auth: AuthConfig,
    /// The certificate, if the server serves HTTPS.
    pub(crate) tls: Option<TlsConfig>,
    /// Where the audit log goes, if there is one.
    pub(crate) audit: Option<AuditConfig>,
    /// The collector that traces are sent to, if there is one.
    pub(crate) otlp: Option<String>,
    /// Allowed hosts and origins, and HTTP endpoints.
    pub(crate) http: HttpOptions,
    /// How long a server that `longhaul stdio` started stays idle before it exits, in milliseconds.
    pub(crate) idle_exit: Millis,
    /// The limits on clients.
    pub(crate) limits: LimitsConfig,
}

/// Reads the section; `None` after a problem.
pub(super) fn read(section: &Section<'_>, environment: &Environment, max_running: u32) -> Option<ServerConfig> {
    let keys = ServerKeys::read(section, environment, max_running);
    keys.check();
    section.finish();
    keys.into_config()
}

/// Whether a server can be called so.
pub(crate) fn is_server_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && !name.starts_with('.')
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
}

/// Why the server cannot listen on an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidListen {
    /// Not an IP address with a port.
    #[error(
        "write an IP address and a port, for example \"127.0.0.1:7411\" or \"[::1]:7411\", or a Unix socket, for example \"unix:/run/mcp.sock\""
    )]
    NoAddress,
    /// No path of a Unix socket.
    #[error("write the path of the socket behind \"unix:\"")]
    NoPath,
}

/// Why the server may not listen on an address that other machines can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidExposure {
    /// Nothing says who may come in.
    #[error(
        "other machines can reach this address, and nothing says who may call the tools. Set api_keys = true in [server.auth], and make keys with \
         `longhaul keys add`; or name an issuer of tokens in [[server.auth.issuer]]; or listen on 127.0.0.1"
    )]
    NobodyDecides,
    /// There is no TLS.
    #[error(
        "other machines can reach this address, and without TLS others on the network can read API keys and results. Give the server a certificate in \
         [server.tls]; or name the proxies at which TLS ends in trusted_proxies; or listen on 127.0.0.1 behind a proxy with TLS; or accept it with plain_http = {PLAIN_HTTP:?} in [server]"
    )]
    PlainHttp,
    /// Every address is one of a proxy.
    #[error(
        "other machines can reach this address, and trusted_proxies covers all addresses, so that plain HTTP would be served to everyone. Name only the proxies at which TLS ends; or \
         give the server a certificate in [server.tls]; or accept it with plain_http = {PLAIN_HTTP:?} in [server]"
    )]
    EveryoneIsProxy,
}

/// What protects the way to clients.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Way {
    pub(crate) has_tls: bool,
    /// TLS ends at a proxy, and other machines are refused.
    pub(crate) has_proxies: bool,
    /// Every address is one of a proxy.
    pub(crate) has_everyone_as_proxy: bool,
    /// Nothing, which is accepted.
    pub(crate) plain_http: bool,
}

impl Way {
    pub(crate) fn of(server: &ServerConfig) -> Self {
        Self {
            has_tls: server.tls.is_some(),
            has_proxies: !server.http.trusted_proxies.is_empty(),
            has_everyone_as_proxy: TrustedProxy::are_everyone(&server.http.trusted_proxies),
            plain_http: server.http.plain_http,
        }
    }
}

/// Whether a process of this machine can be taken for one of the user who runs the server: it must come from a loopback address, and not from that of a proxy.
pub(crate) fn admits_same_user(listen: &Listen, proxies: &[TrustedProxy]) -> bool {
    let is_proxys = |address: IpAddr| proxies.iter().any(|proxy| proxy.includes(address));
    let Some(address) = listen.address().map(|address| address.ip()) else {
        return true;
    };
    match address.is_unspecified() {
        true => !is_proxys(Ipv4Addr::LOCALHOST.into()) || (address.is_ipv6() && !is_proxys(Ipv6Addr::LOCALHOST.into())),
        // A program on this machine comes from the address that it connects to.
        false => !is_proxys(address) && is_loopback(address),
    }
}

/// Checks whether the server may listen there; returns what to warn of.
///
/// # Errors
/// [`InvalidExposure`].
pub(crate) fn check_exposure(listen: &Listen, auth: &AuthConfig, way: Way) -> Result<Vec<String>, InvalidExposure> {
    let Some(listen) = listen.address().filter(|_| listen.is_exposed()) else {
        return Ok(Vec::new());
    };
    if !auth.admits_remote() {
        return Err(InvalidExposure::NobodyDecides);
    }
    let mut warnings = Vec::new();
    match way {
        Way { has_tls: true, .. } => {}
        Way { plain_http: true, .. } => warnings.push(format!("{PLAIN_HTTP}, since {listen} has no TLS")),
        Way {
            has_everyone_as_proxy: true,
            ..
        } => return Err(InvalidExposure::EveryoneIsProxy),
        Way { has_proxies: true, .. } => {}
        _ => return Err(InvalidExposure::PlainHttp),
    }
    if auth.unauthenticated {
        warnings.push(format!("{UNAUTHENTICATED}: whoever reaches {listen}"));
    }
    Ok(warnings)
}

/// Where the server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Listen {
    Address(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

impl Listen {
    /// Whether other machines can reach it.
    pub(crate) fn is_exposed(&self) -> bool {
        self.address().is_some_and(|address| !is_loopback(address.ip()))
    }

    /// The address, if it is one.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Address(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }

    /// The URL of the endpoint; clients have no common form of it for Unix sockets.
    pub(crate) fn url(&self, has_tls: bool) -> String {
        match self {
            Self::Address(address) if has_tls => format!("https://{address}{PATH}"),
            Self::Address(address) => format!("http://{address}{PATH}"),
            Self::Unix(path) => format!("{UNIX}{}", path.display()),
        }
    }
}

/// Parses the address of `listen` or `--listen`. `localhost` means `127.0.0.1`.
///
/// # Errors
/// [`InvalidListen`] if it is not an IP address with a port, or a Unix socket.
pub(crate) fn parse_listen(text: &str) -> Result<Listen, InvalidListen> {
    if let Some(path) = text.strip_prefix(UNIX) {
        return match path {
            "" => Err(InvalidListen::NoPath),
            path => Ok(Listen::Unix(path.into())),
        };
    }
    let numeric = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    numeric
        .parse()
        .map(Listen::Address)
        .map_err(|_| InvalidListen::NoAddress)
}
