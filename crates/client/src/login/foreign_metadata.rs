//! Metadata of another server at the place where those of this one should be.

use super::filtered_client::{FilteredClient, NotAnswered};
use crate::TokenError;
use reqwest::{Method, Request, StatusCode, Url};
use serde_json::Value;

/// Where a server says which authorization servers it trusts (RFC 9728).
const PLACE: &str = "/.well-known/oauth-protected-resource";

/// Metadata of `resource` at a place of `server`.
pub(super) fn describe(place: &Url, resource: &str, server: &Url) -> String {
    format!(
        "the metadata at {place} are those of {resource} and not of {server}: use that address, or tell the server's operator if it should be this one"
    )
}

/// Refuses a login that was found at the origin of the server, if the server's own metadata name authorization servers: rmcp has left them out because they are not
/// those of this server (RFC 9728, section 3.3).
pub(super) async fn refuse(server: &Url, client: &FilteredClient) -> Result<(), TokenError> {
    let unavailable = |reason: String| TokenError::Unavailable { reason };
    for path in [
        format!("{PLACE}{}", server.path().trim_end_matches('/')),
        PLACE.to_owned(),
    ] {
        let mut place = server.clone();
        place.set_query(None);
        place.set_path(&path);
        let response = client.execute(Request::new(Method::GET, place.clone())).await;
        let response = response.map_err(|error: NotAnswered| unavailable(error.to_string()))?;
        if response.status() != StatusCode::OK {
            continue;
        }
        let body = response.bytes().await.map_err(|error| unavailable(error.to_string()))?;
        let metadata: Value = serde_json::from_slice(&body).unwrap_or_default();
        if metadata["authorization_servers"]
            .as_array()
            .is_some_and(|named| !named.is_empty())
        {
            let resource = metadata["resource"].as_str().unwrap_or("no server");
            return Err(TokenError::Failed {
                reason: describe(&place, resource, server),
            });
        }
    }
    Ok(())
}
