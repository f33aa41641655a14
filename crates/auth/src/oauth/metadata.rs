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
    /// The document of the server with this public address. It does not say which scopes are those of which issuer, and an issuer may refuse a login that asks for one
    /// that it does not know. So scopes are named only if all issuers have the same; else a client asks for none at first, and is told of those of its issuer by the refusal of
    /// a request.
    pub fn new(resource: impl Into<String>, issuers: &[Issuer]) -> Self {
        let scopes_of_all = match issuers {
            [first, others @ ..] if others.iter().all(|other| first.has_scopes_of(other)) => first.scopes.supported(),
            _ => Vec::new(),
        };
        let scopes_supported = scopes_of_all.into_iter().map(str::to_owned).collect();
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

    /// A client asks whichever issuer it logs in at for all that is named. A strict one refuses what it does not know; with a part of its scopes it gives a token that is good
    /// for little, and no request says so.
    #[test]
    fn s_23_scopes_are_named_if_all_issuers_have_the_same() {
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
            (vec![table(&["build", "read"]), table(&["admin", "read"])], None),
            (vec![table(&["read"]), table(&["build", "read"])], None),
            (vec![table(&["build"]), Scopes::AsNamed], None),
            (
                vec![Scopes::AsNamed, Scopes::AsNamed],
                Some("tools:* tasks:write resources:read"),
            ),
            (vec![Scopes::AsNamed, Scopes::Everything], None),
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
