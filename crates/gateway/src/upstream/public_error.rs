//! What clients may read of an upstream's error: never its address or its command line, since both may have keys in them. The log has those, and nothing of a
//! result.

use longhaul_client::{RequestError, TokenError};
use longhaul_core::{Principal, approximate_duration};

/// The error as the client of `principal` is told it. What a child has written to its standard error is for its own user alone.
pub(crate) fn public(upstream: &str, error: &RequestError, principal: &Principal) -> String {
    tracing::info!(
        upstream,
        error = logged(error),
        principal = principal.as_str(),
        "a request to an upstream failed"
    );
    words(error, *principal == Principal::local())
}

/// The error for the log. What is wrong with a response may quote it, and it may be a result.
pub(crate) fn logged(error: &RequestError) -> String {
    match error {
        RequestError::Invalid(_) => {
            "the server's response is invalid; the caller is told what is wrong with it".to_owned()
        }
        // Without its body.
        RequestError::Http { status, .. } => format!("HTTP status {status}"),
        other => other.to_string(),
    }
}

/// The error as the user who runs this server is told it, or as anyone else is.
pub(crate) fn words(error: &RequestError, is_local: bool) -> String {
    with_pause(error, reason(error, is_local))
}

/// The words for an error, and how long the upstream asks to wait.
pub(crate) fn with_pause(error: &RequestError, words: String) -> String {
    match error.retry_after() {
        Some(after) => format!("{words}; it asks to be called again in {}", approximate_duration(after)),
        None => words,
    }
}

fn reason(error: &RequestError, is_local: bool) -> String {
    match error {
        RequestError::Unreachable { reason, stderr, .. } => match stderr.as_ref().filter(|_| is_local) {
            Some(stderr) => format!("it cannot be reached: {reason}; its last words on standard error: {stderr}"),
            None => format!("it cannot be reached: {reason}"),
        },
        RequestError::TimedOut { .. } => "it did not answer in time".to_owned(),
        RequestError::NotStarted { reason, .. } => format!("its command could not be started: {reason}"),
        RequestError::NoKeysAnyMore { .. } => {
            "it takes no idempotency keys any more, since the connection broke; the call may have run, and was not sent again".to_owned()
        }
        RequestError::Certificate { reason, .. } => format!("it cannot be trusted: {reason}"),
        RequestError::Unauthorized { .. } => {
            "it requires a login or a key that this server does not have (HTTP status 401); whoever runs this server sets `auth` or `headers` of this upstream".to_owned()
        }
        // It names a folder of the user who runs this server.
        RequestError::Token {
            error: TokenError::TokenFile { .. },
            ..
        } if !is_local => "the logins that this server keeps cannot be used; its log says why".to_owned(),
        RequestError::Token { error, .. } => error.to_string(),
        RequestError::Setup(_) => "this server cannot connect to it as it is configured".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_does_not_quote_what_cannot_be_read() {
        let error = RequestError::Invalid("its result is no object: SECRET".to_owned());
        assert!(words(&error, false).contains("SECRET"));
        assert!(!logged(&error).contains("SECRET"));
    }

    /// Whatever fails, and whoever is told.
    #[test]
    fn no_error_tells_an_address_or_a_command_line() {
        let address = || "sh server.sh --token SECRET".to_owned();
        let errors = [
            RequestError::Unreachable {
                address: address(),
                reason: "it ended with exit status: 3".to_owned(),
                stderr: Some("PRINTED".to_owned()),
                connected: true,
            },
            RequestError::TimedOut { address: address() },
            RequestError::NotStarted {
                command: address(),
                reason: "No such file".to_owned(),
            },
            RequestError::NoKeysAnyMore { address: address() },
            RequestError::Certificate {
                address: address(),
                reason: "it has expired".to_owned(),
            },
            RequestError::Unauthorized {
                address: address(),
                reason: Some("SECRET".to_owned()),
            },
            RequestError::Token {
                address: address(),
                error: TokenError::NoIssuer,
            },
            RequestError::Token {
                address: address(),
                error: TokenError::TokenFile {
                    reason: "/home/PRINTED/tokens.json: it is damaged".to_owned(),
                },
            },
            RequestError::Setup(address()),
        ];
        let has_printed = |error: &RequestError| format!("{error:?}").contains("PRINTED");
        for error in errors {
            for principal in [Principal::local(), Principal::named("key:ann")] {
                let told = public("up", &error, &principal);
                assert!(!told.contains("SECRET"), "{told}");
                let is_own = principal == Principal::local();
                assert_eq!(told.contains("PRINTED"), is_own && has_printed(&error), "{told}");
            }
        }
    }
}
