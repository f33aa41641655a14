//! The logins of this server at its upstreams.

use crate::{
    config::{UpstreamAuth, UpstreamConfig},
    machine::principal_logins::{PrincipalLogins, with_command},
};
use longhaul_client::{
    AccessToken, ChildSupervisor, InvalidAddress, Login, LoginOptions, Refusal, RegisteredByHand, TokenError,
    TokenFile, TokenFileError, TokenProvider,
};
#[cfg(unix)]
use longhaul_command::child_supervisor::ChildSupervisors;
use longhaul_core::BoxFuture;
use longhaul_gateway::{GatewayError, Target, UpstreamOptions, UpstreamTokens};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The folder of the tokens that this server has got as a client of its own, in the data directory: a file for each upstream.
const TOKENS: &str = "upstream-tokens";

/// The upstreams cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UpstreamError {
    #[error(transparent)]
    Gateway(#[from] GatewayError),
    #[error("upstream `{upstream}`: its tokens cannot be kept: {error}")]
    Tokens { upstream: String, error: TokenFileError },
    #[error("upstream `{upstream}`: {error}")]
    Address { upstream: String, error: InvalidAddress },
}

#[derive(PartialEq, Eq, Hash)]
struct LoginSettings {
    upstream: String,
    url: String,
    auth: UpstreamAuth,
}

/// The logins at upstreams. Those with the same settings are the same one, also after the configuration was read again.
pub(crate) struct UpstreamLogins {
    data_dir: PathBuf,
    known: Mutex<HashMap<LoginSettings, UpstreamTokens>>,
}

impl UpstreamLogins {
    pub(crate) fn new(data_dir: &Path) -> Self {
        Self {
            data_dir: data_dir.to_owned(),
            known: Mutex::default(),
        }
    }

    /// The upstreams with their logins, and with the supervisors of their children.
    pub(crate) fn apply(&self, upstreams: Vec<UpstreamConfig>) -> Result<Vec<UpstreamOptions>, UpstreamError> {
        upstreams.into_iter().map(|upstream| self.apply_one(upstream)).collect()
    }

    fn apply_one(&self, upstream: UpstreamConfig) -> Result<UpstreamOptions, UpstreamError> {
        let UpstreamConfig { mut options, auth } = upstream;
        #[cfg(unix)]
        if let Target::Command(child) = &mut options.target {
            // Without a directory there is nothing to come back to.
            child.supervisor = ChildSupervisors::of(&self.data_dir)
                .ok()
                .map(|supervisors| ChildSupervisor {
                    args: supervisors.arguments(),
                    program: supervisors.program,
                });
        }
        if let (Some(auth), Target::Http { url, tokens, .. }) = (auth, &mut options.target) {
            let mut known = self.known.lock();
            let settings = LoginSettings {
                upstream: options.name.clone(),
                url: url.clone(),
                auth,
            };
            *tokens = Some(match known.get(&settings) {
                Some(tokens) => tokens.clone(),
                None => {
                    let tokens = self.tokens(&options.name, url, &settings.auth)?;
                    known.insert(settings, tokens.clone());
                    tokens
                }
            });
        }
        Ok(options)
    }

    fn tokens(&self, upstream: &str, url: &str, auth: &UpstreamAuth) -> Result<UpstreamTokens, UpstreamError> {
        let mut options = LoginOptions::default();
        options.public_addresses_only = true;
        let address = |error| UpstreamError::Address {
            upstream: upstream.to_owned(),
            error,
        };
        let file = match auth {
            UpstreamAuth::Login => TokenFile::open_default(),
            UpstreamAuth::LoginPerPrincipal => {
                let logins = PrincipalLogins::new(url).map_err(address)?;
                return Ok(UpstreamTokens::PerPrincipal(Arc::new(logins)));
            }
            UpstreamAuth::Client {
                id,
                secret,
                scopes,
                issuer,
            } => {
                options.as_client = true;
                options.issuer.clone_from(issuer);
                options.scopes.clone_from(scopes);
                options.identity.registered = Some(RegisteredByHand {
                    client_id: id.clone(),
                    client_secret: Some(secret.clone()),
                });
                // Apart from the logins of the user, which these tokens must not replace.
                let folder = self.data_dir.join(TOKENS);
                TokenFile::open(&folder.join(format!("{upstream}.json")))
            }
        };
        let file = file.map_err(|error| UpstreamError::Tokens {
            upstream: upstream.to_owned(),
            error,
        })?;
        let login = Login::new(url, file, options).map_err(address)?;
        Ok(UpstreamTokens::Shared(match auth {
            UpstreamAuth::Login => Arc::new(OperatorLogin {
                url: url.to_owned(),
                login,
            }),
            _ => Arc::new(login),
        }))
    }
}

/// The login of the user who runs this server. Others may be told that it is missing, so the error has the command that makes it.
struct OperatorLogin {
    url: String,
    login: Login,
}

impl TokenProvider for OperatorLogin {
    fn token(&self) -> BoxFuture<'_, Result<Option<AccessToken>, TokenError>> {
        self.login.token()
    }

    fn replace<'a>(&'a self, refusal: Refusal<'a>) -> BoxFuture<'a, Result<Option<AccessToken>, TokenError>> {
        let replaced = self.login.replace(refusal);
        Box::pin(async move { replaced.await.map_err(|error| with_command(error, &self.url, None)) })
    }

    fn login(&self) -> BoxFuture<'_, Option<String>> {
        self.login.login()
    }
}
