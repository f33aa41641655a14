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
    /// that it does not know. So only those are named that all issuers have.
    pub fn new(resource: impl Into<String>, issuers: &[Issuer]) -> Self {
        let mut each = issuers.iter().map(|issuer| issuer.scopes.supported());
        let first = each.next().unwrap_or_default();
        let others: Vec<Vec<&str>> = each.collect();
        let of_all = first
            .into_iter()
            .filter(|scope| others.iter().all(|known| known.contains(scope)));
        let scopes_supported = of_all.map(str::to_owned).collect();
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

    /// A client asks whichever issuer it logs in at for all that is named, and a strict one refuses what it does not know.
    #[test]
    fn s_23_only_scopes_that_every_issuer_has_are_named() {
        let table = |scopes: &[&str]| {
            let given = |scope: &&str| ((*scope).to_owned(), Vec::new());
            Scopes::Mapped(scopes.iter().map(given).collect())
        };
        for (all, named) in [
            (vec![Scopes::AsNamed], Some("tools:* tasks:write resources:read")),
            (vec![table(&["build", "read"])], Some("build read")),
            (vec![table(&["build", "read"]), table(&["admin", "read"])], Some("read")),
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
