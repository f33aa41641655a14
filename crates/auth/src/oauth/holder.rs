//! From what is known of a token to the identity of its holder.

use super::{
    claims::{Claims, Holder},
    scopes::Scopes,
};
use longhaul_core::Principal;
use longhaul_server::auth::{Denied, Identity, Revocation};
use std::sync::Arc;

/// The issuer of a token.
#[derive(Clone)]
pub(super) struct TrustedIssuer {
    /// Its identifier, in which no line ends.
    pub(super) name: Arc<str>,
    pub(super) scopes: Arc<Scopes>,
    /// This server, as tokens must name it.
    pub(super) audience: Arc<str>,
}

impl TrustedIssuer {
    /// Who holds a token with these claims, which were checked.
    pub(super) fn identify(&self, claims: &Claims, revocation: &Revocation) -> Result<Identity, Denied> {
        // Neither an issuer nor a kind contains a line end, so no two holders have one principal.
        let principal = match claims.holder()? {
            Holder::User(subject) => format!("oauth:{}\nuser:{subject}", self.name),
            Holder::Client(client) => format!("oauth:{}\nclient:{client}", self.name),
        };
        let permissions = self.scopes.grant(claims.scopes());
        let scopes = Arc::clone(&self.scopes);
        let identity = Identity::verified(Principal::named(principal), permissions)
            .with_revocation(revocation)
            .with_scope_names(move |needed| scopes.to_ask_for(needed));
        let identity = match self.scopes.supported().as_slice() {
            [] => identity,
            every => identity.with_every_scope(every.join(" ").into()),
        };
        Ok(match claims.ends() {
            Some(ends) => identity.expiring_at(ends),
            None => identity,
        })
    }
}
