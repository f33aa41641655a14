//! Addresses of databases, as libpq reads them, with what is said there about TLS.

use super::tls::{self, TlsFiles, TlsMode};
use crate::PostgresOpenError;
use percent_encoding::percent_decode_str;
use std::{borrow::Cow, net::IpAddr, path::PathBuf};
use tokio_postgres::{
    Config,
    config::{Host, SslMode},
};
use tokio_postgres_rustls::MakeRustlsConnect;

const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];
const DEFAULT_PORT: u16 = 5432;
/// What an address may say besides TLS: what the driver knows. It does not name what it does not know.
const PARAMETERS: [&str; 18] = [
    "user",
    "password",
    "dbname",
    "options",
    "application_name",
    "sslnegotiation",
    "host",
    "hostaddr",
    "port",
    "connect_timeout",
    "tcp_user_timeout",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_retries",
    "target_session_attrs",
    "channel_binding",
    "load_balance_hosts",
];

/// An address, read.
#[derive(Clone)]
pub(crate) struct Address {
    pub(crate) config: Config,
    tls: Tls,
}

/// What an address says about TLS.
#[derive(Debug, Clone, Default)]
struct Tls {
    mode: Option<TlsMode>,
    files: TlsFiles,
}

impl Address {
    pub(crate) fn parse(text: &str) -> Result<Self, PostgresOpenError> {
        let (rest, tls) = take_tls(text)?;
        let config: Config = rest.parse().map_err(PostgresOpenError::Address)?;
        Ok(Self { config, tls })
    }

    /// How connections are made: `sslmode`, and by default no TLS on this machine, and a verified server elsewhere.
    pub(crate) fn tls_mode(&self) -> TlsMode {
        self.tls
            .mode
            .unwrap_or_else(|| match self.is_elsewhere() || self.tls.files.root.is_some() {
                true => TlsMode::VerifyFull,
                false => TlsMode::Disable,
            })
    }

    /// The settings of a connection, and what makes TLS of it.
    pub(crate) fn connector(&self) -> Result<(Config, MakeRustlsConnect), PostgresOpenError> {
        let mode = self.tls_mode();
        let mut config = self.config.clone();
        config.ssl_mode(match mode {
            TlsMode::Disable => SslMode::Disable,
            TlsMode::Prefer => SslMode::Prefer,
            TlsMode::Require | TlsMode::VerifyCa | TlsMode::VerifyFull => SslMode::Require,
        });
        Ok((config, tls::connector(mode, &self.tls.files)?))
    }

    /// What others on the network can do, if there is one and they can.
    pub(crate) fn tls_warning(&self) -> Option<String> {
        if !self.is_elsewhere() {
            return None;
        }
        let mode = self.tls_mode();
        let risk = match mode {
            TlsMode::Disable => "others on the network can read and change what is sent to the database",
            TlsMode::Prefer => {
                "whoever is between here and the database can do away with its TLS, and read and change what is sent"
            }
            TlsMode::Require if self.tls.files.root.is_none() => {
                "the database's certificate is not verified, so that whoever is between can pass for the database"
            }
            _ => return None,
        };
        Some(format!(
            "`sslmode={}`: {risk}; write `sslmode=verify-full`, with `sslrootcert` unless a public authority has issued its certificate",
            mode.word()
        ))
    }

    /// Whether a network may lie between.
    fn is_elsewhere(&self) -> bool {
        let config = &self.config;
        config.get_hosts().iter().any(is_elsewhere) || !config.get_hostaddrs().iter().all(IpAddr::is_loopback)
    }

    /// The role, the hosts and the database.
    pub(crate) fn shown(&self) -> String {
        let config = &self.config;
        let hosts = config.get_hosts().iter().enumerate().map(|(at, host)| {
            let host = match host {
                Host::Tcp(name) if name.contains(':') => format!("[{name}]"),
                Host::Tcp(name) => name.clone(),
                Host::Unix(path) => path.display().to_string(),
            };
            // One port counts for all hosts.
            match config.get_ports().get(at).or(config.get_ports().first()) {
                Some(port) if *port != DEFAULT_PORT => format!("{host}:{port}"),
                _ => host,
            }
        });
        let hosts: Vec<String> = hosts.collect();
        let role = config.get_user().map(|role| format!("{role}@")).unwrap_or_default();
        let database = config.get_dbname().map(|name| format!("/{name}")).unwrap_or_default();
        format!("postgres://{role}{}{database}", hosts.join(","))
    }
}

fn is_elsewhere(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => name != "localhost" && !name.parse().is_ok_and(|address: IpAddr| address.is_loopback()),
        Host::Unix(_) => false,
    }
}

/// Takes what is about TLS out of an address: the driver knows less of it.
fn take_tls(text: &str) -> Result<(String, Tls), PostgresOpenError> {
    let mut tls = Tls::default();
    let rest = match SCHEMES.iter().any(|scheme| text.starts_with(scheme)) {
        true => {
            // A password may have a question mark in it.
            let after_credentials = text.find('@').unwrap_or_default();
            let Some(query) = text[after_credentials..].find('?').map(|at| after_credentials + at) else {
                return Ok((text.to_owned(), tls));
            };
            let mut kept = Vec::new();
            for param in text[query + 1..].split('&') {
                let (key, value) = param.split_once('=').unwrap_or((param, ""));
                let value = percent_decode_str(value).decode_utf8_lossy();
                if !tls.take(key, &value)? {
                    kept.push(param);
                }
            }
            match kept.is_empty() {
                true => text[..query].to_owned(),
                false => format!("{}?{}", &text[..query], kept.join("&")),
            }
        }
        false => {
            let mut kept = String::with_capacity(text.len());
            for (word, key, value) in words(text) {
                if !tls.take(key, &value)? {
                    kept.push_str(word);
                    kept.push(' ');
                }
            }
            kept
        }
    };
    if tls.files.certificate.is_some() != tls.files.key.is_some() {
        return Err(PostgresOpenError::Option(
            "the address of the PostgreSQL database needs both `sslcert` and `sslkey`, or neither",
        ));
    }
    Ok((rest, tls))
}

impl Tls {
    /// Reads a parameter; returns whether it is about TLS.
    ///
    /// # Errors
    /// [`PostgresOpenError`] if there is none of this name, or not with this value.
    fn take(&mut self, key: &str, value: &str) -> Result<bool, PostgresOpenError> {
        let path = || Some(PathBuf::from(value)).filter(|path| !path.as_os_str().is_empty());
        match key {
            "sslmode" => self.mode = Some(TlsMode::read(value)?),
            "sslrootcert" => self.files.root = path(),
            "sslcert" => self.files.certificate = path(),
            "sslkey" => self.files.key = path(),
            // Of what has no key the driver says what is wrong with it.
            key if key.is_empty() || PARAMETERS.contains(&key) => return Ok(false),
            unknown => return Err(PostgresOpenError::Parameter(unknown.to_owned())),
        }
        Ok(true)
    }
}

/// The parameters of `key=value key='a value'`: the text of each, its key and its value.
fn words(text: &str) -> Vec<(&str, &str, Cow<'_, str>)> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(at) = rest.find('=') {
        let (key, value) = (rest[..at].trim_end(), rest[at + 1..].trim_start());
        let begin = rest.len() - value.len();
        let (mut end, mut quoted, mut escaped) = (value.len(), false, false);
        let mut read = String::new();
        for (place, character) in value.char_indices() {
            match character {
                _ if escaped => {
                    escaped = false;
                    read.push(character);
                }
                '\\' => escaped = true,
                '\'' if place == 0 => quoted = true,
                '\'' if quoted => {
                    end = place + 1;
                    break;
                }
                space if space.is_whitespace() && !quoted => {
                    end = place;
                    break;
                }
                other => read.push(other),
            }
        }
        words.push((rest[..begin + end].trim_end(), key, Cow::Owned(read)));
        rest = value[end..].trim_start();
    }
    if !rest.is_empty() {
        // The driver says what is wrong with it.
        words.push((rest, "", Cow::Borrowed("")));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(text: &str) -> Result<TlsMode, String> {
        let address = Address::parse(text).map_err(|error| error.to_string())?;
        Ok(address.tls_mode())
    }

    #[test]
    fn beyond_this_machine_the_server_is_verified_unless_something_else_is_said() {
        use TlsMode::*;
        for (text, wanted) in [
            ("postgres://localhost/tasks", Disable),
            ("postgres://[::1]:5433/tasks", Disable),
            ("host=/run/postgresql dbname=tasks", Disable),
            ("postgres://localhost/tasks?sslrootcert=/etc/root.crt", VerifyFull),
            ("postgres://db.example/tasks", VerifyFull),
            ("postgres://10.0.0.1/tasks", VerifyFull),
            ("postgres://127.0.0.1,db.example/tasks", VerifyFull),
            ("host=localhost hostaddr=10.0.0.1", VerifyFull),
            ("postgres://db.example/tasks?sslmode=disable", Disable),
            ("postgres://db.example/tasks?connect_timeout=2&sslmode=prefer", Prefer),
            ("postgres://db.example/tasks?sslmode=require&connect_timeout=2", Require),
            (
                "postgres://u:a?sslmode=disable@db.example/tasks?sslmode=verify-ca&sslrootcert=a%20b",
                VerifyCa,
            ),
            ("host=db.example sslmode = 'verify-full' dbname='a b'", VerifyFull),
        ] {
            assert_eq!(mode(text), Ok(wanted), "{text}");
        }
        let refused = mode("postgres://db.example/tasks?sslmode=allow").unwrap_err();
        assert!(
            refused.contains("disable, prefer, require, verify-ca or verify-full"),
            "{refused}"
        );
        assert!(
            mode("postgres://db.example/tasks?sslcert=a")
                .unwrap_err()
                .contains("`sslkey`")
        );
        assert!(mode("no address").is_err());
        for text in [
            "postgres://db.example/tasks?foo=1",
            "postgres://db.example/tasks?sslmode=require&foo=1",
            "host=db.example foo=1",
        ] {
            let refused = mode(text).unwrap_err();
            assert!(refused.ends_with("has an unknown parameter: `foo`"), "{refused}");
        }
    }

    #[test]
    fn the_rest_of_an_address_stays() {
        let address = Address::parse("user='a \\'b' sslrootcert='/c d' host=h dbname=x\\ y").unwrap();
        assert_eq!(address.config.get_user(), Some("a 'b"));
        assert_eq!(address.config.get_dbname(), Some("x y"));
        assert_eq!(address.tls.files.root, Some("/c d".into()));
        let address =
            Address::parse("postgres://u:p%3F@h:6432/d?sslmode=require&application_name=me&sslcert=c&sslkey=k");
        let address = address.unwrap();
        assert_eq!(address.config.get_application_name(), Some("me"));
        assert_eq!(address.config.get_password(), Some(&b"p?"[..]));
        assert_eq!(address.tls.files.certificate, Some("c".into()));
        assert_eq!(address.shown(), "postgres://u@h:6432/d");
    }

    #[test]
    fn what_a_network_can_do_is_warned_of() {
        let warned = |text: &str| Address::parse(text).unwrap().tls_warning().is_some();
        for text in [
            "postgres://h/d?sslmode=disable",
            "postgres://h/d?sslmode=prefer",
            "postgres://h/d?sslmode=require",
        ] {
            assert!(warned(text), "{text}");
        }
        for text in [
            "postgres://h/d",
            "postgres://h/d?sslmode=require&sslrootcert=r",
            "postgres://127.0.0.1/d",
        ] {
            assert!(!warned(text), "{text}");
        }
    }
}
