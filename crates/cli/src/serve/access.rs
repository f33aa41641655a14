//! Who may come in: the authenticators of a configuration.

use crate::config::{AuthConfig, UNAUTHENTICATED};
use longhaul::{
    Server,
    auth::{
        keys::{KeyAuthenticator, KeyFile, KeyFileError},
        same_user::{SameUser, SameUserUnavailable},
    },
};
use longhaul_runtime::Ports;
use std::path::Path;

/// The configuration cannot be followed.
#[derive(Debug, thiserror::Error)]
pub(super) enum AccessError {
    #[error(transparent)]
    Keys(#[from] KeyFileError),
    #[error("`same_user = true` in [server.auth] is not possible here: {0}")]
    SameUser(SameUserUnavailable),
}

/// The server with its authenticators, and who may come in, for people.
pub(super) fn apply(
    server: Server,
    auth: AuthConfig,
    data_dir: &Path,
    ports: &Ports,
) -> Result<(Server, Vec<String>), AccessError> {
    let (mut server, mut who) = (server, Vec::new());
    if auth.api_keys {
        let keys = KeyAuthenticator::start(KeyFile::open(data_dir)?, ports)?;
        who.push(match keys.active_keys() {
            0 => "holders of API keys (there is none yet: `longhaul keys add FILE NAME`)".to_owned(),
            number => format!("holders of {}", super::report::count(number as u64, "API key")),
        });
        server = server.authenticator(keys);
    }
    match auth.same_user {
        Some(false) => {}
        // Everyone is served in any case, and is the same principal.
        None if auth.unauthenticated => {}
        asked => match (SameUser::new(), asked) {
            (Ok(same_user), _) => {
                who.push("processes of this user on this machine".to_owned());
                server = server.authenticator(same_user);
            }
            (Err(unavailable), Some(_)) => return Err(AccessError::SameUser(unavailable)),
            (Err(unavailable), None) => {
                tracing::warn!("users of this machine cannot be told apart: {unavailable}");
            }
        },
    }
    if auth.unauthenticated {
        who.push(UNAUTHENTICATED.to_owned());
        server = server.allow_unauthenticated(true);
    } else if who.is_empty() {
        who.push("every user of this machine".to_owned());
    }
    Ok((server, who))
}
