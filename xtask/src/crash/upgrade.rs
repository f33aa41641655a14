//! The upgrade test: kills servers of an older commit while a command runs and a durable task is suspended, and starts this tree's servers
//! on their data directories. Both tasks must end with the right result, the command without a second start and the steps without repeats.

use super::{
    CrashError, discard,
    journal::History,
    kind::{Kind, Load},
    release::{self, EFFECTS_FLAG, OlderPrograms},
    site::Site,
    supervisors::{self, Attempt},
};
use crate::{
    clock,
    mcp::{Client, Era, Outcome, RequestError, TaskState},
    server::{Server, ServerError},
};
use rusqlite::Connection;
use serde_json::json;
use std::{
    collections::HashMap,
    fs, io,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

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

/// This tree's programs.
pub(crate) struct Programs {
    pub(crate) longhaul: PathBuf,
    pub(crate) under_fire: PathBuf,
}

/// What is wrong with the test or with the server.
enum Trouble {
    /// The test has not tested an upgrade.
    NotTested(String),
    Broken(String),
    Other(CrashError),
}

impl<E: Into<CrashError>> From<E> for Trouble {
    fn from(error: E) -> Self {
        Self::Other(error.into())
    }
}

/// Runs the test with the servers of `commit` as the older ones.
pub(crate) fn run(commit: &str, programs: &Programs, as_json: bool) -> Result<(), CrashError> {
    let since = clock::now();
    let older = release::build_older(commit)?;
    eprintln!(
        "upgrade: the programs of {commit} are built after {:.0} s",
        since.elapsed().as_secs_f64()
    );
    let site = Site::prepare(0, None, Load::Mixed)?;
    let root = site.root().to_owned();
    let test = UpgradeTest {
        durable: root.join("durable"),
        site,
        older,
        programs,
    };
    match test.run() {
        Ok(switch) => {
            discard(&root)?;
            switch.print(commit, as_json);
            Ok(())
        }
        Err(Trouble::NotTested(what)) => {
            discard(&root)?;
            Err(CrashError::NoUpgrade {
                commit: commit.to_owned(),
                what,
            })
        }
        Err(Trouble::Broken(problem)) => Err(CrashError::BrokenUpgrade {
            commit: commit.to_owned(),
            problem,
            kept: root,
        }),
        Err(Trouble::Other(error)) => Err(error),
    }
}

struct UpgradeTest<'a> {
    /// Of the server with commands.
    site: Site,
    /// The folder of the server with durable tools.
    durable: PathBuf,
    older: OlderPrograms,
    programs: &'a Programs,
}

/// What there was at the switch.
struct Switch {
    /// The attempt whose supervisor was running.
    attempt: Attempt,
    /// The task that was suspended.
    suspended: String,
    /// The steps of its child that had begun.
    steps: usize,
}

impl UpgradeTest<'_> {
    fn run(&self) -> Result<Switch, Trouble> {
        fs::create_dir_all(self.durable.join("data"))?;
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut commands = Client::new(Era::Legacy, nowhere);
        let mut durables = Client::new(Era::Legacy, nowhere);

        let mut server = self.site.serve(&self.older.longhaul)?;
        commands.moved(server.ready()?);
        let mut durable_server = self.serve_durable(&self.older.under_fire, self.older.effects_flag)?;
        durables.moved(durable_server.ready()?);
        let arguments = json!({"token": "command", "millis": COMMAND_MILLIS, "bytes": 0});
        let command = create(&mut commands, Kind::Slow.name(), arguments)?;
        let arguments = json!({"token": "chain", "steps": STEPS, "millis": STEP_MILLIS});
        let parent = create(&mut durables, "family", arguments)?;
        clock::wait_for(SUSPENSION, || {
            clock::pause(POLL);
            self.is_suspended(&parent).unwrap_or(false).then_some(())
        });
        server.kill()?;
        durable_server.kill()?;

        let switch = self.at_the_switch(&command, &parent)?;
        let mut server = self.site.serve(&self.programs.longhaul)?;
        commands.moved(server.ready()?);
        let mut durable_server = self.serve_durable(&self.programs.under_fire, EFFECTS_FLAG)?;
        durables.moved(durable_server.ready()?);
        let text = end(&mut durables, &parent, "the suspended task")?;
        if text != "chain" {
            return Err(Trouble::Broken(format!("the suspended task's result is {text:?}")));
        }
        let text = end(&mut commands, &command, "the running command")?;
        let expected = format!("{} {} command", switch.attempt.task, switch.attempt.epoch);
        if text.trim_end() != expected {
            return Err(Trouble::Broken(format!(
                "the command's result is {text:?}, not {expected:?}"
            )));
        }
        self.check_starts(&command)?;
        self.check_steps(&switch)?;
        for server in [&mut server, &mut durable_server] {
            let pid = server.pid();
            server.stop(pid, STOP)?;
        }
        Ok(switch)
    }

    fn serve_durable(&self, program: &Path, effects_flag: &str) -> Result<Server, ServerError> {
        let mut command = Command::new(program);
        command.arg("--data-dir").arg(self.durable.join("data"));
        command.arg(effects_flag).arg(self.effects_file());
        Server::start(&mut command, &self.durable.join("server.log"))
    }

    fn effects_file(&self) -> PathBuf {
        self.durable.join("effects")
    }

    /// Checks that the command runs, and that the durable task is suspended.
    fn at_the_switch(&self, command: &str, parent: &str) -> Result<Switch, Trouble> {
        let running = supervisors::running(&self.site.attempts());
        let supervisor = running.into_iter().find(|running| running.attempt.task == command);
        let attempt = supervisor.map(|supervisor| supervisor.attempt);
        let attempt = attempt.ok_or_else(|| Trouble::NotTested("no supervisor was running".to_owned()))?;
        match self.is_suspended(parent) {
            Ok(true) => {}
            Ok(false) => return Err(Trouble::NotTested("no durable task was suspended".to_owned())),
            Err(error) => {
                let what = format!("the database could not be read for suspended tasks: {error}");
                return Err(Trouble::NotTested(what));
            }
        }
        Ok(Switch {
            attempt,
            suspended: parent.to_owned(),
            steps: self.effects()?.len(),
        })
    }

    /// Whether the database says that a task is suspended. Reads a copy, because a server locks its own.
    fn is_suspended(&self, task: &str) -> Result<bool, Box<dyn std::error::Error>> {
        let copy = self.durable.join("copy");
        fs::create_dir_all(&copy)?;
        // The log is copied first: pages that are moved from it to the database meanwhile are then in both.
        for file in ["longhaul.db-wal", "longhaul.db"] {
            fs::copy(self.durable.join("data").join(file), copy.join(file))?;
        }
        let database = Connection::open(copy.join("longhaul.db"))?;
        let state: i64 = database.query_row("SELECT state FROM tasks WHERE id = ?1", [task], |row| row.get(0))?;
        drop(database);
        fs::remove_dir_all(&copy)?;
        Ok(state == SUSPENDED)
    }

    /// The steps that have begun, in their order.
    fn effects(&self) -> io::Result<Vec<String>> {
        let text = fs::read_to_string(self.effects_file())?;
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// Checks that the command was started once.
    fn check_starts(&self, command: &str) -> Result<(), Trouble> {
        let mut history = History::open(&self.site.journal())?;
        let violations = history.read_new()?;
        if let Some(violation) = violations.first() {
            return Err(Trouble::Broken(violation.to_string()));
        }
        match history.runs_of(command) {
            1 => Ok(()),
            runs => Err(Trouble::Broken(format!("the command was started {runs} times"))),
        }
    }

    /// Checks that each step ran once, but for those that the kill can have cut off between their effect and their entry: the last one before it,
    /// or the branches.
    fn check_steps(&self, switch: &Switch) -> Result<(), Trouble> {
        let effects = self.effects()?;
        let mut runs: HashMap<&str, usize> = HashMap::new();
        for effect in &effects {
            *runs.entry(effect).or_default() += 1;
        }
        let missing = (0..STEPS).find(|step| !runs.contains_key(&*format!("chain {step}")));
        if let Some(step) = missing {
            return Err(Trouble::Broken(format!("step {step} did not run")));
        }
        let begun = &effects[..switch.steps];
        let cut_off = |effect: &str| begun.last().is_some_and(|last| last == effect || effect.contains('/'));
        match runs.iter().find(|(effect, runs)| **runs > 1 && !cut_off(effect)) {
            Some((effect, runs)) => Err(Trouble::Broken(format!("step {effect:?} ran {runs} times"))),
            None => Ok(()),
        }
    }
}

fn create(client: &mut Client, tool: &str, arguments: serde_json::Value) -> Result<String, Trouble> {
    let created = client.create(tool, arguments);
    created.map_err(|error| Trouble::NotTested(format!("the older server made no task of {tool}: {error}")))
}

/// Waits for the end of a task, and returns the text of its result.
fn end(client: &mut Client, task: &str, what: &str) -> Result<String, Trouble> {
    let refused = |error: RequestError| Trouble::Broken(format!("{what}, {task}, cannot be read: {error}"));
    let ended = clock::wait_for(DRAIN, || {
        clock::pause(POLL);
        client
            .get(task)
            .map(|state| (!matches!(state, TaskState::Live)).then_some(()))
            .transpose()
    });
    match ended {
        None => Err(Trouble::Broken(format!(
            "{what}, {task}, has not ended within {} s",
            DRAIN.as_secs()
        ))),
        Some(Err(error)) => Err(refused(error)),
        Some(Ok(())) => match client.result(task).map_err(refused)? {
            Outcome::Result { is_error: false, text } => Ok(text),
            outcome => Err(Trouble::Broken(format!("{what}, {task}, ended as {outcome:?}"))),
        },
    }
}

impl Switch {
    fn print(&self, commit: &str, as_json: bool) {
        if as_json {
            let attempt = json!({"task": self.attempt.task, "epoch": self.attempt.epoch});
            let shown = json!({
                "upgradeFrom": commit,
                "adopted": attempt,
                "resumed": self.suspended,
                "stepsBefore": self.steps,
            });
            println!("{shown}");
            return;
        }
        println!("upgraded from       {commit}");
        println!("adopted             {}", self.attempt);
        println!(
            "resumed             task {}, after {} steps of its child",
            self.suspended, self.steps
        );
    }
}
