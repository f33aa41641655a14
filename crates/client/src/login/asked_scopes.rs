//! The permissions that a login asks for.

use super::{LoginOptions, token_file::StoredLogin};
use reqwest::Url;
use rmcp::transport::auth::{AuthorizationManager, AuthorizationMetadata};

/// The permission to refresh tokens (OpenID Connect).
pub(super) const OFFLINE_ACCESS: &str = "offline_access";

/// The permissions that a login asks for.
#[derive(Debug, Default, Clone)]
pub(super) struct AskedScopes {
    /// These; empty for those that the server names.
    exactly: Vec<String>,
    /// They are those of a new login.
    is_new: bool,
    /// Not those that the server names.
    omits_named: bool,
    /// And these.
    more: Vec<String>,
    /// And those that the login had before at this issuer: a token replaces the earlier one.
    held: Option<(Option<String>, Vec<String>)>,
}

impl AskedScopes {
    /// These and no others.
    pub(super) fn exactly(scopes: &[String]) -> Self {
        Self {
            exactly: scopes.to_vec(),
            ..Self::default()
        }
    }

    /// Those of a new login. It keeps what an earlier one had if it is made to have more.
    pub(super) fn of_new(options: &LoginOptions, kept: &StoredLogin) -> Self {
        let has_more = !options.scopes.is_empty() || !kept.wanted.is_empty();
        let held = kept.credentials.as_ref().filter(|_| has_more && kept.key.is_none());
        Self {
            exactly: options.scopes.clone(),
            is_new: true,
            omits_named: false,
            more: kept.wanted.clone(),
            held: held.map(|held| (held.issuer.clone(), held.granted_scopes.clone())),
        }
    }

    /// The same without those that the server names; `None` if it was not asked for any.
    pub(super) fn without_named(&self) -> Option<Self> {
        let asks_for_named = self.exactly.is_empty() && !self.omits_named;
        asks_for_named.then(|| Self {
            omits_named: true,
            ..self.clone()
        })
    }

    /// Whether they are those of a new login, and not of more permissions for the present one.
    pub(super) fn are_of_new(&self) -> bool {
        self.is_new
    }

    /// Whether those that the server names are left out.
    pub(super) fn omits_named(&self) -> bool {
        self.omits_named
    }

    /// All of them at this authorization server, which was found just now. Where it issues refresh tokens for a permission, that is one of them: rmcp asks for it, so this
    /// client has to register for it.
    pub(super) async fn at(&self, manager: &AuthorizationManager, metadata: &AuthorizationMetadata) -> Vec<String> {
        let mut all = match self.exactly.is_empty() {
            true => manager.select_initial_scopes(&[]).await,
            false => self.exactly.clone(),
        };
        let held = self.held.iter().filter(|(of, _)| *of == metadata.issuer);
        for scope in held.flat_map(|(_, held)| held).chain(&self.more) {
            // As in `Tokens`.
            if !scope.is_empty() && !all.contains(scope) {
                all.push(scope.clone());
            }
        }
        let supported = metadata.scopes_supported.as_deref().unwrap_or_default();
        let has_offline = |scopes: &[String]| scopes.iter().any(|scope| scope == OFFLINE_ACCESS);
        if !all.is_empty() && !has_offline(&all) && has_offline(supported) {
            all.push(OFFLINE_ACCESS.to_owned());
        }
        all
    }
}

/// Asks for the user's consent where a refresh token is wanted: without that, servers that follow OpenID Connect give none (OpenID Connect Core, section 11).
pub(super) fn with_prompt(mut url: Url) -> Url {
    let has = |name: &str, wanted: fn(&str) -> bool| {
        let mut pairs = url.query_pairs();
        pairs.any(|(key, value)| key == name && wanted(&value))
    };
    let is_offline = has("scope", |scopes| scopes.split(' ').any(|scope| scope == OFFLINE_ACCESS));
    if is_offline && !has("prompt", |_| true) {
        url.query_pairs_mut().append_pair("prompt", "consent");
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refresh_token_is_asked_for_with_consent() {
        let asked = |query: &str| {
            let url = Url::parse(&format!("https://as.example/authorize?{query}")).unwrap();
            with_prompt(url).query().unwrap().to_owned()
        };
        assert_eq!(asked("scope=a+offline_access"), "scope=a+offline_access&prompt=consent");
        assert_eq!(asked("scope=a"), "scope=a");
        assert_eq!(
            asked("prompt=login&scope=offline_access"),
            "prompt=login&scope=offline_access"
        );
    }
}
