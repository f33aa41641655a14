//! The keys of `[server]`, each read by itself. What must hold across them is in `rules.rs`.

use super::{
    Listen, ServerConfig, UNIX,
    audit::{self, AuditConfig},
    auth::{self, AuthConfig, PLAIN_HTTP},
    is_server_name,
    limits::{self, LimitsConfig},
    parse_listen,
    shared_store::{self, SharedStore},
    tls::{self, TlsConfig},
};
use crate::config::{
    Display,
    paths::{Environment, InvalidPath},
    section::{Entry, Section},
};
use longhaul_core::Millis;
use longhaul_server::http::{AllowedOrigin, HostName, HttpOptions, PublicUrl, TrustedProxy};
use longhaul_store::RESERVE_BYTES;
use std::{net::SocketAddr, path::PathBuf};

const DEFAULT_LISTEN: ([u8; 4], u16) = ([127, 0, 0, 1], 7411);
const DEFAULT_SOCKET_MODE: u32 = 0o600;
const DEFAULT_MAX_BODY: u64 = 4 << 20;
const DEFAULT_IDLE_EXIT: Millis = 60_000;
const DEFAULT_QUEUE_TIMEOUT: Millis = 24 * 60 * 60 * 1000;
/// What no reserve is called.
const NO_RESERVE: &str = "none";
/// The largest accepted `max_running`. A larger one is probably a typing mistake.
const MAX_RUNNING: u32 = 10_000;

/// The values of the keys; `None` after a mistake in one. So one mistake does not hide another.
pub(super) struct ServerKeys<'a> {
    pub(super) section: &'a Section<'a>,
    pub(super) name: Option<String>,
    pub(super) display: Option<Display>,
    pub(super) website_url: Option<Option<String>>,
    pub(super) instructions: Option<Option<String>>,
    pub(super) listen: Option<Listen>,
    pub(super) socket_mode: Option<u32>,
    /// Where the data are, or why that is not known without the key.
    pub(super) data_dir: Option<Result<PathBuf, InvalidPath>>,
    pub(super) shared_store: Option<Option<SharedStore>>,
    pub(super) max_running: Option<u32>,
    pub(super) max_body: Option<u64>,
    pub(super) disk_reserve: Option<u64>,
    pub(super) strict_headers: Option<bool>,
    pub(super) drain_timeout: Option<Millis>,
    pub(super) queue_timeout: Option<Millis>,
    pub(super) idle_exit: Option<Millis>,
    pub(super) auth: Option<AuthConfig>,
    pub(super) tls: Option<Option<TlsConfig>>,
    pub(super) audit: Option<Option<AuditConfig>>,
    pub(super) otlp: Option<Option<String>>,
    pub(super) limits: Option<LimitsConfig>,
    pub(super) public_url: Option<Option<PublicUrl>>,
    pub(super) plain_http: Option<bool>,
    pub(super) trusted_proxies: Option<Vec<TrustedProxy>>,
    pub(super) allowed_origins: Option<Vec<AllowedOrigin>>,
    pub(super) allowed_hosts: Option<Vec<HostName>>,
    pub(super) legacy_sse: Option<bool>,
    pub(super) stateful_mode: Option<bool>,
    pub(super) json_response: Option<bool>,
}

impl<'a> ServerKeys<'a> {
    /// Reads each of them.
    pub(super) fn read(section: &'a Section<'a>, environment: &Environment, max_running: u32) -> Self {
        let address = SocketAddr::from(DEFAULT_LISTEN);
        let name = read_name(section);
        let data_dir = read_data_dir(section, environment, name.as_deref());
        // A mistake in it is one already.
        let has_public_url = section.get("public_url").is_some();
        let own_dir = data_dir.as_ref().and_then(|data_dir| data_dir.as_deref().ok());
        Self {
            section,
            display: Display::read(section, environment),
            website_url: section.optional("website_url", website_url),
            instructions: section.optional_text("instructions"),
            listen: section.get_or("listen", Listen::Address(address), |entry| {
                listen(entry, section, environment)
            }),
            socket_mode: section.get_or("socket_mode", DEFAULT_SOCKET_MODE, Entry::file_mode),
            shared_store: shared_store::read(section, environment),
            max_running: section.get_or("max_running", max_running, |entry| entry.count(MAX_RUNNING)),
            max_body: section.get_or("max_body", DEFAULT_MAX_BODY, Entry::size),
            disk_reserve: section.get_or("disk_reserve", RESERVE_BYTES, disk_reserve),
            strict_headers: section.get_or("strict_headers", false, Entry::flag),
            queue_timeout: section.get_or("queue_timeout", DEFAULT_QUEUE_TIMEOUT, Entry::positive_duration),
            drain_timeout: section.get_or("drain_timeout", 0, Entry::duration),
            idle_exit: section.get_or("idle_exit", DEFAULT_IDLE_EXIT, Entry::positive_duration),
            allowed_origins: section.parsed_list("allowed_origins"),
            allowed_hosts: section.parsed_list("allowed_hosts"),
            trusted_proxies: section.parsed_list("trusted_proxies"),
            legacy_sse: section.get_or("legacy_sse", false, Entry::flag),
            stateful_mode: section.get_or("stateful_mode", true, Entry::flag),
            json_response: section.get_or("json_response", false, Entry::flag),
            public_url: section.optional("public_url", public_url),
            plain_http: section.get_or("plain_http", false, |entry| entry.words(PLAIN_HTTP)),
            auth: section.get_or("auth", AuthConfig::default(), |entry| {
                let section = entry.section("[server.auth]", "such as [server.auth]")?;
                auth::read(&section, environment, has_public_url)
            }),
            tls: section.optional("tls", |entry| {
                tls::read(&entry.section("[server.tls]", "such as [server.tls]")?, environment)
            }),
            audit: section.optional("audit", |entry| {
                let section = entry.section("[server.audit]", "such as [server.audit]")?;
                audit::read(&section, environment, own_dir)
            }),
            otlp: section.optional("otlp", collector),
            limits: section.get_or("limits", LimitsConfig::default(), |entry| {
                limits::read(&entry.section("[server.limits]", "such as [server.limits]")?)
            }),
            name,
            data_dir,
        }
    }

    /// The settings; `None` after a mistake.
    pub(super) fn into_config(self) -> Option<ServerConfig> {
        let name = self.name?;
        let section = self.section;
        let data_dir =
            (self.data_dir?).map_err(|error| section.report(format!("`data_dir` is not given, and {error}")));
        Some(ServerConfig {
            name,
            display: self.display?,
            website_url: self.website_url?,
            instructions: self.instructions?,
            listen: self.listen?,
            socket_mode: self.socket_mode?,
            data_dir: data_dir.ok()?,
            shared_store: self.shared_store?,
            max_running: self.max_running?,
            max_body: self.max_body?,
            disk_reserve: self.disk_reserve?,
            strict_headers: self.strict_headers?,
            drain_timeout: self.drain_timeout?,
            queue_timeout: self.queue_timeout?,
            auth: self.auth?,
            tls: self.tls?,
            audit: self.audit?,
            otlp: self.otlp?,
            http: HttpOptions {
                public_url: self.public_url?,
                plain_http: self.plain_http?,
                trusted_proxies: self.trusted_proxies?,
                allowed_origins: self.allowed_origins?,
                allowed_hosts: self.allowed_hosts?,
                legacy_sse: self.legacy_sse?,
                stateful_mode: self.stateful_mode?,
                json_response: self.json_response?,
            },
            idle_exit: self.idle_exit?,
            limits: self.limits?,
        })
    }
}

fn listen(entry: &Entry<'_>, section: &Section<'_>, environment: &Environment) -> Option<Listen> {
    let text = entry.text_like("an address such as \"127.0.0.1:7411\", or \"unix:/run/mcp.sock\"")?;
    let listen = match text.strip_prefix(UNIX) {
        Some(path) => {
            let path = environment.resolve(path, section.file().folder());
            path.map(Listen::Unix).map_err(|error| error.to_string())
        }
        None => parse_listen(text).map_err(|error| error.to_string()),
    };
    listen.map_err(|error| entry.report(format!("`listen`: {error}"))).ok()
}

fn public_url(entry: &Entry<'_>) -> Option<PublicUrl> {
    let parsed = entry
        .text_like("a URL such as \"https://mcp.example.com/mcp\"")?
        .parse::<PublicUrl>();
    parsed
        .map_err(|error| entry.report(format!("`public_url`: {error}")))
        .ok()
}

fn website_url(entry: &Entry<'_>) -> Option<String> {
    let text = entry.text()?;
    let is_url = ["http://", "https://"].iter().any(|scheme| text.starts_with(scheme));
    if !is_url || text.parse::<http::Uri>().is_err() {
        entry.report("`website_url` must be a URL such as \"https://example.com/jobs\"".to_owned());
        return None;
    }
    Some(text.to_owned())
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
pub(crate) fn read_name(section: &Section<'_>) -> Option<String> {
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
pub(crate) fn read_data_dir(
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
