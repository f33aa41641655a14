//! Tokens of issuers with real keys: accepted ones, forged ones, and issuers that are down, slow, lying or huge.

#[path = "../support/mod.rs"]
mod support;

mod forged;
mod introspection;
mod issuer_server;
mod key_sets;
mod signer;
mod tokens;

/// The server that the tokens are for.
const RESOURCE: &str = "https://mcp.example/mcp";
