//! The command line: commands, options and their help.

#[cfg(unix)]
mod admin;
mod backup;
mod client;
mod help;
#[cfg(unix)]
mod import;
#[cfg(unix)]
mod init;
mod keys;
mod login;
#[cfg(unix)]
mod service;
mod serving;
mod shell;

#[cfg(unix)]
pub(crate) use admin::*;
pub(crate) use backup::*;
pub(crate) use client::*;
#[cfg(unix)]
pub(crate) use import::*;
#[cfg(unix)]
pub(crate) use init::*;
pub(crate) use keys::*;
pub(crate) use login::*;
#[cfg(unix)]
pub(crate) use service::*;
pub(crate) use serving::*;
pub(crate) use shell::*;

use crate::output::{self, nearest};
use clap::{
    CommandFactory as _, FromArgMatches as _, Parser, Subcommand,
    error::{ContextKind, ContextValue, ErrorKind},
};
use serde_json::json;

/// Durable tasks for long-running MCP tool calls.
#[derive(Debug, Parser)]
#[command(name = "longhaul", version = env!("LONGHAUL_VERSION"), propagate_version = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Reads the command line. If it is wrong, prints why and ends the process.
    pub(crate) fn read() -> Self {
        // What is not UTF-8 is refused by the parser, with its reason.
        let words = || {
            std::env::args_os()
                .skip(1)
                .map(|word| word.to_string_lossy().into_owned())
        };
        let command = words().next().unwrap_or_default();
        let parsed = help::grouped(Self::command())
            .try_get_matches()
            .and_then(|matches| Self::from_arg_matches(&matches));
        parsed.unwrap_or_else(|error| {
            let error = with_tip(error, &command);
            let mut words = words().take_while(|word| word != "--");
            if error.use_stderr() && words.any(|word| word == "--json") {
                let message = error.render().to_string();
                let mut shown = json!({"kind": "usage", "message": as_sentence(&message)});
                if command == "call" {
                    shown["mayHaveRun"] = false.into();
                }
                output::json_line(&json!({"error": shown}));
            }
            error.exit()
        })
    }
}

/// What clap says is wrong, without its prefix, and without the tips and the usage behind it.
fn as_sentence(rendered: &str) -> &str {
    let first = rendered.split("\n\n").next().unwrap_or_default();
    first.strip_prefix("error: ").unwrap_or(first).trim()
}

/// Corrects what clap suggests for an unknown option: an option that is not like it at all, or `-- --option`, although behind `--` is the command of a
/// server.
fn with_tip(mut error: clap::Error, command: &str) -> clap::Error {
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    let is_option = option.starts_with('-');
    let may_be_id = is_option && !option.starts_with("--");
    let name = option.trim_start_matches('-').split('=').next().unwrap_or_default();
    let name = name.to_owned();
    let is_near = match error.get(ContextKind::SuggestedArg) {
        Some(ContextValue::String(suggested)) => nearest::is_near(&name, suggested.trim_start_matches('-')),
        _ => false,
    };
    error.remove(ContextKind::Suggested);
    if is_near {
        return error;
    }
    if takes_id(command) && may_be_id {
        error.remove(ContextKind::SuggestedArg);
        let tip = "a task id that begins with a dash is given as '--id=ID'".to_owned();
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
        return error;
    }
    let taken = match command {
        "call" => Some("an argument of a tool"),
        "prompts" | "complete" => Some("an argument of a prompt"),
        "answer" => Some("a field of the answer"),
        "inspect" => Some("a member of the params"),
        _ => None,
    };
    let tip = taken.map(|taken| format!("{taken} is written without dashes: '{name}=VALUE'"));
    error.remove(ContextKind::SuggestedArg);
    if let Some(tip) = tip.filter(|_| is_option) {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

fn takes_id(command: &str) -> bool {
    ["task", "answer", "cancel", "watch"].contains(&command)
}

/// The command to run.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Write a configuration file with a first tool
    #[cfg(unix)]
    #[command(after_help = help::INIT)]
    Init(Init),
    /// Serve the commands and MCP servers of a configuration file
    #[command(after_help = help::SERVE)]
    Serve(Serve),
    /// Serve a configuration file on standard input and output
    #[cfg(unix)]
    #[command(after_help = help::STDIO)]
    Stdio(Stdio),
    /// Put durable tasks in front of an MCP server of someone else
    #[cfg(unix)]
    #[command(after_help = help::WRAP)]
    Wrap(Wrap),
    /// Put a host's servers behind Longhaul, or draft tools from files
    #[cfg(unix)]
    #[command(after_help = help::IMPORT)]
    Import(Import),
    /// Check a configuration file without serving it
    #[command(after_help = "Exit status: 0 if the file can be served, 2 if not.")]
    Check(Check),
    /// Run a server as a systemd service
    #[cfg(unix)]
    #[command(after_help = help::SERVICE)]
    Service(Service),
    /// Make and revoke the API keys of a server
    Keys(Keys),
    /// See all tasks of a server, and act on them, as its operator
    #[cfg(unix)]
    #[command(after_help = help::ADMIN)]
    Admin(Admin),
    /// Look for what is wrong, and say what to do
    #[cfg(unix)]
    #[command(after_help = help::DOCTOR)]
    Doctor(Doctor),
    /// List the servers that share their tasks, and give up dead ones
    #[cfg(unix)]
    #[command(after_help = help::NODES)]
    Nodes(Nodes),
    /// Write a backup of a data directory, while its server runs
    #[command(after_help = help::BACKUP)]
    Backup(Backup),
    /// Make a data directory from a backup
    #[command(after_help = help::RESTORE)]
    Restore(Restore),
    /// Move the tasks of a server to PostgreSQL, for several servers
    #[command(after_help = help::MIGRATE)]
    Migrate(Migrate),
    /// List the tools of a server with their arguments
    #[command(after_help = help::REQUESTS)]
    Tools(Tools),
    /// Call a tool and wait for its result
    #[command(after_help = help::CALL)]
    Call(Call),
    /// Show a task, wait for it, or print its log or its history
    #[command(after_help = help::TASK)]
    Task(Task),
    /// List the calls of this user, and the tasks of their servers
    #[command(after_help = help::TASKS)]
    Tasks(Tasks),
    /// Show the states of tasks as they change, until all have ended
    #[command(after_help = help::WATCH)]
    Watch(Watch),
    /// Answer what a task asks
    #[command(after_help = help::ANSWER)]
    Answer(Answer),
    /// Cancel a task
    #[command(after_help = help::CANCEL)]
    Cancel(Cancel),
    /// List the resources of a server, or read one
    #[command(after_help = help::REQUESTS)]
    Resources(Resources),
    /// List the prompts of a server, or fill one in
    #[command(after_help = help::REQUESTS)]
    Prompts(Prompts),
    /// List the values that a server suggests for an argument
    #[command(after_help = help::COMPLETE)]
    Complete(Complete),
    /// Show the messages between this client and a server
    #[command(after_help = help::INSPECT)]
    Inspect(Inspect),
    /// Log in to a server that requires it, or keep a key for it
    #[command(after_help = help::LOGIN)]
    Login(Login),
    /// Forget the login or the key of a server
    #[command(after_help = help::LOGOUT)]
    Logout(Account),
    /// Show as whom this user is logged in to a server
    #[command(after_help = help::WHOAMI)]
    Whoami(Account),
    /// Print a script that completes the command line in a shell
    #[command(after_help = help::COMPLETIONS)]
    Completions(Completions),
    /// Print the manual page, or write those of all commands
    Man(Man),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A command that is in no group would not be found.
    #[test]
    fn every_command_is_in_one_group_of_the_help() {
        let mut command = Cli::command();
        command.build();
        let mut grouped: Vec<&str> = help::GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        let mut names: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        grouped.sort_unstable();
        names.sort_unstable();
        assert_eq!(grouped, names);
        for one in command.get_subcommands() {
            let about = one.get_about().map(ToString::to_string).unwrap_or_default();
            assert!(
                about.len() <= 64,
                "a line of the help is too long for 80 columns: {about}"
            );
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// A script that uses a command finds its exit status in its help.
    #[test]
    fn commands_that_speak_with_a_server_name_their_exit_status() {
        let mut cli = Cli::command();
        cli.build();
        let mut count = 0;
        for command in cli.get_subcommands() {
            let mut arguments = command.get_arguments();
            let Some(server) = arguments.find(|argument| argument.get_id() == "command") else {
                continue;
            };
            let name = command.get_name();
            let told = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(told.contains("Exit status:\n    0  "), "{name}: {told}");
            // A server that is started has no login.
            let has_account = ["login", "logout", "whoami"].contains(&name);
            assert_eq!(server.is_hide_set(), has_account, "{name}");
            count += 1;
        }
        assert!(count > 12, "{count}");
    }

    #[test]
    fn an_id_may_begin_with_a_dash_and_actions_exclude_each_other() {
        let cli = Cli::try_parse_from(["longhaul", "task", "http://x/mcp", "--id=-abc", "--wait"]).unwrap();
        let Command::Task(task) = cli.command else {
            panic!("not a task")
        };
        assert_eq!((task.task.id.as_deref(), task.action.wait), (Some("-abc"), true));
        assert!(Cli::try_parse_from(["longhaul", "task", "http://x/mcp", "a", "--wait", "--cancel"]).is_err());
    }
}
