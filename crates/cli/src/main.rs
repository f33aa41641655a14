//! The `longhaul` command: durable tasks for long MCP tool calls.

mod args;
mod call;
mod check;
mod config;
mod nearest;
mod output;
mod serve;
#[cfg(unix)]
mod stdio;
mod task;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    // This must come first: command supervisors are this program with other arguments.
    longhaul_upstream::command::become_supervisor_if_asked();
    let cli = args::Cli::parse();
    match &cli.command {
        args::Command::Serve(serve) => serve::run(serve),
        #[cfg(unix)]
        args::Command::Stdio(stdio) => stdio::run(stdio),
        args::Command::Check(check) => check::run(check),
        args::Command::Call(call) => run_client(call::run(call)),
        args::Command::Task(task) => run_client(task::run(task)),
    }
}

/// Runs a client command on one thread.
fn run_client(command: impl Future<Output = ExitCode>) -> ExitCode {
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(command),
        Err(error) => {
            output::note(&format!("longhaul: {error}"));
            ExitCode::FAILURE
        }
    }
}
