//! The error for a failed HTTP request.

use crate::{RequestError, transport::http::tls};

/// The server at `address` did not answer. `proxy` is what a request goes through, if anything.
pub(crate) fn unreachable(address: &str, proxy: Option<&str>, error: &reqwest::Error) -> RequestError {
    let tls = tls::find_error(error);
    if let Some(reason) = tls.and_then(tls::describe_certificate) {
        return RequestError::Certificate {
            address: address.to_owned(),
            reason,
        };
    }
    // The outer errors only say that sending failed; the innermost one says why.
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    // The time for connecting is another one: then nothing was sent.
    if error.is_timeout() && !error.is_connect() {
        return RequestError::TimedOut {
            address: address.to_owned(),
        };
    }
    let mut reason = if error.is_timeout() {
        "it timed out".to_owned()
    } else if tls.is_some_and(tls::is_not_tls) {
        "what answers there does not speak TLS; is it an http:// server?".to_owned()
    } else {
        cause.to_string()
    };
    if let Some(proxy) = proxy.filter(|_| error.is_connect()) {
        reason = format!("{reason} (through {proxy})");
    }
    RequestError::Unreachable {
        address: address.to_owned(),
        reason,
        stderr: None,
        connected: !error.is_connect(),
    }
}
