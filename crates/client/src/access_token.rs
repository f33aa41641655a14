//! Access tokens: what a client shows to servers that know their callers.

use http::HeaderValue;
use longhaul_core::BoxFuture;
use std::fmt;

/// An access token or an API key, sent as `Authorization: Bearer …`. `Debug` does not show it.
///
/// ```
/// use longhaul_client::AccessToken;
///
/// assert!(AccessToken::new("lhk_5f0c").is_ok());
/// assert!(AccessToken::new("two words").is_err());
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct AccessToken(HeaderValue);

/// The text cannot be a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a token has letters, digits and -._~+/= only, and at least one of them; this one does not, perhaps for a line break at its end"
)]
pub struct InvalidToken;

impl AccessToken {
    /// The token with this text (RFC 6750, section 2.1).
    ///
    /// # Errors
    /// [`InvalidToken`] for characters that no token has.
    pub fn new(text: &str) -> Result<Self, InvalidToken> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
        if text.is_empty() || !text.bytes().all(fits) {
            return Err(InvalidToken);
        }
        let mut value = HeaderValue::try_from(format!("Bearer {text}")).map_err(|_| InvalidToken)?;
        value.set_sensitive(true);
        Ok(Self(value))
    }

    /// The `Authorization` header.
    pub(crate) fn header(&self) -> HeaderValue {
        self.0.clone()
    }
}

impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessToken(…)")
    }
}

/// A server refused a request for its token, or because it had none.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Refusal<'a> {
    /// 401: the token is missing or no longer accepted. 403: it does not permit what was asked.
    pub status: u16,
    /// The server's `WWW-Authenticate`, which says what it wants.
    pub challenge: Option<&'a str>,
    /// The token that was sent.
    pub sent: Option<&'a AccessToken>,
}

/// Gives the tokens for the requests to one server, in [`Options::tokens`](crate::Options::tokens).
///
/// An [`AccessToken`] is a provider of itself: it never changes. `Login`, with the feature `login`, gets tokens from an OAuth authorization server.
pub trait TokenProvider: Send + Sync {
    /// The token for the next request; `None` to send it without one.
    ///
    /// # Errors
    /// [`TokenError`] if there should be a token and cannot be. The request is not sent.
    fn token(&self) -> BoxFuture<'_, Result<Option<AccessToken>, TokenError>>;

    /// Another token after a refusal: the request is sent again with it. `None` if there is no better one, which makes the refusal the request's error. A
    /// request is refused at most three times.
    ///
    /// # Errors
    /// [`TokenError`] says more than the refusal would.
    fn replace<'a>(&'a self, refusal: Refusal<'a>) -> BoxFuture<'a, Result<Option<AccessToken>, TokenError>>;

    /// Who the tokens make this client at the server, in words that stay the same while the login does. It is recorded with each call, so that a task is not read
    /// unnoticed with another login; it must not be a secret. `None`, the default: nobody knows.
    fn login(&self) -> BoxFuture<'_, Option<String>> {
        Box::pin(std::future::ready(None))
    }
}

impl TokenProvider for AccessToken {
    fn token(&self) -> BoxFuture<'_, Result<Option<AccessToken>, TokenError>> {
        Box::pin(std::future::ready(Ok(Some(self.clone()))))
    }

    fn replace<'a>(&'a self, _: Refusal<'a>) -> BoxFuture<'a, Result<Option<AccessToken>, TokenError>> {
        Box::pin(std::future::ready(Ok(None)))
    }
}

/// There is no token for a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The user has to log in first.
    #[error("it requires a login: {reason}")]
    LoginRequired {
        /// Why: there was none, it has ended, or it does not permit this.
        reason: String,
        /// Whether the server says where to log in, so that it is not one that only takes keys.
        names_issuers: bool,
    },
    /// The token could not be had, and may be later.
    #[error("no access token could be had: {reason}")]
    Unavailable {
        /// What failed.
        reason: String,
    },
    /// The server says nowhere to log in. It may take keys that its operator gives.
    #[error("the login failed: it does not say which authorization server it trusts")]
    NoIssuer,
    /// The authorization server does not register clients by itself, and this one has no id there.
    #[error("the login failed: its authorization server registers no clients by itself")]
    NoRegistration,
    /// The authorization server does not grant the permissions that were asked for.
    #[error("the login failed: {reason}")]
    InvalidScope {
        /// What it says.
        reason: String,
    },
    /// A login asked for permissions that a request needs, and the authorization server has issued a token without them. The user is not asked again by itself.
    #[error("its authorization server does not grant {}, which this needs", scopes.join(" "))]
    NotGranted {
        /// The permissions.
        scopes: Vec<String>,
    },
    /// The tokens that are kept cannot be read or changed.
    #[error("the logins that are kept cannot be used: {reason}")]
    TokenFile {
        /// What is wrong with the file, and what to do.
        reason: String,
    },
    /// The authorization server does not know this client. One that registers itself has done so again before this error.
    #[error("the login failed: {reason}")]
    InvalidClient {
        /// What it says.
        reason: String,
    },
    /// The authorization server cannot be trusted, or refuses.
    #[error("the login failed: {reason}")]
    Failed {
        /// What is wrong.
        reason: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_one_word_and_is_not_shown() {
        for wrong in ["", " a", "a\n", "a b", "ä", "a\"b"] {
            assert_eq!(AccessToken::new(wrong), Err(InvalidToken), "{wrong:?}");
        }
        let token = AccessToken::new("eyJ.a-b_c~+/==").unwrap();
        assert_eq!(token.header(), "Bearer eyJ.a-b_c~+/==");
        assert_eq!(format!("{token:?} {:?}", token.header()), "AccessToken(…) Sensitive");
    }
}
