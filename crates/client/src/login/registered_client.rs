//! How this client is known to an authorization server.

use crate::TokenError;
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
