//! Tokens of OAuth 2.1 issuers: the server as a resource server.
//!
//! A token is accepted if an issuer that the configuration names has made it, for this server, and it has not ended. JWTs (RFC 9068) are verified here with the issuer's
//! keys; other tokens are shown to the issuer (introspection, RFC 7662). What was verified is remembered until it ends.
//!
//! Cryptography is ring's. The formats of JWT and JWK are parsed by `jsonwebtoken`; its own verification is not used, because its backend is one for the whole process, which
//! belongs to the application, and because it reads the system's clock.

mod authenticator;
mod claims;
mod error;
mod fetch;
mod holder;
mod introspection;
mod issuer;
mod jwks;
mod jwt;
mod metadata;
mod reachability;
mod scopes;

pub use authenticator::OAuthAuthenticator;
pub use error::IssuerError;
pub use issuer::{Introspection, Issuer, KeySource};
pub use metadata::ProtectedResource;
pub use scopes::Scopes;
