//! What can be written on the command line. What it does is decided elsewhere.

use crate::config;
use clap::{Args, Parser, Subcommand};
use longhaul_core::{Millis, parse_duration};
use std::{net::SocketAddr, path::PathBuf};

/// Durable tasks for long-running MCP tool calls.
#[derive(Debug, Parser)]
#[command(
    name = "longhaul",
    version,
    about,
    propagate_version = true,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve the commands of a configuration file as MCP tools
    Serve(Serve),
    /// Serve a configuration file on standard input and output, for desktop clients
    #[cfg(unix)]
    #[command(after_help = STDIO_HELP)]
    Stdio(Stdio),
    /// Check a configuration file without serving it
    #[command(after_help = "Exit status: 0 if the file can be served, 2 if not.")]
    Check(Check),
    /// Call a tool and wait for its result
    #[command(after_help = CALL_HELP)]
    Call(Call),
    /// Look at a task, wait for it, cancel it, or print its log or its history
    #[command(after_help = TASK_HELP)]
    Task(Task),
}

const CALL_HELP: &str = "\
Values are read by the tool's schema: `depth=3` is a number where the tool wants one and text where it wants text. A name \
given several times fills an array. `name:=JSON` passes JSON as it is.

The result goes to standard output, everything else to standard error. Ctrl-C leaves the task running and says how to get \
back to it.

Exit status:
    0  the tool answered
    1  the tool answered that it failed
    2  the command line is wrong, or names what the tool does not have; nothing was called
    3  the server cannot be reached, or does not speak MCP
    4  the task was cancelled
    5  the server refused the call, or could not carry it through
  130  interrupted by Ctrl-C; a task that was begun runs on";

#[cfg(unix)]
const STDIO_HELP: &str = "\
The server itself is a process of its own, which is started if there is none for the file's data directory, and shared by all who \
come. It goes on with its tasks when standard input ends, and leaves when it has had nothing to do for `idle_exit`. Its log is \
`owner.log` in the data directory.

Exit status:
    0  standard input has ended, or nobody reads standard output any more
    1  the server could not be started, or has ended
    2  the configuration cannot be served; nothing was started";

const TASK_HELP: &str = "\
Exit status:
    0  done as asked; with --wait: the tool answered
    1  with --wait: the tool answered that it failed
    2  the command line is wrong
    3  the server cannot be reached, or does not speak MCP
    4  with --wait: the task was cancelled
    5  the server does not know the task, refused the request, or could not carry the task through
  130  interrupted by Ctrl-C; the task is left as it is";

/// `longhaul serve`
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Configuration file (TOML)
    pub(crate) file: PathBuf,
    /// Address to listen on, instead of the file's
    #[arg(long, value_name = "ADDR", value_parser = config::parse_listen)]
    pub(crate) listen: Option<SocketAddr>,
    /// Folder for all data, instead of the file's
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Say what is served as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Leave when for so long nobody was connected and no task was live; if the address is taken, serve `longhaul stdio` alone
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) idle_exit: Option<Millis>,
    /// Use a database that was restored from a backup: tasks that it calls queued or running are run, though they may have run since it
    /// was copied. Without this, the server lets a restored database only be read
    #[arg(long)]
    pub(crate) accept_restored_database: bool,
    /// Remove the folders of attempts whose tasks the database does not know, unless a command still runs there
    #[arg(long)]
    pub(crate) remove_orphaned_attempts: bool,
    /// Leave the terminal: how `longhaul stdio` starts its server
    #[arg(long, hide = true)]
    pub(crate) detach: bool,
}

/// `longhaul stdio`
#[cfg(unix)]
#[derive(Debug, Args)]
pub(crate) struct Stdio {
    /// Configuration file (TOML)
    pub(crate) file: PathBuf,
    /// Folder for all data, instead of the file's
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
}

/// `longhaul check`
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Configuration file (TOML)
    pub(crate) file: PathBuf,
    /// Answer with one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `longhaul call`
#[derive(Debug, Args)]
pub(crate) struct Call {
    /// MCP endpoint, for example http://127.0.0.1:7411/mcp
    pub(crate) url: String,
    /// Name of the tool
    pub(crate) tool: String,
    /// Arguments of the tool: name=value, or name:=JSON
    #[arg(value_name = "NAME=VALUE")]
    pub(crate) arguments: Vec<String>,
    /// Print the whole result as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `longhaul task`
#[derive(Debug, Args)]
pub(crate) struct Task {
    /// MCP endpoint, for example http://127.0.0.1:7411/mcp
    pub(crate) url: String,
    /// The task's id
    #[arg(allow_hyphen_values = true)]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) action: TaskAction,
    /// Answer with one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What to do with the task; without any of them, show it.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct TaskAction {
    /// Wait until the task ends and print its result
    #[arg(long)]
    pub(crate) wait: bool,
    /// End the task
    #[arg(long)]
    pub(crate) cancel: bool,
    /// Print the end of what the task wrote
    #[arg(long)]
    pub(crate) log: bool,
    /// Print what the task has come to, entry by entry
    #[arg(long)]
    pub(crate) history: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definitions_hold_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn an_id_may_begin_with_a_dash_and_actions_exclude_each_other() {
        let cli = Cli::try_parse_from(["longhaul", "task", "http://x/mcp", "-abc", "--wait"]).unwrap();
        let Command::Task(task) = cli.command else {
            panic!("not a task")
        };
        assert_eq!((task.id.as_str(), task.action.wait), ("-abc", true));
        assert!(Cli::try_parse_from(["longhaul", "task", "http://x/mcp", "a", "--wait", "--cancel"]).is_err());
    }
}
