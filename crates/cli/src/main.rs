//! The `longhaul` command: durable tasks for long MCP tool calls.

mod args;
mod ask;
mod call;
mod check;
mod config;
#[cfg(test)]
mod documents;
mod exit;
mod machine;
mod mcp_servers;
mod operate;
mod output;
mod serve;
mod servers;

use std::process::ExitCode;

fn main() -> ExitCode {
    // This must come first: command supervisors are this program with other arguments.
    longhaul_command::become_supervisor_if_asked();
    #[cfg(unix)]
    longhaul_command::child_supervisor::become_child_supervisor_if_asked();
    #[cfg(unix)]
    ask::become_form_if_asked();
    call::completion::complete_if_asked();
    let cli = args::Cli::read();
    match &cli.command {
        args::Command::Serve(serve) => serve::run(serve),
        #[cfg(unix)]
        args::Command::Stdio(stdio) => serve::stdio::run(stdio, None),
        #[cfg(unix)]
        args::Command::Wrap(wrap) => serve::wrap::run(wrap),
        #[cfg(unix)]
        args::Command::Import(import) => operate::import::run(import),
        args::Command::Check(check) => check::run(check),
        #[cfg(unix)]
        args::Command::Init(init) => run_client(operate::init::run(init)),
        #[cfg(unix)]
        args::Command::Service(service) => operate::service::run(service),
        #[cfg(unix)]
        args::Command::Admin(admin) => run_client(operate::admin::run(admin)),
        #[cfg(unix)]
        args::Command::Doctor(doctor) => run_client(operate::admin::doctor(doctor)),
        #[cfg(unix)]
        args::Command::Nodes(of) => run_client(operate::admin::nodes(of)),
        args::Command::Keys(keys) => run_client(operate::keys::run(keys)),
        args::Command::Backup(asked) => run_client(operate::backup::run(asked)),
        args::Command::Restore(asked) => run_client(operate::restore::run(asked)),
        args::Command::Migrate(asked) => run_client(operate::migrate::run(asked)),
        args::Command::Tools(tools) => run_client(call::listings::tools(tools)),
        args::Command::Call(call) => run_client(call::tool_call::run(call)),
        args::Command::Task(task) => run_client(call::task::run(task)),
        args::Command::Tasks(tasks) => run_client(call::tasks::run(tasks)),
        args::Command::Watch(watch) => run_client(call::watch::run(watch)),
        args::Command::Answer(answer) => run_client(call::answer::run(answer)),
        args::Command::Cancel(cancel) => run_client(call::task::cancel_command(cancel)),
        args::Command::Resources(resources) => run_client(call::listings::resources(resources)),
        args::Command::Prompts(prompts) => run_client(call::listings::prompts(prompts)),
        args::Command::Complete(complete) => run_client(call::complete::run(complete)),
        args::Command::Login(login) => run_client(call::login::log_in(login)),
        args::Command::Logout(account) => run_client(call::login::log_out(account)),
        args::Command::Whoami(account) => run_client(call::login::who(account)),
        args::Command::Completions(completions) => call::shell::completions(completions),
        args::Command::Man(man) => call::shell::man(man),
        args::Command::Inspect(inspect) => run_client(call::inspect::run(inspect)),
    }
}

/// Runs a client command on one thread.
fn run_client(command: impl Future<Output = ExitCode>) -> ExitCode {
    output::transport_warnings::show();
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => {
            let exit = runtime.block_on(exit::interrupt::or_ended(command));
            // What reads standard input, or waits for a form that was killed just now, must not keep the program.
            runtime.shutdown_background();
            match output::has_failed() {
                true => exit::result::Exit::NotWritten.into(),
                false => exit,
            }
        }
        Err(error) => {
            output::note(&format!("longhaul: {error}"));
            ExitCode::FAILURE
        }
    }
}
