//! Finding the authorization server of a server.

use super::{
    LoginOptions,
    asked_scopes::AskedScopes,
    auth_error::refused,
    chosen_issuer::{NotNamed, is_same},
    credential_store::ServerCredentials,
    filtered_client::{self, FilteredClient, NotFollowed, is_confidential},
    foreign_metadata,
    http_client::LoginHttpClient,
};
use crate::TokenError;
use reqwest::Url;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, AuthorizationMetadataSource, WWWAuthenticateParams,
};
use std::{error::Error, sync::Arc};

/// rmcp's client for one authorization server, and what that says of itself.
pub(super) struct Manager(pub(super) AuthorizationManager, pub(super) AuthorizationMetadata);

/// Why there is none.
pub(super) enum NotFound {
    /// The server does not name the authorization server that was chosen.
    NotNamed(String),
    Other(TokenError),
}

impl From<NotFound> for TokenError {
    fn from(not_found: NotFound) -> Self {
        match not_found {
            NotFound::NotNamed(reason) => Self::Failed { reason },
            NotFound::Other(error) => error,
        }
    }
}

impl From<TokenError> for NotFound {
    fn from(error: TokenError) -> Self {
        Self::Other(error)
    }
}

impl From<AuthError> for NotFound {
    fn from(error: AuthError) -> Self {
        let mut cause: Option<&(dyn Error + 'static)> = Some(&error);
        while let Some(inner) = cause {
            if inner.is::<NotNamed>() {
                return Self::NotNamed(inner.to_string());
            }
            cause = inner.source();
        }
        Self::Other(refused(error))
    }
}

/// Finds the authorization server: the chosen one, or the first of those that the server names that answers. rmcp is shown the permissions that the server names, unless
/// `scopes` omits them.
pub(super) async fn discover(
    server: &Url,
    options: &LoginOptions,
    store: &ServerCredentials,
    challenge: Option<&str>,
    issuer: Option<&str>,
    scopes: &AskedScopes,
) -> Result<Manager, NotFound> {
    check_announced(challenge, server)?;
    let client = LoginHttpClient::new(server, options, issuer)?;
    let bare;
    let (client, challenge) = match scopes.omits_named() {
        false => (client, challenge),
        true => {
            bare = challenge.and_then(|challenge| without_scope(challenge, server));
            (client.hiding_scopes(), bare.as_deref())
        }
    };
    let client = Arc::new(client);
    let manager =
        AuthorizationManager::new_with_oauth_http_client(server.clone(), Arc::<LoginHttpClient>::clone(&client));
    let mut manager = manager.await?;
    let found = match manager.resolve_metadata_from_challenge(challenge).await {
        Err(AuthError::AuthorizationServersUnavailable {
            authorization_servers, ..
        }) if issuer.is_none() && has_private(&authorization_servers, client.client())? => {
            // rmcp follows addresses that are written as such only with a manager of another kind.
            manager = AuthorizationManager::new_allowing_private_addresses(server.clone()).await?;
            manager.with_client(client.client().client(server).clone())?;
            manager.resolve_metadata_from_challenge(challenge).await
        }
        Err(AuthError::AuthorizationServersUnavailable { .. }) if let Some(reason) = client.why_silent() => {
            return Err(NotFound::Other(TokenError::Unavailable { reason }));
        }
        // rmcp passes over those whose addresses it does not follow, and does not say so.
        Err(AuthError::AuthorizationServersUnavailable {
            authorization_servers, ..
        }) if let Some(refused) = find_not_followed(&authorization_servers, client.client()) => {
            return Err(NotFound::Other(TokenError::Failed {
                reason: refused.to_string(),
            }));
        }
        found => found,
    };
    let found = found?;
    manager.set_credential_store(store.clone());
    if found.source != AuthorizationMetadataSource::ProtectedResourceMetadata {
        foreign_metadata::refuse(server, client.client()).await?;
    }
    if !found.source.is_discovered() {
        return Err(TokenError::NoIssuer.into());
    }
    check_metadata(&found.metadata, client.client())?;
    let found_issuer = found.metadata.issuer.as_deref();
    if let Some(other) = issuer.filter(|issuer| !found_issuer.is_some_and(|found| is_same(found, issuer))) {
        // It names none, so it is protected by what is at its own origin.
        let found = found_issuer.unwrap_or("one without a name");
        return Err(NotFound::NotNamed(format!(
            "the server does not trust {other}; its authorization server is {found}"
        )));
    }
    manager.set_metadata(found.metadata.clone());
    Ok(Manager(manager, found.metadata))
}

/// What is left of a challenge without its permissions: where the metadata of the server are.
fn without_scope(challenge: &str, server: &Url) -> Option<String> {
    let place = WWWAuthenticateParams::parse(challenge, server).resource_metadata_url?;
    Some(format!(r#"Bearer resource_metadata="{place}""#))
}

/// Whether an authorization server is at an address of a private network that is written in its URL. Such a one cannot be chosen.
pub(super) fn is_written_as_private(issuer: &str) -> bool {
    Url::parse(issuer).is_ok_and(|url| filtered_client::is_private(&url))
}

/// Whether one of these authorization servers is at an address of a private network that may be followed.
///
/// # Errors
/// One of them is reached over plain HTTP.
fn has_private(named: &[String], client: &FilteredClient) -> Result<bool, NotFound> {
    let urls: Vec<Url> = named.iter().filter_map(|named| Url::parse(named).ok()).collect();
    if !urls.iter().any(|url| client.follows_private(url)) {
        return Ok(false);
    }
    for url in &urls {
        client.check(url).map_err(|error| TokenError::Failed {
            reason: error.to_string(),
        })?;
    }
    Ok(true)
}

/// Why one of these authorization servers was not asked, if so.
fn find_not_followed(named: &[String], client: &FilteredClient) -> Option<NotFollowed> {
    let mut urls = named.iter().filter_map(|named| Url::parse(named).ok());
    urls.find_map(|url| client.check(&url).err())
}

/// Checks where a challenge says that the metadata of the server is. The server itself may be one that the user reaches over plain HTTP; from any other place others on
/// the way could name an authorization server of theirs.
fn check_announced(challenge: Option<&str>, server: &Url) -> Result<(), TokenError> {
    let announced =
        challenge.and_then(|challenge| WWWAuthenticateParams::parse(challenge, server).resource_metadata_url);
    match announced.filter(|url| url.origin() != server.origin() && !is_confidential(url)) {
        Some(url) => Err(TokenError::Failed {
            reason: format!(
                "its metadata is at {url}, which must be an https address: others on the network could change what is read there"
            ),
        }),
        None => Ok(()),
    }
}

/// Secrets, codes and tokens go to these addresses, so nobody on the way may read them; nor change where they are, which is read from the issuer's address.
fn check_metadata(metadata: &AuthorizationMetadata, client: &FilteredClient) -> Result<(), TokenError> {
    let named = [
        metadata.issuer.as_ref(),
        Some(&metadata.authorization_endpoint),
        Some(&metadata.token_endpoint),
        metadata.registration_endpoint.as_ref(),
    ];
    // A server without users may leave its login page out.
    for endpoint in named.into_iter().flatten().filter(|endpoint| !endpoint.is_empty()) {
        let failed = |reason: String| TokenError::Failed { reason };
        let url = Url::parse(endpoint)
            .map_err(|error| failed(format!("its authorization server is at {endpoint}: {error}")))?;
        if !is_confidential(&url) {
            return Err(failed(NotFollowed::Open(url).to_string()));
        }
        client.check(&url).map_err(|error| failed(error.to_string()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(issuer: &str, endpoint: &str) -> AuthorizationMetadata {
        let metadata = serde_json::json!({
            "issuer": issuer,
            "authorization_endpoint": "https://login.example/authorize",
            "token_endpoint": endpoint,
        });
        serde_json::from_value(metadata).unwrap()
    }

    #[test]
    fn s_33_nothing_of_an_authorization_server_is_read_or_sent_over_plain_http() {
        let (open, closed) = ("http://login.example/token", "https://login.example/token");
        for (issuer, endpoint, is_fine) in [
            ("https://login.example", closed, true),
            ("http://127.0.0.1:9", closed, true),
            ("http://[::1]:9", "http://localhost:9/token", true),
            ("http://login.example", closed, false),
            ("https://login.example", open, false),
            ("login.example", closed, false),
        ] {
            let server = Url::parse(if issuer.contains("//login") {
                "https://mcp.example/mcp"
            } else {
                "http://127.0.0.1:1/mcp"
            })
            .unwrap();
            crate::install_tls_provider();
            let client = FilteredClient::new(&server, &LoginOptions::default(), None).unwrap();
            let checked = check_metadata(&metadata(issuer, endpoint), &client);
            assert_eq!(checked.is_ok(), is_fine, "{issuer} {endpoint}: {checked:?}");
        }
    }

    #[test]
    fn s_30_metadata_is_read_over_plain_http_from_the_server_itself_only() {
        let check = |server: &str, at: &str| {
            let challenge = format!(r#"Bearer resource_metadata="{at}""#);
            check_announced(Some(&challenge), &Url::parse(server).unwrap())
        };
        let place = "http://elsewhere.example/.well-known/oauth-protected-resource";
        let refused = check("http://mcp.example/mcp", place).unwrap_err().to_string();
        assert!(refused.contains(place), "{refused}");
        for (server, at) in [
            (
                "http://mcp.example/mcp",
                "http://mcp.example/.well-known/oauth-protected-resource",
            ),
            (
                "http://mcp.example/mcp",
                "https://elsewhere.example/.well-known/oauth-protected-resource",
            ),
            (
                "http://127.0.0.1:1/mcp",
                "http://127.0.0.1:2/.well-known/oauth-protected-resource",
            ),
        ] {
            assert!(check(server, at).is_ok(), "{server} {at}");
        }
    }

    #[test]
    fn s_35_an_authorization_server_that_is_not_asked_is_named() {
        crate::install_tls_provider();
        let server = Url::parse("https://mcp.example/mcp").unwrap();
        let client = FilteredClient::new(&server, &LoginOptions::default(), None).unwrap();
        let named = |issuers: &[&str]| {
            let issuers: Vec<String> = issuers.iter().map(|&issuer| issuer.to_owned()).collect();
            find_not_followed(&issuers, &client).map(|refused| refused.to_string())
        };
        assert_eq!(named(&["https://login.example", "https://10.0.0.1"]), None);
        for refused in ["https://127.0.0.1:8443/realm", "https://169.254.1.1/"] {
            let said = named(&["https://login.example", refused]).unwrap();
            assert!(
                said.contains(refused) && said.contains("only if the server itself"),
                "{said}"
            );
        }
    }
}
