//! The official Rust SDK as a client of Longhaul, in both protocol eras.
//!
//! `interop-rmcp --url URL` or `interop-rmcp --stdio PROGRAM [ARG …]`: one line of JSON for each step, and an exit status for all of them.
//! With `--browser URL` it logs in first, with that page as the browser.
//! rmcp 3 supports the Tasks of the extension, and not those of 2025-11-25.

mod call;
mod legacy;
mod login;
mod modern;
mod session;
mod steps;
mod user;

use clap::Parser;
use session::Server;
use std::process::ExitCode;
use steps::Steps;

/// The official Rust SDK as a client, in both protocol eras
#[derive(Debug, Parser)]
struct Args {
    #[command(flatten)]
    server: Server,
    /// Log in with this page of the authorization server, which follows the redirects of a login
    #[arg(long, requires = "url")]
    browser: Option<String>,
}

#[tokio::main]
async fn main() -> ExitCode {
    // A second one is refused, and is the same.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let Args { server, browser } = Args::parse();
    let mut steps = Steps::default();
    match (server.url(), browser) {
        (Some(url), Some(browser)) => login::run(url, &browser, &mut steps).await,
        _ => {
            legacy::run(&server, &mut steps).await;
            modern::run(&server, &mut steps).await;
        }
    }
    if steps.finish() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
