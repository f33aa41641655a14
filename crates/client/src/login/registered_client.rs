//! How this client is known to an authorization server.

use crate::TokenError;
use reqwest::Url;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How a [`Login`](super::Login) becomes known to authorization servers. The first that applies is used (MCP authorization, client registration).
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ClientIdentity {
    /// A client that was registered by hand.
    pub registered: Option<RegisteredByHand>,
    /// The URL of this client's metadata document, for servers that read such documents.
    pub metadata_url: Option<String>,
}

/// A URL at which no metadata document of a client can be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{url} cannot be the URL of a client's metadata document: {reason}")]
pub struct InvalidMetadataUrl {
    url: String,
    reason: &'static str,
}

impl ClientIdentity {
    /// Checks the URL of a client's metadata document, which is the client's id at authorization servers (OAuth Client ID Metadata Document, section 3).
    ///
    /// ```
    /// use longhaul_client::ClientIdentity;
    /// assert!(ClientIdentity::check_metadata_url("https://app.example.com/client.json").is_ok());
    /// assert!(ClientIdentity::check_metadata_url("https://app.example.com").is_err());
    /// ```
    ///
    /// # Errors
    /// [`InvalidMetadataUrl`].
    pub fn check_metadata_url(url: &str) -> Result<(), InvalidMetadataUrl> {
        let wrong = |reason| {
            Err(InvalidMetadataUrl {
                url: url.to_owned(),
                reason,
            })
        };
        let Ok(parsed) = Url::parse(url) else {
            return wrong("it is no URL");
        };
        // Parsing removes the segments `.` and `..`.
        let path = url.split_once("://").map_or("", |(_, rest)| rest);
        let path = path.split(['?', '#']).next().unwrap_or_default();
        if parsed.scheme() != "https" {
            return wrong("it must begin with https://");
        }
        if parsed.path() == "/" {
            return wrong("it must have a path");
        }
        if parsed.fragment().is_some() {
            return wrong("it must have no fragment");
        }
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return wrong("it must have no user and no password");
        }
        if path.split('/').skip(1).any(|segment| matches!(segment, "." | "..")) {
            return wrong("its path must have no segment `.` or `..`");
        }
        Ok(())
    }
}

/// A client that the operator of the authorization server has registered.
#[derive(Clone)]
pub struct RegisteredByHand {
    /// Its id.
    pub client_id: String,
    /// Its secret, if it has one.
    pub client_secret: Option<String>,
}

impl fmt::Debug for RegisteredByHand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RegisteredByHand({})", self.client_id)
    }
}

/// A client that this program has registered, or was given, with the address its logins return to.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RegisteredClient {
    pub(super) client_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) client_secret: Option<String>,
    pub(super) redirect_uri: String,
    /// The permissions that it has registered itself for; `None` if it was given, or has a metadata document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) registered_for: Option<Vec<String>>,
}

impl RegisteredClient {
    /// Whether it may ask for these permissions: some authorization servers hold a client to those that it has registered for (RFC 7591, section 2).
    pub(super) fn may_ask_for(&self, scopes: &[String]) -> bool {
        let registered = self.registered_for.as_ref();
        registered.is_none_or(|registered| scopes.iter().all(|scope| registered.contains(scope)))
    }
}

/// A login of the client itself: what is needed to do it again when its token has ended.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OwnLogin {
    pub(super) client_id: String,
    pub(super) client_secret: String,
    /// The only one that gets the secret; `None` before the first login.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) issuer: Option<String>,
}

impl OwnLogin {
    pub(super) fn of(identity: &ClientIdentity) -> Result<Self, TokenError> {
        match identity.registered.clone() {
            Some(RegisteredByHand {
                client_id,
                client_secret: Some(client_secret),
            }) => Ok(Self {
                client_id,
                client_secret,
                issuer: None,
            }),
            _ => Err(TokenError::Failed {
                reason: "a login without a user needs a client id and a secret".to_owned(),
            }),
        }
    }
}

impl fmt::Debug for OwnLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnLogin({})", self.client_id)
    }
}

impl fmt::Debug for RegisteredClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RegisteredClient({})", self.client_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s_33_a_metadata_document_is_at_an_https_url_with_a_path() {
        for fine in [
            "https://a.example/client",
            "https://a.example:8443/x/client.json",
            "https://a.example/client?v=2",
        ] {
            assert_eq!(ClientIdentity::check_metadata_url(fine), Ok(()), "{fine}");
        }
        for wrong in [
            "",
            "client.json",
            "http://a.example/client",
            "http://127.0.0.1/client",
            "https://a.example",
            "https://a.example/",
            "https://a.example/client#x",
            "https://me@a.example/client",
            "https://:p@a.example/client",
            "https://a.example/x/../client",
            "https://a.example/./client",
        ] {
            assert!(ClientIdentity::check_metadata_url(wrong).is_err(), "{wrong}");
        }
    }
}
