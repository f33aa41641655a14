//! The URL of a server.

use longhaul_core::Masking;
use reqwest::Url;
use std::{fmt, str::FromStr};

/// The address of an MCP endpoint, for example `http://127.0.0.1:7411/mcp`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address(Url);

/// The URL cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAddress {
    /// Not a URL.
    #[error("`{text}` is not a URL ({reason}); write for example http://127.0.0.1:7411/mcp")]
    NotAUrl {
        /// What was given.
        text: String,
        /// Why it could not be parsed.
        reason: String,
    },
    /// Some other scheme.
    #[error("`{0}:` is not supported; write for example http://127.0.0.1:7411/mcp")]
    Scheme(String),
    /// A user name or a password in the URL.
    #[error("a user name or password in the URL is not supported")]
    Credentials,
}

impl Address {
    pub(crate) fn url(&self) -> &Url {
        &self.0
    }
}

impl FromStr for Address {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        let not_a_url = |reason: String| InvalidAddress::NotAUrl {
            text: text.to_owned(),
            reason,
        };
        let mut url = Url::parse(text).map_err(|error| not_a_url(error.to_string()))?;
        match url.scheme() {
            "http" | "https" => {}
            // The parser reads "localhost:7411" as a URL with the scheme "localhost".
            _ if !text.contains("://") => {
                return Err(not_a_url("it does not begin with http:// or https://".to_owned()));
            }
            other => return Err(InvalidAddress::Scheme(other.to_owned())),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(InvalidAddress::Credentials);
        }
        url.set_fragment(None);
        Ok(Self(url))
    }
}

/// An address without the secrets in it: a password, and parameters such as `token`. For error messages.
pub(crate) fn masked_address(address: &str) -> String {
    Masking::default().text(address).into_owned()
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_http_and_https_are_addresses() {
        let parse = |text: &str| text.parse::<Address>();
        assert_eq!(
            parse("http://localhost:7411/mcp#x").unwrap().to_string(),
            "http://localhost:7411/mcp"
        );
        assert_eq!(
            parse("https://example.com/mcp").unwrap().to_string(),
            "https://example.com/mcp"
        );
        assert_eq!(
            parse("ftp://example.com/"),
            Err(InvalidAddress::Scheme("ftp".to_owned()))
        );
        assert_eq!(parse("http://me:secret@example.com/"), Err(InvalidAddress::Credentials));
        assert!(matches!(
            parse("localhost:7411/mcp"),
            Err(InvalidAddress::NotAUrl { .. })
        ));
        assert!(matches!(parse("/mcp"), Err(InvalidAddress::NotAUrl { .. })));
    }
}
