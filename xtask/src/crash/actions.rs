//! The crash test of operators' actions: kills the server while it does one. What was acknowledged is done; what was not acknowledged is done once or
//! not at all. Whatever was done is in the audit log.
//!
//! The actions are those of `longhaul admin`, and so is what is seen of them.

use fastrand::Rng;
use harness::{
    clock,
    mcp::{Client, ClientEra},
    rounds::report::RunReport,
    rounds::violation::{Invariant, Violation},
    rounds::{Campaign, RunError},
    server::{self, Server},
    site::Site,
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs, io,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

const STOP: Duration = Duration::from_secs(15);
/// How long a task may take to come into a state.
const STATE: Duration = Duration::from_secs(20);
/// How long an action takes once its beginning is recorded, about.
const WRITES: Duration = Duration::from_millis(12);
/// The longest list of tasks that a server returns.
const MAX_LIST: usize = 500;

/// What an operator does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Action {
    Cancel,
    Retry,
    Raise,
    Delete,
    Pause,
    Resume,
    Answer,
    Release,
    /// Of a task that is over.
    Reset,
    /// Of a suspended one, which is cancelled with it.
    ResetWaiting,
}

/// A server that is operated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OperatedServer {
    Commands,
    /// With durable tools in Rust.
    Durable,
}

impl Action {
    const ALL: [Self; 10] = [
        Self::Cancel,
        Self::Retry,
        Self::Raise,
        Self::Delete,
        Self::Pause,
        Self::Resume,
        Self::Answer,
        Self::Release,
        Self::Reset,
        Self::ResetWaiting,
    ];

    /// The command of `longhaul admin`, and the action in the audit log.
    fn name(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Retry => "retry",
            Self::Raise => "raise",
            Self::Delete => "delete",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Answer => "answer",
            Self::Release => "release",
            Self::Reset | Self::ResetWaiting => "reset",
        }
    }

    /// What the report calls it.
    fn label(self) -> &'static str {
        match self {
            Self::ResetWaiting => "reset suspended",
            action => action.name(),
        }
    }

    /// Which server it is for.
    fn server(self) -> OperatedServer {
        match self {
            Self::Answer | Self::Release | Self::Reset | Self::ResetWaiting => OperatedServer::Durable,
            _ => OperatedServer::Commands,
        }
    }

    /// What follows the task.
    fn words(self) -> &'static [&'static str] {
        match self {
            Self::Answer => &["sure:=true"],
            Self::Reset | Self::ResetWaiting => &["--before", "1", "--yes"],
            _ => &[],
        }
    }

    /// For one that makes a task of another: the tool, and the member of the other that names the new one.
    fn successor(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Retry => Some(("fail", "retriedAs")),
            Self::Reset => Some(("steps", "resetAs")),
            Self::ResetWaiting => Some(("asks", "resetAs")),
            _ => None,
        }
    }
}

/// What has become of an action whose server was killed.
struct Outcome {
    is_done: bool,
    /// It was so before, and by another action.
    was_so: bool,
}

/// How often an action came to what.
#[derive(Default)]
struct Counts {
    acknowledged: usize,
    /// Done, and the acknowledgement was lost.
    done: usize,
    not_done: usize,
}

pub(super) struct ActionCrashes {
    root: PathBuf,
    programs: [PathBuf; 2],
    /// What commands of `longhaul admin` are told of a server.
    operated: [PathBuf; 2],
    clients: [Client; 2],
    servers: Vec<Server>,
    /// How long a look takes. An action takes as long.
    look: Duration,
    counts: BTreeMap<Action, Counts>,
    /// How many tasks of a tool there must be: those made, and those that were made of them.
    made: BTreeMap<&'static str, usize>,
    is_paused: bool,
}

fn config(site: &Site) -> String {
    let tool = |name: &str, script: &str| {
        format!(
            "[[tool]]\nname = \"{name}\"\ndescription = \"{name}\"\ncommand = [\"sh\", \"-c\", \"{script}\"]\ntask = \"always\"\n"
        )
    };
    format!(
        "[server]\nname = \"operated\"\ndata_dir = {}\nlisten = \"127.0.0.1:0\"\n[server.audit]\nfile = {}\n{}concurrency = 1\n{}{}{}",
        json!(site.file("data")),
        json!(site.file("audit.jsonl")),
        tool("hold", "sleep 3600"),
        tool("fail", "exit 3"),
        tool("quick", "true"),
        tool("other", "true"),
    )
}

/// An action that was not done as it must be.
fn broken(what: impl Into<String>) -> RunError {
    Invariant::DONE_ONCE.violated(what).into()
}

impl ActionCrashes {
    /// Starts the servers. The second program is the one with durable tools.
    pub(super) fn start(site: &Site, programs: [PathBuf; 2]) -> Result<Self, RunError> {
        let mut run = Self {
            root: site.root().to_owned(),
            programs,
            operated: [site.write("longhaul.toml", config(site))?, site.file("durable")],
            // The modern one declares that it can be asked.
            clients: [ClientEra::Legacy, ClientEra::Modern].map(Client::of_nobody),
            servers: Vec::new(),
            look: Duration::ZERO,
            counts: BTreeMap::new(),
            made: BTreeMap::new(),
            is_paused: false,
        };
        run.deploy("old")?;
        for operated in [OperatedServer::Commands, OperatedServer::Durable] {
            let server = run.serve(operated)?;
            run.servers.push(server);
        }
        // It runs, so all later ones are queued.
        run.create("hold")?;
        let began = clock::now();
        run.admin(OperatedServer::Commands, &["stats"], &["--json"])?;
        run.look = began.elapsed();
        Ok(run)
    }

    /// What the file has on which the code of `changed` depends.
    fn deploy(&self, word: &str) -> io::Result<()> {
        fs::write(self.root.join("word"), word)
    }

    fn serve(&mut self, operated: OperatedServer) -> Result<Server, RunError> {
        let mut command = match operated {
            OperatedServer::Commands => server::serve(&self.programs[0], &self.operated[0]),
            OperatedServer::Durable => {
                let mut command = Command::new(&self.programs[1]);
                command.arg("--data-dir").arg(&self.operated[1]);
                command.arg("--word").arg(self.root.join("word"));
                command.arg("--audit").arg(self.root.join("audit.jsonl"));
                command
            }
        };
        let log = self.root.join(format!("{operated:?}.log"));
        let mut server = Server::start(&mut command, &log)?;
        self.clients[operated as usize].moved(server.ready()?);
        Ok(server)
    }

    /// What the action is about: a task that it can be done to, or a tool.
    fn target(&mut self, action: Action) -> Result<String, RunError> {
        let (tool, state) = match action {
            Action::Pause | Action::Resume => return Ok("other".to_owned()),
            Action::Cancel => return self.create("hold"),
            Action::Raise => {
                self.create("hold")?;
                return self.create("hold");
            }
            Action::Retry => ("fail", "failed"),
            Action::Delete => ("quick", "succeeded"),
            Action::Reset => ("steps", "succeeded"),
            Action::ResetWaiting => ("asks", "suspended"),
            Action::Answer | Action::Release => {
                let tool = if action == Action::Answer { "asks" } else { "changed" };
                let task = self.create(tool)?;
                self.until_it_asks(&task)?;
                if action == Action::Release {
                    self.deploy("new")?;
                    // It is replayed, by code that does not follow its journal.
                    self.answer(&task)?;
                    self.until(OperatedServer::Durable, &task, "blocked")?;
                    self.deploy("old")?;
                }
                return Ok(task);
            }
        };
        let task = self.create(tool)?;
        self.until(action.server(), &task, state)?;
        Ok(task)
    }

    fn create(&mut self, tool: &'static str) -> Result<String, RunError> {
        *self.made.entry(tool).or_default() += 1;
        let of_durable = ["asks", "changed", "steps"].contains(&tool);
        let created = self.clients[usize::from(of_durable)].create(tool, json!({}));
        created.map_err(|error| {
            Invariant::SERVED
                .violated(format!("a call of {tool} was refused: {error}"))
                .into()
        })
    }

    fn command(&self, operated: OperatedServer, before: &[&str], behind: &[&str]) -> Command {
        let mut command = Command::new(&self.programs[0]);
        command
            .arg("admin")
            .args(before)
            .arg(&self.operated[operated as usize])
            .args(behind);
        command
    }

    fn action(&self, action: Action, target: &str) -> Command {
        let words: Vec<&str> = [target].into_iter().chain(action.words().iter().copied()).collect();
        self.command(action.server(), &[action.name()], &words)
    }

    /// What a command prints as JSON; null if it fails.
    fn admin(&self, operated: OperatedServer, before: &[&str], behind: &[&str]) -> Result<Value, RunError> {
        let output = self.command(operated, before, behind).output()?;
        Ok(serde_json::from_slice(&output.stdout).unwrap_or_default())
    }

    fn task(&self, operated: OperatedServer, id: &str) -> Result<Value, RunError> {
        self.admin(operated, &["task"], &[id, "--json"])
    }

    fn answer(&self, id: &str) -> Result<Value, RunError> {
        self.admin(OperatedServer::Durable, &["answer"], &[id, "sure:=true", "--json"])
    }

    fn tasks_of(&self, operated: OperatedServer, tool: &str) -> Result<usize, RunError> {
        let list = ["--tool", tool, "--limit", &MAX_LIST.to_string(), "--json"];
        let all = self.admin(operated, &["tasks"], &list)?;
        Ok(all["tasks"].as_array().map_or(0, Vec::len))
    }

    fn until(&self, operated: OperatedServer, id: &str, state: &str) -> Result<(), RunError> {
        self.wait_for(operated, id, state, |task| task["state"] == state)
    }

    fn until_it_asks(&self, id: &str) -> Result<(), RunError> {
        self.wait_for(OperatedServer::Durable, id, "asked", |task| task["asks"] == true)
    }

    fn wait_for(
        &self,
        operated: OperatedServer,
        id: &str,
        what: &str,
        fits: impl Fn(&Value) -> bool,
    ) -> Result<(), RunError> {
        let is_there = || match self.task(operated, id) {
            Ok(task) => fits(&task).then_some(Ok(())),
            Err(error) => Some(Err(error)),
        };
        clock::wait_for(STATE, is_there).unwrap_or_else(|| {
            let task = self.task(operated, id)?;
            let what = format!("task {id} has not {what} in time: {task}");
            Err(Invariant::ENDS.violated(what).into())
        })
    }

    /// Waits until the audit log says that the action begins, or until its command has ended without.
    fn wait_for_beginning(&self, action: Action, target: &str, acting: &mut Child) -> io::Result<()> {
        let begins = |line: &Value| {
            let detail = line["detail"].as_str();
            detail.is_some_and(|detail| detail.ends_with("; begins"))
        };
        let has_begun = || match self.audited(action, target, begins) {
            Ok(false) => acting.try_wait().transpose().map(|ended| ended.map(drop)),
            Ok(true) => Some(Ok(())),
            Err(error) => Some(Err(error)),
        };
        clock::wait_for(STATE, has_begun).unwrap_or(Ok(()))
    }

    /// Whether the audit log has a line of this action.
    fn audited(&self, action: Action, target: &str, fits: impl Fn(&Value) -> bool) -> io::Result<bool> {
        let text = fs::read_to_string(self.root.join("audit.jsonl"))?;
        let mut lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        Ok(lines.any(|line| {
            let about = [&line["task"], &line["tool"]];
            line["action"] == action.name()
                && line["outcome"] == "ok"
                && about.iter().any(|about| **about == target)
                && fits(&line)
        }))
    }

    /// Checks what has become of an action whose server was killed.
    fn check(&mut self, action: Action, target: &str, output: &Output) -> Result<(), RunError> {
        let is_acknowledged = output.status.success();
        let Outcome { is_done, was_so } = self.look(action, target, output)?;
        if is_acknowledged && !is_done {
            let what = format!("{} of {target} was acknowledged and is not done", action.name());
            return Err(broken(what));
        }
        if (is_acknowledged || (is_done && !was_so)) && !self.audited(action, target, |_| true)? {
            let what = format!("{} of {target} was done and is not in the audit log", action.name());
            return Err(broken(what));
        }
        let counts = self.counts.entry(action).or_default();
        match (is_acknowledged, is_done) {
            (true, _) => counts.acknowledged += 1,
            (false, true) => counts.done += 1,
            (false, false) => counts.not_done += 1,
        }
        Ok(())
    }

    /// Looks whether an action is done, and completes it, so that it holds up no others.
    fn look(&mut self, action: Action, target: &str, output: &Output) -> Result<Outcome, RunError> {
        let operated = action.server();
        let is_done = match action {
            Action::Cancel => {
                let is_done = self.task(operated, target)?["state"] == "cancelled";
                if !is_done {
                    self.action(action, target).output()?;
                }
                is_done
            }
            Action::Raise => {
                let waits = self.task(operated, target)?["waitsFor"].clone();
                !waits.as_str().unwrap_or_default().starts_with("queued behind")
            }
            Action::Delete => self.task(operated, target)?["id"].is_null(),
            Action::Answer | Action::Release => {
                let task = self.task(operated, target)?;
                let is_done = match action {
                    Action::Answer => task["asks"] != true,
                    _ => task["state"] != "blocked",
                };
                if !is_done {
                    self.action(action, target).output()?;
                }
                // Whoever has done it, it is done once, and the task goes on.
                self.until(operated, target, "succeeded")?;
                is_done
            }
            Action::Pause | Action::Resume => {
                let tools = self.admin(operated, &["tools"], &["--json"])?;
                let mut tools = tools.as_array().into_iter().flatten();
                let is_paused = tools.any(|tool| tool["name"] == "other" && tool["paused"] == true);
                let has_changed = std::mem::replace(&mut self.is_paused, is_paused) != is_paused;
                let is_done = is_paused == (action == Action::Pause);
                if !is_done && has_changed {
                    return Err(broken("the pause of a tool has changed by itself"));
                }
                return Ok(Outcome {
                    is_done,
                    was_so: is_done && !has_changed,
                });
            }
            Action::Retry | Action::Reset | Action::ResetWaiting => self.look_at_successor(action, target, output)?,
        };
        Ok(Outcome { is_done, was_so: false })
    }

    /// A task is retried or reset once, whatever was acknowledged, and one that waits is not cancelled without its successor. Returns whether it was before
    /// this looked.
    fn look_at_successor(&mut self, action: Action, target: &str, output: &Output) -> Result<bool, RunError> {
        let Some((tool, member)) = action.successor() else {
            return Ok(false);
        };
        let operated = action.server();
        let task = self.task(operated, target)?;
        let before = task[member].as_str().map(str::to_owned);
        if action == Action::ResetWaiting && (task["state"] == "cancelled") != before.is_some() {
            return Err(broken(format!(
                "{target} is {} and goes on as {before:?}",
                task["state"]
            )));
        }
        let printed = |output: &Output| String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let first = printed(output);
        if output.status.success() && before.as_ref() != Some(&first) {
            return Err(broken(format!(
                "{target} was to go on as {first}, and goes on as {before:?}"
            )));
        }
        let again = printed(&self.action(action, target).output()?);
        if again.is_empty() || before.as_ref().is_some_and(|before| *before != again) {
            return Err(broken(format!("{target} goes on as {before:?}, and then as {again:?}")));
        }
        if action == Action::ResetWaiting {
            self.until_it_asks(&again)?;
            self.answer(&again)?;
        }
        if operated == OperatedServer::Durable {
            self.until(operated, &again, "succeeded")?;
        }
        let made = self.made.entry(tool).or_default();
        *made += 1;
        let (made, found) = (*made, self.tasks_of(operated, tool)?);
        if found != made.min(MAX_LIST) {
            return Err(broken(format!(
                "there are {found} tasks of `{tool}`, and must be {made}"
            )));
        }
        Ok(before.is_some())
    }

    fn sum(&self, of: fn(&Counts) -> usize) -> usize {
        self.counts.values().map(of).sum()
    }
}

impl Campaign for ActionCrashes {
    fn round(&mut self, _: u32, rng: &mut Rng) -> Result<Vec<Violation>, RunError> {
        let action = Action::ALL[rng.usize(..Action::ALL.len())];
        let target = self.target(action)?;
        let mut acting = self
            .action(action, &target)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        // Every second time in the middle of it; else before, at and after its end.
        let latest = match rng.bool() {
            true => {
                self.wait_for_beginning(action, &target, &mut acting)?;
                WRITES
            }
            false => self.look * 2,
        };
        clock::pause(latest.mul_f64(rng.f64()));
        let operated = action.server();
        self.servers[operated as usize].kill()?;
        let output = acting.wait_with_output()?;
        self.servers[operated as usize] = self.serve(operated)?;
        self.check(action, &target, &output)?;
        Ok(Vec::new())
    }

    fn finish(&mut self, report: &mut RunReport) -> Result<Vec<Violation>, RunError> {
        // What holds the queue would run on.
        let live = ["--state", "live", "--limit", &MAX_LIST.to_string(), "--json"];
        let live = self.admin(OperatedServer::Commands, &["tasks"], &live)?;
        for task in live["tasks"].as_array().into_iter().flatten() {
            self.action(Action::Cancel, task["id"].as_str().unwrap_or_default())
                .output()?;
        }
        for server in &mut self.servers {
            server.stop(STOP)?;
        }
        for (action, counts) in &self.counts {
            let Counts {
                acknowledged,
                done,
                not_done,
            } = counts;
            let shown = format!("{acknowledged} acknowledged, {done} done and not said so, {not_done} not done");
            report.line(action.label(), shown);
        }
        report.needed(
            "acknowledged",
            self.sum(|counts| counts.acknowledged),
            "action was acknowledged",
        );
        let interrupted = self.sum(|counts| counts.done + counts.not_done);
        report.needed("interrupted", interrupted, "action was interrupted");
        Ok(Vec::new())
    }

    fn progress(&self) -> String {
        format!("{} actions acknowledged", self.sum(|counts| counts.acknowledged))
    }
}
