//! The token file as rmcp's authorization client uses it.

use super::token_file::{RefreshLock, TokenFile, TokenFileError};
use async_trait::async_trait;
use oauth2::{TokenResponse, basic::BasicTokenType};
use rmcp::transport::auth::{AuthError, CredentialStore, StoredCredentials};
use std::{sync::Arc, time::Duration};

/// Between two tries for a lock that another process has.
const LOCK_PAUSE: Duration = Duration::from_millis(50);
/// After this time the other process is taken to hang, and the token is refreshed beside it.
const LONGEST_LOCK: Duration = Duration::from_secs(60);

/// What the file has of one server.
#[derive(Clone)]
pub(super) struct ServerCredentials {
    pub(super) file: TokenFile,
    pub(super) server: Arc<str>,
}

impl ServerCredentials {
    /// Waits until no other process refreshes the token.
    #[expect(clippy::disallowed_methods, reason = "the client is not simulated")]
    pub(super) async fn lock_refresh(&self) -> Result<Option<RefreshLock>, TokenFileError> {
        let locked = tokio::time::timeout(LONGEST_LOCK, async {
            loop {
                if let Some(lock) = self.file.try_lock_refresh(&self.server)? {
                    return Ok(lock);
                }
                tokio::time::sleep(LOCK_PAUSE).await;
            }
        });
        locked.await.ok().transpose()
    }
}

#[async_trait]
impl CredentialStore for ServerCredentials {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        Ok(self.file.get(&self.server).map_err(store_error)?.credentials)
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        // A client must not use a token of a type that it does not understand (RFC 6749, section 7.1).
        if let Some(token) = &credentials.token_response
            && *token.token_type() != BasicTokenType::Bearer
        {
            let kind = token.token_type().as_ref();
            return Err(AuthError::InvalidTokenType(format!(
                "the authorization server issued a token of the type {kind:?}, and this client can send only `Bearer` tokens"
            )));
        }
        let saved = self
            .file
            .update(&self.server, |kept| kept.credentials = Some(credentials));
        saved.map_err(store_error)
    }

    async fn clear(&self) -> Result<(), AuthError> {
        self.file
            .update(&self.server, |kept| kept.credentials = None)
            .map_err(store_error)
    }

    async fn on_refresh_token_rejected(&self, rejected: &StoredCredentials) -> Result<(), AuthError> {
        let received_at = rejected.token_received_at;
        let forget = self.file.update(&self.server, |kept| {
            // Another login may have replaced it.
            kept.credentials
                .take_if(|stored| stored.token_received_at == received_at);
        });
        forget.map_err(store_error)
    }
}

fn store_error(error: TokenFileError) -> AuthError {
    AuthError::CredentialStoreError(error.to_string())
}
