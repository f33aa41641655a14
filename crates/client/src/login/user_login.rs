//! Logging in by asking the user.

use super::{
    ClientIdentity, Consent,
    asked_scopes::{AskedScopes, with_prompt},
    auth_error::{INVALID_CLIENT, INVALID_SCOPE, UNAUTHORIZED_CLIENT, refused},
    discovery::Manager,
    filtered_client::FilteredClient,
    flow::{Flow, scopes_of, unusable},
    forgotten_client::is_forgotten,
    loopback::query_value,
    registered_client::{RegisteredByHand, RegisteredClient},
};
use crate::{TokenError, transport::challenge};
use reqwest::Url;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, AuthorizationRequest, AuthorizationSession,
    OAuthClientConfig,
};

/// What authorization servers show to users.
const CLIENT_NAME: &str = "Longhaul";

/// How an authorization server has taken this client.
enum LoginResult {
    /// With a token for these permissions, or fewer.
    LoggedIn(Vec<String>),
    /// It has forgotten a registration that this client had there.
    Forgotten,
}

impl Flow {
    /// Returns the permissions that were asked for.
    pub(super) async fn log_in_as_user(
        &self,
        challenge: Option<&str>,
        scopes: &AskedScopes,
        issuer: Option<&str>,
    ) -> Result<Vec<String>, TokenError> {
        let Some(consent) = &self.options.consent else {
            let wanted = scopes_of(challenge);
            let said = challenge::reason(challenge).map(|said| format!(" ({said})"));
            let said = said.unwrap_or_default();
            let reason = match self.stored()? {
                Some(key) if key.client_id.is_none() => format!("it does not accept the key that is kept for it{said}"),
                Some(_) if wanted.is_empty() => format!("the token that is kept for it is not accepted{said}"),
                _ if !wanted.is_empty() => format!("it wants a token that permits {}{said}", wanted.join(" ")),
                _ => "there is no token for it, and no key".to_owned(),
            };
            return Err(TokenError::LoginRequired {
                reason,
                names_issuers: challenge::names_issuers(challenge),
            });
        };
        match self.ask_user(&**consent, challenge, scopes, issuer).await? {
            LoginResult::LoggedIn(asked) => Ok(asked),
            // Another registration, once.
            LoginResult::Forgotten => match self.ask_user(&**consent, challenge, scopes, issuer).await? {
                LoginResult::LoggedIn(asked) => Ok(asked),
                LoginResult::Forgotten => Err(TokenError::InvalidClient {
                    reason: "its authorization server forgets each registration of this client".to_owned(),
                }),
            },
        }
    }

    async fn ask_user(
        &self,
        consent: &dyn Consent,
        challenge: Option<&str>,
        scopes: &AskedScopes,
        issuer: Option<&str>,
    ) -> Result<LoginResult, TokenError> {
        let Manager(manager, metadata) = self.discover(challenge, issuer, scopes).await?;
        if metadata.code_challenge_methods_supported.is_none() {
            return Err(refused(AuthError::PkceUnsupported));
        }
        let issuer = metadata.issuer.clone().unwrap_or_default();
        let known = self.store.file.get(&self.store.server).map_err(unusable)?;
        let known = known.clients.get(&issuer).cloned();
        let preferred = known.as_ref().map(|client| client.redirect_uri.as_str());
        let redirect_uri = consent.redirect_uri(preferred).await?;
        // A client that asks for more has a token that was issued to it just now.
        let scopes_are_new = scopes.are_of_new();
        let scopes = scopes.at(&manager, &metadata).await;
        let (manager, client) = self
            .client(manager, &metadata, known.clone(), redirect_uri, &scopes)
            .await?;
        let is_kept = client.registered_for.is_some() && known.as_ref() == Some(&client);
        if is_kept && scopes_are_new {
            let http = FilteredClient::new(self.server(), &self.options, self.options.issuer.as_deref())?;
            if is_forgotten(&client, self.server(), &metadata, &http).await {
                self.forget_client(&issuer, &client.client_id)?;
                return Ok(LoginResult::Forgotten);
            }
        }
        let mut request = AuthorizationRequest::new(&client.redirect_uri)
            .with_preregistered_client(&client.client_id)
            .with_scopes(scopes.clone())
            .with_initial_scope_selection();
        request.client_secret.clone_from(&client.client_secret);
        let client_id = client.client_id.clone();
        // Before the login, so that a crash in the middle of it does not register this client again.
        let recorded = self
            .store
            .file
            .update(&self.store.server, |kept| kept.clients.insert(issuer.clone(), client));
        recorded.map_err(unusable)?;
        let session = AuthorizationSession::new(manager, request).await;
        let session = session.map_err(|(_, error)| refused(error))?;
        let url = Url::parse(session.get_authorization_url()).map_err(|error| TokenError::Failed {
            reason: format!("the address of its login is no URL: {error}"),
        })?;
        let url = with_prompt(url);
        let answer = consent.authorize(&url).await?;
        let logged_in = match check_answer(&url, &answer, &metadata) {
            Ok(()) => session
                .handle_callback_url(answer.as_str())
                .await
                .map(drop)
                .map_err(refused),
            Err(error) => Err(error),
        };
        match logged_in {
            Err(TokenError::InvalidClient { .. }) if is_kept => {
                self.forget_client(&issuer, &client_id)?;
                Ok(LoginResult::Forgotten)
            }
            logged_in => logged_in.map(|()| LoginResult::LoggedIn(scopes)),
        }
    }

    /// How this client is known to the authorization server: registered by hand, by its metadata document, by an earlier registration, or now.
    async fn client(
        &self,
        mut manager: AuthorizationManager,
        metadata: &AuthorizationMetadata,
        known: Option<RegisteredClient>,
        redirect_uri: String,
        scopes: &[String],
    ) -> Result<(AuthorizationManager, RegisteredClient), TokenError> {
        let ClientIdentity {
            registered,
            metadata_url,
        } = &self.options.identity;
        let client = |client_id: String, client_secret, registered_for| RegisteredClient {
            client_id,
            client_secret,
            redirect_uri: redirect_uri.clone(),
            registered_for,
        };
        if let Some(RegisteredByHand {
            client_id,
            client_secret,
        }) = registered.clone()
        {
            return Ok((manager, client(client_id, client_secret, None)));
        }
        let reads_documents = metadata.additional_fields.get("client_id_metadata_document_supported");
        if let Some(url) = metadata_url {
            ClientIdentity::check_metadata_url(url).map_err(|error| TokenError::Failed {
                reason: error.to_string(),
            })?;
        }
        if let (Some(url), Some(true)) = (metadata_url, reads_documents.and_then(serde_json::Value::as_bool)) {
            return Ok((manager, client(url.clone(), None, None)));
        }
        let known = known.filter(|known| known.redirect_uri == redirect_uri);
        if let Some(known) = known.clone().filter(|known| known.may_ask_for(scopes)) {
            return Ok((manager, known));
        }
        if metadata.registration_endpoint.is_none() {
            return Err(TokenError::NoRegistration);
        }
        // A registration cannot be changed by all servers, so the new one is for what the old one was for, too.
        let mut registered_for = known.and_then(|known| known.registered_for).unwrap_or_default();
        let more = scopes.iter().filter(|scope| !registered_for.contains(scope));
        let more: Vec<String> = more.cloned().collect();
        registered_for.extend(more);
        let asked: Vec<&str> = registered_for.iter().map(String::as_str).collect();
        let registered = manager.register_client(CLIENT_NAME, &redirect_uri, &asked).await;
        let OAuthClientConfig {
            client_id,
            client_secret,
            ..
        } = registered.map_err(refused)?;
        Ok((manager, client(client_id, client_secret, Some(registered_for))))
    }
}

/// Checks that the browser brings the answer to this login, and not an error. Who answers is checked first: the error of another server means nothing.
fn check_answer(asked: &Url, answer: &Url, metadata: &AuthorizationMetadata) -> Result<(), TokenError> {
    let failed = |reason: String| Err(TokenError::Failed { reason });
    // Which of two is meant, nobody can tell (RFC 6749, section 3.1).
    for name in ["state", "iss", "code", "error"] {
        if answer.query_pairs().filter(|(key, _)| key == name).count() > 1 {
            return failed(format!(
                "the browser brought an answer that has `{name}` more than once"
            ));
        }
    }
    if query_value(answer, "state") != query_value(asked, "state") {
        return failed("the browser brought the answer of another login".to_owned());
    }
    let issuer = metadata.issuer.as_deref();
    let announced = metadata
        .additional_fields
        .get("authorization_response_iss_parameter_supported");
    match query_value(answer, "iss") {
        Some(answering) if Some(answering.as_str()) != issuer => {
            return failed(format!(
                "another authorization server has answered: {answering} instead of {}",
                issuer.unwrap_or("one without a name")
            ));
        }
        None if announced.and_then(serde_json::Value::as_bool) == Some(true) => {
            return failed(
                "the answer does not say which authorization server it is from, as that server's answers do".to_owned(),
            );
        }
        _ => {}
    }
    let Some(error) = query_value(answer, "error") else {
        return Ok(());
    };
    let text = query_value(answer, "error_description").map(|text| format!(": {text}"));
    // Some issue no token without a scope, and a server of several authorization servers may name none.
    let hint = match query_value(asked, "scope") {
        None => "; the server names no permission to ask for, so name some with `--scope`",
        Some(_) => "",
    };
    let reason = format!(
        "the authorization server says {error}{}{hint}",
        text.unwrap_or_default()
    );
    match error.as_str() {
        INVALID_SCOPE => Err(TokenError::InvalidScope { reason }),
        INVALID_CLIENT | UNAUTHORIZED_CLIENT => Err(TokenError::InvalidClient { reason }),
        _ => failed(reason),
    }
}
