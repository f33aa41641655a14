//! The `[server.auth]` section: who may come in.

use super::{issuer, paths::Environment, section::Section};
use longhaul::auth::oauth::Issuer;

/// The only text of `unauthenticated`.
pub(crate) const UNAUTHENTICATED: &str = "anyone may call every tool";
/// The only text of `plain_http`.
pub(crate) const PLAIN_HTTP: &str = "others on the network can read tokens and results";

/// Who may come in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct AuthConfig {
    /// Whoever has one of the keys of the data directory.
    pub(crate) api_keys: bool,
    /// On loopback, processes of the user who runs the server. `None`: if the system can tell.
    pub(crate) same_user: Option<bool>,
    /// Whoever has a token of one of them for this server.
    pub(crate) issuers: Vec<Issuer>,
    /// Whoever has no credentials, too.
    pub(crate) unauthenticated: bool,
}

/// Reads the section; `None` after a problem.
pub(super) fn read(section: &Section<'_>, environment: &Environment) -> Option<AuthConfig> {
    let api_keys = section.get_or("api_keys", false, |entry| entry.flag());
    let same_user = section.optional("same_user", |entry| entry.flag());
    let unauthenticated = section.get_or("unauthenticated", false, |entry| entry.words(UNAUTHENTICATED));
    let issuers = section.get_or("issuer", Vec::new(), |entry| {
        let elements = entry.elements("an array of tables: [[server.auth.issuer]]")?;
        let read = |entry: super::section::Entry<'_>| {
            let section = entry.section("[[server.auth.issuer]]", "such as [[server.auth.issuer]]")?;
            issuer::read(&section, environment)
        };
        // All of them first, so that every mistake is reported.
        let issuers: Vec<_> = elements.into_iter().map(read).collect();
        let issuers: Vec<Issuer> = issuers.into_iter().collect::<Option<_>>()?;
        if issuers.windows(2).any(|pair| !pair[0].has_scopes_of(&pair[1])) {
            entry.warn(
                "`issuer`: the issuers have different `scopes`. Clients are told of those of the first before they log in, and a client that chooses another issuer may be refused there: give all of them the same names if you can".to_owned(),
            );
        }
        Some(issuers)
    });
    // A mistyped key may be what lets somebody in.
    if !section.finish() {
        return None;
    }
    Some(AuthConfig {
        api_keys: api_keys?,
        same_user: same_user?,
        issuers: issuers?,
        unauthenticated: unauthenticated?,
    })
}

impl AuthConfig {
    /// Whether anybody from another machine could come in.
    pub(crate) fn admits_remote(&self) -> bool {
        self.api_keys || self.unauthenticated || !self.issuers.is_empty()
    }
}
