//! Who may come in: the authenticators of a configuration.

use crate::config::{ServerConfig, UNAUTHENTICATED};
use longhaul::{
    Server,
    audit::Audit,
    auth::{
        ANYONE,
        keys::{KeyAuthenticator, KeyFile, KeyFileError},
        oauth::{Issuer, IssuerError, OAuthAuthenticator},
        same_user::{SameUser, SameUserUnavailable},
    },
};
use longhaul_runtime::Ports;
use std::sync::Arc;

/// The configuration cannot be followed.
#[derive(Debug, thiserror::Error)]
pub(super) enum AccessError {
    #[error(transparent)]
    Keys(#[from] KeyFileError),
    #[error(transparent)]
    Issuers(#[from] IssuerError),
    #[error("`same_user = true` in [server.auth] is not possible here: {0}")]
    SameUser(SameUserUnavailable),
}

/// The server with its authenticators, and who may come in, for people.
pub(super) fn apply(
    server: Server,
    config: &ServerConfig,
    ports: &Ports,
    audit: Option<&Arc<dyn Audit>>,
) -> Result<(Server, Vec<String>), AccessError> {
    let (mut server, mut who, auth) = (server, Vec::new(), &config.auth);
    if auth.api_keys {
        let file = KeyFile::open(&config.data_dir)?;
        let keys = match audit {
            Some(audit) => KeyAuthenticator::start_audited(file, ports, Arc::clone(audit))?,
            None => KeyAuthenticator::start(file, ports)?,
        };
        who.push(match keys.active_keys() {
            0 => "holders of API keys (there is none yet: `longhaul keys add FILE NAME`)".to_owned(),
            number => format!("holders of {}", crate::output::amounts::count(number as u64, "API key")),
        });
        server = server.authenticator(keys);
    }
    if let (Some(public_url), false) = (&config.http.public_url, auth.issuers.is_empty()) {
        let tokens = OAuthAuthenticator::new(public_url.as_str(), auth.issuers.clone(), ports)?;
        let names: Vec<&str> = auth.issuers.iter().map(Issuer::name).collect();
        who.push(format!("holders of tokens of {}", names.join(", ")));
        server = server.authenticator(tokens);
    }
    match auth.same_user {
        Some(false) => {}
        // Everyone is served in any case. `same_user = true` tells this user from the others.
        None if auth.unauthenticated => {}
        _ if config.listen.address().is_none() => {
            who.push("processes of this user on this machine".to_owned());
            server = server.authenticator(SameUser::of_unix_sockets());
        }
        asked => match (SameUser::new(), asked) {
            (Ok(same_user), _) => {
                if crate::check::admits_same_user(config) {
                    who.push("processes of this user on this machine".to_owned());
                } else if who.is_empty() {
                    who.push(crate::check::NOBODY.to_owned());
                }
                server = server.authenticator(same_user);
            }
            (Err(unavailable), Some(_)) => return Err(AccessError::SameUser(unavailable)),
            (Err(unavailable), None) => {
                tracing::warn!("users of this machine cannot be told apart: {unavailable}");
            }
        },
    }
    if auth.unauthenticated {
        who.push(format!("{UNAUTHENTICATED}, as the principal `{ANYONE}`"));
        server = server.allow_unauthenticated(true);
    } else if who.is_empty() {
        who.push(match config.listen.address() {
            Some(_) => "every user of this machine".to_owned(),
            // Others are never served without credentials.
            None => "processes of this user on this machine".to_owned(),
        });
    }
    who.extend(crate::check::proxies(config));
    Ok((server, who))
}
