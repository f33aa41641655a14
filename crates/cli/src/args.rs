//! The command line: commands, options and their help.

use crate::config;
use clap::{Args, Parser, Subcommand};
use longhaul_core::{Millis, parse_duration};
use std::{net::SocketAddr, path::PathBuf};

/// Durable tasks for long-running MCP tool calls.
#[derive(Debug, Parser)]
#[command(name = "longhaul", version, propagate_version = true, arg_required_else_help = true)]
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
    /// List the tools of a server with their arguments
    Tools(Tools),
    /// Call a tool and wait for its result
    #[command(after_help = CALL_HELP)]
    Call(Call),
    /// Show a task, wait for it, cancel it, or print its log or its history
    #[command(after_help = TASK_HELP)]
    Task(Task),
    /// List the calls of this user: their tasks, states and servers
    Tasks(Tasks),
    /// Answer what a task asks
    #[command(after_help = ANSWER_HELP)]
    Answer(Answer),
    /// Cancel a task
    Cancel(Cancel),
    /// List the resources of a server, or read one
    Resources(Resources),
    /// List the prompts of a server, or fill one in
    Prompts(Prompts),
}

/// Which server a command speaks with.
#[derive(Debug, Default, Args)]
pub(crate) struct ServerArgs {
    /// URL of the server, or its name in `servers.toml` or in the file of --mcp-config
    #[arg(short = 's', long, value_name = "SERVER")]
    pub(crate) server: Option<String>,
    /// JSON file with `mcpServers`, such as that of a desktop client
    #[arg(long, value_name = "FILE")]
    pub(crate) mcp_config: Option<PathBuf>,
    /// Start this server and speak with it over its standard input and output
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
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

`name=@FILE` and `name:=@FILE` take the value from a file.

Without a tool, the tools of the server are listed. SERVER is a URL, or a name in ~/.config/longhaul/servers.toml or in the file of \
--mcp-config. Without it the server is LONGHAUL_SERVER, else http://127.0.0.1:7411/mcp.

Example:
    longhaul call http://127.0.0.1:7411/mcp build target=release flags:='[\"-v\"]'
    longhaul call echo message=hi -- npx -y @modelcontextprotocol/server-everything

What the tool asks is asked on the terminal. If standard input is no terminal, the command ends, and says how to answer the task.

The result goes to standard output, everything else to standard error. Ctrl-C leaves the task running and prints the command \
that waits for it again.

Exit status:
    0  the tool returned a result
    1  the tool returned an error
    2  the command line is wrong, or the tool or argument does not exist; nothing was called
    3  the server cannot be reached, or is not an MCP server
    4  the task was cancelled
    5  the server refused the call, or the task failed without a result, or the tool asked before there was a task and was not answered
    6  with --detach: the tool returned a result at once; it is printed
    7  the task asks and was not answered; it waits for `longhaul answer`
   74  the result could not be written to standard output
  124  --timeout is over; a task keeps running
  130  interrupted by Ctrl-C; a task keeps running";

const ANSWER_HELP: &str = "\
Values are converted to the types in the question's form, as those of `longhaul call`. Without values the form is shown on the terminal.

Exit status:
    0  the server has taken the answer
    2  the command line is wrong, or the answer does not fit the form; nothing was answered
    3  the server cannot be reached, or is not an MCP server
    5  the server does not know the task, or the task asks nothing, or the server refused the answer";

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
    7  with --wait: the task asks, and there is no terminal; it waits for `longhaul answer`
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

/// `longhaul tools`
#[derive(Debug, Args)]
#[command(override_usage = "longhaul tools [OPTIONS] [SERVER]\n       longhaul tools [OPTIONS] -- COMMAND...")]
pub(crate) struct Tools {
    /// URL or name of the server
    #[arg(value_name = "SERVER", num_args = 0..=1)]
    pub(crate) words: Vec<String>,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Print the tools as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `longhaul call`
#[derive(Debug, Args)]
#[command(
    override_usage = "longhaul call [OPTIONS] [SERVER] [TOOL] [NAME=VALUE]...\n       longhaul call [OPTIONS] [TOOL] [NAME=VALUE]... -- COMMAND..."
)]
pub(crate) struct Call {
    /// URL or name of the server, name of the tool, and its arguments: name=value, or name:=JSON
    #[arg(value_name = "WORD")]
    pub(crate) words: Vec<String>,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Take all arguments from this file, a JSON object; `-` for standard input. Arguments on the command line replace its members
    #[arg(long, value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,
    /// Do not wait: print the id of the task alone. Refused, before the call, if the tool cannot become a task
    #[arg(long)]
    pub(crate) detach: bool,
    /// Stop waiting after this time. A task keeps running; a call without a task is cancelled
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, conflicts_with = "detach")]
    pub(crate) timeout: Option<Millis>,
    /// Name of the call: calling again with it is the same call, on servers that declare idempotency keys
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    /// Print the whole result as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `longhaul answer`
#[derive(Debug, Args)]
#[command(
    override_usage = "longhaul answer [OPTIONS] [SERVER] ID [NAME=VALUE]...\n       longhaul answer [OPTIONS] ID [NAME=VALUE]... -- COMMAND..."
)]
pub(crate) struct Answer {
    /// URL or name of the server, task id, and the answer: name=value, or name:=JSON
    #[arg(value_name = "WORD")]
    pub(crate) words: Vec<String>,
    /// Task id, if it begins with a dash: `--id=-abc`
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    pub(crate) id: Option<String>,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// The question, if the task asks several
    #[arg(long, value_name = "KEY")]
    pub(crate) question: Option<String>,
    /// Say no
    #[arg(long, conflicts_with = "cancel")]
    pub(crate) decline: bool,
    /// Dismiss the question without a choice
    #[arg(long)]
    pub(crate) cancel: bool,
    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `longhaul cancel`
#[derive(Debug, Args)]
#[command(override_usage = "longhaul cancel [OPTIONS] [SERVER] ID\n       longhaul cancel [OPTIONS] ID -- COMMAND...")]
pub(crate) struct Cancel {
    /// URL or name of the server, and task id
    #[arg(value_name = "WORD", num_args = 0..=2)]
    pub(crate) words: Vec<String>,
    /// Task id, if it begins with a dash: `--id=-abc`
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    pub(crate) id: Option<String>,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `longhaul resources`
#[derive(Debug, Args)]
#[command(
    override_usage = "longhaul resources [OPTIONS] [SERVER] [-u URI]\n       longhaul resources [OPTIONS] -- COMMAND..."
)]
pub(crate) struct Resources {
    /// URL or name of the server
    #[arg(value_name = "SERVER", num_args = 0..=1)]
    pub(crate) words: Vec<String>,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Read the resource of this URI
    #[arg(short, long, value_name = "URI")]
    pub(crate) uri: Option<String>,
    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `longhaul prompts`
#[derive(Debug, Args)]
#[command(
    override_usage = "longhaul prompts [OPTIONS] [SERVER] [PROMPT] [NAME=VALUE]...\n       longhaul prompts [OPTIONS] [PROMPT] [NAME=VALUE]... -- COMMAND..."
)]
pub(crate) struct Prompts {
    /// URL or name of the server, name of the prompt, and its arguments
    #[arg(value_name = "WORD")]
    pub(crate) words: Vec<String>,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `longhaul tasks`
#[derive(Debug, Args)]
#[command(override_usage = "longhaul tasks [OPTIONS] [SERVER]")]
pub(crate) struct Tasks {
    /// Only the calls of this server: its URL or name
    #[arg(value_name = "SERVER", num_args = 0..=1)]
    pub(crate) words: Vec<String>,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `longhaul task`
#[derive(Debug, Args)]
#[command(override_usage = "longhaul task [OPTIONS] [SERVER] ID\n       longhaul task [OPTIONS] ID -- COMMAND...")]
pub(crate) struct Task {
    /// URL or name of the server, and task id
    #[arg(value_name = "WORD", num_args = 0..=2)]
    pub(crate) words: Vec<String>,
    /// Task id, if it begins with a dash: `--id=-abc`
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    pub(crate) id: Option<String>,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
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
        let cli = Cli::try_parse_from(["longhaul", "task", "http://x/mcp", "--id=-abc", "--wait"]).unwrap();
        let Command::Task(task) = cli.command else {
            panic!("not a task")
        };
        assert_eq!((task.id.as_deref(), task.action.wait), (Some("-abc"), true));
        assert!(Cli::try_parse_from(["longhaul", "task", "http://x/mcp", "a", "--wait", "--cancel"]).is_err());
    }
}
