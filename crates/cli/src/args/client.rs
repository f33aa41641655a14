//! The commands that speak with a server.

use clap::{Args, ValueEnum};
use longhaul_client::EraChoice;
use longhaul_core::{Millis, parse_duration};
use serde::Deserialize;
use std::path::PathBuf;

/// Which server a command speaks with.
#[derive(Debug, Default, Args)]
pub(crate) struct ServerArgs {
    /// URL of the server, its name in `servers.toml` or in the file of --mcp-config, or its configuration file
    #[arg(short = 's', long, value_name = "SERVER")]
    pub(crate) server: Option<String>,
    /// JSON file with `mcpServers`, such as that of a desktop client
    #[arg(long, value_name = "FILE")]
    pub(crate) mcp_config: Option<PathBuf>,
    /// The revisions of MCP that are spoken: `modern` is 2026-07-28, `legacy` is 2025-11-25 and earlier. Default: what the configuration says,
    /// else `auto`, which asks the server
    #[arg(long, value_name = "ERA", value_enum)]
    pub(crate) era: Option<EraArg>,
    /// Start this server and speak with it over its standard input and output
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// `--era`, and `era` of a configured server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EraArg {
    /// What the server prefers
    #[default]
    Auto,
    /// Only 2026-07-28
    Modern,
    /// Only 2025-11-25 and earlier
    Legacy,
}

impl From<EraArg> for EraChoice {
    fn from(era: EraArg) -> Self {
        match era {
            EraArg::Auto => Self::Auto,
            EraArg::Modern => Self::Modern,
            EraArg::Legacy => Self::Legacy,
        }
    }
}

/// Which task a command means.
#[derive(Debug, Args)]
pub(crate) struct TaskArgs {
    /// URL or name of the server, task id, and what the command takes behind it
    #[arg(value_name = "WORD")]
    pub(crate) words: Vec<String>,
    /// Task id, if it begins with a dash: `--id=-abc`
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    pub(crate) id: Option<String>,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
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
    /// Stop waiting for the server after this time
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) timeout: Option<Millis>,
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
    /// Call although the call cannot be recorded, such as on a full disk. When this command has ended, nobody finds the task by itself
    #[arg(long, conflicts_with = "detach")]
    pub(crate) unrecorded: bool,
    /// Stop waiting after this time. A task keeps running, and so does a call on a server that takes idempotency keys; any other call is cancelled
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, conflicts_with = "detach")]
    pub(crate) timeout: Option<Millis>,
    /// Name of the call: calling again with it is the same call, on servers that declare idempotency keys
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    /// Make the calls of this file: on each line `{"tool": …, "arguments": {…}}`, or only the arguments if TOOL is given
    #[arg(long, value_name = "FILE", conflicts_with_all = ["input", "detach", "timeout", "idempotency_key"])]
    pub(crate) batch: Option<PathBuf>,
    /// With --batch: so many calls at once
    #[arg(long, value_name = "N", requires = "batch", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) concurrency: u16,
    /// With --batch, when its run was interrupted: make calls again that may have run (`unknown`), or begin a new run with all calls (`all`)
    #[arg(long, value_name = "WHICH", value_enum, requires = "batch")]
    pub(crate) repeat: Option<Repeat>,
    /// Print the whole result as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which calls of an interrupted batch are made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Repeat {
    /// Also those that may have run, on a server that takes no idempotency keys
    Unknown,
    /// All: this is a new run
    All,
}

/// `longhaul answer`
#[derive(Debug, Args)]
#[command(
    override_usage = "longhaul answer [OPTIONS] [SERVER] ID [NAME=VALUE]...\n       longhaul answer [OPTIONS] ID [NAME=VALUE]... -- COMMAND..."
)]
pub(crate) struct Answer {
    #[command(flatten)]
    pub(crate) task: TaskArgs,
    /// The question, if the task asks several: its key, or eight or more characters of it
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub(crate) question: Option<String>,
    /// Say yes to a form that needs no values, or with those that are given
    #[arg(long, conflicts_with_all = ["decline", "cancel"])]
    pub(crate) accept: bool,
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

impl Answer {
    /// Whether an option says what the answer is, so that no form is shown.
    pub(crate) fn is_said(&self) -> bool {
        self.accept || self.decline || self.cancel
    }
}

/// `longhaul cancel`
#[derive(Debug, Args)]
#[command(
    override_usage = "longhaul cancel [OPTIONS] [SERVER] ID...\n       longhaul cancel [OPTIONS] ID... -- COMMAND..."
)]
pub(crate) struct Cancel {
    #[command(flatten)]
    pub(crate) task: TaskArgs,
    /// Wait until the tasks have ended
    #[arg(long)]
    pub(crate) wait: bool,
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
    /// Stop waiting for the server after this time
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) timeout: Option<Millis>,
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
    /// Stop waiting for the server after this time
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) timeout: Option<Millis>,
    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `longhaul complete`
#[derive(Debug, Args)]
#[command(
    override_usage = "longhaul complete [OPTIONS] [SERVER] PROMPT|URI-TEMPLATE ARG=PREFIX [NAME=VALUE]...\n       longhaul complete [OPTIONS] PROMPT|URI-TEMPLATE ARG=PREFIX [NAME=VALUE]... -- COMMAND..."
)]
pub(crate) struct Complete {
    /// URL or name of the server, name of the prompt or template of the resource, what is typed of an argument, and the values of others
    #[arg(value_name = "WORD")]
    pub(crate) words: Vec<String>,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `longhaul inspect`
#[derive(Debug, Args)]
#[command(
    override_usage = "longhaul inspect [OPTIONS] [SERVER] [METHOD] [NAME=VALUE]...\n       longhaul inspect [OPTIONS] [METHOD] [NAME=VALUE]... -- COMMAND..."
)]
pub(crate) struct Inspect {
    /// URL or name of the server, method, and the members of its params: name=text, or name:=JSON
    #[arg(value_name = "WORD")]
    pub(crate) words: Vec<String>,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Print a line of JSON for each message
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
    /// Only calls that have not ended
    #[arg(long)]
    pub(crate) open: bool,
    /// Ask no server: only what is recorded
    #[arg(long)]
    pub(crate) offline: bool,
    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `longhaul watch`
#[derive(Debug, Args)]
#[command(
    override_usage = "longhaul watch [OPTIONS] [SERVER] [ID]...\n       longhaul watch [OPTIONS] [ID]... -- COMMAND..."
)]
pub(crate) struct Watch {
    /// URL or name of the server, and task ids; without ids: all recorded tasks that have not ended
    #[arg(value_name = "WORD")]
    pub(crate) words: Vec<String>,
    /// Task id, if it begins with a dash: `--id=-abc`. May be given several times
    #[arg(long = "id", value_name = "ID", allow_hyphen_values = true)]
    pub(crate) ids: Vec<String>,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Print a line of JSON for each change
    #[arg(long)]
    pub(crate) json: bool,
}

/// `longhaul task`
#[derive(Debug, Args)]
#[command(override_usage = "longhaul task [OPTIONS] [SERVER] ID\n       longhaul task [OPTIONS] ID -- COMMAND...")]
pub(crate) struct Task {
    #[command(flatten)]
    pub(crate) task: TaskArgs,
    #[command(flatten)]
    pub(crate) action: TaskAction,
    /// With --log: print also what is added to the log, until the task ends
    #[arg(short, long, requires = "log")]
    pub(crate) follow: bool,
    /// With --log or --artifact: of an earlier attempt, by its number in --history; 1 is the first
    #[arg(long, value_name = "N", requires = "TaskAction", conflicts_with_all = ["follow", "wait", "cancel", "delete", "history"], value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) attempt: Option<u32>,
    /// With --log: begin with its last 64 KiB
    #[arg(long, requires = "log")]
    pub(crate) tail: bool,
    /// With --artifact: the file or folder to write to, or - for standard output. A download that was interrupted goes on
    #[arg(short, long, value_name = "FILE", requires = "artifact")]
    pub(crate) output: Option<PathBuf>,
    /// With --wait: stop waiting after this time. The task keeps running
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, requires = "wait")]
    pub(crate) timeout: Option<Millis>,
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
    /// Delete the task, which has ended, with its result, its log and all else that the server keeps of it
    #[arg(long)]
    pub(crate) delete: bool,
    /// Print the task's log
    #[arg(long)]
    pub(crate) log: bool,
    /// Print the task's history: its steps or attempts
    #[arg(long)]
    pub(crate) history: bool,
    /// Download a file that the task has left; without NAME, list the files. Stands behind the task
    #[arg(long, value_name = "NAME")]
    pub(crate) artifact: Option<Option<String>>,
}
