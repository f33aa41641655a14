//! Whether an issuer answers, for whoever checks a configuration.

use super::{
    fetch::{FetchError, FetchedResponse, Fetcher, TIME},
    issuer::{Introspection, Issuer, KeySource},
    jwks::{KeySet, NO_KEY},
};
use longhaul_runtime::Ports;
use reqwest::{StatusCode, Url};
use serde_json::Value;

/// A token that nobody has.
const NO_TOKEN: &str = "longhaul-check";

impl Issuer {
    /// Asks the issuer for its keys, for its metadata, and about a token that nobody has, for at most ten seconds. Returns what this server, or its clients, would not get
    /// there now; for people.
    pub async fn find_unreachable(&self, ports: &Ports) -> Vec<String> {
        let places = metadata_places(&self.name);
        let fetcher = match Fetcher::new(self.urls().chain(&places), ports) {
            Ok(fetcher) => fetcher,
            Err(error) => return vec![error.to_string()],
        };
        let (keys, introspection, metadata) = tokio::join!(
            check_keys(self.keys.as_ref(), &fetcher),
            check_introspection(self.introspection.as_ref(), &fetcher),
            ports.within(TIME, check_metadata(&self.name, &places, &fetcher)),
        );
        let late = || Err(format!("it did not answer within {} s", TIME.as_secs()));
        let metadata = metadata.unwrap_or_else(late).map_err(|reason| {
            format!(
                "clients find no metadata of {}, and cannot log in by themselves: {reason}",
                self.name
            )
        });
        let failed = [keys, introspection, metadata].into_iter().filter_map(Result::err);
        failed.collect()
    }
}

async fn check_keys(keys: Option<&KeySource>, fetcher: &Fetcher) -> Result<(), String> {
    let Some(KeySource::Url(url)) = keys else { return Ok(()) };
    let fetched = fetcher.document(url).await.and_then(|text| KeySet::parse(&text));
    let reason = match fetched {
        Ok(keys) if !keys.is_empty() => return Ok(()),
        Ok(_) => NO_KEY.to_owned(),
        Err(reason) => reason,
    };
    Err(format!(
        "tokens are refused while the keys cannot be read from {url}: {reason}"
    ))
}

async fn check_introspection(at: Option<&Introspection>, fetcher: &Fetcher) -> Result<(), String> {
    let Some(at) = at else { return Ok(()) };
    let reason = match fetcher.introspection(at, NO_TOKEN).await {
        Ok(FetchedResponse {
            status: StatusCode::OK,
            body,
        }) => match serde_json::from_slice::<Value>(&body) {
            Ok(answer) if answer["active"].is_boolean() => return Ok(()),
            _ => "its answer does not say whether a token is active".to_owned(),
        },
        Ok(FetchedResponse { status, .. }) => format!("it answered with status {status}"),
        Err(FetchError::Unreachable(reason)) => reason,
        Err(error @ FetchError::Broken(_)) => error.to_string(),
    };
    Err(format!(
        "opaque tokens are refused while {} does not tell about them: {reason}",
        at.url
    ))
}

/// The first document that is there is the one that clients read.
async fn check_metadata(issuer: &str, places: &[Url], fetcher: &Fetcher) -> Result<(), String> {
    let mut reason = String::new();
    for place in places {
        match fetcher.document(place).await {
            Ok(text) => {
                let document: Value = serde_json::from_slice(&text).map_err(|error| format!("{place}: {error}"))?;
                return match document["issuer"].as_str() {
                    Some(named) if named == issuer => Ok(()),
                    Some(named) => Err(format!("{place} is about another issuer, {named}")),
                    None => Err(format!("{place} names no issuer")),
                };
            }
            Err(failed) => reason = format!("{place}: {failed}"),
        }
    }
    Err(reason)
}

/// Where clients look for the metadata of an issuer (MCP, Authorization, "Authorization Server Metadata Discovery").
fn metadata_places(issuer: &str) -> Vec<Url> {
    let Ok(issuer) = Url::parse(issuer) else {
        return Vec::new();
    };
    let path = issuer.path().trim_end_matches('/');
    let mut places = vec![
        format!("/.well-known/oauth-authorization-server{path}"),
        format!("/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        places.push(format!("{path}/.well-known/openid-configuration"));
    }
    places.iter().filter_map(|place| issuer.join(place).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_are_looked_for_where_clients_look() {
        let places = |issuer| metadata_places(issuer).iter().map(Url::to_string).collect::<Vec<_>>();
        assert_eq!(
            places("https://a.example"),
            [
                "https://a.example/.well-known/oauth-authorization-server",
                "https://a.example/.well-known/openid-configuration"
            ]
        );
        assert_eq!(
            places("https://a.example/realms/main/"),
            [
                "https://a.example/.well-known/oauth-authorization-server/realms/main",
                "https://a.example/.well-known/openid-configuration/realms/main",
                "https://a.example/realms/main/.well-known/openid-configuration"
            ]
        );
    }
}
