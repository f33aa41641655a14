//! The official Rust SDK as a client of Longhaul, in both protocol eras.
//!
//! `interop-rmcp --url URL` or `interop-rmcp --stdio PROGRAM [ARG …]`: one line of JSON for each step, and an exit status for all of them.
//! rmcp 3 supports the Tasks of the extension, and not those of 2025-11-25.

mod call;
mod legacy;
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
}

#[tokio::main]
async fn main() -> ExitCode {
    let Args { server } = Args::parse();
    let mut steps = Steps::default();
    legacy::run(&server, &mut steps).await;
    modern::run(&server, &mut steps).await;
    if steps.finish() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
