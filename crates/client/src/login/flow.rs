//! The exchanges with authorization servers, by rmcp's authorization client.

use super::{
    LoggedIn, LoginOptions,
    asked_scopes::{AskedScopes, OFFLINE_ACCESS},
    auth_error::refused,
    credential_store::ServerCredentials,
    discovery::{Manager, NotFound, discover, is_written_as_private},
    registered_client::{OwnLogin, RegisteredClient},
    token_file::{FileStamp, StoredLogin, TokenFile, TokenFileError},
};
use crate::{AccessToken, Address, TokenError, journal::other_login};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use oauth2::TokenResponse;
use reqwest::Url;
use rmcp::transport::auth::{AuthError, ClientCredentialsConfig, OAuthClientConfig, WWWAuthenticateParams};
use sha2::{Digest, Sha256};
use std::time::{Duration, SystemTime};

/// A token that ends within this time is refreshed before it is used.
const REFRESH_BEFORE: Duration = Duration::from_secs(30);
pub(super) struct Flow {
    server: Url,
    pub(super) store: ServerCredentials,
    pub(super) options: LoginOptions,
}

/// The tokens of a login.
#[derive(Clone)]
pub(super) struct Tokens {
    pub(super) access: AccessToken,
    pub(super) scopes: Vec<String>,
    /// Those that the login asked for and has not got.
    pub(super) not_granted: Vec<String>,
    /// There is a refresh token.
    pub(super) refreshes: bool,
    /// The login is of the client itself, which can repeat it.
    pub(super) is_own: bool,
    /// Issued a moment ago.
    pub(super) is_new: bool,
    expires_at: Option<SystemTime>,
    /// How long it lived when it was issued.
    life: Option<Duration>,
    issuer: Option<String>,
    /// `None` for a key.
    pub(super) client_id: Option<String>,
    subject: Option<String>,
    /// Who calls are recorded as.
    pub(super) login: Option<String>,
}

/// A login that was made just now.
struct NewLogin {
    /// What is needed to do it again, without a user.
    own_login: Option<OwnLogin>,
    /// The permissions that it asked for.
    asked: Vec<String>,
}

impl Tokens {
    /// The tokens that are kept; `None` if there are none, or if the token cannot be sent.
    fn read(kept: &StoredLogin) -> Option<Self> {
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
        // Some issue a token without permissions with an empty one.
        let granted = stored.granted_scopes.iter().filter(|scope| !scope.is_empty());
        let scopes: Vec<String> = granted.cloned().collect();
        // Whether there is a refresh token is told by itself.
        let is_missing = |scope: &&String| *scope != OFFLINE_ACCESS && !scopes.contains(scope);
        let not_granted = kept.asked.iter().filter(is_missing).cloned().collect();
        Some(Self {
            access: AccessToken::new(response.access_token().secret()).ok()?,
            scopes,
            not_granted,
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
            not_granted: Vec::new(),
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
            not_granted: self.not_granted.clone(),
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

    /// See [`TokenFile::stamp`].
    pub(super) fn stamp(&self) -> Option<FileStamp> {
        self.store.file.stamp()
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
            let StoredLogin { credentials, key, .. } = std::mem::take(kept);
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
        let Manager(mut manager, metadata) = match self
            .discover(None, chosen.as_deref().or(own), &AskedScopes::default())
            .await
        {
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
            // The server has moved to another authorization server, which does not know the token.
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
            Err(error) => match refused(error) {
                // It has forgotten a registration, and with it the login.
                TokenError::InvalidClient { .. }
                    if self.forget_client(issuer.as_deref().unwrap_or_default(), client_id)? =>
                {
                    Ok(None)
                }
                error => Err(error),
            },
        }
    }

    /// Forgets how this client has registered itself at an authorization server, with what it got there. Returns whether that was this client.
    pub(super) fn forget_client(&self, issuer: &str, client_id: &str) -> Result<bool, TokenError> {
        let forgotten = self.store.file.update(&self.store.server, |kept| {
            let has_registered =
                |client: &RegisteredClient| client.client_id == client_id && client.registered_for.is_some();
            let is_known = kept.clients.get(issuer).is_some_and(has_registered);
            if is_known {
                kept.clients.remove(issuer);
                kept.credentials.take_if(|stored| stored.client_id == client_id);
            }
            is_known
        });
        forgotten.map_err(unusable)
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
        let mut logged_in = self.log_in(kept.clone(), challenge, &asked, issuer.as_deref()).await;
        // A server of several authorization servers cannot say which permissions are whose, and names those of the first. One that was chosen may know none of them.
        if let (Err(TokenError::InvalidScope { .. }), Some(_), Some(asked)) =
            (&logged_in, &issuer, asked.without_named())
        {
            logged_in = self.log_in(kept, challenge, &asked, issuer.as_deref()).await;
        }
        if let (Err(TokenError::InvalidScope { .. }), false) = (&logged_in, wanted.is_empty()) {
            // It would be in the way of every other login.
            self.keep_wanted(Vec::new())?;
        }
        let NewLogin { own_login, asked } = logged_in?;
        let recorded = self.store.file.update(&self.store.server, |kept| {
            kept.key = None;
            kept.own_login = own_login;
            kept.chosen_issuer = issuer;
            kept.asked = asked;
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

    async fn log_in(
        &self,
        kept: StoredLogin,
        challenge: Option<&str>,
        scopes: &AskedScopes,
        issuer: Option<&str>,
    ) -> Result<NewLogin, TokenError> {
        let own = match kept.own_login {
            // Nobody can be asked, and nobody need be: the client repeats its own login.
            Some(own) if !self.options.as_client && self.options.consent.is_none() => own,
            kept if self.options.as_client => {
                let mut own = OwnLogin::of(&self.options.identity)?;
                // Without anybody to be asked it is the same login again.
                let earlier = kept.filter(|kept| self.options.consent.is_none() && kept.client_id == own.client_id);
                own.issuer = earlier.and_then(|earlier| earlier.issuer);
                own
            }
            _ => {
                return Ok(NewLogin {
                    own_login: None,
                    asked: self.log_in_as_user(challenge, scopes, issuer).await?,
                });
            }
        };
        self.log_in_as_client(own, challenge, scopes, issuer).await
    }

    async fn log_in_as_client(
        &self,
        own: OwnLogin,
        challenge: Option<&str>,
        scopes: &AskedScopes,
        issuer: Option<&str>,
    ) -> Result<NewLogin, TokenError> {
        // The secret is for the one that has got it before, unless another one was named since.
        let of_secret = own.issuer.as_deref().filter(|_| issuer.is_none());
        let refuse = |reason: String| TokenError::LoginRequired {
            reason: format!(
                "{reason}. Only the one that has got the client's secret before gets it: if the server has moved, name the new one as `issuer`"
            ),
            names_issuers: true,
        };
        let named = of_secret.filter(|issuer| !is_written_as_private(issuer));
        let Manager(mut manager, metadata) = match self.discover(challenge, issuer.or(named), scopes).await {
            Err(NotFound::NotNamed(reason)) if issuer.is_none() => return Err(refuse(reason)),
            found => found?,
        };
        if let Some(earlier) = of_secret.filter(|earlier| Some(*earlier) != metadata.issuer.as_deref()) {
            return Err(refuse(moved(earlier, metadata.issuer.as_deref())));
        }
        let mut scopes = scopes.at(&manager, &metadata).await;
        // There is nobody who goes off line, and no refresh token (RFC 6749, section 4.4.3).
        scopes.retain(|scope| scope != OFFLINE_ACCESS || self.options.scopes.contains(scope));
        let config = ClientCredentialsConfig::ClientSecret {
            client_id: own.client_id.clone(),
            client_secret: own.client_secret.clone(),
            scopes: scopes.clone(),
            resource: Some(self.server.to_string()),
        };
        manager.configure_client_credentials(&config).map_err(refused)?;
        manager.exchange_client_credentials(&config).await.map_err(refused)?;
        Ok(NewLogin {
            own_login: Some(OwnLogin {
                issuer: metadata.issuer,
                ..own
            }),
            asked: scopes,
        })
    }

    /// `scopes` are those that are to be asked for there.
    pub(super) async fn discover(
        &self,
        challenge: Option<&str>,
        issuer: Option<&str>,
        scopes: &AskedScopes,
    ) -> Result<Manager, NotFound> {
        let (server, store) = (&self.server, &self.store);
        discover(server, &self.options, store, challenge, issuer, scopes).await
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

pub(super) fn unusable(error: TokenFileError) -> TokenError {
    TokenError::TokenFile {
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
