//! Why a configuration is refused.

use std::path::PathBuf;

/// Why issuers cannot be used as they are configured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IssuerError {
    /// An address is not one, or not one that can be trusted.
    #[error("{what} {text:?} cannot be used: {reason}")]
    Address {
        /// Which address.
        what: &'static str,
        /// As it was given.
        text: String,
        /// What would be right.
        reason: String,
    },
    /// Nothing says how its tokens are verified.
    #[error("the issuer {0} has neither `jwks` nor `introspection`: name one, or both")]
    NoVerification(String),
    /// Two issuers have the same name.
    #[error("the issuer {0} is configured twice: merge both")]
    Twice(String),
    /// There are no issuers.
    #[error("no issuer is configured")]
    None,
    /// A token that is no JWT does not say whose it is, and must not be shown to another issuer.
    #[error(
        "{0} and {1} both have `introspection`, and an opaque token does not say whose it is: leave it to one of them"
    )]
    TwoIntrospections(String, String),
    /// A file with keys cannot be read.
    #[error("cannot read the keys of the issuer {issuer} from {path}: {reason}")]
    KeyFile {
        /// The issuer.
        issuer: String,
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// No connections over TLS can be made.
    #[error("issuers cannot be reached over TLS: {0}")]
    Tls(String),
}
