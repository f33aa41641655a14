//! A program that uses `reqwest` beside the client. One test: the provider is that of the process.
#![allow(clippy::unwrap_used)]

use longhaul_client::{Connection, Options};
use rustls::crypto::CryptoProvider;

#[test]
fn a_client_of_the_program_itself_can_be_built_after_a_connection() {
    assert!(CryptoProvider::get_default().is_none());
    // Nothing is sent.
    let _connection = Connection::lazy("http://127.0.0.1:1/mcp", Options::named("test", "0")).unwrap();
    // Panics without a provider, as the feature `rustls-no-provider` has it.
    reqwest::Client::builder().build().unwrap();
    reqwest::Client::new();
}
