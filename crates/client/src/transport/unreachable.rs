//! The error for a failed HTTP request.

use crate::RequestError;

/// The server at `address` did not answer.
pub(super) fn unreachable(address: &str, error: &reqwest::Error) -> RequestError {
    // The outer errors only say that sending failed; the innermost one says why.
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    let reason = if error.is_timeout() {
        "it timed out".to_owned()
    } else {
        cause.to_string()
    };
    RequestError::Unreachable {
        address: address.to_owned(),
        reason,
    }
}
