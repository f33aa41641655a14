//! The official Rust SDK as a client of Longhaul, in both eras.
//!
//! `interop-rmcp --url URL` or `interop-rmcp --stdio PROGRAM [ARG …]`: one line of JSON for each step, and an exit status for all of them.
//! rmcp 3 knows the Tasks of the extension, and not those of 2025-11-25; in that era it calls, answers and listens.

mod call;
mod legacy;
mod modern;
mod steps;
mod user;

use clap::Parser;
use rmcp::{
    ClientLifecycleMode, ClientServiceExt, RoleClient,
    service::RunningService,
    transport::{StreamableHttpClientTransport, TokioChildProcess},
};
use std::process::ExitCode;
use steps::{Deviation, Steps};
use user::User;

/// A session with the server.
type Session = RunningService<RoleClient, User>;

/// The official Rust SDK as a client, in both eras
#[derive(Debug, Parser)]
struct Args {
    #[command(flatten)]
    server: Server,
}

/// Where the server is.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Server {
    /// Its endpoint
    #[arg(long)]
    url: Option<String>,
    /// The program and its arguments
    #[arg(long, num_args = 1.., allow_hyphen_values = true)]
    stdio: Vec<String>,
}

impl Server {
    /// Connects as this user, in the era of this life cycle.
    async fn connect(&self, user: User, lifecycle: ClientLifecycleMode) -> Result<Session, Deviation> {
        if let Some(url) = &self.url {
            let transport = StreamableHttpClientTransport::from_uri(url.as_str());
            return Ok(user.serve_with_lifecycle(transport, lifecycle).await?);
        }
        let (program, arguments) = self.stdio.split_first().ok_or("no program")?;
        let mut command = tokio::process::Command::new(program);
        command.args(arguments);
        Ok(user
            .serve_with_lifecycle(TokioChildProcess::new(command)?, lifecycle)
            .await?)
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let Args { server } = Args::parse();
    let mut steps = Steps::default();
    legacy::run(&server, &mut steps).await;
    modern::run(&server, &mut steps).await;
    if steps.end() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
