//! `longhaul watch`: the states of many tasks as they change.

use crate::{
    args,
    call::{
        record::{self, NamedTask},
        tasks::shortened,
    },
    exit::{failure::Failure, result::Exit},
    output::{self, columns::terminal_width, kinds, pace::Pace, plain, states},
    servers::{self, notice::with_notice},
};
use futures_util::{StreamExt, stream};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use longhaul_client::{Connection, RequestError, SystemClock, TaskHandle, TaskSnapshot, TaskStatus};
use longhaul_core::Clock;
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    io::{self, IsTerminal},
    process::ExitCode,
    time::Duration,
};

/// The time between two looks at which tasks are due.
const ROUND: Duration = Duration::from_secs(1);
/// Requests at once.
const AT_ONCE: usize = 16;
/// A tool is not shortened to less.
const LEAST_TOOL: usize = 4;
/// The lines of the table on a terminal.
const LINES: usize = 20;

/// Runs the command.
pub(crate) async fn run(args: &args::Watch) -> ExitCode {
    match watch(args).await {
        Ok(exit) => exit,
        Err(failure) => failure.report(args.json),
    }
    .into()
}

async fn watch(args: &args::Watch) -> Result<Exit, Failure> {
    let (server, ids) = servers::choose(&args.server, &args.words)?;
    let mut named = Vec::new();
    for id in ids.iter().chain(&args.ids) {
        named.push(NamedTask::find(server.clone(), id).await?);
    }
    if ids.is_empty() && args.ids.is_empty() {
        named = NamedTask::live(&server).await?;
    }
    if named.is_empty() {
        output::note("no task is recorded that has not ended");
        return Ok(Exit::Answered);
    }
    let mut tasks = connect(named).await?;
    let mut screen = Screen::new(args.json);
    with_notice("the servers", look(&mut tasks)).await;
    loop {
        screen.show(&mut tasks);
        if tasks.iter().all(|task| task.has_ended) {
            break;
        }
        SystemClock.sleep(ROUND).await;
        look(&mut tasks).await;
    }
    screen.finish(&tasks);
    let exit = tasks.iter().map(WatchedTask::exit).find(|exit| *exit != Exit::Answered);
    match tasks.into_iter().find_map(|task| task.refused) {
        Some(failure) => Err(failure),
        None => Ok(exit.unwrap_or(Exit::Answered)),
    }
}

struct WatchedTask {
    named: NamedTask,
    task: TaskHandle,
    /// What it is now: a word of [`states`], or one that says why that is not known.
    state: String,
    /// The status message, or why the state is not known.
    detail: Option<String>,
    snapshot: Option<TaskSnapshot>,
    /// Whether it asks: by its status, or by what a legacy server has asked meanwhile.
    asks: bool,
    has_ended: bool,
    /// Why it cannot be watched: the server does not know it, or cannot be reached.
    refused: Option<Failure>,
    has_changed: bool,
    pace: Pace,
    /// When it is looked at again.
    due_at: Duration,
}

/// One connection for all tasks of the same session with a server.
async fn connect(named: Vec<NamedTask>) -> Result<Vec<WatchedTask>, Failure> {
    // Two names of one server may be two callers, who do not know each other's tasks.
    let mut connections: HashMap<(String, Option<String>, Option<String>), Connection> = HashMap::new();
    let mut tasks = Vec::new();
    for named in named {
        let session = named.call().and_then(|call| call.task.as_ref()?.session.as_ref());
        let key = (
            named.server.recorded(),
            named.server.name().map(str::to_owned),
            session.map(|session| session.id.clone()),
        );
        let connection = match connections.get(&key) {
            Some(connection) => connection.clone(),
            None => {
                let connection = named.server.connection(|_| {})?;
                connections.insert(key, connection.clone());
                connection
            }
        };
        let (_, task) = named.open(&connection).await;
        tasks.push(WatchedTask {
            named,
            task,
            state: String::new(),
            detail: None,
            snapshot: None,
            asks: false,
            has_ended: false,
            refused: None,
            has_changed: false,
            pace: Pace::default(),
            due_at: Duration::ZERO,
        });
    }
    Ok(tasks)
}

/// Reads the tasks that are due.
async fn look(tasks: &mut [WatchedTask]) {
    let now = SystemClock.monotonic();
    let due = tasks.iter_mut().filter(|task| !task.has_ended && task.due_at <= now);
    let reading = due.map(|task| async {
        let read = record::read(&task.task).await;
        task.due_at = SystemClock.monotonic() + task.pace.after(read.as_ref());
        task.take(read).await;
    });
    stream::iter(reading).buffer_unordered(AT_ONCE).collect::<()>().await;
}

impl WatchedTask {
    async fn take(&mut self, read: Result<TaskSnapshot, RequestError>) {
        let (state, detail) = match read {
            Ok(snapshot) => {
                self.has_ended = snapshot.status.is_final();
                let (open, _) = record::open_and_answered(&self.task, snapshot.input_requests.clone()).await;
                self.asks = record::asks(&snapshot, &open);
                let told = (
                    states::of_asking(&snapshot, self.asks).to_owned(),
                    states::detail(&snapshot).map(str::to_owned),
                );
                self.snapshot = Some(snapshot);
                told
            }
            // One that was never seen may not be there at all.
            Err(error) if error.is_transient() && (self.snapshot.is_some() || self.named.call().is_some()) => {
                ("not reached".to_owned(), Some(format!("{error}; retrying")))
            }
            Err(error) if error.is_unknown_task() && self.task.fetched().await.is_some() => {
                self.has_ended = true;
                ("fetched".to_owned(), Some(record::FETCHED.to_owned()))
            }
            Err(error) => {
                self.has_ended = true;
                let failure = record::unread(&self.task, error).await;
                let failure = self.named.explain(failure).of_task(&self.named.id);
                let state = match (failure.kind(), failure.exit()) {
                    (kinds::LOST, _) => "lost",
                    (_, Exit::NoServer) => "not reached",
                    _ => "refused",
                };
                let reason = failure.to_string();
                self.refused = Some(failure);
                (state.to_owned(), Some(reason))
            }
        };
        self.has_changed |= (&self.state, &self.detail) != (&state, &detail);
        (self.state, self.detail) = (state, detail);
    }

    /// The status of a command that waits for this task alone.
    fn exit(&self) -> Exit {
        match self.snapshot.as_ref().map(|task| (task.status, &task.outcome)) {
            Some((_, Some(outcome))) => outcome.into(),
            // A legacy server tells only the status.
            Some((TaskStatus::Cancelled, None)) => Exit::Cancelled,
            Some((TaskStatus::Failed, None)) => Exit::ToolError,
            _ => Exit::Answered,
        }
    }

    fn line(&self) -> String {
        let tool = self.named.call().map_or("-", |call| call.tool.as_str());
        plain(
            &format!("{}  {tool}  {}", output::id(&self.named.id), self.in_words()),
            "",
        )
    }

    /// The line for a terminal of this width: the tool is shortened so that the state is whole, and the message ends at the edge.
    fn line_within(&self, width: usize) -> String {
        let tool = self.named.call().map_or("-", |call| call.tool.as_str());
        let others = output::id(&self.named.id).chars().count() + self.state.chars().count() + 4;
        let tool = shortened(tool, width.saturating_sub(others).max(LEAST_TOOL));
        plain(
            &format!("{}  {tool}  {}", output::id(&self.named.id), self.in_words()),
            "",
        )
    }

    fn in_words(&self) -> String {
        match &self.detail {
            Some(detail) => format!("{}: {detail}", self.state),
            None => self.state.clone(),
        }
    }

    fn as_json(&self) -> Value {
        json!({
            "taskId": self.named.id,
            "tool": self.named.call().map(|call| &call.tool),
            "server": self.named.server.as_json(),
            "status": self.snapshot.as_ref().map(states::in_mcp),
            "statusMessage": self.snapshot.as_ref().and_then(|task| task.message.as_ref()),
            // The status by its name in MCP.
            "state": self.snapshot.as_ref().filter(|task| states::of_asking(task, self.asks) == self.state).map_or(self.state.as_str(), states::in_mcp),
            "detail": self.detail,
            "isError": self.snapshot.as_ref().and_then(states::is_error),
            "asks": self.asks,
            "ended": self.has_ended,
        })
    }
}

/// Where the tasks are shown.
enum Screen {
    Table(Table),
    /// A line for each change.
    Lines,
    Json,
}

impl Screen {
    fn new(json: bool) -> Self {
        match json {
            true => Self::Json,
            false if io::stdout().is_terminal() && io::stderr().is_terminal() => Self::Table(Table::default()),
            false => Self::Lines,
        }
    }

    fn show(&mut self, tasks: &mut [WatchedTask]) {
        match self {
            Self::Table(table) => table.draw(tasks),
            Self::Lines => changed(tasks).for_each(|task| output::text(&task.line())),
            Self::Json => changed(tasks).for_each(|task| output::json_line(&task.as_json())),
        }
    }

    fn finish(self, tasks: &[WatchedTask]) {
        if let Self::Table(mut table) = self {
            let _ = table.screen.clear();
            table.is_replaced = true;
            for task in tasks {
                output::text(&task.line());
            }
        }
    }
}

/// A table that is drawn again; the lines beyond it are counted.
#[derive(Default)]
struct Table {
    screen: MultiProgress,
    bars: Vec<ProgressBar>,
    is_replaced: bool,
}

impl Drop for Table {
    /// By Ctrl-C: then what was drawn last stays.
    fn drop(&mut self) {
        if !self.is_replaced {
            // The terminal has shown the key, so the lines are not where they were drawn, and cannot be drawn again.
            self.screen.set_draw_target(ProgressDrawTarget::hidden());
            output::note("");
        }
    }
}

fn changed(tasks: &mut [WatchedTask]) -> impl Iterator<Item = &WatchedTask> {
    tasks.iter_mut().filter_map(|task| {
        let has_changed = std::mem::take(&mut task.has_changed);
        has_changed.then_some(&*task)
    })
}

impl Table {
    /// Those that have not ended come first.
    fn draw(&mut self, tasks: &[WatchedTask]) {
        let width = terminal_width();
        let (open, ended): (Vec<_>, Vec<_>) = tasks.iter().partition(|task| !task.has_ended);
        let shown = open.iter().chain(&ended).take(LINES);
        let mut lines: Vec<String> = shown.map(|task| task.line_within(width)).collect();
        let hidden = tasks.len() - lines.len();
        lines.push(match hidden {
            0 => format!("{} of {} have ended", ended.len(), tasks.len()),
            _ => format!("{} of {} have ended; {hidden} are not shown", ended.len(), tasks.len()),
        });
        while self.bars.len() < lines.len() {
            let style = ProgressStyle::with_template("{wide_msg}").unwrap_or_else(|_| ProgressStyle::default_spinner());
            self.bars
                .push(self.screen.add(ProgressBar::new_spinner().with_style(style)));
        }
        for (bar, line) in self.bars.iter().zip(lines) {
            bar.set_message(line);
            bar.tick();
        }
    }
}
