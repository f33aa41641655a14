//! The command line: commands, options and their help.

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

/// The command to run.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve the commands of a configuration file as MCP tools
    #[command(after_help = SERVE_HELP)]
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
    /// Show a task, wait for it, cancel it, or print its log or its history
    #[command(after_help = TASK_HELP)]
    Task(Task),
}

const SERVE_HELP: &str = "\
Exit status:
    0  stopped by SIGTERM, Ctrl-C or --idle-exit
    1  the server could not be started, such as when the address or the data directory is in use
    2  the command line or the configuration is wrong; nothing was started
   74  the disk failed in a way that leaves its state unknown; nothing unsynced was acknowledged";

const CALL_HELP: &str = "\
Values are converted to the types in the tool's schema: `depth=3` is a number where the schema says number, else text. Repeat a \
name to fill an array. `name:=JSON` passes any JSON value.

Example:
    longhaul call http://127.0.0.1:7411/mcp build target=release flags:='[\"-v\"]'

The result goes to standard output, everything else to standard error. Ctrl-C leaves the task running and prints the command \
that waits for it again.

Exit status:
    0  the tool returned a result
    1  the tool returned an error
    2  the command line is wrong, or the tool or argument does not exist; nothing was called
    3  the server cannot be reached, or is not an MCP server
    4  the task was cancelled
    5  the server refused the call, or the task failed without a result
  130  interrupted by Ctrl-C; a task keeps running";

#[cfg(unix)]
const STDIO_HELP: &str = "\
This command connects to the server process of the data directory, and starts one if there is none. All clients of the data \
directory share that process. It keeps running tasks after standard input ends, and exits when it has been idle for `idle_exit`. \
Its log is `owner.log` in the data directory.

Exit status:
    0  standard input or standard output was closed
    1  the server could not be started, or has exited
    2  the configuration is invalid; nothing was started";

const TASK_HELP: &str = "\
Exit status:
    0  success; with --wait: the tool returned a result
    1  with --wait: the tool returned an error
    2  the command line is wrong
    3  the server cannot be reached, or is not an MCP server
    4  with --wait: the task was cancelled
    5  the server does not know the task or refused the request; with --wait: the task failed without a result
  130  interrupted by Ctrl-C; the task keeps running";

/// `longhaul serve`
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Configuration file (TOML)
    pub(crate) file: PathBuf,
    /// Address to listen on; overrides the file
    #[arg(long, value_name = "ADDR", value_parser = config::parse_listen)]
    pub(crate) listen: Option<SocketAddr>,
    /// Data directory; overrides the file
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Print the start-up report as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Exit after this time without connections and live tasks; if the address is in use, serve only `longhaul stdio`
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) idle_exit: Option<Millis>,
    /// Accept a database that was restored from a backup. Its queued and running tasks are run again, even if they have run since the
    /// backup. Without this option a restored database is read-only
    #[arg(long)]
    pub(crate) accept_restored_database: bool,
    /// Remove attempt folders whose tasks are not in the database, unless their command still runs
    #[arg(long)]
    pub(crate) remove_orphaned_attempts: bool,
    /// Detach from the terminal, as `longhaul stdio` starts its server
    #[arg(long, hide = true)]
    pub(crate) detach: bool,
}

/// `longhaul stdio`
#[cfg(unix)]
#[derive(Debug, Args)]
pub(crate) struct Stdio {
    /// Configuration file (TOML)
    pub(crate) file: PathBuf,
    /// Data directory; overrides the file
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
}

/// `longhaul check`
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Configuration file (TOML)
    pub(crate) file: PathBuf,
    /// Print one line of JSON
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
    /// Task id
    #[arg(allow_hyphen_values = true)]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) action: TaskAction,
    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What to do with the task. Without any of these options, show it.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct TaskAction {
    /// Wait until the task ends and print its result; if the server goes away meanwhile, ask it again until it answers
    #[arg(long)]
    pub(crate) wait: bool,
    /// Cancel the task
    #[arg(long)]
    pub(crate) cancel: bool,
    /// Print the end of the task's log
    #[arg(long)]
    pub(crate) log: bool,
    /// Print the task's history: its steps or attempts
    #[arg(long)]
    pub(crate) history: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
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
