//! Who may use a Longhaul server.
//!
//! - [`keys`]: API keys in the data directory.
//! - [`oauth`]: tokens of OAuth 2.1 issuers.
//! - [`same_user`]: processes of the user who runs the server, on loopback.

pub mod keys;
pub mod oauth;
pub mod same_user;
