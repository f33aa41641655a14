//! Credentials that would cross a network without TLS.

use super::loopback::LoopbackServer;
use crate::output;
use longhaul_client::{AccessToken, Login, Refusal, TokenError, TokenProvider, Url};
use longhaul_core::BoxFuture;
use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

/// Whether others on the network can read what is sent there.
pub(super) fn is_readable(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| url.scheme() == "http") && LoopbackServer::of(url, None).is_none()
}

/// Warns once of each server.
pub(super) fn warn(url: &str) {
    static WARNED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let is_new = WARNED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(url.to_owned());
    if is_new {
        output::note(&format!(
            "warning: {url}: others on the network can read the key or token that is sent there; use https"
        ));
    }
}

/// A login whose tokens others can read.
pub(super) struct ReadableLogin {
    pub(super) login: Login,
    pub(super) url: String,
}

impl ReadableLogin {
    fn warned(&self, token: Option<AccessToken>) -> Option<AccessToken> {
        token.inspect(|_| warn(&self.url))
    }
}

impl TokenProvider for ReadableLogin {
    fn token(&self) -> BoxFuture<'_, Result<Option<AccessToken>, TokenError>> {
        Box::pin(async move { Ok(self.warned(self.login.token().await?)) })
    }

    fn replace<'a>(&'a self, refusal: Refusal<'a>) -> BoxFuture<'a, Result<Option<AccessToken>, TokenError>> {
        Box::pin(async move { Ok(self.warned(self.login.replace(refusal).await?)) })
    }

    fn login(&self) -> BoxFuture<'_, Option<String>> {
        self.login.login()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_http_to_another_machine_can_be_read() {
        for (url, expected) in [
            ("http://example.com/mcp", true),
            ("http://10.0.0.1:7411/mcp", true),
            ("https://example.com/mcp", false),
            ("http://127.0.0.1:7411/mcp", false),
            ("http://localhost/mcp", false),
        ] {
            assert_eq!(is_readable(url), expected, "{url}");
        }
    }
}
