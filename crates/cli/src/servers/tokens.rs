//! The tokens that commands show to servers.

use super::{
    loopback::{LoopbackLogin, LoopbackServer},
    plain_http::{self, ReadableLogin},
};
use crate::output;
use longhaul_client::{InvalidAddress, Login, LoginOptions, TokenFile, TokenProvider};
use std::{path::Path, sync::Arc};

/// What shows the server at `url` who calls. It opens no browser: a command in a script must not.
pub(super) fn of(
    url: &str,
    loopback: Option<LoopbackServer>,
) -> Result<Option<Arc<dyn TokenProvider>>, InvalidAddress> {
    match TokenFile::open_default() {
        Ok(file) => {
            tell_earlier_mode(&file);
            let login = Login::new(url, file, LoginOptions::default())?;
            Ok(Some(match loopback {
                Some(server) => Arc::new(LoopbackLogin { login, server }),
                None if plain_http::is_readable(url) => Arc::new(ReadableLogin {
                    login,
                    url: url.to_owned(),
                }),
                None => Arc::new(login),
            }))
        }
        // Most servers need no token.
        Err(error) => {
            output::note(&format!("note: logins are not used: {error}"));
            Ok(None)
        }
    }
}

/// Tells that other users could read a file, which is private now, and what that means.
pub(crate) fn tell_mode(file: &Path, mode: u32, then: &str) {
    output::note(&format!(
        "note: other users were permitted to read {} (mode {mode:o}); its mode is 600 now. {then}",
        file.display()
    ));
}

/// Tells that other users could read the tokens.
pub(crate) fn tell_earlier_mode(file: &TokenFile) {
    if let Some(mode) = file.earlier_mode() {
        tell_mode(
            file.path(),
            mode,
            "If somebody may have copied it, end the logins and keys in it at their servers",
        );
    }
}

/// Whether a key or a login is kept for the server at `url`.
pub(super) async fn are_kept(url: &str) -> bool {
    let Ok(file) = TokenFile::open_default() else {
        return false;
    };
    match Login::new(url, file, LoginOptions::default()) {
        Ok(login) => matches!(login.who().await, Ok(Some(_))),
        Err(_) => false,
    }
}
