//! The tokens that commands show to servers.

use crate::output;
use longhaul_client::{InvalidAddress, Login, LoginOptions, TokenFile, TokenProvider};
use std::sync::Arc;

/// What shows the server at `url` who calls. It opens no browser: a command in a script must not.
pub(super) fn of(url: &str) -> Result<Option<Arc<dyn TokenProvider>>, InvalidAddress> {
    match TokenFile::open_default() {
        Ok(file) => Ok(Some(Arc::new(Login::new(url, file, LoginOptions::default())?))),
        // Most servers need no token.
        Err(error) => {
            output::note(&format!("note: logins are not used: {error}"));
            Ok(None)
        }
    }
}
