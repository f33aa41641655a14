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

/// Whether the request's `Host` and `Origin` name this machine: all of them, since nobody says which of two counts. Programs send no
/// `Origin`, and that is fine.
pub(crate) fn check(headers: &HeaderMap, uri: &Uri) -> Result<(), Misplaced> {
    let all = |name, local: fn(&str) -> bool| {
        headers
            .get_all(name)
            .iter()
            .all(|value| value.to_str().is_ok_and(local))
    };
    let authority = uri.authority().map(|authority| authority.as_str());
    let named = headers.contains_key(header::HOST) || authority.is_some();
    if !named || !authority.is_none_or(is_local) || !all(header::HOST, is_local) {
        return Err(Misplaced::Host);
    }
    if !all(header::ORIGIN, is_local_origin) {
        return Err(Misplaced::Origin);
    }
    Ok(())
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
    fn every_name_counts() {
        let mut headers = HeaderMap::new();
        headers.append(header::HOST, "localhost".parse().unwrap());
        let foreign = Uri::from_static("http://evil.example.com/mcp");
        assert_eq!(check(&headers, &foreign), Err(Misplaced::Host));
        for name in [header::HOST, header::ORIGIN] {
            let mut headers = headers.clone();
            headers.append(name, "http://localhost".parse().unwrap());
            headers.append(header::ORIGIN, "http://evil.example.com".parse().unwrap());
            assert!(check(&headers, &Uri::from_static("/mcp")).is_err());
        }
        assert_eq!(
            check(&HeaderMap::new(), &Uri::from_static("http://localhost:1/mcp")),
            Ok(())
        );
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
