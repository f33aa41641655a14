//! The `[server.auth]` section: who may come in.

use crate::config::{
    paths::Environment,
    section::{Entry, Section},
    server::issuer::{self, ScopePattern},
};
use longhaul::auth::oauth::{Issuer, IssuerError};

/// The only text of `unauthenticated`.
pub(crate) const UNAUTHENTICATED: &str = "anyone may call every tool";
/// The only text of `plain_http`.
pub(crate) const PLAIN_HTTP: &str = "others on the network can read tokens and results";
const NO_PUBLIC_URL: &str = "[[server.auth.issuer]]: tokens must say for which server they are: set `public_url` in [server] to the URL that clients use";

/// Who may come in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct AuthConfig {
    /// Whoever has one of the keys of the data directory.
    pub(crate) api_keys: bool,
    /// On loopback, processes of the user who runs the server. `None`: if the system can tell.
    pub(crate) same_user: Option<bool>,
    /// Whoever has a token of one of them for this server.
    pub(crate) issuers: Vec<Issuer>,
    /// The tools that the scopes of the issuers are for.
    pub(crate) scope_patterns: Vec<ScopePattern>,
    /// Whoever has no credentials, too.
    pub(crate) unauthenticated: bool,
}

/// Reads the section; `None` after a problem.
pub(crate) fn read(section: &Section<'_>, environment: &Environment, has_public_url: bool) -> Option<AuthConfig> {
    let api_keys = section.get_or("api_keys", false, Entry::flag);
    let same_user = section.optional("same_user", Entry::flag);
    let unauthenticated = section.get_or("unauthenticated", false, |entry| entry.words(UNAUTHENTICATED));
    let mut scope_patterns = Vec::new();
    let issuers = section.get_or("issuer", Vec::new(), |entry| {
        let elements = entry.elements("an array of tables: [[server.auth.issuer]]")?;
        if let (Some(first), false) = (elements.first(), has_public_url) {
            first.report(NO_PUBLIC_URL.to_owned());
        }
        let read = |entry: &Entry<'_>| {
            let section = entry.section("[[server.auth.issuer]]", "such as [[server.auth.issuer]]")?;
            issuer::read(&section, environment, &mut scope_patterns)
        };
        // All of them first, so that every mistake is reported.
        let issuers: Vec<_> = elements.iter().map(read).collect();
        let is_whole = issuers.iter().all(Option::is_some);
        let issuers = elements.iter().zip(issuers);
        let issuers: Vec<(&Entry<'_>, Issuer)> =
            issuers.filter_map(|(entry, issuer)| Some((entry, issuer?))).collect();
        let is_sound = report_collisions(&issuers);
        let issuers: Vec<Issuer> = issuers.into_iter().map(|(_, issuer)| issuer).collect();
        if !is_whole || !is_sound {
            return None;
        }
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
        scope_patterns,
        unauthenticated: unauthenticated?,
    })
}

/// Reports issuers that exclude each other. Returns whether there were none.
fn report_collisions(issuers: &[(&Entry<'_>, Issuer)]) -> bool {
    let mut is_sound = true;
    for (at, (entry, issuer)) in issuers.iter().enumerate() {
        let before = || issuers[..at].iter().map(|(_, other)| other);
        if before().any(|other| other.name() == issuer.name()) {
            entry.report(IssuerError::Twice(issuer.name().to_owned()).to_string());
            is_sound = false;
        } else if let Some(other) = before().find(|other| other.has_introspection() && issuer.has_introspection()) {
            let (other, name) = (other.name().to_owned(), issuer.name().to_owned());
            entry.report(IssuerError::TwoIntrospections(other, name).to_string());
            is_sound = false;
        }
    }
    is_sound
}

impl AuthConfig {
    /// Whether anybody from another machine could come in.
    pub(crate) fn admits_remote(&self) -> bool {
        self.api_keys || self.unauthenticated || !self.issuers.is_empty()
    }
}
