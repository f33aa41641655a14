//! The `[server]` section.

use super::{
    audit::{self, AuditConfig},
    auth::{self, AuthConfig, PLAIN_HTTP, UNAUTHENTICATED},
    limits::{self, LimitsConfig},
    paths::{Environment, InvalidPath},
    section::{Entry, Section},
    shared_store::{self, SharedStore},
    tls::{self, TlsConfig},
};
use longhaul::auth::oauth::OAuthAuthenticator;
use longhaul_core::Millis;
use longhaul_server::http::{HostName, HttpOptions, PATH, PublicUrl, TrustedProxy, is_loopback};
use longhaul_store::RESERVE_BYTES;
use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    str::FromStr,
};

const DEFAULT_LISTEN: ([u8; 4], u16) = ([127, 0, 0, 1], 7411);
/// What the path of a Unix socket has in front of it.
const UNIX: &str = "unix:";
const DEFAULT_SOCKET_MODE: u32 = 0o600;
const NO_HOST_NAME: &str = "requests that name this server by a host name get 403: set public_url, or allowed_hosts";
const DEFAULT_MAX_BODY: u64 = 4 << 20;
/// What no reserve is called.
const NO_RESERVE: &str = "none";
const DEFAULT_IDLE_EXIT: Millis = 60_000;
const DEFAULT_QUEUE_TIMEOUT: Millis = 24 * 60 * 60 * 1000;
/// The largest accepted `max_running`. A larger one is probably a typing mistake.
const MAX_RUNNING: u32 = 10_000;

/// The settings of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerConfig {
    /// The server's name: 1 to 64 of `A-Z a-z 0-9 _ - .`.
    pub(crate) name: String,
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
    // All keys are read before any `?`, so that one mistake does not hide another.
    let name = read_name(section);
    let listen = section.get_or("listen", Listen::Address(SocketAddr::from(DEFAULT_LISTEN)), |entry| {
        let text = entry.text_like("an address such as \"127.0.0.1:7411\", or \"unix:/run/mcp.sock\"")?;
        let listen = match text.strip_prefix(UNIX) {
            Some(path) => {
                let path = environment.resolve(path, section.file().folder());
                path.map(Listen::Unix).map_err(|error| error.to_string())
            }
            None => parse_listen(text).map_err(|error| error.to_string()),
        };
        listen.map_err(|error| entry.report(format!("`listen`: {error}"))).ok()
    });
    let socket_mode = section.get_or("socket_mode", DEFAULT_SOCKET_MODE, |entry| entry.file_mode());
    if let (Some(Listen::Address(_)), Some(entry)) = (&listen, section.get("socket_mode")) {
        entry.warn("`socket_mode` means something only with `listen = \"unix:…\"`".to_owned());
    }
    let data_dir = read_data_dir(section, environment, name.as_deref());
    let shared_store = shared_store::read(section, environment);
    let max_running = section.get_or("max_running", max_running, |entry| entry.count(MAX_RUNNING));
    let max_body = section.get_or("max_body", DEFAULT_MAX_BODY, |entry| entry.size());
    let disk_reserve = section.get_or("disk_reserve", RESERVE_BYTES, |entry| disk_reserve(&entry));
    let strict_headers = section.get_or("strict_headers", false, |entry| entry.flag());
    let queue_timeout = section.get_or("queue_timeout", DEFAULT_QUEUE_TIMEOUT, |entry| {
        entry.positive_duration()
    });
    let drain_timeout = section.get_or("drain_timeout", 0, |entry| entry.duration());
    let idle_exit = section.get_or("idle_exit", DEFAULT_IDLE_EXIT, |entry| entry.positive_duration());
    let allowed_origins = all(section, "allowed_origins");
    let allowed_hosts: Option<Vec<HostName>> = all(section, "allowed_hosts");
    let trusted_proxies: Option<Vec<TrustedProxy>> = all(section, "trusted_proxies");
    let legacy_sse = section.get_or("legacy_sse", false, |entry| entry.flag());
    let stateful_mode = section.get_or("stateful_mode", true, |entry| entry.flag());
    let json_response = section.get_or("json_response", false, |entry| entry.flag());
    let public_url = section.optional("public_url", |entry| {
        let parsed = entry
            .text_like("a URL such as \"https://mcp.example.com/mcp\"")?
            .parse::<PublicUrl>();
        parsed
            .map_err(|error| entry.report(format!("`public_url`: {error}")))
            .ok()
    });
    let plain_http = section.get_or("plain_http", false, |entry| entry.words(PLAIN_HTTP));
    let auth = section.get_or("auth", AuthConfig::default(), |entry| {
        // A mistake in it is one already.
        let has_public_url = section.get("public_url").is_some();
        auth::read(
            &entry.section("[server.auth]", "such as [server.auth]")?,
            environment,
            has_public_url,
        )
    });
    let tls = section.optional("tls", |entry| {
        tls::read(&entry.section("[server.tls]", "such as [server.tls]")?, environment)
    });
    if let (Some(Some(url)), Some(Some(_)), Some(entry)) = (&public_url, &tls, section.get("public_url"))
        && url.as_str().starts_with("http:")
    {
        entry.warn(
            "`public_url` begins with http:// and the server has TLS: clients that use this address cannot connect, and tokens are for it. Write https://"
                .to_owned(),
        );
    }
    // Behind a proxy clients see another certificate.
    if let (Some(Some(url)), Some(Some(tls)), Some(entry)) = (&public_url, &tls, section.get("tls"))
        && (trusted_proxies.as_ref()).is_some_and(Vec::is_empty)
        && let Some(other) = tls.describe_other_host(url.host())
    {
        entry.warn(format!(
            "{other}, and `public_url` is {}: clients refuse it",
            url.as_str()
        ));
    }
    if let (Some(auth), Some(Some(public_url)), Some(entry)) = (&auth, &public_url, section.get("auth"))
        && !auth.issuers.is_empty()
    {
        let checked = OAuthAuthenticator::check(public_url.as_str(), &auth.issuers);
        checked.unwrap_or_else(|error| entry.report(format!("[[server.auth.issuer]]: {error}")));
    }
    let is_named =
        public_url.as_ref().is_none_or(Option::is_some) || allowed_hosts.as_ref().is_none_or(|hosts| !hosts.is_empty());
    if let (Some(listen), Some(auth), Some(plain_http), Some(entry)) =
        (&listen, &auth, plain_http, section.get("listen"))
    {
        // A mistake in the section is one already.
        let way = Way {
            has_tls: tls.as_ref().is_none_or(Option::is_some),
            has_proxies: trusted_proxies.as_ref().is_none_or(|proxies| !proxies.is_empty()),
            has_everyone_as_proxy: (trusted_proxies.as_ref())
                .is_some_and(|proxies| TrustedProxy::are_everyone(proxies)),
            plain_http,
        };
        if let Listen::Unix(path) = listen
            && let Some(folder) = path.parent().filter(|folder| !folder.is_dir())
            && !matches!(&data_dir, Some(Ok(data_dir)) if data_dir == folder)
        {
            // A service manager may make it when it starts the server.
            let folder = folder.display();
            entry.warn(format!(
                "`listen`: there is no folder {folder}; it must be there when the server starts"
            ));
        }
        if matches!(listen, Listen::Unix(_)) && section.get("tls").is_some() {
            entry.report("`listen`: a Unix socket has no TLS: remove [server.tls], or listen on an address".to_owned());
        }
        match check_exposure(listen, auth, way) {
            Ok(warnings) => warnings.into_iter().for_each(|warning| entry.warn(warning)),
            Err(error) => entry.report(format!("`listen`: {error}")),
        }
        if listen.is_exposed() && !is_named {
            entry.warn(NO_HOST_NAME.to_owned());
        }
    }
    if let (Some(listen), Some(auth), Some(entry)) = (&listen, &auth, section.get("auth"))
        && !listen.is_exposed()
    {
        if auth.same_user == Some(false) && !auth.admits_remote() {
            entry.report(format!(
                "`same_user = false` alone leaves nobody who may come in: add `api_keys = true` or an [[server.auth.issuer]], remove it, or say `unauthenticated = \"{UNAUTHENTICATED}\"`"
            ));
        } else if auth.unauthenticated && listen.address().is_some() {
            entry.warn("every user of this machine may call every tool".to_owned());
        }
    }
    if let (Some(listen), Some(auth), Some(proxies), Some(entry)) =
        (&listen, &auth, &trusted_proxies, section.get("trusted_proxies"))
    {
        // A proxy passes on the name by which it was reached.
        if !proxies.is_empty() && !is_named && !listen.is_exposed() {
            entry.warn(NO_HOST_NAME.to_owned());
        }
        for wide in proxies.iter().filter(|proxy| proxy.is_wide()) {
            entry.warn(format!(
                "`trusted_proxies`: {wide} has addresses of strangers, who can say there which address theirs is"
            ));
        }
        let has_loopback = admits_same_user(listen, &[]);
        if auth.same_user != Some(false) && !auth.unauthenticated && has_loopback && !admits_same_user(listen, proxies)
        {
            let nobody = if auth.admits_remote() {
                ""
            } else {
                ", and so nobody is served"
            };
            entry.warn(format!(
                "`trusted_proxies`: no program of this machine can be taken for one of this user, since its requests come from the address of a proxy{nobody}"
            ));
        }
    }
    if let (Some(Listen::Unix(_)), Some(auth), Some(mode), Some(entry)) =
        (&listen, &auth, socket_mode, section.get("socket_mode"))
        && auth.unauthenticated
        && let Some(who) = others_that_may_connect(mode)
    {
        entry.warn(format!(
            "`socket_mode`: {who} may call every tool, since `unauthenticated` asks nobody for credentials"
        ));
    }
    if let (Some(listen), Some(auth), Some(entry)) = (&listen, &auth, section.get("listen"))
        && auth.same_user == Some(true)
        && !admits_same_user(listen, &[])
    {
        entry.warn(
            "`same_user = true` means nothing here: only programs that connect to a loopback address are told apart by their user, and this address is none"
                .to_owned(),
        );
    }
    let audit = section.optional("audit", |entry| {
        let section = entry.section("[server.audit]", "such as [server.audit]")?;
        audit::read(
            &section,
            environment,
            data_dir.as_ref().and_then(|data_dir| data_dir.as_deref().ok()),
        )
    });
    let otlp = section.optional("otlp", |entry| collector(&entry));
    let limits = section.get_or("limits", LimitsConfig::default(), |entry| {
        limits::read(&entry.section("[server.limits]", "such as [server.limits]")?)
    });
    let instructions = section.optional("instructions", |entry| entry.filled_text().map(str::to_owned));
    section.finish();

    let name = name?;
    let data_dir = data_dir?.map_err(|error| section.report(format!("`data_dir` is not given, and {error}")));
    Some(ServerConfig {
        name,
        instructions: instructions?,
        listen: listen?,
        socket_mode: socket_mode?,
        data_dir: data_dir.ok()?,
        shared_store: shared_store?,
        max_running: max_running?,
        max_body: max_body?,
        disk_reserve: disk_reserve?,
        strict_headers: strict_headers?,
        drain_timeout: drain_timeout?,
        queue_timeout: queue_timeout?,
        auth: auth?,
        tls: tls?,
        audit: audit?,
        otlp: otlp?,
        http: HttpOptions {
            public_url: public_url?,
            plain_http: plain_http?,
            trusted_proxies: trusted_proxies?,
            allowed_origins: allowed_origins?,
            allowed_hosts: allowed_hosts?,
            legacy_sse: legacy_sse?,
            stateful_mode: stateful_mode?,
            json_response: json_response?,
        },
        idle_exit: idle_exit?,
        limits: limits?,
    })
}

/// 0 for none. Less than the write-ahead log needs would not help.
fn disk_reserve(entry: &Entry<'_>) -> Option<u64> {
    if entry.text()? == NO_RESERVE {
        return Some(0);
    }
    let size = entry.size()?;
    if size < RESERVE_BYTES {
        entry.report(format!(
            "`disk_reserve` must be \"{}MiB\" at least, or \"{NO_RESERVE}\"",
            RESERVE_BYTES >> 20
        ));
        return None;
    }
    Some(size)
}

/// The URL of a collector.
fn collector(entry: &Entry<'_>) -> Option<String> {
    const LIKE: &str = "the URL of an OpenTelemetry collector, such as \"http://127.0.0.1:4318\"";
    let text = entry.text_like(LIKE)?;
    if !cfg!(feature = "otlp") {
        entry.report(
            "`otlp`: this program was built without the feature `otlp`, so it sends nothing to a collector".to_owned(),
        );
        return None;
    }
    let is_url = ["http://", "https://"].iter().any(|scheme| text.starts_with(scheme));
    match text.parse::<http::Uri>() {
        Ok(uri) if is_url && uri.query().is_none() => Some(text.to_owned()),
        _ => {
            entry.report(format!("`otlp` must be {LIKE}"));
            None
        }
    }
}

/// The server's name.
pub(super) fn read_name(section: &Section<'_>) -> Option<String> {
    section.require("name").and_then(|entry| {
        let name = entry.text()?;
        if !is_server_name(name) {
            entry.report(
                "`name` must be 1 to 64 of A-Z a-z 0-9 _ - . and not start with a dot: it names a folder too"
                    .to_owned(),
            );
            return None;
        }
        Some(name.to_owned())
    })
}

/// Reads where the data are, or why that is not known without the key; `None` after a problem.
pub(super) fn read_data_dir(
    section: &Section<'_>,
    environment: &Environment,
    name: Option<&str>,
) -> Option<Result<PathBuf, InvalidPath>> {
    let given = section.optional("data_dir", |entry| {
        let path = environment.resolve(entry.text()?, section.file().folder());
        path.map_err(|error| entry.report(format!("`data_dir`: {error}"))).ok()
    });
    match given? {
        Some(data_dir) => Some(Ok(data_dir)),
        None => Some(environment.default_data_dir(name?)),
    }
}

/// Reads an array of strings, each of which is parsed as a `T`. Without the key there are none.
pub(super) fn all<T: FromStr<Err: fmt::Display>>(section: &Section<'_>, key: &'static str) -> Option<Vec<T>> {
    section.get_or(key, Vec::new(), |entry| {
        let texts = entry.texts()?;
        let parse = |(entry, text): (Entry<'_>, &str)| {
            let parsed = text
                .parse()
                .map_err(|error| entry.report(format!("`{key}`: {text:?}: {error}")));
            parsed.ok()
        };
        // Parses all of them first, so that every invalid element is reported.
        let parsed: Vec<_> = texts.into_iter().map(parse).collect();
        parsed.into_iter().collect()
    })
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

/// Who beside this user may connect to a Unix socket whose file has this mode: those who may write to it.
fn others_that_may_connect(mode: u32) -> Option<&'static str> {
    match (mode & 0o020 != 0, mode & 0o002 != 0) {
        (_, true) => Some("every user of this machine"),
        (true, false) => Some("every user of the socket's group"),
        (false, false) => None,
    }
}
