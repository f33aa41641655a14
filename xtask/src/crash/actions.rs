//! The crash test of operators' actions: kills the server while it does one. What was acknowledged is done; what was not acknowledged is done once or
//! not at all. Whatever was done is in the audit log.
//!
//! The actions are those of `longhaul admin`, and so is what is seen of them.

use super::{CrashError, discard};
use crate::{
    clock,
    mcp::{Client, Era},
    server::Server,
    workspace,
};
use fastrand::Rng;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs, io,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

const STOP: Duration = Duration::from_secs(15);
/// How long a task may take to come into a state.
const STATE: Duration = Duration::from_secs(20);
/// How long an action takes once its beginning is recorded, about.
const WRITES: Duration = Duration::from_millis(12);

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
    fn site(self) -> Site {
        match self {
            Self::Answer | Self::Release | Self::Reset | Self::ResetWaiting => Site::Durable,
            _ => Site::Commands,
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
}

/// A server that is operated: one with commands, and one with durable tools in Rust.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Site {
    Commands,
    Durable,
}

/// How often an action came to what.
#[derive(Default)]
struct Counts {
    acknowledged: usize,
    /// Done, and the acknowledgement was lost.
    done: usize,
    not_done: usize,
}

struct Run {
    root: PathBuf,
    program: PathBuf,
    durable_program: PathBuf,
    client: Client,
    durable_client: Client,
    rng: Rng,
    seed: u64,
    rounds: u32,
    round: u32,
    counts: BTreeMap<Action, Counts>,
    /// Tasks of `fail` that there must be: those made, and one for each retry.
    failures: usize,
    /// Those of `steps`: those made, and one for each reset.
    chains: usize,
    /// Those of `asks`, in the same way.
    questions: usize,
    is_paused: bool,
}

/// Kills the server `rounds` times. The second program is the server with durable tools.
pub(super) fn run(
    rounds: u32,
    seed: u64,
    (program, durable_program): (PathBuf, PathBuf),
    as_json: bool,
) -> Result<(), CrashError> {
    eprintln!("crash: {rounds} rounds of operators' actions, seed {seed}");
    let root = workspace::target()
        .join("crash")
        .join(format!("actions-{seed}-{}", std::process::id()));
    fs::create_dir_all(&root)?;
    let mut run = Run {
        root: root.clone(),
        program,
        durable_program,
        client: Client::new(Era::Legacy, SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
        // It declares that it can be asked.
        durable_client: Client::new(Era::Modern, SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
        rng: Rng::with_seed(seed),
        seed,
        rounds,
        round: 0,
        counts: BTreeMap::new(),
        failures: 0,
        chains: 0,
        questions: 0,
        is_paused: false,
    };
    fs::write(run.config(), config(&root))?;
    run.deploy("old")?;
    run.all()?;
    run.print(as_json);
    // A supervisor may still write how its command has ended.
    discard(&root)?;
    run.check()
}

fn config(root: &Path) -> String {
    let data = json!(root.join("data"));
    let tool = |name: &str, script: &str| {
        format!(
            "[[tool]]\nname = \"{name}\"\ndescription = \"{name}\"\ncommand = [\"sh\", \"-c\", \"{script}\"]\ntask = \"always\"\n"
        )
    };
    format!(
        "[server]\nname = \"operated\"\ndata_dir = {data}\nlisten = \"127.0.0.1:0\"\n[server.audit]\nfile = {}\n{}concurrency = 1\n{}{}{}",
        json!(root.join("audit.jsonl")),
        tool("hold", "sleep 3600"),
        tool("fail", "exit 3"),
        tool("quick", "true"),
        tool("other", "true"),
    )
}

impl Run {
    fn config(&self) -> PathBuf {
        self.root.join("longhaul.toml")
    }

    /// What commands of `longhaul admin` are told of a server.
    fn operated(&self, site: Site) -> PathBuf {
        match site {
            Site::Commands => self.config(),
            Site::Durable => self.root.join("durable"),
        }
    }

    /// What the file has on which the code of `changed` depends.
    fn deploy(&self, word: &str) -> io::Result<()> {
        fs::write(self.root.join("word"), word)
    }

    fn serve(&mut self, site: Site) -> Result<Server, CrashError> {
        let mut command = match site {
            Site::Commands => Command::new(&self.program),
            Site::Durable => Command::new(&self.durable_program),
        };
        match site {
            Site::Commands => command.arg("serve").arg(self.config()),
            Site::Durable => command
                .arg("--data-dir")
                .arg(self.operated(site))
                .arg("--word")
                .arg(self.root.join("word"))
                .arg("--audit")
                .arg(self.root.join("audit.jsonl")),
        };
        let log = match site {
            Site::Commands => "server.log",
            Site::Durable => "durable.log",
        };
        let mut server = Server::start(&mut command, &self.root.join(log))?;
        let address = server.ready()?;
        match site {
            Site::Commands => self.client.moved(address),
            Site::Durable => self.durable_client.moved(address),
        }
        Ok(server)
    }

    fn all(&mut self) -> Result<(), CrashError> {
        let mut server = self.serve(Site::Commands)?;
        let mut durable = self.serve(Site::Durable)?;
        // It runs, so all later ones are queued.
        self.create("hold")?;
        // An action takes as long as a look, and the server is killed before, at and after its end.
        let began = clock::now();
        self.admin(&["stats"], &["--json"])?;
        let latest_kill = began.elapsed() * 2;
        for round in 1..=self.rounds {
            self.round = round;
            let action = Action::ALL[self.rng.usize(..Action::ALL.len())];
            let target = self.target(action)?;
            let mut acting = self.act(action, &target)?;
            // Every second time in the middle of it.
            let latest = match self.rng.bool() {
                true => {
                    self.wait_for_beginning(action, &target, &mut acting)?;
                    WRITES
                }
                false => latest_kill,
            };
            clock::pause(latest.mul_f64(self.rng.f64()));
            let killed = match action.site() {
                Site::Commands => &mut server,
                Site::Durable => &mut durable,
            };
            killed.kill()?;
            let output = acting.wait_with_output()?;
            *killed = self.serve(action.site())?;
            self.look(action, &target, &output)?;
            if round % 20 == 0 {
                eprintln!("crash: round {round}");
            }
        }
        let pid = server.pid();
        // What holds the queue would run on.
        let live = self.admin(&["tasks"], &["--state", "live", "--limit", "500", "--json"])?;
        for task in live["tasks"].as_array().into_iter().flatten() {
            self.admin(&["cancel"], &[task["id"].as_str().unwrap_or_default(), "--json"])?;
        }
        server.stop(pid, STOP)?;
        let pid = durable.pid();
        durable.stop(pid, STOP)?;
        Ok(())
    }

    /// What the action is about: a task that it can be done to, or a tool.
    fn target(&mut self, action: Action) -> Result<String, CrashError> {
        Ok(match action {
            Action::Cancel => self.create("hold")?,
            Action::Raise => {
                self.create("hold")?;
                self.create("hold")?
            }
            Action::Retry => {
                self.failures += 1;
                let task = self.create("fail")?;
                self.until(&task, "failed")?;
                task
            }
            Action::Delete => {
                let task = self.create("quick")?;
                self.until(&task, "succeeded")?;
                task
            }
            Action::Pause | Action::Resume => "other".to_owned(),
            Action::Answer => {
                self.questions += 1;
                let task = self.create_durable("asks")?;
                self.until_it_asks(&task)?;
                task
            }
            Action::ResetWaiting => {
                self.questions += 1;
                let task = self.create_durable("asks")?;
                self.until_at(Site::Durable, &task, "suspended")?;
                task
            }
            Action::Release => {
                let task = self.create_durable("changed")?;
                self.until_it_asks(&task)?;
                self.deploy("new")?;
                // It is replayed, by code that does not follow its journal.
                self.admin_at(Site::Durable, &["answer"], &[&task, "sure:=true", "--json"])?;
                self.until_at(Site::Durable, &task, "blocked")?;
                self.deploy("old")?;
                task
            }
            Action::Reset => {
                self.chains += 1;
                let task = self.create_durable("steps")?;
                self.until_at(Site::Durable, &task, "succeeded")?;
                task
            }
        })
    }

    fn create_durable(&mut self, tool: &str) -> Result<String, CrashError> {
        let created = self.durable_client.create(tool, json!({}));
        created.map_err(|error| self.broken(&format!("a call of {tool} was refused: {error}")))
    }

    fn create(&mut self, tool: &str) -> Result<String, CrashError> {
        let created = self.client.create(tool, json!({}));
        created.map_err(|error| self.broken(&format!("a call of {tool} was refused: {error}")))
    }

    fn act(&self, action: Action, target: &str) -> io::Result<Child> {
        let words: Vec<&str> = [target].into_iter().chain(action.words().iter().copied()).collect();
        self.command(action.site(), &[action.name()], &words)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
    }

    /// Waits until the audit log says that the action begins, or until its command has ended without.
    fn wait_for_beginning(&self, action: Action, target: &str, acting: &mut Child) -> io::Result<()> {
        let has_begun = || match self.audited(action, target, |line| {
            line["detail"]
                .as_str()
                .is_some_and(|detail| detail.ends_with("; begins"))
        }) {
            Ok(false) => acting.try_wait().transpose().map(|ended| ended.map(drop)),
            Ok(true) => Some(Ok(())),
            Err(error) => Some(Err(error)),
        };
        clock::wait_for(STATE, has_begun).unwrap_or(Ok(()))
    }

    fn command(&self, site: Site, before: &[&str], behind: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("admin").args(before).arg(self.operated(site)).args(behind);
        command
    }

    /// What a command prints as JSON; null if it fails.
    fn admin(&self, before: &[&str], behind: &[&str]) -> Result<Value, CrashError> {
        self.admin_at(Site::Commands, before, behind)
    }

    fn admin_at(&self, site: Site, before: &[&str], behind: &[&str]) -> Result<Value, CrashError> {
        let output = self.command(site, before, behind).output()?;
        Ok(serde_json::from_slice(&output.stdout).unwrap_or_default())
    }

    fn task(&self, id: &str) -> Result<Value, CrashError> {
        self.task_at(Site::Commands, id)
    }

    fn task_at(&self, site: Site, id: &str) -> Result<Value, CrashError> {
        self.admin_at(site, &["task"], &[id, "--json"])
    }

    fn until(&self, id: &str, state: &str) -> Result<(), CrashError> {
        self.until_at(Site::Commands, id, state)
    }

    fn until_at(&self, site: Site, id: &str, state: &str) -> Result<(), CrashError> {
        self.wait_for(site, id, state, |task| task["state"] == state)
    }

    fn until_it_asks(&self, id: &str) -> Result<(), CrashError> {
        self.wait_for(Site::Durable, id, "asked", |task| task["asks"] == true)
    }

    fn wait_for(&self, site: Site, id: &str, what: &str, fits: impl Fn(&Value) -> bool) -> Result<(), CrashError> {
        let is_there = || match self.task_at(site, id) {
            Ok(task) => fits(&task).then_some(Ok(())),
            Err(error) => Some(Err(error)),
        };
        match clock::wait_for(STATE, is_there) {
            Some(found) => found,
            None => Err(self.broken(&format!(
                "task {id} has not {what} in time: {}",
                self.task_at(site, id)?
            ))),
        }
    }

    /// Checks what has become of an action whose server was killed.
    fn look(&mut self, action: Action, target: &str, output: &Output) -> Result<(), CrashError> {
        let acknowledged = output.status.success();
        // A tool may have been paused, or not, before.
        let mut was_so = false;
        let is_done = match action {
            Action::Cancel => {
                let is_done = self.task(target)?["state"] == "cancelled";
                if !is_done && !acknowledged {
                    // It would hold up others.
                    self.admin(&["cancel"], &[target, "--json"])?;
                }
                is_done
            }
            Action::Retry => self.look_at_retry(target, acknowledged, output)?,
            Action::Raise => {
                let waits = self.task(target)?["waitsFor"].clone();
                !waits.as_str().unwrap_or_default().starts_with("queued behind")
            }
            Action::Delete => self.task(target)?["id"].is_null(),
            Action::Answer => {
                let is_done = self.task_at(Site::Durable, target)?["asks"] != true;
                if !is_done {
                    self.admin_at(Site::Durable, &["answer"], &[target, "sure:=true", "--json"])?;
                }
                // Whoever has answered, it has the answer once and goes on.
                self.until_at(Site::Durable, target, "succeeded")?;
                is_done
            }
            Action::Release => {
                let is_done = self.task_at(Site::Durable, target)?["state"] != "blocked";
                if !is_done {
                    self.admin_at(Site::Durable, &["release"], &[target, "--json"])?;
                }
                self.until_at(Site::Durable, target, "succeeded")?;
                is_done
            }
            Action::Reset | Action::ResetWaiting => self.look_at_reset(action, target, acknowledged, output)?,
            Action::Pause | Action::Resume => {
                let tools = self.admin(&["tools"], &["--json"])?;
                let other = tools
                    .as_array()
                    .into_iter()
                    .flatten()
                    .find(|tool| tool["name"] == "other");
                let is_paused = other.is_some_and(|tool| tool["paused"] == true);
                let was_paused = std::mem::replace(&mut self.is_paused, is_paused);
                let is_wanted = is_paused == (action == Action::Pause);
                if !is_wanted && is_paused != was_paused {
                    return Err(self.broken("the pause of a tool has changed by itself"));
                }
                was_so = is_wanted && is_paused == was_paused;
                is_wanted
            }
        };
        if acknowledged && !is_done {
            let what = format!("{} of {target} was acknowledged and is not done", action.name());
            return Err(self.broken(&what));
        }
        if acknowledged || (is_done && !was_so) {
            self.check_audit(action, target)?;
        }
        let counts = self.counts.entry(action).or_default();
        match (acknowledged, is_done) {
            (true, _) => counts.acknowledged += 1,
            (false, true) => counts.done += 1,
            (false, false) => counts.not_done += 1,
        }
        Ok(())
    }

    /// A task is reset once, whatever was acknowledged, and one that waits is not cancelled without its successor. Returns whether it was before this looked.
    fn look_at_reset(
        &mut self,
        action: Action,
        target: &str,
        acknowledged: bool,
        output: &Output,
    ) -> Result<bool, CrashError> {
        let task = self.task_at(Site::Durable, target)?;
        let before = task["resetAs"].as_str().map(str::to_owned);
        let waits = action == Action::ResetWaiting;
        if waits && (task["state"] == "cancelled") != before.is_some() {
            return Err(self.broken(&format!("{target} is {} and goes on as {before:?}", task["state"])));
        }
        let printed = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if acknowledged && before.as_deref() != Some(&*printed) {
            return Err(self.broken(&format!("{target} was reset as {printed}, and is reset as {before:?}")));
        }
        let words: Vec<&str> = [target]
            .into_iter()
            .chain(Action::Reset.words().iter().copied())
            .collect();
        let again = self.command(Site::Durable, &["reset"], &words).output()?;
        let again = String::from_utf8_lossy(&again.stdout).trim().to_owned();
        if again.is_empty() || before.as_ref().is_some_and(|before| *before != again) {
            return Err(self.broken(&format!("{target} was reset as {before:?}, and again as {again:?}")));
        }
        if waits {
            self.until_it_asks(&again)?;
            self.admin_at(Site::Durable, &["answer"], &[&again, "sure:=true", "--json"])?;
        }
        self.until_at(Site::Durable, &again, "succeeded")?;
        let (tool, made) = match waits {
            true => ("asks", &mut self.questions),
            false => ("steps", &mut self.chains),
        };
        *made += 1;
        let made = *made;
        let all = self.admin_at(Site::Durable, &["tasks"], &["--tool", tool, "--limit", "500", "--json"])?;
        let found = all["tasks"].as_array().map_or(0, Vec::len);
        if found != made.min(500) {
            return Err(self.broken(&format!("there are {found} tasks of `{tool}`, and must be {made}")));
        }
        Ok(before.is_some())
    }

    /// A task is retried once, whatever was acknowledged. Returns whether it was before this looked.
    fn look_at_retry(&mut self, target: &str, acknowledged: bool, output: &Output) -> Result<bool, CrashError> {
        let before = self.task(target)?["retriedAs"].as_str().map(str::to_owned);
        let printed = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if acknowledged && before.as_deref() != Some(&*printed) {
            return Err(self.broken(&format!(
                "{target} was retried as {printed}, and is retried as {before:?}"
            )));
        }
        let again = self.command(Site::Commands, &["retry"], &[target]).output()?;
        let again = String::from_utf8_lossy(&again.stdout).trim().to_owned();
        if again.is_empty() || before.as_ref().is_some_and(|before| *before != again) {
            return Err(self.broken(&format!("{target} was retried as {before:?}, and again as {again:?}")));
        }
        self.failures += 1;
        let all = self.admin(&["tasks"], &["--tool", "fail", "--limit", "500", "--json"])?;
        let found = all["tasks"].as_array().map_or(0, Vec::len);
        if found != self.failures.min(500) {
            return Err(self.broken(&format!(
                "there are {found} tasks of `fail`, and must be {}",
                self.failures
            )));
        }
        Ok(before.is_some())
    }

    fn check_audit(&self, action: Action, target: &str) -> Result<(), CrashError> {
        match self.audited(action, target, |_| true)? {
            true => Ok(()),
            false => Err(self.broken(&format!(
                "{} of {target} was done and is not in the audit log",
                action.name()
            ))),
        }
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

    fn broken(&self, what: &str) -> CrashError {
        CrashError::one(what, self.round, (self.rounds, self.seed), &self.root, " --actions")
    }

    fn sum(&self, of: fn(&Counts) -> usize) -> usize {
        self.counts.values().map(of).sum()
    }

    /// A run in which every action was acknowledged, or none, has tested too little.
    fn check(&self) -> Result<(), CrashError> {
        let idle = |what| Err(CrashError::Idle { what, seed: self.seed });
        match (
            self.sum(|counts| counts.acknowledged),
            self.sum(|counts| counts.done + counts.not_done),
        ) {
            (0, _) => idle("action was acknowledged"),
            (_, 0) => idle("action was interrupted"),
            _ => Ok(()),
        }
    }

    fn print(&self, as_json: bool) {
        if as_json {
            let counts = self.counts.iter().map(|(action, counts)| {
                let counts =
                    json!({"acknowledged": counts.acknowledged, "done": counts.done, "notDone": counts.not_done});
                (action.label().to_owned(), counts)
            });
            let counts = Value::Object(counts.collect());
            println!(
                "{}",
                json!({"seed": self.seed, "rounds": self.rounds, "actions": counts})
            );
            return;
        }
        println!(
            "{:<16}{:>14}{:>20}{:>10}",
            "action", "acknowledged", "done, not said so", "not done"
        );
        for (action, counts) in &self.counts {
            println!(
                "{:<16}{:>14}{:>20}{:>10}",
                action.label(),
                counts.acknowledged,
                counts.done,
                counts.not_done
            );
        }
    }
}
