//! Runs steps and reports them; and the steps without tasks.

use crate::{arguments::Arguments, tools::Call, user::User};
use longhaul_client::{CallResponse, Connection, Event, Observer, Options, Outcome, RequestError, Tool};
use serde_json::{Value, json};
use std::{error::Error, time::Duration};
use tokio::sync::OnceCell;

/// Longer than any step takes.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);

/// Why a step failed.
pub(crate) type Deviation = Box<dyn Error + Send + Sync>;

/// Returns an error if the condition does not hold.
macro_rules! ensure {
    ($holds:expr, $seen:expr) => {
        if !$holds {
            return Err(format!("expected {}, but saw {:?}", stringify!($holds), $seen).into());
        }
    };
}
pub(crate) use ensure;

/// What all steps share.
pub(crate) struct Session {
    pub(crate) arguments: Arguments,
    pub(crate) connection: Connection,
    pub(crate) user: User,
    tools: OnceCell<Vec<Tool>>,
}

impl Session {
    pub(crate) fn new(arguments: Arguments) -> Self {
        let user = User::default();
        let mut options = Options::named("interop-client", env!("CARGO_PKG_VERSION"));
        options.inputs = Some(user.inputs().into());
        options.hosts_tasks = arguments.tools.sample_as_task().is_some();
        let connection = match arguments.connection(options) {
            Ok(connection) => connection,
            Err(error) => {
                eprintln!("interop_client: {error}");
                std::process::exit(2);
            }
        };
        Self {
            arguments,
            connection,
            user,
            tools: OnceCell::new(),
        }
    }

    pub(crate) async fn tool(&self, name: &str) -> Result<&Tool, Deviation> {
        let listed = self.tools.get_or_try_init(|| self.connection.list_tools()).await?;
        let tool = listed.iter().find(|tool| tool.name == name);
        Ok(tool.ok_or_else(|| format!("there is no tool {name}"))?)
    }

    /// Calls a tool.
    pub(crate) async fn call(&self, call: &Call, on_event: Observer<'_>) -> Result<CallResponse, Deviation> {
        let tool = self.tool(call.tool).await?;
        Ok(self.connection.call_tool(tool, &call.arguments, on_event).await?)
    }

    /// Calls a tool, and waits for the result, of a plain call or of a task.
    async fn outcome(&self, call: &Call) -> Result<(), Deviation> {
        let outcome = match self.call(call, &mut |_| {}).await? {
            CallResponse::Done(outcome) => outcome,
            CallResponse::Task(task) => task.wait(&mut |_| {}).await?,
        };
        check(&outcome, call)
    }

    /// Calls a tool, and waits for the result, which must come at once.
    async fn result(&self, call: &Call, on_event: Observer<'_>) -> Result<(), Deviation> {
        match self.call(call, on_event).await? {
            CallResponse::Done(outcome) => check(&outcome, call),
            CallResponse::Task(task) => Err(format!("it became the task {}", task.id()).into()),
        }
    }
}

/// Runs steps, continues after a failed one, and counts them.
pub(crate) struct Steps {
    connection: Connection,
    /// The steps that are still to be run; `None` for all.
    only: Option<Vec<String>>,
    server: Option<String>,
    done: usize,
    failed: usize,
}

impl Steps {
    pub(crate) fn new(session: &Session) -> Self {
        Self {
            connection: session.connection.clone(),
            only: session.arguments.only.clone(),
            server: None,
            done: 0,
            failed: 0,
        }
    }

    /// Runs one step, if it is wanted.
    #[expect(clippy::disallowed_methods, reason = "a test has no ports")]
    pub(crate) async fn run(&mut self, step: &str, act: impl Future<Output = Result<(), Deviation>>) {
        if let Some(only) = &mut self.only {
            let Some(wanted) = only.iter().position(|wanted| wanted == step) else {
                return;
            };
            only.remove(wanted);
        }
        let done = match tokio::time::timeout(STEP_TIMEOUT, act).await {
            Ok(done) => done,
            Err(_) => Err(format!("not done within {} s", STEP_TIMEOUT.as_secs()).into()),
        };
        if self.server.is_none() {
            let server = self.connection.server().await.ok();
            self.server = server.map(|server| {
                let text = |member: &str| server.info[member].as_str().unwrap_or("?").to_owned();
                format!("{} {}", text("name"), text("version"))
            });
        }
        let mut line = json!({"server": self.server.as_deref().unwrap_or("?"), "step": step, "ok": done.is_ok()});
        if let Err(deviation) = &done {
            line["error"] = deviation.to_string().into();
            self.failed += 1;
        }
        self.done += 1;
        println!("{line}");
    }

    /// Prints the last line. Returns whether all steps passed.
    pub(crate) fn finish(mut self) -> bool {
        for unknown in self.only.take().into_iter().flatten() {
            println!(
                "{}",
                json!({"server": "?", "step": unknown, "ok": false, "error": "there is no such step"})
            );
            self.failed += 1;
            self.done += 1;
        }
        println!("{}", json!({"server": self.server, "done": self.done}));
        self.failed == 0 && self.done > 0
    }
}

/// Checks the text of a result.
pub(crate) fn check(outcome: &Outcome, call: &Call) -> Result<(), Deviation> {
    let Outcome::Result { json, is_error: false } = outcome else {
        return Err(format!("it ended with {outcome:?}").into());
    };
    let result: Value = serde_json::from_str(json.as_str())?;
    let texts = result["content"].as_array().into_iter().flatten();
    let text: String = texts.filter_map(|content| content["text"].as_str()).collect();
    ensure!(text.contains(call.expected), (call.expected, text));
    Ok(())
}

pub(crate) async fn connect(session: &Session) -> Result<(), Deviation> {
    let server = session.connection.server().await?;
    ensure!(server.version == session.arguments.version, server.version);
    Ok(())
}

pub(crate) async fn list_tools(session: &Session) -> Result<(), Deviation> {
    let tools = session.arguments.tools;
    for call in [tools.plain(), tools.task()] {
        session.tool(call.tool).await?;
    }
    Ok(())
}

pub(crate) async fn plain(session: &Session) -> Result<(), Deviation> {
    session.result(&session.arguments.tools.plain(), &mut |_| {}).await
}

pub(crate) async fn progress(session: &Session) -> Result<(), Deviation> {
    let (call, expected) = session.arguments.tools.progress();
    let mut seen = Vec::new();
    let mut note = |event: Event<'_>| {
        if let Event::Progress(progress) = event {
            seen.push(progress.progress);
        }
    };
    session.result(&call, &mut note).await?;
    ensure!(seen == expected, seen);
    Ok(())
}

pub(crate) async fn ask(session: &Session) -> Result<(), Deviation> {
    session.user.expect(false, 1);
    session.outcome(&session.arguments.tools.ask()).await?;
    let asked = session.user.asked();
    ensure!(asked.len() == 1, asked);
    Ok(())
}

pub(crate) async fn sample(session: &Session) -> Result<(), Deviation> {
    session.outcome(&session.arguments.tools.sample()).await
}

pub(crate) async fn hosted_task(session: &Session) -> Result<(), Deviation> {
    let tools = session.arguments.tools;
    let call = tools.sample_as_task().ok_or("these tools ask for no tasks")?;
    session.result(&call, &mut |_| {}).await
}

pub(crate) async fn roots(session: &Session) -> Result<(), Deviation> {
    let call = session.arguments.tools.roots().ok_or("these tools ask for no roots")?;
    session.result(&call, &mut |_| {}).await
}

/// The tool that is a task elsewhere, on a server without tasks.
pub(crate) async fn slow(session: &Session) -> Result<(), Deviation> {
    session.result(&session.arguments.tools.task(), &mut |_| {}).await
}

/// Whether a request was refused because there is no such task.
pub(crate) fn is_unknown<T>(result: &Result<T, RequestError>) -> bool {
    matches!(result, Err(error) if error.is_unknown_task())
}
