//! Allowed hosts and origins: validation of `Host` and `AllowedOrigin` against DNS rebinding.

use http::{HeaderMap, HeaderValue, Uri, header};
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

/// Which web pages may call this server, and under which names clients reach it. This machine's own are always allowed: `localhost`,
/// `127.0.0.1` and `[::1]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AllowedHosts {
    pub(crate) origins: Vec<AllowedOrigin>,
    pub(crate) hosts: Vec<HostName>,
    /// Whether any address of a machine is allowed as a host. DNS rebinding needs a name.
    pub(crate) any_address: bool,
}

/// The origin of web pages, as browsers send it: `https://app.example.com`, perhaps with a port.
///
/// ```
/// use longhaul_server::http::AllowedOrigin;
/// assert!("https://app.example.com:8443".parse::<AllowedOrigin>().is_ok());
/// assert!("*".parse::<AllowedOrigin>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedOrigin(String);

/// A name under which clients reach this server: `mcp.example.com` with any port, `mcp.example.com:8080` with that one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostName(String);

impl HostName {
    /// Whether a request that names `authority` means it: with its port, or with any if it has none.
    pub fn matches(&self, authority: &str) -> bool {
        let (host, _) = split_port(authority);
        self.0.eq_ignore_ascii_case(authority) || self.0.eq_ignore_ascii_case(host)
    }
}

/// An origin that no browser sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an origin is a scheme and a host, for example \"https://app.example.com\": no path, no blanks, no *")]
pub struct InvalidOrigin;

/// A host that no request names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a host is a name, perhaps with a port, for example \"mcp.example.com\": no scheme, no path, no *")]
pub struct InvalidHost;

impl FromStr for AllowedOrigin {
    type Err = InvalidOrigin;

    fn from_str(text: &str) -> Result<Self, InvalidOrigin> {
        let (scheme, authority) = text.split_once("://").ok_or(InvalidOrigin)?;
        let sound_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
        if !sound_scheme || !is_authority(authority) {
            return Err(InvalidOrigin);
        }
        let (scheme, authority) = (scheme.to_ascii_lowercase(), authority.to_ascii_lowercase());
        // Browsers leave out the default port.
        let implied = match scheme.as_str() {
            "http" => ":80",
            "https" => ":443",
            _ => "",
        };
        let authority = authority.strip_suffix(implied).unwrap_or(&authority);
        Ok(Self(format!("{scheme}://{authority}")))
    }
}

impl FromStr for HostName {
    type Err = InvalidHost;

    fn from_str(text: &str) -> Result<Self, InvalidHost> {
        is_authority(text)
            .then(|| Self(text.to_ascii_lowercase()))
            .ok_or(InvalidHost)
    }
}

fn is_authority(text: &str) -> bool {
    let (host, _) = split_port(text);
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    match bracketed {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => {
            !host.is_empty()
                && host
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
        }
    }
}

/// A request from a web page of another origin, or for another server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotAllowed {
    #[error("Origin is not allowed here (see allowed_origins)")]
    Origin,
    #[error("Host is not a name of this server (see allowed_hosts)")]
    Host,
}

impl AllowedHosts {
    /// Whether the request's `Host` and `AllowedOrigin` are allowed: all of them, since it is undefined which of two counts. Programs send no
    /// `AllowedOrigin`, which is allowed.
    pub(crate) fn check(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), NotAllowed> {
        let host_allowed = |value: &HeaderValue| value.to_str().is_ok_and(|host| self.allows_host(host));
        let authority = uri.authority().map(|authority| authority.as_str());
        let named = headers.contains_key(header::HOST) || authority.is_some();
        let all_hosts = authority.is_none_or(|host| self.allows_host(host))
            && headers.get_all(header::HOST).iter().all(host_allowed);
        if !named || !all_hosts {
            return Err(NotAllowed::Host);
        }
        self.check_origin(headers)
    }

    /// Whether the request's `AllowedOrigin` is allowed.
    pub(crate) fn check_origin(&self, headers: &HeaderMap) -> Result<(), NotAllowed> {
        let origin_allowed = |value: &HeaderValue| value.to_str().is_ok_and(|origin| self.allows_origin(origin));
        if !headers.get_all(header::ORIGIN).iter().all(origin_allowed) {
            return Err(NotAllowed::Origin);
        }
        Ok(())
    }

    fn allows_host(&self, authority: &str) -> bool {
        let (host, _) = split_port(authority);
        is_local(authority)
            || (self.any_address && is_address(host))
            || self.hosts.iter().any(|known| known.matches(authority))
    }

    fn allows_origin(&self, origin: &str) -> bool {
        is_local_origin(origin) || origin.parse().is_ok_and(|origin| self.origins.contains(&origin))
    }
}

/// A host and its port, if there is one.
fn split_port(authority: &str) -> (&str, Option<&str>) {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => (host, Some(port)),
        _ => (authority, None),
    }
}

/// Whether a request names its server only as this machine (`localhost`, `127.0.0.1` or `[::1]`) and no other port than that of its listener, and comes
/// from no web page but one of this machine.
///
/// Another port was that of something between which forwards connections, such as `ssh -R`, `socat` or a container's. No port means 80, or 443 with TLS.
///
/// ```
/// use longhaul_server::http::is_local_request;
/// let mut headers = http::HeaderMap::new();
/// headers.insert("host", "localhost:7411".parse()?);
/// assert!(is_local_request(&headers, &"/mcp".parse()?, 7411));
/// assert!(!is_local_request(&headers, &"/mcp".parse()?, 7412));
/// headers.insert("origin", "https://app.example.com".parse()?);
/// assert!(!is_local_request(&headers, &"/mcp".parse()?, 7411));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn is_local_request(headers: &HeaderMap, uri: &Uri, port: u16) -> bool {
    let fits = |authority: &str| match split_port(authority).1 {
        Some(named) => named.parse() == Ok(port),
        None => matches!(port, 80 | 443),
    };
    let mut hosts = headers.get_all(header::HOST).iter();
    AllowedHosts::default().check(headers, uri).is_ok()
        && uri.authority().is_none_or(|authority| fits(authority.as_str()))
        && hosts.all(|host| host.to_str().is_ok_and(fits))
}

/// Whether an address can only be reached from this machine.
pub fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// Whether a host is an IP address and no name.
fn is_address(host: &str) -> bool {
    let in_brackets = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    match in_brackets {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => host.parse::<Ipv4Addr>().is_ok(),
    }
}

/// `null`, which sandboxed pages send, is no origin that can be allowed.
fn is_local_origin(origin: &str) -> bool {
    let rest = origin
        .strip_prefix("http://")
        .or_else(|| origin.strip_prefix("https://"));
    rest.is_some_and(is_local)
}

/// `localhost`, `127.0.0.1` or `[::1]`, with or without a port.
fn is_local(authority: &str) -> bool {
    let (host, _) = split_port(authority);
    host.eq_ignore_ascii_case("localhost") || host == "127.0.0.1" || host == "[::1]"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(headers: &HeaderMap, uri: &Uri) -> Result<(), NotAllowed> {
        AllowedHosts::default().check(headers, uri)
    }

    fn checked(host: Option<&str>, origin: Option<&str>) -> Result<(), NotAllowed> {
        let mut headers = HeaderMap::new();
        if let Some(host) = host {
            headers.insert(header::HOST, host.parse().unwrap());
        }
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        check(&headers, &Uri::from_static("/mcp"))
    }

    #[test]
    fn every_name_counts() {
        let mut headers = HeaderMap::new();
        headers.append(header::HOST, "localhost".parse().unwrap());
        let foreign = Uri::from_static("http://evil.example.com/mcp");
        assert_eq!(check(&headers, &foreign), Err(NotAllowed::Host));
        for name in [header::HOST, header::ORIGIN] {
            let mut headers = headers.clone();
            headers.append(name, "http://localhost".parse().unwrap());
            headers.append(header::ORIGIN, "http://evil.example.com".parse().unwrap());
            assert!(check(&headers, &Uri::from_static("/mcp")).is_err());
        }
        let mine = Uri::from_static("http://localhost:1/mcp");
        assert_eq!(check(&HeaderMap::new(), &mine), Ok(()));
    }

    #[test]
    fn only_this_machines_names_are_allowed_by_default() {
        for host in ["localhost", "LOCALHOST:80", "127.0.0.1:7411", "[::1]", "[::1]:7411"] {
            assert_eq!(checked(Some(host), None), Ok(()), "{host}");
            assert_eq!(checked(Some(host), Some(&format!("http://{host}"))), Ok(()), "{host}");
        }
        let refuses_origin = |origin: &str| {
            let refused = checked(Some("localhost"), Some(origin));
            assert_eq!(refused, Err(NotAllowed::Origin), "{origin}");
        };
        let foreign = "evil.example.com 127.0.0.1.evil.example.com localhost.evil.com:80 127.0.0.2:1 [::1]x";
        for host in foreign.split(' ').chain([""]) {
            assert_eq!(checked(Some(host), None), Err(NotAllowed::Host), "{host}");
            refuses_origin(&format!("http://{host}"));
        }
        assert_eq!(checked(None, None), Err(NotAllowed::Host));
        let foreign = "null localhost file://localhost http://localhost@evil.com http://localhost/evil";
        foreign.split(' ').for_each(refuses_origin);
    }

    #[test]
    fn further_names_are_allowed_one_by_one() {
        let places = AllowedHosts {
            origins: vec!["https://App.example.com:443".parse().unwrap()],
            hosts: vec!["mcp.example.com".parse().unwrap(), "box:81".parse().unwrap()],
            any_address: false,
        };
        for (hosts, are_allowed) in [
            ("mcp.example.com MCP.example.com:8080 box:81 localhost:1", true),
            ("box box:8 x.mcp.example.com", false),
        ] {
            for host in hosts.split(' ') {
                assert_eq!(places.allows_host(host), are_allowed, "{host}");
            }
        }
        let known = "https://app.example.com https://app.example.com:443 http://localhost:3000";
        let others = "http://app.example.com https://app.example.com:444 https://app.example.com.evil.com null";
        for (origins, are_allowed) in [(known, true), (others, false)] {
            for origin in origins.split(' ') {
                assert_eq!(places.allows_origin(origin), are_allowed, "{origin}");
            }
        }
    }

    #[test]
    fn where_senders_are_told_apart_any_address_is_a_host_and_no_name_is() {
        let allowed = AllowedHosts {
            any_address: true,
            ..AllowedHosts::default()
        };
        for (hosts, are_allowed) in [
            ("192.0.2.1 192.0.2.1:7411 [2001:db8::1]:7411", true),
            ("192.0.2.1.evil.example.com 2001:db8::1 mcp.example.com", false),
        ] {
            for host in hosts.split(' ') {
                assert_eq!(allowed.allows_host(host), are_allowed, "{host}");
            }
        }
        let page = "http://192.0.2.1:7411";
        assert!(!allowed.allows_origin(page), "pages have no addresses");
    }

    #[test]
    fn invalid_origins_and_hosts_are_refused() {
        let wrong = "* https://* https://*.example.com app.example.com https://a/ https://u@a";
        for wrong in wrong.split(' ').chain(["https://a b", ""]) {
            assert_eq!(wrong.parse::<AllowedOrigin>(), Err(InvalidOrigin), "{wrong}");
        }
        for wrong in ["*", "https://a", "a/b", "a b", "", ":80", "[::1", "a:b"] {
            assert_eq!(wrong.parse::<HostName>(), Err(InvalidHost), "{wrong}");
        }
    }
}
