//! Asking the user to log in.

use crate::TokenError;
use longhaul_core::BoxFuture;
use reqwest::Url;

/// Brings the user to an authorization server, and its answer back.
pub trait Consent: Send + Sync {
    /// Where the authorization server sends the browser when the user is done. `preferred` is the address of an earlier login: use it if possible, since
    /// authorization servers accept only addresses that were registered.
    ///
    /// # Errors
    /// [`TokenError`] if the user cannot be asked here.
    fn redirect_uri<'a>(&'a self, preferred: Option<&'a str>) -> BoxFuture<'a, Result<String, TokenError>>;

    /// Shows `url` to the user, and returns the URL the browser was sent to in the end, with its query. Whether it answers this login is checked by the caller.
    ///
    /// # Errors
    /// [`TokenError`] if the user does not log in.
    fn authorize<'a>(&'a self, url: &'a Url) -> BoxFuture<'a, Result<Url, TokenError>>;
}
