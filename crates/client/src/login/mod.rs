//! Logging in to servers that are protected by OAuth 2.1 (MCP, Authorization).

mod asked_scopes;
mod auth_error;
mod chosen_issuer;
mod consent;
mod credential_store;
mod discovery;
mod filtered_client;
mod flow;
mod foreign_metadata;
mod forgotten_client;
mod http_client;
mod loopback;
mod registered_client;
mod token_file;
mod user_login;

pub use consent::Consent;
pub use loopback::Loopback;
pub use registered_client::{ClientIdentity, InvalidMetadataUrl, RegisteredByHand};
pub use token_file::{TokenFile, TokenFileError};

use crate::{
    AccessToken, Address, InvalidAddress, Proxy, Refusal, TokenError, TokenProvider, install_tls_provider,
    transport::challenge,
};
use flow::{Flow, Tokens};
use longhaul_core::BoxFuture;
use reqwest::Url;
use std::{fmt, sync::Arc, time::SystemTime};
use token_file::FileStamp;
use tokio::sync::Mutex;

/// How often in a row a server may ask for more permissions.
const MOST_STEPS: u32 = 2;

/// How a [`Login`] logs in. Start from [`LoginOptions::default`].
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct LoginOptions {
    /// How this client is known to authorization servers. By default it registers itself, where servers let it.
    pub identity: ClientIdentity,
    /// The permissions to ask for, instead of those the server asks for; beside those that the login has already.
    pub scopes: Vec<String>,
    /// The authorization server to log in at, of those that the server names. By default it is the first one that answers.
    pub issuer: Option<String>,
    /// Log in as the client itself, without a user: `identity` must have been registered by hand, with a secret.
    pub as_client: bool,
    /// Asks the user to log in when a server requires it. Without it, a request fails with [`TokenError::LoginRequired`].
    pub consent: Option<Arc<dyn Consent>>,
    /// Do not follow the metadata of servers to private addresses, except those of the hosts of the server itself and of [`issuer`](Self::issuer). Set it in programs that connect
    /// where others tell them to; loopback and link-local addresses are never followed from elsewhere (MCP security best practices, SSRF).
    pub public_addresses_only: bool,
    /// How authorization servers are reached. Those on this machine are reached directly.
    pub proxy: Proxy,
}

impl LoginOptions {
    /// Whether an authorization server can be [`issuer`](Self::issuer). One at an address of a private network can, if it is named by a host name and not by that address.
    ///
    /// ```
    /// use longhaul_client::LoginOptions;
    /// assert!(LoginOptions::can_choose("https://login.corp.example"));
    /// assert!(!LoginOptions::can_choose("https://10.0.0.5/realms/main"));
    /// ```
    pub fn can_choose(issuer: &str) -> bool {
        Url::parse(issuer).is_ok_and(|url| !filtered_client::is_internal(&url))
    }
}

impl fmt::Debug for LoginOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoginOptions")
            .field("identity", &self.identity)
            .field("scopes", &self.scopes)
            .field("issuer", &self.issuer)
            .field("as_client", &self.as_client)
            .finish_non_exhaustive()
    }
}

/// The login of this user at one server: gets tokens, keeps them in a [`TokenFile`], refreshes them, and asks for more permissions when the server
/// requires them.
///
/// Processes that share the file share the login, and refresh its token one at a time. A process that is killed in the middle of that may lose the login, if the
/// authorization server accepts each refresh token once: then the user logs in again.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use longhaul_client::{Connection, Login, LoginOptions, Loopback, Options, TokenFile};
/// use std::sync::Arc;
///
/// let server = "https://mcp.example.com/mcp";
/// let mut login = LoginOptions::default();
/// login.consent = Some(Arc::new(Loopback::new(|url: &_| println!("Log in at {url}"))));
/// let mut options = Options::named("example", "1.0");
/// options.tokens = Some(Arc::new(Login::new(server, TokenFile::open_default()?, login)?));
/// let connection = Connection::open(server, options).await?;
/// # Ok(()) }
/// ```
pub struct Login {
    flow: Flow,
    state: Mutex<LoginState>,
}

#[derive(Default)]
struct LoginState {
    /// `None` until the file was read.
    tokens: Option<Option<Tokens>>,
    /// The file as it was read.
    stamp: Option<FileStamp>,
    /// How often the request at hand was refused. Each request asks for its token first.
    refusals: u32,
    /// A token that could not be refreshed before its end, since its authorization server was not available. It is used until then.
    used_to_its_end: Option<AccessToken>,
}

/// A login that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoggedIn {
    /// The authorization server, if its metadata name it.
    pub issuer: Option<String>,
    /// How this client is known there; `None` for a key that was given by hand.
    pub client_id: Option<String>,
    /// What the token permits, as far as the authorization server says.
    pub scopes: Vec<String>,
    /// What the login asked for and the authorization server has not granted.
    pub not_granted: Vec<String>,
    /// When the token ends, if the authorization server says so.
    pub expires_at: Option<SystemTime>,
    /// Whether the token is refreshed when it ends.
    pub refreshes: bool,
    /// Whom the token is for, if it says that itself. Nothing is verified: for showing only.
    pub subject: Option<String>,
}

impl Login {
    /// The login at `server`, the URL of its MCP endpoint. Nothing is read or sent yet.
    ///
    /// # Errors
    /// [`InvalidAddress`].
    pub fn new(server: &str, file: TokenFile, options: LoginOptions) -> Result<Self, InvalidAddress> {
        let server: Address = server.parse()?;
        // For the client that asks authorization servers, which brings none of its own.
        install_tls_provider();
        Ok(Self {
            flow: Flow::new(server, file, options),
            state: Mutex::default(),
        })
    }

    /// Logs in now, also if there is a token already. `challenge` is the server's `WWW-Authenticate`, if it is known.
    ///
    /// # Errors
    /// [`TokenError`].
    pub async fn log_in(&self, challenge: Option<&str>) -> Result<LoggedIn, TokenError> {
        let mut state = self.state.lock().await;
        // Not at that of an earlier login, which may have been a mistake.
        let tokens = self.flow.obtain(challenge, &[], self.flow.named_issuer()).await?;
        let logged_in = tokens.describe();
        state.tokens = Some(Some(tokens));
        Ok(logged_in)
    }

    /// Keeps a key that the server's operator has given, and uses it from now on instead of a login.
    ///
    /// # Errors
    /// [`TokenError::Failed`] if it cannot be a key; [`TokenError::TokenFile`].
    pub async fn keep_key(&self, key: &str) -> Result<(), TokenError> {
        let mut state = self.state.lock().await;
        AccessToken::new(key).map_err(|error| TokenError::Failed {
            reason: error.to_string(),
        })?;
        self.flow.keep_key(key)?;
        state.tokens = None;
        Ok(())
    }

    /// Forgets the tokens and the key, if one was kept, and how this client is registered. Returns whether there was a login. The authorization server is not told; its tokens end by themselves.
    ///
    /// # Errors
    /// [`TokenError::TokenFile`].
    pub async fn log_out(&self) -> Result<bool, TokenError> {
        let mut state = self.state.lock().await;
        state.tokens = Some(None);
        self.flow.forget()
    }

    /// The login that the file has, if it has one.
    ///
    /// # Errors
    /// [`TokenError::TokenFile`].
    pub async fn who(&self) -> Result<Option<LoggedIn>, TokenError> {
        Ok(self.flow.stored()?.map(|tokens| tokens.describe()))
    }

    /// The permissions that the server has refused a request for. The next [`log_in`](Self::log_in) asks for them, too.
    ///
    /// # Errors
    /// [`TokenError::TokenFile`].
    pub async fn wanted(&self) -> Result<Vec<String>, TokenError> {
        self.flow.wanted()
    }

    /// What may replace a token that was refused with 401.
    async fn after_unauthorized(
        &self,
        state: &mut LoginState,
        refusal: Refusal<'_>,
    ) -> Result<Option<Tokens>, TokenError> {
        // Another request, or another process, may have a newer one.
        let stored = self.flow.stored()?;
        if let Some(newer) = stored.as_ref().filter(|stored| Some(&stored.access) != refusal.sent) {
            return Ok(Some(newer.clone()));
        }
        if state.refusals > 1 && stored.as_ref().is_some_and(|stored| stored.is_new) {
            let said = challenge::reason(refusal.challenge).map(|said| format!(": {said}"));
            return Err(TokenError::Failed {
                reason: format!(
                    "the server does not accept the token that its authorization server has just issued{}",
                    said.unwrap_or_default()
                ),
            });
        }
        if let Some(refusable) = stored.filter(|stored| stored.refreshes)
            && let Some(refreshed) = self.flow.refresh(&refusable).await?
        {
            return Ok(Some(refreshed));
        }
        let issuer = self.flow.chosen_issuer()?;
        self.flow.obtain(refusal.challenge, &[], issuer).await.map(Some)
    }

    /// What may replace a token that permits too little.
    async fn after_forbidden(
        &self,
        state: &mut LoginState,
        refusal: Refusal<'_>,
    ) -> Result<Option<Tokens>, TokenError> {
        let wanted = flow::scopes_of(refusal.challenge);
        let stored = self.flow.stored()?;
        if let Some(newer) = stored.as_ref().filter(|stored| Some(&stored.access) != refusal.sent) {
            return Ok(Some(newer.clone()));
        }
        let is_users = stored.as_ref().is_some_and(|stored| !stored.is_own);
        let (granted, not_granted) = stored
            .map(|stored| (stored.scopes, stored.not_granted))
            .unwrap_or_default();
        let missing = |granted: &[String]| -> Vec<String> {
            let missing = wanted.iter().filter(|scope| !granted.contains(scope));
            missing.cloned().collect()
        };
        if missing(&granted).is_empty() || state.refusals > MOST_STEPS {
            return Ok(None);
        }
        // The user would log in for nothing, again and again. A client asks for itself: it has nobody who can try again.
        if is_users && missing(&granted).iter().all(|scope| not_granted.contains(scope)) {
            self.flow.keep_wanted(missing(&granted))?;
            return Err(TokenError::NotGranted {
                scopes: missing(&granted),
            });
        }
        // The new token must still permit what the old one did.
        let all = [granted.clone(), missing(&granted)].concat();
        let issuer = self.flow.issuer_of_login()?;
        let tokens = self.flow.obtain(refusal.challenge, &all, issuer).await;
        if let Err(TokenError::LoginRequired { .. }) = &tokens {
            self.flow.keep_wanted(missing(&granted))?;
        }
        let tokens = tokens?;
        match missing(&tokens.scopes).as_slice() {
            [] => Ok(Some(tokens)),
            missing => Err(TokenError::NotGranted {
                scopes: missing.to_vec(),
            }),
        }
    }
}

impl TokenProvider for Login {
    fn token(&self) -> BoxFuture<'_, Result<Option<AccessToken>, TokenError>> {
        Box::pin(async move {
            let mut state = self.state.lock().await;
            let state = &mut *state;
            state.refusals = 0;
            // Another process may have logged in or out.
            let stamp = self.flow.stamp();
            if state.tokens.is_none() || state.stamp != stamp {
                state.tokens = Some(self.flow.stored()?);
                state.stamp = stamp;
            }
            let Some(Some(tokens)) = &mut state.tokens else {
                return Ok(None);
            };
            // If that is not possible, the server decides about the old token, and says what it wants.
            let is_used_to_its_end = state.used_to_its_end.as_ref() == Some(&tokens.access);
            if tokens.refreshes && (tokens.has_ended() || (tokens.ends_soon() && !is_used_to_its_end)) {
                match self.flow.refresh(tokens).await {
                    Ok(Some(refreshed)) => *tokens = refreshed,
                    Ok(None) => {}
                    // Not asked for again before each request: an authorization server that does not answer costs time.
                    Err(TokenError::Unavailable { .. }) if !tokens.has_ended() => {
                        state.used_to_its_end = Some(tokens.access.clone());
                    }
                    Err(error) => return Err(error),
                }
            }
            Ok(Some(tokens.access.clone()))
        })
    }

    fn replace<'a>(&'a self, refusal: Refusal<'a>) -> BoxFuture<'a, Result<Option<AccessToken>, TokenError>> {
        Box::pin(async move {
            let mut state = self.state.lock().await;
            state.refusals += 1;
            let replaced = match refusal.status {
                401 => self.after_unauthorized(&mut state, refusal).await?,
                _ => self.after_forbidden(&mut state, refusal).await?,
            };
            let access = replaced.as_ref().map(|tokens| tokens.access.clone());
            if replaced.is_some() {
                state.tokens = Some(replaced);
            }
            Ok(access)
        })
    }

    fn login(&self) -> BoxFuture<'_, Option<String>> {
        // What other processes have done meanwhile counts, too. Whoever needs a token hears why it cannot be read.
        Box::pin(async { self.flow.stored().ok().flatten()?.login })
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Login({})", self.flow.server())
    }
}
