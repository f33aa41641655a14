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
    /// The document of the server with this public address. It cannot say which scopes are those of which issuer, and an issuer may refuse a login that asks for one
    /// that it does not know. So it names those of the first issuer, where clients log in unless they are told to choose another one.
    pub fn new(resource: impl Into<String>, issuers: &[Issuer]) -> Self {
        let scopes = issuers.first().map(|first| first.scopes.supported());
        let scopes_supported = scopes.into_iter().flatten().map(str::to_owned).collect();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oauth::Scopes;

    /// A client asks the issuer where it logs in for all that is named, and a strict one refuses what it does not know.
    #[test]
    fn s_23_only_scopes_of_the_first_issuer_are_named() {
        let table = |scopes: &[&str]| {
            let given = |scope: &&str| ((*scope).to_owned(), Vec::new());
            Scopes::Mapped(scopes.iter().map(given).collect())
        };
        for (all, named) in [
            (vec![Scopes::AsNamed], Some("tools:* tasks:write resources:read")),
            (vec![table(&["build", "read"])], Some("build read")),
            (
                vec![table(&["build", "read"]), table(&["read", "build"])],
                Some("build read"),
            ),
            (
                vec![table(&["build", "read"]), table(&["admin", "read"])],
                Some("build read"),
            ),
            (vec![table(&["read"]), table(&["build", "read"])], Some("read")),
            (vec![table(&["build"]), Scopes::AsNamed], Some("build")),
            (
                vec![Scopes::AsNamed, Scopes::AsNamed],
                Some("tools:* tasks:write resources:read"),
            ),
            (
                vec![Scopes::AsNamed, Scopes::Everything],
                Some("tools:* tasks:write resources:read"),
            ),
            (vec![Scopes::Everything, Scopes::AsNamed], None),
            (vec![], None),
        ] {
            let issuers = all.iter().enumerate().map(|(nth, scopes)| {
                let issuer = Issuer::new(&format!("https://{nth}.example")).expect("an issuer");
                issuer.scopes(scopes.clone())
            });
            let document = ProtectedResource::new("https://mcp.example/mcp", &issuers.collect::<Vec<_>>());
            assert_eq!(document.scope().as_deref(), named, "{all:?}");
            assert_eq!(document.to_json().contains("scopes_supported"), named.is_some());
        }
    }
}
