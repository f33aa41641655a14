//! The upgrade test: kills servers of an older commit while a command runs and a durable task is suspended, and starts this tree's servers
//! on their data directories. Both tasks must end with the right result, the command without a second start and the steps without repeats.

use super::{
    commands::CommandServer,
    older::{self, ServerPrograms},
};
use fastrand::Rng;
use harness::{
    clock,
    commands::{self, CommandJournal, CommandKind, CommandLoad},
    durable::steps::Steps,
    durable::{DurableCall, DurableTool, under_fire},
    mcp::{CallOutcome, Client, ClientEra, TaskState},
    rounds::report::RunReport,
    rounds::violation::{Invariant, Violation},
    rounds::{Campaign, Rounds, RunError},
    server::Server,
    server::supervisors,
};
use rusqlite::Connection;
use serde_json::json;
use std::{fs, path::PathBuf, time::Duration};

/// How long the command runs: until well after the switch.
const COMMAND_MILLIS: u64 = 60_000;
/// The child of the suspended task has so many steps of a second. It runs until after the switch too.
const STEPS: u32 = 45;
const STEP_MILLIS: u64 = 1_000;
/// How long a durable task may take until it is suspended: 30 s of waiting, and some more on a slow machine.
const SUSPENSION: Duration = Duration::from_secs(40);
/// How often the older server's database is read meanwhile.
const POLL: Duration = Duration::from_secs(1);
/// How long the tasks may take to end after the switch.
const DRAIN: Duration = Duration::from_secs(120);
const STOP: Duration = Duration::from_secs(15);
/// The code of suspended tasks in the database. Stored codes never change.
const SUSPENDED: i64 = 2;

/// Runs the test with the servers of `commit` as the older ones.
pub(crate) fn run(commit: &str, programs: &ServerPrograms, as_json: bool) -> Result<(), RunError> {
    let older = older::build(commit)?;
    let rounds = Rounds::undecided(format!("crash --upgrade-from {commit}"), 1);
    let site = rounds.site()?;
    let campaign = UpgradeTest {
        journal: commands::prepare(&site)?,
        command_server: CommandServer::prepare(&site, CommandLoad::Mixed)?,
        data: site.file("durable"),
        copy: site.file("copy"),
        steps: Steps::open(&site.file("effects"))?,
        effects: site.file("effects"),
        log: site.file("durable.log"),
        older,
        newer: programs.clone(),
        clients: [(); 2].map(|()| Client::of_nobody(ClientEra::Legacy)),
        shown: Vec::new(),
    };
    rounds.run(site, campaign, as_json)
}

struct UpgradeTest {
    command_server: CommandServer,
    journal: CommandJournal,
    /// Of the server with durable tools.
    data: PathBuf,
    log: PathBuf,
    effects: PathBuf,
    steps: Steps,
    /// Where its database is copied to, to be read.
    copy: PathBuf,
    older: ServerPrograms,
    newer: ServerPrograms,
    /// Of commands, and of durable tools.
    clients: [Client; 2],
    shown: Vec<(&'static str, String)>,
}

impl UpgradeTest {
    fn serve(&mut self, programs: &ServerPrograms) -> Result<[Server; 2], RunError> {
        let commands = self.command_server.start(&programs.longhaul, None)?;
        let mut durable = under_fire(&programs.under_fire, &self.data, programs.effects_flag, &self.effects);
        let mut servers = [commands, Server::start(&mut durable, &self.log)?];
        for (client, server) in self.clients.iter_mut().zip(&mut servers) {
            client.moved(server.ready()?);
        }
        Ok(servers)
    }

    /// Whether the database says that a task is suspended. Reads a copy, because a server locks its own.
    fn is_suspended(&self, task: &str) -> Result<bool, RunError> {
        fs::create_dir_all(&self.copy)?;
        // The log is copied first: pages that are moved from it to the database meanwhile are then in both.
        for file in ["longhaul.db-wal", "longhaul.db"] {
            fs::copy(self.data.join(file), self.copy.join(file))?;
        }
        let read = || {
            let database = Connection::open(self.copy.join("longhaul.db"))?;
            database.query_row("SELECT state FROM tasks WHERE id = ?1", [task], |row| {
                row.get::<_, i64>(0)
            })
        };
        let state = read();
        fs::remove_dir_all(&self.copy)?;
        state
            .map(|state| state == SUSPENDED)
            .map_err(|error| RunError::Impossible(format!("the database cannot be read for suspended tasks: {error}")))
    }

    /// Waits for the end of a task, which must have this result.
    fn end(&mut self, nth: usize, task: &str, expected: &str) -> Result<(), RunError> {
        let client = &mut self.clients[nth];
        let ended = clock::wait_for(DRAIN, || {
            clock::pause(POLL);
            let state = client.get(task);
            state
                .map(|state| (!matches!(state, TaskState::Live)).then_some(()))
                .transpose()
        });
        let never = || Invariant::ENDS.violated(format!("task {task} has not ended within {} s", DRAIN.as_secs()));
        ended.ok_or_else(never)??;
        match client.result(task)? {
            CallOutcome::Result { is_error: false, text } if text.trim_end() == expected => Ok(()),
            outcome => {
                let what = format!("task {task} ended as {outcome:?}, not as {expected:?}");
                Err(Invariant::OWN_RESULT.violated(what).into())
            }
        }
    }
}

impl Campaign for UpgradeTest {
    fn round(&mut self, _: u32, _: &mut Rng) -> Result<Vec<Violation>, RunError> {
        let mut servers = self.serve(&self.older.clone())?;
        let arguments = json!({"token": "command", "millis": COMMAND_MILLIS, "bytes": 0});
        let command = self.clients[0].create(CommandKind::Slow.name(), arguments)?;
        let chain = DurableCall {
            tool: DurableTool::Family,
            token: "chain".to_owned(),
            steps: STEPS,
        };
        let parent = self.clients[1].create(chain.tool.name(), chain.arguments(STEP_MILLIS))?;
        let suspended = clock::wait_for(SUSPENSION, || {
            clock::pause(POLL);
            self.is_suspended(&parent).unwrap_or(false).then_some(())
        });
        for server in &mut servers {
            server.kill()?;
        }
        let running = supervisors::running(&self.command_server.attempts).into_iter();
        let adopted = running
            .map(|running| running.attempt)
            .find(|attempt| attempt.task == command);
        let (Some(adopted), Some(())) = (adopted, suspended) else {
            let what = "no command was running, or no durable task was suspended, when the older server was killed";
            return Err(RunError::Impossible(format!("the upgrade was not tested: {what}")));
        };
        let mut found = self.steps.violations()?;
        let before = self.steps.count;
        let mut servers = self.serve(&self.newer.clone())?;
        self.end(1, &parent, &chain.token)?;
        self.end(0, &command, &format!("{command} {} command", adopted.epoch))?;
        found.extend(self.journal.read_new()?);
        if self.journal.runs_of(&command) != 1 {
            let what = format!("the command was started {} times", self.journal.runs_of(&command));
            found.push(Invariant::RUN_ONCE.violated(what));
        }
        found.extend(self.steps.violations()?);
        found.extend(self.steps.unfinished(&chain.token, STEPS));
        for server in &mut servers {
            server.stop(STOP)?;
        }
        self.shown = vec![
            ("adopted", adopted.to_string()),
            ("resumed", format!("task {parent}, after {before} steps of its child")),
        ];
        Ok(found)
    }

    fn finish(&mut self, report: &mut RunReport) -> Result<Vec<Violation>, RunError> {
        for (name, what) in self.shown.drain(..) {
            report.line(name, what);
        }
        Ok(Vec::new())
    }
}
