//! Which proxy a server is reached through.

use hyper_util::client::proxy::matcher::Matcher;
use reqwest::{ClientBuilder, Url};
use std::net::IpAddr;

/// How a server is reached over HTTP.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Proxy {
    /// Through the proxy that the environment names: `HTTPS_PROXY` or `HTTP_PROXY`, else `ALL_PROXY`, unless `NO_PROXY` excludes the host; in
    /// capitals or not. A server on loopback is reached directly.
    #[default]
    Environment,
    /// Directly.
    None,
    /// Through this proxy, also to a server on loopback: an `http://`, `https://`, `socks5://` or `socks5h://` URL, which may have a user name and a password.
    Url(String),
}

impl Proxy {
    /// Sets the proxy of a client for `server`. Returns what an error message calls it, if there is one.
    ///
    /// # Errors
    /// Why the proxy's URL cannot be used.
    pub(crate) fn apply(
        &self,
        builder: ClientBuilder,
        server: &Url,
    ) -> Result<(ClientBuilder, Option<String>), String> {
        match self {
            Self::Environment if is_loopback(server) => Ok((builder.no_proxy(), None)),
            Self::None => Ok((builder.no_proxy(), None)),
            Self::Environment => {
                check_environment(server)?;
                Ok((builder, named_by_environment(server)))
            }
            Self::Url(url) => {
                let invalid = |error: &dyn std::fmt::Display| format!("the proxy's URL cannot be used: {error}");
                let proxy = reqwest::Proxy::all(url).map_err(|error| invalid(&error))?;
                let mut shown = Url::parse(url).map_err(|error| invalid(&error))?;
                if !KINDS.contains(&shown.scheme()) {
                    return Err(invalid(&format!("`{}:` is no kind of proxy", shown.scheme())));
                }
                // Fails only for URLs without a host, which have no password.
                let _ = shown.set_username("").and_then(|()| shown.set_password(None));
                Ok((builder.proxy(proxy), Some(format!("the proxy {shown}"))))
            }
        }
    }

    /// The hosts of the proxies that it may be.
    #[cfg(feature = "login")]
    pub(crate) fn hosts(&self) -> Vec<String> {
        let named = match self {
            Self::None => Vec::new(),
            Self::Url(url) => vec![url.clone()],
            Self::Environment => ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"]
                .iter()
                .flat_map(|name| [(*name).to_owned(), name.to_ascii_lowercase()])
                .filter_map(|name| std::env::var(name).ok())
                .collect(),
        };
        let host = |proxy: String| {
            let url = if proxy.contains("://") {
                proxy
            } else {
                format!("http://{proxy}")
            };
            Url::parse(&url).ok()?.host_str().map(str::to_owned)
        };
        named.into_iter().filter_map(host).collect()
    }
}

const KINDS: [&str; 6] = ["http", "https", "socks4", "socks4a", "socks5", "socks5h"];

/// A proxy that cannot be used would be passed by, and the server be reached directly, without a word.
fn check_environment(server: &Url) -> Result<(), String> {
    let excluded = ["NO_PROXY", "no_proxy"]
        .map(|name| std::env::var(name).unwrap_or_default())
        .join(",");
    let any = Matcher::builder().all("http://proxy").no(excluded).build();
    let is_excluded = |server: http::Uri| any.intercept(&server).is_none();
    if server.as_str().parse().is_ok_and(is_excluded) {
        return Ok(());
    }
    let of_scheme = match server.scheme() {
        "https" => ["HTTPS_PROXY", "https_proxy"],
        _ => ["HTTP_PROXY", "http_proxy"],
    };
    for name in of_scheme.into_iter().chain(["ALL_PROXY", "all_proxy"]) {
        let value = std::env::var(name).unwrap_or_default();
        if let Some(kind) = unusable_kind(&value) {
            return Err(format!(
                "{name} names a proxy of the kind `{kind}:`, which cannot be used"
            ));
        }
    }
    Ok(())
}

/// The scheme of a proxy's URL, if it is one that cannot be used.
fn unusable_kind(proxy: &str) -> Option<&str> {
    let (kind, _) = proxy.split_once("://")?;
    (!KINDS.contains(&kind.to_ascii_lowercase().as_str())).then_some(kind)
}

fn named_by_environment(server: &Url) -> Option<String> {
    let server: http::Uri = server.as_str().parse().ok()?;
    let proxy = Matcher::from_env().intercept(&server)?;
    Some(format!("the proxy {} of the environment", proxy.uri()))
}

/// Whether a server is on this machine, by the host of its URL.
pub fn is_loopback(server: &Url) -> bool {
    let host = server.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    match address {
        Ok(address) => address.is_loopback(),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_some_kinds_of_proxies_can_be_used() {
        for proxy in ["", "proxy:3128", "http://proxy", "SOCKS5h://proxy"] {
            assert_eq!(unusable_kind(proxy), None, "{proxy}");
        }
        assert_eq!(unusable_kind("ftp://proxy:21"), Some("ftp"));
    }

    #[test]
    fn loopback_has_many_names() {
        let is_loopback = |host: &str| is_loopback(&Url::parse(&format!("http://{host}:1/mcp")).unwrap());
        for host in ["localhost", "a.localhost", "127.0.0.1", "127.3.2.1", "[::1]"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["example.com", "localhost.example.com", "10.0.0.1", "[2001:db8::1]"] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
