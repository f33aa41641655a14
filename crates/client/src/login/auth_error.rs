//! Why an authorization server gave no token.

use super::{chosen_issuer::NotNamed, filtered_client::NotAnswered, foreign_metadata};
use crate::{RequestError, TokenError};
use rmcp::transport::auth::{AuthError, ProtectedResourceMetadataInvalidReason};
use std::error::Error;

/// The error for permissions that are not granted (RFC 6749, section 4.1.2.1).
pub(super) const INVALID_SCOPE: &str = "invalid_scope";
/// The errors for a client that the authorization server does not know (RFC 6749, sections 4.1.2.1 and 5.2).
pub(super) const INVALID_CLIENT: &str = "invalid_client";
pub(super) const UNAUTHORIZED_CLIENT: &str = "unauthorized_client";

/// In the words of rmcp, with what the error hides.
pub(super) fn refused(error: AuthError) -> TokenError {
    if let AuthError::ProtectedResourceMetadataInvalid { url, reason } = &error
        && let ProtectedResourceMetadataInvalidReason::ResourceMismatch { reference, permitted } = &**reason
    {
        return TokenError::Failed {
            reason: foreign_metadata::describe(url, permitted.as_str(), reference),
        };
    }
    if let AuthError::CredentialStoreError(reason) = error {
        return TokenError::TokenFile { reason };
    }
    let mut reason = error.to_string();
    let mut source = Error::source(&error);
    while let Some(inner) = source {
        if inner.is::<NotNamed>() {
            return TokenError::Failed {
                reason: inner.to_string(),
            };
        }
        if let Some(not_answered) = inner.downcast_ref::<NotAnswered>() {
            let reason = not_answered.to_string();
            return match not_answered {
                NotAnswered::NotFollowed(_) | NotAnswered::Failed(RequestError::Certificate { .. }) => {
                    TokenError::Failed { reason }
                }
                NotAnswered::Failed(_) => TokenError::Unavailable { reason },
            };
        }
        let text = inner.to_string();
        if !reason.contains(&text) {
            reason = format!("{reason}: {text}");
        }
        source = inner.source();
    }
    match error {
        // Their names in RFC 6749 are all that the texts of authorization servers have in common.
        AuthError::TokenExchangeFailed(_) | AuthError::TokenRefreshFailed(_) | AuthError::ClientCredentialsError(_)
            if [INVALID_CLIENT, UNAUTHORIZED_CLIENT]
                .iter()
                .any(|name| reason.contains(name)) =>
        {
            TokenError::InvalidClient { reason }
        }
        AuthError::HttpError(_)
        | AuthError::DiscoveryRequestFailed { .. }
        | AuthError::AuthorizationServersUnavailable { .. }
        | AuthError::TokenRefreshFailed(_) => TokenError::Unavailable { reason },
        _ if reason.contains(INVALID_SCOPE) => TokenError::InvalidScope { reason },
        _ => TokenError::Failed { reason },
    }
}
