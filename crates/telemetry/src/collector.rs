//! Where telemetry is sent.

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use rustls::crypto::{CryptoProvider, ring};
use std::{env, time::Duration};

/// How long a collector may take for a request.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";

/// Where traces and metrics are sent, and as whose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectorSettings {
    /// The collector's URL for OTLP over HTTP, such as `http://127.0.0.1:4318`. Spans go to `/v1/traces` below it, metrics to `/v1/metrics`. Headers for it
    /// come from the variable `OTEL_EXPORTER_OTLP_HEADERS`.
    pub endpoint: String,
    /// The server's name: `service.name`.
    pub service: String,
    /// Its version: `service.version`.
    pub version: String,
}

impl CollectorSettings {
    pub(crate) fn address(&self, path: &str) -> String {
        format!("{}{path}", self.endpoint.trim_end_matches('/'))
    }
}

/// Nothing can be sent to a collector.
#[derive(Debug, thiserror::Error)]
#[error("cannot send to {address}: {why}")]
pub struct CollectorError {
    address: String,
    why: String,
}

impl CollectorError {
    pub(crate) fn new(address: String, why: String) -> Self {
        Self { address, why }
    }
}

/// Our `reqwest` has no provider of cryptography of its own, and then a client cannot be built.
pub(crate) fn prepare_cryptography() {
    if CryptoProvider::get_default().is_none() {
        // Fails if another thread was faster, and then there is one.
        let _ = ring::default_provider().install_default();
    }
}

/// Those of the environment: `name=value,other=value`, percent-encoded as in W3C Baggage.
pub(crate) fn headers() -> Result<HeaderMap, String> {
    read_headers(&env::var(HEADERS).unwrap_or_default())
}

fn read_headers(text: &str) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        // Not the pair itself: it may be a secret.
        let invalid = || format!("{HEADERS} must be `name=value`, with commas between several");
        let (name, value) = pair.split_once('=').ok_or_else(invalid)?;
        let value = percent_encoding::percent_decode_str(value.trim())
            .decode_utf8()
            .map_err(|_| invalid())?;
        let name = HeaderName::try_from(name.trim()).map_err(|_| invalid())?;
        let mut value = HeaderValue::try_from(&*value).map_err(|_| invalid())?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_pairs() {
        let read = read_headers(" x-key = a%20b=c ,, other=1,").unwrap();
        assert_eq!(
            (read.len(), &read["x-key"], &read["other"]),
            (2, &HeaderValue::from_static("a b=c"), &HeaderValue::from_static("1"))
        );
        assert!(read_headers("").unwrap().is_empty());
        for wrong in ["secret", "a b=secret", "a=secret%0A"] {
            let error = read_headers(wrong).unwrap_err();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
