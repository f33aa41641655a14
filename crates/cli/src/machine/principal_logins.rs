//! The logins that the user who runs a server keeps for its principals, each in a file of its own.

use crate::output::shell_word::shell_word;
use longhaul_client::{
    AccessToken, Address, InvalidAddress, Login, LoginOptions, Refusal, TokenError, TokenFile, TokenFileError,
    TokenProvider,
};
use longhaul_core::{BoxFuture, Principal};
use longhaul_gateway::PrincipalTokens;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use tokio::sync::Mutex;

/// Beside the logins of the user: a folder for each principal.
const FOLDER: &str = "principals";

/// The file with the logins of a principal. The user who runs the server is a principal, too.
pub(crate) fn token_file(principal: Option<&str>) -> Result<TokenFile, TokenFileError> {
    let own = TokenFile::open_default()?;
    let Some(principal) = principal.filter(|principal| *principal != Principal::local().as_str()) else {
        return Ok(own);
    };
    // It may have any characters, such as those of an issuer's URL.
    let digest = Sha256::digest(on_one_line(principal).as_bytes());
    let name: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let folder = own.path().with_file_name(FOLDER).join(name);
    TokenFile::open(&folder.join("tokens.json"))
}

/// The principal of a token has a line break behind its issuer, in which there is no space.
fn on_one_line(principal: &str) -> String {
    principal.replace('\n', " ")
}

/// The logins of all principals at an upstream.
pub(crate) struct PrincipalLogins {
    url: String,
}

impl PrincipalLogins {
    /// # Errors
    /// The URL cannot be used.
    pub(crate) fn new(url: &str) -> Result<Self, InvalidAddress> {
        let _: Address = url.parse()?;
        Ok(Self { url: url.to_owned() })
    }
}

impl PrincipalTokens for PrincipalLogins {
    fn of(&self, principal: &Principal) -> Arc<dyn TokenProvider> {
        Arc::new(PrincipalLogin {
            url: self.url.clone(),
            principal: principal.clone(),
            login: Mutex::default(),
        })
    }
}

/// The login of a principal at an upstream.
struct PrincipalLogin {
    url: String,
    principal: Principal,
    /// `None` until it was needed.
    login: Mutex<Option<Login>>,
}

impl PrincipalLogin {
    fn read(&self) -> Result<Login, TokenError> {
        let file = token_file(Some(self.principal.as_str()));
        let file = file.map_err(|error| TokenError::TokenFile {
            reason: error.to_string(),
        })?;
        let mut options = LoginOptions::default();
        // What an upstream names must not be an address that only this server reaches.
        options.public_addresses_only = true;
        Login::new(&self.url, file, options).map_err(|error| TokenError::Failed {
            reason: error.to_string(),
        })
    }

    fn is_local(&self) -> bool {
        self.principal == Principal::local()
    }

    fn required(&self, why: &str, names_issuers: bool) -> TokenError {
        let principal = on_one_line(self.principal.as_str());
        let required = TokenError::LoginRequired {
            reason: format!("{why} `{principal}`"),
            names_issuers,
        };
        with_command(required, &self.url, Some(&principal))
    }
}

impl TokenProvider for PrincipalLogin {
    fn token(&self) -> BoxFuture<'_, Result<Option<AccessToken>, TokenError>> {
        Box::pin(async move {
            let mut login = self.login.lock().await;
            if let Some(known) = &*login
                && let Some(token) = known.token().await?
            {
                return Ok(Some(token));
            }
            // It may have been made since.
            match login.insert(self.read()?).token().await? {
                // Without a token the upstream could answer as anyone's.
                None if !self.is_local() => Err(self.required("there is no login of", true)),
                token => Ok(token),
            }
        })
    }

    fn replace<'a>(&'a self, refusal: Refusal<'a>) -> BoxFuture<'a, Result<Option<AccessToken>, TokenError>> {
        Box::pin(async move {
            let mut login = self.login.lock().await;
            let login = match &mut *login {
                Some(login) => login,
                none => none.insert(self.read()?),
            };
            match login.replace(refusal).await {
                Err(TokenError::LoginRequired { names_issuers, .. }) if !self.is_local() => {
                    Err(self.required("it does not accept the login of", names_issuers))
                }
                replaced => replaced.map_err(|error| with_command(error, &self.url, None)),
            }
        })
    }
}

/// The error of a login at an upstream, with the command by which whoever runs this server makes one. Clients are told it, so a URL in which there may be a key is left out.
pub(crate) fn with_command(error: TokenError, url: &str, principal: Option<&str>) -> TokenError {
    let TokenError::LoginRequired { reason, names_issuers } = error else {
        return error;
    };
    let url = match url.contains(['?', '@', '#']) {
        true => "URL".to_owned(),
        false => shell_word(url),
    };
    let of_principal = principal.map(|principal| format!(" --for {}", shell_word(principal)));
    TokenError::LoginRequired {
        reason: format!(
            "{reason}; whoever runs this server makes one with `longhaul login {url}{}`",
            of_principal.unwrap_or_default()
        ),
        names_issuers,
    }
}
