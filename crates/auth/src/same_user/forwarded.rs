//! Requests that somebody else has forwarded.

use http::HeaderMap;

/// Headers that proxies, tunnels and content delivery networks add, besides those with one of the [`PREFIXES`].
const FORWARDING: [&str; 27] = [
    "forwarded",
    "forwarded-for",
    "via",
    "cdn-loop",
    "client-ip",
    "http-client-ip",
    "true-client-ip",
    "wl-proxy-client-ip",
    "wl-proxy-ssl",
    "front-end-https",
    "max-forwards",
    "surrogate-capability",
    "incap-client-ip",
    "x-real-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-remote-addr",
    "x-remote-ip",
    "x-proxyuser-ip",
    "x-host",
    "x-scheme",
    "x-url-scheme",
    "x-varnish",
    "x-cloud-trace-context",
    "x-sucuri-clientip",
    "x-nginx-proxy",
    "x-rewrite-url",
];
/// What else such headers begin with.
const PREFIXES: [&str; 15] = [
    "x-forwarded",
    "x-original-",
    "x-envoy-",
    "x-appengine-",
    "x-azure-",
    "x-amz-cf-",
    "x-amzn-",
    "x-arr-",
    "x-vercel-",
    "akamai-",
    "cf-",
    "fastly-",
    "fly-",
    "tailscale-",
    "proxy-",
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
        FORWARDING.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
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
            "x-forwarded",
            "x-original-host",
            "x-envoy-external-address",
            "x-amzn-trace-id",
            "x-amz-cf-id",
            "x-arr-ssl",
            "x-arr-log-id",
            "fastly-ff",
            "fastly-client-ip",
            "fly-client-ip",
            "x-vercel-forwarded-for",
            "cf-connecting-ip",
            "tailscale-user-login",
            "proxy-connection",
        ]) {
            assert!(with(name), "{name}");
        }
        for name in [
            "host",
            "authorization",
            "x-custom",
            "viable",
            "accept",
            "mcp-name",
            "x-api-key",
            "x-amz-date",
            "x-request-id",
            "traceparent",
        ] {
            assert!(!with(name), "{name}");
        }
    }
}
