//! Where a request comes from and whom it takes us for: the guard against DNS rebinding (T-02, S-12).

use http::{HeaderMap, Uri, header};
use std::net::IpAddr;

/// A request that a web page of somebody else made a browser send, or that was meant for another server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Misplaced {
    #[error("Origin is not this machine")]
    Origin,
    #[error("Host is not this machine")]
    Host,
}

/// Whether the request's `Host` and `Origin` name this machine. Programs send no `Origin`, and that is fine.
pub(crate) fn check(headers: &HeaderMap, uri: &Uri) -> Result<(), Misplaced> {
    let host = match headers.get(header::HOST) {
        Some(host) => host.to_str().ok(),
        None => uri.authority().map(|authority| authority.as_str()),
    };
    if !host.is_some_and(is_local) {
        return Err(Misplaced::Host);
    }
    let local = |origin: &header::HeaderValue| origin.to_str().is_ok_and(is_local_origin);
    match headers.get(header::ORIGIN) {
        Some(origin) if !local(origin) => Err(Misplaced::Origin),
        _ => Ok(()),
    }
}

/// Whether an address can only be reached from this machine.
pub fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// `null`, which sandboxed pages send, is nobody's origin.
fn is_local_origin(origin: &str) -> bool {
    let rest = origin
        .strip_prefix("http://")
        .or_else(|| origin.strip_prefix("https://"));
    rest.is_some_and(is_local)
}

/// `localhost`, `127.0.0.1` or `[::1]`, with or without a port.
fn is_local(authority: &str) -> bool {
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    host.eq_ignore_ascii_case("localhost") || host == "127.0.0.1" || host == "[::1]"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(host: Option<&str>, origin: Option<&str>) -> Result<(), Misplaced> {
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
    fn only_this_machine_is_at_home() {
        for host in ["localhost", "LOCALHOST:80", "127.0.0.1:7411", "[::1]", "[::1]:7411"] {
            assert_eq!(checked(Some(host), None), Ok(()), "{host}");
            assert_eq!(checked(Some(host), Some(&format!("http://{host}"))), Ok(()), "{host}");
        }
        for host in [
            "evil.example.com",
            "127.0.0.1.evil.example.com",
            "localhost.evil.com:80",
            "",
            "127.0.0.2:1",
            "[::1]x",
        ] {
            assert_eq!(checked(Some(host), None), Err(Misplaced::Host), "{host}");
            assert_eq!(
                checked(Some("localhost"), Some(&format!("http://{host}"))),
                Err(Misplaced::Origin),
                "{host}"
            );
        }
        assert_eq!(checked(None, None), Err(Misplaced::Host));
        for origin in [
            "null",
            "localhost",
            "file://localhost",
            "http://localhost@evil.com",
            "http://localhost/evil",
        ] {
            assert_eq!(
                checked(Some("localhost"), Some(origin)),
                Err(Misplaced::Origin),
                "{origin}"
            );
        }
    }
}
