//! `longhaul admin`.

use clap::{Args, Subcommand, ValueEnum, builder::NonEmptyStringValueParser as NonEmpty};
use longhaul_core::{Label, ToolPattern};
use std::path::PathBuf;

/// `longhaul admin`
#[derive(Debug, Args)]
pub(crate) struct Admin {
    #[command(subcommand)]
    pub(crate) command: AdminCommand,
}

/// What is seen or done.
#[derive(Debug, Subcommand)]
pub(crate) enum AdminCommand {
    /// List the tasks of all principals, newest first
    Tasks(AdminTasks),
    /// Show all of one task: arguments, attempts, journal, questions, outcome
    Task(OneTask),
    /// Print the log of a task
    Log(AdminLog),
    /// Ask the work of a task, or of many, to stop
    Cancel(SomeTasks),
    /// Make a task that has failed or was cancelled, or many, again: as new ones
    Retry(SomeTasks),
    /// Have a new task go on from an earlier point of a durable task's journal
    Reset(AdminReset),
    /// Try a blocked task, or many, again now
    Release(SomeTasks),
    /// Move a queued task to the front of its tool's queue
    Raise(OneTask),
    /// Delete a finished task, or many, with all that they have left
    Delete(SomeTasks),
    /// Answer or decline a question of a task
    Answer(AdminAnswer),
    /// List the tools, and what becomes of their calls
    Tools(AdminTarget),
    /// Count the live tasks of each principal
    Principals(AdminTarget),
    /// List the upstreams of a gateway, and whether they answer
    Upstreams(AdminTarget),
    /// List the schedules with their next times and last ends, or pause, resume or trigger some
    Schedules(AdminSchedules),
    /// Print the latest lines of the audit log, newest first
    Audit(AdminAudit),
    /// Begin nothing of these tools until they are resumed; what runs runs on
    Pause(SomeTools),
    /// End the pause of these tools
    Resume(SomeTools),
    /// Count live tasks by state
    Stats(AdminTarget),
    /// Show the live tasks on a screen that follows them
    Top(AdminTarget),
    /// Tell the server to stop: as SIGTERM
    Drain(AdminDrain),
    /// Look for what is wrong, and say what to do
    Doctor(AdminTarget),
}

/// The server that is operated.
#[derive(Debug, Args)]
pub(crate) struct AdminTarget {
    /// Configuration file of a server on this machine (TOML), its data directory, or the URL of an admin address
    #[arg(value_name = "FILE|DIR|URL")]
    pub(crate) target: String,
    /// Data directory; overrides the file
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// File with the admin key, for a URL [default: the variable LONGHAUL_ADMIN_KEY has the key]
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `longhaul doctor`
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// What to look at, as for `longhaul admin doctor`; without it this machine alone
    #[arg(value_name = "FILE|DIR|URL")]
    target: Option<String>,
    /// Data directory; overrides the file
    #[arg(long, value_name = "DIR", requires = "target")]
    data_dir: Option<PathBuf>,
    /// File with the admin key, for a URL [default: the variable LONGHAUL_ADMIN_KEY has the key]
    #[arg(long, value_name = "FILE", requires = "target")]
    key_file: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl Doctor {
    /// The server that is looked at, if one is named.
    pub(crate) fn target(&self) -> Option<AdminTarget> {
        Some(AdminTarget {
            target: self.target.clone()?,
            data_dir: self.data_dir.clone(),
            key_file: self.key_file.clone(),
            json: self.json,
        })
    }
}

/// `longhaul nodes`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Nodes {
    #[command(flatten)]
    pub(crate) of: Option<AdminTarget>,
    #[command(subcommand)]
    pub(crate) action: Option<NodesAction>,
}

/// What is done with a server.
#[derive(Debug, Subcommand)]
pub(crate) enum NodesAction {
    /// Give up the host of a dead server that does not come back: what is bound to it ends as lost, or is retried, now
    GiveUp(OneNode),
    /// Have a server begin nothing until it is uncordoned; what runs there runs on. It ends with the server: one that is started again is another
    Cordon(OneNode),
    /// Have a server that was cordoned begin work again
    Uncordon(OneNode),
}

/// `longhaul admin drain`
#[derive(Debug, Args)]
pub(crate) struct AdminDrain {
    #[command(flatten)]
    pub(crate) of: AdminTarget,
    /// How long what runs may take to end before the server stops, such as 10m; 0s is at once [default: `drain_timeout` of the server]
    #[arg(long, value_name = "DURATION", value_parser = longhaul_core::parse_duration)]
    pub(crate) timeout: Option<u64>,
}

/// A server of those that share the tasks of one.
#[derive(Debug, Args)]
pub(crate) struct OneNode {
    #[command(flatten)]
    pub(crate) of: AdminTarget,
    /// Its number, as `longhaul nodes` shows it
    pub(crate) node: i64,
}

/// A task of it.
#[derive(Debug, Args)]
pub(crate) struct OneTask {
    #[command(flatten)]
    pub(crate) of: AdminTarget,
    /// The task's id, or a part of it that only one of the latest 500 tasks has
    pub(crate) id: String,
}

/// `longhaul admin log`
#[derive(Debug, Args)]
pub(crate) struct AdminLog {
    #[command(flatten)]
    pub(crate) one: OneTask,
    /// Print also what is added to the log, until the task ends
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// That of an earlier attempt; 1 is the first
    #[arg(long, value_name = "N", conflicts_with = "follow", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) attempt: Option<u32>,
}

/// `longhaul admin reset`
#[derive(Debug, Args)]
pub(crate) struct AdminReset {
    #[command(flatten)]
    pub(crate) one: OneTask,
    /// The first entry of its journal that is dropped, and runs again
    #[arg(long, value_name = "ENTRY", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) before: u32,
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
}

/// Tools of it.
#[derive(Debug, Args)]
pub(crate) struct SomeTools {
    #[command(flatten)]
    pub(crate) of: AdminTarget,
    /// Names of tools, * for any characters: 'git_*' are those of the upstream `git`
    #[arg(required_unless_present = "upstream", value_name = "TOOL")]
    pub(crate) tools: Vec<ToolPattern>,
    /// This upstream: all tools that it has, also those that it gets later
    #[arg(long, value_name = "NAME", conflicts_with = "tools")]
    pub(crate) upstream: Option<String>,
}

/// `longhaul admin schedules`
#[derive(Debug, Args)]
pub(crate) struct AdminSchedules {
    #[command(flatten)]
    pub(crate) of: AdminTarget,
    /// What is done with the schedules that follow; without it all are listed
    #[arg(requires = "names")]
    pub(crate) action: Option<ScheduleAction>,
    /// Their names
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
}

/// What is done with schedules.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ScheduleAction {
    /// Let their times pass without a start, until they are resumed
    Pause,
    /// End the pause
    Resume,
    /// Start what they start, now
    Trigger,
}

/// Which tasks are meant. What is not given restricts nothing; what is given as an empty text, as by a variable that is not set, is an error.
#[derive(Debug, Default, Args)]
pub(crate) struct Filter {
    /// States, with commas: queued, running, suspended, blocked, succeeded, failed, cancelled; live or ended
    #[arg(long, value_name = "STATES", value_parser = NonEmpty::new())]
    pub(crate) state: Option<String>,
    /// Of this tool
    #[arg(long, value_parser = NonEmpty::new())]
    pub(crate) tool: Option<String>,
    /// Of this upstream: of all tools that it has or had
    #[arg(long, value_name = "NAME", value_parser = NonEmpty::new())]
    pub(crate) upstream: Option<String>,
    /// Of this principal
    #[arg(long, value_parser = NonEmpty::new())]
    pub(crate) principal: Option<String>,
    /// Of clients of 2025-11-25 or earlier (legacy), or of 2026-07-28 or later (modern)
    #[arg(long, value_name = "ERA", value_parser = NonEmpty::new())]
    pub(crate) origin: Option<String>,
    /// Started by this task
    #[arg(long, value_name = "ID", value_parser = NonEmpty::new())]
    pub(crate) parent: Option<String>,
    /// With this label; may be given several times: then with all of them
    #[arg(long = "label", value_name = "NAME=VALUE")]
    pub(crate) labels: Vec<Label>,
    /// With an open question
    #[arg(long)]
    pub(crate) asks: bool,
    /// With this text in the status
    #[arg(long, value_parser = NonEmpty::new())]
    pub(crate) text: Option<String>,
    /// Ended as long ago as this or longer, such as 1h; live ones as old as this or older
    #[arg(long, value_name = "DURATION", value_parser = NonEmpty::new())]
    pub(crate) older: Option<String>,
    /// Ended within this time; live ones younger than this
    #[arg(long, value_name = "DURATION", value_parser = NonEmpty::new())]
    pub(crate) younger: Option<String>,
}

/// One task, or all that a filter finds.
#[derive(Debug, Args)]
pub(crate) struct SomeTasks {
    #[command(flatten)]
    pub(crate) of: AdminTarget,
    /// The task's id, or a part of it that only one of the latest 500 tasks has
    #[arg(required_unless_present = "all")]
    pub(crate) id: Option<String>,
    /// All tasks that the filter finds: says how many, and asks
    #[arg(long, conflicts_with = "id")]
    pub(crate) all: bool,
    #[command(flatten, next_help_heading = "With --all")]
    pub(crate) filter: Filter,
    /// Do not ask
    #[arg(long, requires = "all")]
    pub(crate) yes: bool,
}

/// `longhaul admin tasks`
#[derive(Debug, Args)]
pub(crate) struct AdminTasks {
    #[command(flatten)]
    pub(crate) of: AdminTarget,
    #[command(flatten)]
    pub(crate) filter: Filter,
    /// Oldest first
    #[arg(long)]
    pub(crate) oldest: bool,
    /// So many at most, up to 500
    #[arg(long, value_name = "N", default_value = "50")]
    pub(crate) limit: String,
    /// Behind this task: where the page before ended
    #[arg(long, value_name = "ID")]
    pub(crate) after: Option<String>,
}

/// `longhaul admin audit`
#[derive(Debug, Args)]
pub(crate) struct AdminAudit {
    #[command(flatten)]
    pub(crate) of: AdminTarget,
    /// About this task: its whole id
    #[arg(long, value_name = "ID")]
    pub(crate) task: Option<String>,
    /// Of this principal
    #[arg(long)]
    pub(crate) principal: Option<String>,
    /// call, create, read, answer, cancel, delete, retry, reset, release, raise, pause, resume, drain, give-up, cordon, uncordon, denied, key or configuration
    #[arg(long)]
    pub(crate) action: Option<String>,
    /// ok, unknown, denied, limited or failed
    #[arg(long)]
    pub(crate) outcome: Option<String>,
    /// So many at most, up to 1000
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) limit: u16,
}

/// `longhaul admin answer`
#[derive(Debug, Args)]
pub(crate) struct AdminAnswer {
    #[command(flatten)]
    pub(crate) of: AdminTarget,
    /// The task's id, or a part of it
    pub(crate) id: String,
    /// The fields of the answer: name=value, or name:=JSON
    pub(crate) words: Vec<String>,
    /// Say yes to a form that needs no values
    #[arg(long, conflicts_with_all = ["decline", "cancel"])]
    pub(crate) accept: bool,
    /// Decline the question
    #[arg(long, conflicts_with_all = ["words", "cancel"])]
    pub(crate) decline: bool,
    /// Cancel the question
    #[arg(long, conflicts_with = "words")]
    pub(crate) cancel: bool,
    /// Which question, if the task asks several
    #[arg(long, value_name = "KEY")]
    pub(crate) question: Option<String>,
}
