//! The exchanges with authorization servers, by rmcp's authorization client.

use super::{
    ClientIdentity, LoggedIn, LoginOptions,
    asked_scopes::{AskedScopes, OFFLINE_ACCESS, with_prompt},
    auth_error::{INVALID_SCOPE, refused},
    credential_store::ServerCredentials,
    discovery::{Manager, NotFound, discover, is_written_as_private},
    loopback::query_value,
    registered_client::{OwnLogin, RegisteredByHand, RegisteredClient},
    token_file::{Kept, TokenFile, TokenFileError},
};
use crate::{AccessToken, Address, TokenError, challenge, other_login};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use oauth2::TokenResponse;
use reqwest::Url;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, AuthorizationRequest, AuthorizationSession,
    ClientCredentialsConfig, OAuthClientConfig, WWWAuthenticateParams,
};
use sha2::{Digest, Sha256};
use std::time::{Duration, SystemTime};

/// A token that ends within this time is refreshed before it is used.
const REFRESH_BEFORE: Duration = Duration::from_secs(30);
/// What authorization servers show to users.
const CLIENT_NAME: &str = "Longhaul";

pub(super) struct Flow {
    server: Url,
    store: ServerCredentials,
    options: LoginOptions,
}

/// The tokens of a login.
#[derive(Clone)]
pub(super) struct Tokens {
    pub(super) access: AccessToken,
    pub(super) scopes: Vec<String>,
    /// There is a refresh token.
    pub(super) refreshes: bool,
    /// The login is of the client itself, which can repeat it.
    is_own: bool,
    /// Issued a moment ago.
    pub(super) is_new: bool,
    expires_at: Option<SystemTime>,
    /// How long it lived when it was issued.
    life: Option<Duration>,
    issuer: Option<String>,
    /// `None` for a key.
    client_id: Option<String>,
    subject: Option<String>,
    /// Who calls are recorded as.
    pub(super) login: Option<String>,
}

impl Tokens {
    /// The tokens that are kept; `None` if there are none, or if the token cannot be sent.
    fn read(kept: &Kept) -> Option<Self> {
        let stored = kept.credentials.as_ref()?;
        let response = stored.token_response.as_ref()?;
        let received_at = stored
            .token_received_at
            .map(|at| SystemTime::UNIX_EPOCH + Duration::from_secs(at));
        let subject = subject(response.access_token().secret());
        let issuer = stored.issuer.as_deref().unwrap_or("an issuer without a name");
        let login = match (&subject, &kept.own_login) {
            (Some(subject), _) => Some(other_login::of_user(subject, issuer)),
            (None, Some(own)) => Some(other_login::of_user(&own.client_id, issuer)),
            (None, None) => kept.login_id.as_ref().map(|id| format!("login {id} at {issuer}")),
        };
        Some(Self {
            access: AccessToken::new(response.access_token().secret()).ok()?,
            scopes: stored.granted_scopes.clone(),
            refreshes: response.refresh_token().is_some(),
            is_own: kept.own_login.is_some(),
            is_new: received_at
                .is_some_and(|at| now().duration_since(at).unwrap_or_default() < Duration::from_secs(30)),
            expires_at: received_at.zip(response.expires_in()).map(|(at, life)| at + life),
            life: response.expires_in(),
            issuer: stored.issuer.clone(),
            client_id: Some(stored.client_id.clone()),
            subject,
            login,
        })
    }

    /// A key, which nothing is known of.
    fn of_key(text: &str) -> Option<Self> {
        let digest = Sha256::digest(text);
        let digest: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        Some(Self {
            access: AccessToken::new(text).ok()?,
            login: Some(format!("key {digest}")),
            scopes: Vec::new(),
            refreshes: false,
            is_own: false,
            is_new: false,
            expires_at: None,
            life: None,
            issuer: None,
            client_id: None,
            subject: None,
        })
    }

    /// Whether it ends so soon that it should be refreshed first.
    pub(super) fn ends_soon(&self) -> bool {
        // A token of a few seconds must not be refreshed before each request.
        let before = self.life.map_or(REFRESH_BEFORE, |life| REFRESH_BEFORE.min(life / 5));
        self.expires_at.is_some_and(|end| now() + before >= end)
    }

    /// Whether it has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.expires_at.is_some_and(|end| now() >= end)
    }

    pub(super) fn describe(&self) -> LoggedIn {
        LoggedIn {
            issuer: self.issuer.clone(),
            client_id: self.client_id.clone(),
            scopes: self.scopes.clone(),
            expires_at: self.expires_at,
            refreshes: self.refreshes || self.is_own,
            subject: self.subject.clone(),
        }
    }
}

impl Flow {
    pub(super) fn new(server: Address, file: TokenFile, options: LoginOptions) -> Self {
        Self {
            server: server.url().clone(),
            store: ServerCredentials {
                file,
                server: server.to_string().into(),
            },
            options,
        }
    }

    pub(super) fn server(&self) -> &Url {
        &self.server
    }

    /// The authorization server that the options name.
    pub(super) fn named_issuer(&self) -> Option<String> {
        self.options.issuer.clone()
    }

    /// The authorization server of the login that is kept, if one was chosen for it.
    pub(super) fn chosen_issuer(&self) -> Result<Option<String>, TokenError> {
        let kept = self.store.file.get(&self.store.server).map_err(unusable)?;
        Ok(self.named_issuer().or(kept.chosen_issuer))
    }

    /// The same, else the one where the login was made.
    pub(super) fn issuer_of_login(&self) -> Result<Option<String>, TokenError> {
        let chosen = self.chosen_issuer()?;
        let of_login = self.stored()?.and_then(|tokens| tokens.issuer);
        Ok(chosen.or(of_login.filter(|issuer| !is_written_as_private(issuer))))
    }

    /// The tokens in the file. Those of another client than the one that is configured now are none.
    pub(super) fn stored(&self) -> Result<Option<Tokens>, TokenError> {
        let kept = self.store.file.get(&self.store.server).map_err(unusable)?;
        if let Some(key) = kept.key.as_deref().and_then(Tokens::of_key) {
            return Ok(Some(key));
        }
        let configured = self.options.identity.registered.as_ref();
        let is_of_client = |tokens: &Tokens| {
            configured.is_none_or(|configured| tokens.client_id.as_ref() == Some(&configured.client_id))
        };
        Ok(Tokens::read(&kept).filter(is_of_client))
    }

    pub(super) fn keep_key(&self, key: &str) -> Result<(), TokenError> {
        let kept = (self.store.file).update(&self.store.server, |kept| kept.key = Some(key.to_owned()));
        kept.map_err(unusable)
    }

    /// What the server wants from the next login.
    pub(super) fn wanted(&self) -> Result<Vec<String>, TokenError> {
        Ok(self.store.file.get(&self.store.server).map_err(unusable)?.wanted)
    }

    /// Keeps what the server wants, for the next login.
    pub(super) fn keep_wanted(&self, scopes: Vec<String>) -> Result<(), TokenError> {
        let kept = (self.store.file).update(&self.store.server, |kept| kept.wanted = scopes);
        kept.map_err(unusable)
    }

    pub(super) fn forget(&self) -> Result<bool, TokenError> {
        let forgotten = self.store.file.update(&self.store.server, |kept| {
            // All of it: secrets of clients, too.
            let Kept { credentials, key, .. } = std::mem::take(kept);
            key.is_some() || credentials.is_some()
        });
        forgotten.map_err(unusable)
    }

    /// New tokens for a login whose token has ended or was refused; `None` if the user has to log in again.
    pub(super) async fn refresh(&self, tokens: &Tokens) -> Result<Option<Tokens>, TokenError> {
        let Some(client_id) = &tokens.client_id else {
            return Ok(None);
        };
        let _lock = self.store.lock_refresh().await.map_err(unusable)?;
        // Another process may have refreshed it while it had the lock.
        if let Some(newer) = self.stored()?.filter(|stored| stored.access != tokens.access) {
            return Ok(Some(newer));
        }
        let chosen = self.chosen_issuer()?;
        let own = tokens.issuer.as_deref().filter(|issuer| !is_written_as_private(issuer));
        let Manager(mut manager, metadata) = match self.discover(None, chosen.as_deref().or(own)).await {
            // As below.
            Err(NotFound::NotNamed(reason)) if chosen.is_none() => return self.after_move(reason),
            found => found?,
        };
        let issuer = metadata.issuer;
        if let Some(earlier) = tokens
            .issuer
            .as_ref()
            .filter(|earlier| Some(*earlier) != issuer.as_ref())
        {
            // The server has moved to another authorization server, which does not know the token (S-33).
            return self.after_move(moved(earlier, issuer.as_deref()));
        }
        let kept = self.store.file.get(&self.store.server).map_err(unusable)?;
        let registered = kept.clients.get(issuer.as_deref().unwrap_or_default());
        let secret = match (&self.options.identity.registered, registered) {
            (Some(by_hand), _) if by_hand.client_id == *client_id => by_hand.client_secret.clone(),
            (_, Some(client)) if client.client_id == *client_id => client.client_secret.clone(),
            _ => None,
        };
        let redirect = registered.map_or_else(|| self.server.to_string(), |client| client.redirect_uri.clone());
        let mut client = OAuthClientConfig::new(client_id, redirect);
        client.client_secret = secret;
        manager.configure_client(client).map_err(refused)?;
        match manager.refresh_token().await {
            Ok(_) => self.stored(),
            Err(AuthError::AuthorizationRequired | AuthError::TokenRefreshRejected(_)) => Ok(None),
            Err(error) => Err(refused(error)),
        }
    }

    /// The server has another authorization server than the one of the login. Only somebody who can be asked can log in there.
    fn after_move(&self, reason: String) -> Result<Option<Tokens>, TokenError> {
        match self.options.consent {
            Some(_) => Ok(None),
            None => Err(TokenError::LoginRequired {
                reason: format!("{reason}. The login that is kept is of no use there"),
                names_issuers: true,
            }),
        }
    }

    /// Logs in: as the client itself, or by asking the user. `scopes` are asked for beside those of the challenge.
    pub(super) async fn obtain(
        &self,
        challenge: Option<&str>,
        scopes: &[String],
        issuer: Option<String>,
    ) -> Result<Tokens, TokenError> {
        // More permissions are for the user who has the others.
        let is_new = scopes.is_empty();
        let kept = self.store.file.get(&self.store.server).map_err(unusable)?;
        let asked = match is_new {
            true => AskedScopes::of_new(&self.options, &kept),
            false => AskedScopes::exactly(scopes),
        };
        let wanted = kept.wanted.clone();
        let logged_in = self.log_in(kept, challenge, &asked, issuer.as_deref()).await;
        if let (Err(TokenError::InvalidScope { .. }), false) = (&logged_in, wanted.is_empty()) {
            // It would be in the way of every other login.
            self.keep_wanted(Vec::new())?;
        }
        let own_login = logged_in?;
        let recorded = self.store.file.update(&self.store.server, |kept| {
            kept.key = None;
            kept.own_login = own_login;
            kept.chosen_issuer = issuer;
            kept.wanted.clear();
            if is_new || kept.login_id.is_none() {
                kept.login_id = Some(new_login_id());
            }
        });
        recorded.map_err(unusable)?;
        self.stored()?.ok_or_else(|| TokenError::Failed {
            reason: "the authorization server issued a token that cannot be sent".to_owned(),
        })
    }

    /// Returns what is needed to do it again, for a login without a user.
    async fn log_in(
        &self,
        kept: Kept,
        challenge: Option<&str>,
        scopes: &AskedScopes,
        issuer: Option<&str>,
    ) -> Result<Option<OwnLogin>, TokenError> {
        Ok(match kept.own_login {
            // Nobody can be asked, and nobody need be: the client repeats its own login.
            Some(own) if !self.options.as_client && self.options.consent.is_none() => {
                Some(self.log_in_as_client(own, challenge, scopes, issuer).await?)
            }
            kept if self.options.as_client => {
                let mut own = OwnLogin::of(&self.options.identity)?;
                // Without anybody to be asked it is the same login again.
                let earlier = kept.filter(|kept| self.options.consent.is_none() && kept.client_id == own.client_id);
                own.issuer = earlier.and_then(|earlier| earlier.issuer);
                Some(self.log_in_as_client(own, challenge, scopes, issuer).await?)
            }
            _ => {
                self.log_in_as_user(challenge, scopes, issuer).await?;
                None
            }
        })
    }

    /// Returns what is needed to do it again.
    async fn log_in_as_client(
        &self,
        own: OwnLogin,
        challenge: Option<&str>,
        scopes: &AskedScopes,
        issuer: Option<&str>,
    ) -> Result<OwnLogin, TokenError> {
        // The secret is for the one that has got it before (S-33), unless another one was named since.
        let of_secret = own.issuer.as_deref().filter(|_| issuer.is_none());
        let refuse = |reason: String| TokenError::LoginRequired {
            reason: format!(
                "{reason}. Only the one that has got the client's secret before gets it: if the server has moved, name the new one as `issuer`"
            ),
            names_issuers: true,
        };
        let named = of_secret.filter(|issuer| !is_written_as_private(issuer));
        let Manager(mut manager, metadata) = match self.discover(challenge, issuer.or(named)).await {
            Err(NotFound::NotNamed(reason)) if issuer.is_none() => return Err(refuse(reason)),
            found => found?,
        };
        if let Some(earlier) = of_secret.filter(|earlier| Some(*earlier) != metadata.issuer.as_deref()) {
            return Err(refuse(moved(earlier, metadata.issuer.as_deref())));
        }
        let mut scopes = scopes.at(&manager, metadata.issuer.as_deref()).await;
        // There is nobody who goes off line, and no refresh token (RFC 6749, section 4.4.3).
        scopes.retain(|scope| scope != OFFLINE_ACCESS || self.options.scopes.contains(scope));
        let config = ClientCredentialsConfig::ClientSecret {
            client_id: own.client_id.clone(),
            client_secret: own.client_secret.clone(),
            scopes,
            resource: Some(self.server.to_string()),
        };
        manager.configure_client_credentials(&config).map_err(refused)?;
        manager.exchange_client_credentials(&config).await.map_err(refused)?;
        Ok(OwnLogin {
            issuer: metadata.issuer,
            ..own
        })
    }

    async fn log_in_as_user(
        &self,
        challenge: Option<&str>,
        scopes: &AskedScopes,
        issuer: Option<&str>,
    ) -> Result<(), TokenError> {
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
        let Manager(manager, metadata) = self.discover(challenge, issuer).await?;
        if metadata.code_challenge_methods_supported.is_none() {
            return Err(refused(AuthError::PkceUnsupported));
        }
        let issuer = metadata.issuer.clone().unwrap_or_default();
        let known = self.store.file.get(&self.store.server).map_err(unusable)?;
        let known = known.clients.get(&issuer).cloned();
        let preferred = known.as_ref().map(|client| client.redirect_uri.as_str());
        let redirect_uri = consent.redirect_uri(preferred).await?;
        let scopes = scopes.at(&manager, metadata.issuer.as_deref()).await;
        let (manager, client) = self
            .client(manager, &metadata, known, redirect_uri.clone(), &scopes)
            .await?;
        let client = RegisteredClient { redirect_uri, ..client };
        let mut request = AuthorizationRequest::new(&client.redirect_uri)
            .with_preregistered_client(&client.client_id)
            .with_scopes(scopes)
            .with_initial_scope_selection();
        request.client_secret.clone_from(&client.client_secret);
        // Before the login, so that a crash in the middle of it does not register this client again.
        let recorded = (self.store.file).update(&self.store.server, |kept| kept.clients.insert(issuer, client));
        recorded.map_err(unusable)?;
        let session = AuthorizationSession::new(manager, request).await;
        let session = session.map_err(|(_, error)| refused(error))?;
        let url = Url::parse(session.get_authorization_url()).map_err(|error| TokenError::Failed {
            reason: format!("the address of its login is no URL: {error}"),
        })?;
        let url = with_prompt(url);
        let answer = consent.authorize(&url).await?;
        check_answer(&url, &answer, &metadata)?;
        session.handle_callback_url(answer.as_str()).await.map_err(refused)?;
        Ok(())
    }

    /// How this client is known to the authorization server: registered by hand, by its metadata document, by an earlier registration, or now (S-33).
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
        let client = |client_id: String, client_secret| RegisteredClient {
            client_id,
            client_secret,
            redirect_uri: redirect_uri.clone(),
        };
        if let Some(RegisteredByHand {
            client_id,
            client_secret,
        }) = registered.clone()
        {
            return Ok((manager, client(client_id, client_secret)));
        }
        let reads_documents = metadata.additional_fields.get("client_id_metadata_document_supported");
        if let Some(url) = metadata_url {
            ClientIdentity::check_metadata_url(url).map_err(|error| TokenError::Failed {
                reason: error.to_string(),
            })?;
        }
        if let (Some(url), Some(true)) = (metadata_url, reads_documents.and_then(serde_json::Value::as_bool)) {
            return Ok((manager, client(url.clone(), None)));
        }
        if let Some(known) = known.filter(|known| known.redirect_uri == redirect_uri) {
            return Ok((manager, known));
        }
        if metadata.registration_endpoint.is_none() {
            return Err(TokenError::NoRegistration);
        }
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let registered = manager.register_client(CLIENT_NAME, &redirect_uri, &scopes).await;
        let OAuthClientConfig {
            client_id,
            client_secret,
            ..
        } = registered.map_err(refused)?;
        Ok((manager, client(client_id, client_secret)))
    }

    async fn discover(&self, challenge: Option<&str>, issuer: Option<&str>) -> Result<Manager, NotFound> {
        discover(&self.server, &self.options, &self.store, challenge, issuer).await
    }
}

/// Whom a token is for, as it says itself if it is a JWT: for showing only, since nothing is verified.
fn subject(token: &str) -> Option<String> {
    let payload = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    let claims: serde_json::Value = serde_json::from_slice(&payload).ok()?;
    claims["sub"].as_str().map(str::to_owned)
}

fn moved(earlier: &str, now: Option<&str>) -> String {
    let now = now.unwrap_or("one without a name");
    format!("its authorization server was {earlier}, and is {now} now")
}

fn new_login_id() -> String {
    format!("{:08x}", fastrand::u32(..))
}

/// Checks that the browser brings the answer to this login, and not an error. Who answers is checked first: the error of another server means nothing (S-32).
fn check_answer(asked: &Url, answer: &Url, metadata: &AuthorizationMetadata) -> Result<(), TokenError> {
    let failed = |reason: String| Err(TokenError::Failed { reason });
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
        _ => failed(reason),
    }
}

/// The scopes that a challenge asks for.
pub(super) fn scopes_of(challenge: Option<&str>) -> Vec<String> {
    let Some(challenge) = challenge else { return Vec::new() };
    // The base is for relative URLs, which are not looked at here.
    let Ok(base) = Url::parse("http://127.0.0.1/") else {
        return Vec::new();
    };
    let wanted = WWWAuthenticateParams::parse(challenge, &base).scope;
    wanted
        .iter()
        .flat_map(|scopes| scopes.split_whitespace())
        .map(str::to_owned)
        .collect()
}

fn unusable(error: TokenFileError) -> TokenError {
    TokenError::Failed {
        reason: error.to_string(),
    }
}

#[expect(clippy::disallowed_methods, reason = "tokens end by the system's clock")]
fn now() -> SystemTime {
    SystemTime::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_jwt_says_whom_it_is_for() {
        let jwt = |claims: &str| format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims));
        assert_eq!(subject(&jwt(r#"{"sub":"ann"}"#)).as_deref(), Some("ann"));
        for other in [
            jwt("{}"),
            jwt(r#"{"sub":1}"#),
            jwt("x"),
            "opaque".to_owned(),
            "a.b.c".to_owned(),
        ] {
            assert_eq!(subject(&other), None, "{other}");
        }
    }
}
