//! The `longhaul` command: durable tasks for long MCP tool calls.

#[cfg(unix)]
mod admin;
mod amounts;
mod answer;
mod args;
mod arguments;
mod ask;
mod audit;
mod backup;
mod batch;
mod call;
mod check;
mod closed_stdout;
mod columns;
mod complete;
mod completion;
mod config;
#[cfg(test)]
mod documents;
mod failure;
mod fields;
mod fraction;
mod generated_config;
#[cfg(unix)]
mod import;
#[cfg(unix)]
mod init;
mod inspect;
mod interrupt;
mod json_text;
mod jsonc;
mod keys;
mod kinds;
mod listening_socket;
mod listings;
mod login;
mod mcp_servers;
mod migrate;
mod nearest;
mod output;
mod owner_log;
mod pace;
mod port_owner;
mod principal_logins;
mod record;
mod restore;
mod result;
mod serve;
mod served_file;
mod servers;
#[cfg(unix)]
mod service;
mod shell;
mod shell_word;
mod states;
#[cfg(unix)]
mod stdio;
mod task;
mod tasks;
mod timestamp;
mod tool_schema;
mod transport_warnings;
mod upstream_logins;
mod variables;
mod waiting;
mod watch;
#[cfg(unix)]
mod wrap;

use std::process::ExitCode;

fn main() -> ExitCode {
    // This must come first: command supervisors are this program with other arguments.
    longhaul_command::become_supervisor_if_asked();
    #[cfg(unix)]
    longhaul_command::child_supervisor::become_child_supervisor_if_asked();
    #[cfg(unix)]
    ask::become_form_if_asked();
    completion::complete_if_asked();
    let cli = args::Cli::read();
    match &cli.command {
        args::Command::Serve(serve) => serve::run(serve),
        #[cfg(unix)]
        args::Command::Stdio(stdio) => stdio::run(stdio, None),
        #[cfg(unix)]
        args::Command::Wrap(wrap) => wrap::run(wrap),
        #[cfg(unix)]
        args::Command::Import(import) => import::run(import),
        args::Command::Check(check) => check::run(check),
        #[cfg(unix)]
        args::Command::Init(init) => run_client(init::run(init)),
        #[cfg(unix)]
        args::Command::Service(service) => service::run(service),
        #[cfg(unix)]
        args::Command::Admin(admin) => run_client(admin::run(admin)),
        #[cfg(unix)]
        args::Command::Doctor(doctor) => run_client(admin::doctor(doctor)),
        #[cfg(unix)]
        args::Command::Nodes(of) => run_client(admin::nodes(of)),
        args::Command::Keys(keys) => run_client(keys::run(keys)),
        args::Command::Backup(asked) => run_client(backup::run(asked)),
        args::Command::Restore(asked) => run_client(restore::run(asked)),
        args::Command::Migrate(asked) => run_client(migrate::run(asked)),
        args::Command::Tools(tools) => run_client(listings::tools(tools)),
        args::Command::Call(call) => run_client(call::run(call)),
        args::Command::Task(task) => run_client(task::run(task)),
        args::Command::Tasks(tasks) => run_client(tasks::run(tasks)),
        args::Command::Watch(watch) => run_client(watch::run(watch)),
        args::Command::Answer(answer) => run_client(answer::run(answer)),
        args::Command::Cancel(cancel) => run_client(task::cancel_command(cancel)),
        args::Command::Resources(resources) => run_client(listings::resources(resources)),
        args::Command::Prompts(prompts) => run_client(listings::prompts(prompts)),
        args::Command::Complete(complete) => run_client(complete::run(complete)),
        args::Command::Login(login) => run_client(login::log_in(login)),
        args::Command::Logout(account) => run_client(login::log_out(account)),
        args::Command::Whoami(account) => run_client(login::who(account)),
        args::Command::Completions(completions) => shell::completions(completions),
        args::Command::Man(man) => shell::man(man),
        args::Command::Inspect(inspect) => run_client(inspect::run(inspect)),
    }
}

/// Runs a client command on one thread.
fn run_client(command: impl Future<Output = ExitCode>) -> ExitCode {
    transport_warnings::show();
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => {
            let exit = runtime.block_on(interrupt::or_ended(command));
            // What reads standard input, or waits for a form that was killed just now, must not keep the program.
            runtime.shutdown_background();
            match output::has_failed() {
                true => result::Exit::NotWritten.into(),
                false => exit,
            }
        }
        Err(error) => {
            output::note(&format!("longhaul: {error}"));
            ExitCode::FAILURE
        }
    }
}
