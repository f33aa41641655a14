//! One of several authorization servers.

use reqwest::Url;
use serde_json::{Value, json};

/// The metadata of a server does not name the authorization server that was chosen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the server does not trust {issuer}; it names {}", named.join(", "))]
pub(super) struct NotNamed {
    issuer: String,
    named: Vec<String>,
}

/// The metadata of a protected server, with this authorization server alone, and without its permissions if they are hidden; what is something else stays as it is. rmcp would take the first one that answers.
pub(super) fn only_issuer(issuer: &str, body: Vec<u8>, hides_scopes: bool) -> Result<Vec<u8>, NotNamed> {
    let Ok(Value::Object(mut metadata)) = serde_json::from_slice(&body) else {
        return Ok(body);
    };
    let Some(Value::Array(servers)) = metadata.get("authorization_servers") else {
        return Ok(body);
    };
    let named: Vec<&str> = servers.iter().filter_map(Value::as_str).collect();
    match named.iter().find(|named| is_same(named, issuer)) {
        Some(chosen) => {
            let chosen = json!([chosen]);
            metadata.insert("authorization_servers".to_owned(), chosen);
            // Of a draft, which rmcp would ask first.
            metadata.remove("authorization_server");
            if hides_scopes {
                metadata.remove("scopes_supported");
            }
            Ok(Value::Object(metadata).to_string().into_bytes())
        }
        None => Err(NotNamed {
            issuer: issuer.to_owned(),
            named: named.into_iter().map(str::to_owned).collect(),
        }),
    }
}

/// Whether two issuers are one: only the slash after a host makes no difference.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    let bare = |issuer: &str| {
        let url = Url::parse(issuer)
            .ok()
            .filter(|url| url.path() == "/" && url.query().is_none());
        url.map_or_else(|| issuer.to_owned(), |url| url.to_string())
    };
    bare(one) == bare(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s_30_only_an_issuer_that_is_named_is_chosen() {
        let named = br#"{"resource":"x","authorization_server":"https://a.example","authorization_servers":["https://a.example","https://b.example/"]}"#;
        let chosen = only_issuer("https://b.example", named.to_vec(), false).unwrap();
        let chosen: Value = serde_json::from_slice(&chosen).unwrap();
        assert_eq!(
            chosen,
            json!({"resource": "x", "authorization_servers": ["https://b.example/"]})
        );
        for other in [
            "https://c.example",
            "https://b.example/realm",
            "http://b.example",
            "b.example",
        ] {
            let refused = only_issuer(other, named.to_vec(), false).unwrap_err().to_string();
            let all = format!("the server does not trust {other}; it names https://a.example, https://b.example/");
            assert_eq!(refused, all);
        }
        for unchanged in [&br#"{"issuer":"https://c.example"}"#[..], b"[]", b"no JSON"] {
            assert_eq!(
                only_issuer("https://b.example", unchanged.to_vec(), true).unwrap(),
                unchanged
            );
        }
    }
}
