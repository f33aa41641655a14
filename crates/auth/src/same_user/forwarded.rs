//! Requests that somebody else has forwarded.

use http::HeaderMap;

/// Headers that proxies and tunnels add, besides those that begin with `x-forwarded`.
const FORWARDING: [&str; 6] = [
    "forwarded",
    "via",
    "x-real-ip",
    "x-client-ip",
    "true-client-ip",
    "cf-connecting-ip",
];

/// Whether a proxy says that it has forwarded the request, so that its sender is not who opened the connection.
///
/// A proxy that says nothing cannot be told from a client.
///
/// ```
/// # use longhaul_auth::same_user::is_forwarded;
/// let mut headers = http::HeaderMap::new();
/// assert!(!is_forwarded(&headers));
/// headers.insert("x-forwarded-for", "203.0.113.7".parse()?);
/// assert!(is_forwarded(&headers));
/// # Ok::<(), http::header::InvalidHeaderValue>(())
/// ```
pub fn is_forwarded(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| {
        let name = name.as_str();
        name.starts_with("x-forwarded") || FORWARDING.contains(&name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderName;

    #[test]
    fn every_forwarding_header_counts_and_no_other() {
        let with = |name: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(HeaderName::from_static(name), "x".parse().expect("a value"));
            is_forwarded(&headers)
        };
        for name in FORWARDING.iter().chain(&[
            "x-forwarded-for",
            "x-forwarded-host",
            "x-forwarded-proto",
            "x-forwarded",
        ]) {
            assert!(with(name), "{name}");
        }
        for name in ["host", "authorization", "x-custom", "viable", "accept"] {
            assert!(!with(name), "{name}");
        }
    }
}
