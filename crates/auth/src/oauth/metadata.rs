//! The metadata document of this server as a protected resource (RFC 9728).

use super::issuer::Issuer;
use serde::Serialize;

/// What a client reads to find out where it gets a token for this server.
///
/// ```
/// use longhaul_auth::oauth::{Issuer, ProtectedResource};
///
/// let issuers = [Issuer::new("https://login.example.com")?.jwks("https://login.example.com/keys")?];
/// let document = ProtectedResource::new("https://mcp.example/mcp", &issuers);
/// assert_eq!(
///     document.to_json(),
///     r#"{"resource":"https://mcp.example/mcp","authorization_servers":["https://login.example.com"],"scopes_supported":["tools:*","tasks:write","resources:read"],"bearer_methods_supported":["header"]}"#,
/// );
/// # Ok::<(), longhaul_auth::oauth::IssuerError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProtectedResource {
    resource: String,
    authorization_servers: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    scopes_supported: Vec<String>,
    bearer_methods_supported: [&'static str; 1],
}

impl ProtectedResource {
    /// The document of the server with this public address.
    pub fn new(resource: impl Into<String>, issuers: &[Issuer]) -> Self {
        let mut scopes_supported: Vec<String> = Vec::new();
        for scope in issuers.iter().flat_map(|issuer| issuer.scopes.supported()) {
            if !scopes_supported.iter().any(|known| known == scope) {
                scopes_supported.push(scope.to_owned());
            }
        }
        Self {
            resource: resource.into(),
            authorization_servers: issuers.iter().map(|issuer| issuer.name.clone()).collect(),
            scopes_supported,
            bearer_methods_supported: ["header"],
        }
    }

    /// The scopes of the document as one text, for challenges.
    pub(super) fn scope(&self) -> Option<String> {
        (!self.scopes_supported.is_empty()).then(|| self.scopes_supported.join(" "))
    }

    /// The document as it is served.
    pub fn to_json(&self) -> String {
        // A struct of texts can always be written.
        serde_json::to_string(self).unwrap_or_default()
    }
}
