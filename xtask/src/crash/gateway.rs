//! The crash test of the gateway: kills it under load, in front of upstreams that live on and count their calls.
//!
//! Each upstream notes a call before it does anything. So its notes show whether a call was made twice, and whether one was never made that ended well. One
//! upstream makes tasks, one makes none, and one is a child of the gateway and ends with it.

use super::{CrashError, InjectedFault, UpgradePrograms as Programs, release::EFFECTS_FLAG};
use crate::{
    clock,
    mcp::{Client, Era, Outcome, RequestError, TaskState},
    server::Server,
    workspace,
};
use fastrand::Rng;
use serde_json::json;
use std::{
    collections::HashMap,
    fmt::Write as _,
    fs, io,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::Command,
    time::Duration,
};

/// How many calls a round makes at most.
const MAX_CREATES: usize = 6;
/// How many acknowledged tasks are looked at after each restart.
const LOOKED_AT: usize = 6;
const STOP: Duration = Duration::from_secs(15);
/// The upstream without tasks.
const UPSTREAM: &str = include_str!("upstream.py");

/// A tool of an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tool {
    /// Not idempotent: at most one call.
    Note(&'static str),
    /// Idempotent: at least one call.
    Repeat(&'static str),
    /// A task of the upstream: at most one call, which is followed again.
    Chain(Era),
}

/// The upstreams without tasks: one that lives on, and one that ends with the gateway.
const PLAIN: [&str; 2] = ["plain", "child"];

impl Tool {
    fn draw(rng: &mut Rng) -> Self {
        let upstream = PLAIN[rng.usize(..PLAIN.len())];
        match rng.u8(0..5) {
            0 | 1 => Self::Note(upstream),
            2 => Self::Repeat(upstream),
            3 => Self::Chain(Era::Legacy),
            _ => Self::Chain(Era::Modern),
        }
    }

    /// As the gateway offers it.
    fn name(self) -> String {
        match self {
            Self::Note(upstream) => format!("{upstream}_note"),
            Self::Repeat(upstream) => format!("{upstream}_repeat"),
            Self::Chain(_) => "tasks_chain".to_owned(),
        }
    }

    /// Whether a call may end without anybody knowing whether it has run. A task of an upstream is acknowledged to a client of 2025-11-25 before it is made, and
    /// to one of 2026-07-28 once the gateway has recorded it: that one is followed to its end.
    fn may_be_interrupted(self) -> bool {
        matches!(self, Self::Note(_) | Self::Chain(Era::Legacy))
    }
}

/// A call.
struct Call {
    tool: Tool,
    token: String,
    /// If it was acknowledged.
    task: Option<String>,
    /// The status that it has ended with, once that was seen.
    ended: Option<String>,
}

/// The report of a run.
#[derive(Default)]
struct Report {
    seed: u64,
    rounds: u32,
    made: usize,
    acknowledged: usize,
    succeeded: usize,
    /// Calls of which the client was told that it is not known whether they have run.
    interrupted: usize,
    /// Tasks of an upstream that were recorded before they were acknowledged.
    recorded: usize,
    /// Calls that the upstreams have got.
    received: usize,
    /// Further calls of idempotent tools.
    repeated: usize,
}

struct Run {
    root: PathBuf,
    programs: Programs,
    plant: Option<InjectedFault>,
    rounds: u32,
    seed: u64,
    round: u32,
    calls: Vec<Call>,
    client: Client,
    /// Makes the calls that become tasks when their upstream has made tasks of them.
    modern_client: Client,
    rng: Rng,
}

/// Kills the gateway `rounds` times.
pub(super) fn run(
    rounds: u32,
    seed: u64,
    plant: Option<InjectedFault>,
    programs: Programs,
    json: bool,
) -> Result<(), CrashError> {
    eprintln!("crash: {rounds} rounds of the gateway, seed {seed}");
    let root = workspace::target()
        .join("crash")
        .join(format!("gateway-{seed}-{}", std::process::id()));
    fs::create_dir_all(&root)?;
    let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut run = Run {
        root: root.clone(),
        programs,
        plant,
        rounds,
        seed,
        round: 0,
        calls: Vec::new(),
        client: Client::new(Era::Legacy, nowhere),
        modern_client: Client::new(Era::Modern, nowhere),
        rng: Rng::with_seed(seed),
    };
    let upstreams = run.upstreams()?;
    let report = run.all()?;
    drop(upstreams);
    report.print(json);
    fs::remove_dir_all(&root)?;
    report.check()
}

impl Run {
    /// Starts the upstreams that live on, and writes the configuration of the gateway.
    fn upstreams(&self) -> Result<[Server; 2], CrashError> {
        let script = self.root.join("upstream.py");
        fs::write(&script, UPSTREAM)?;
        let mut plain = Command::new("python3");
        plain.arg("-B").arg(&script).arg("--calls").arg(self.calls_file());
        let mut plain = Server::start(&mut plain, &self.root.join("plain.log"))?;
        let mut tasks = Command::new(&self.programs.under_fire);
        tasks.arg("--data-dir").arg(self.root.join("tasks"));
        tasks.arg(EFFECTS_FLAG).arg(self.effects_file());
        let mut tasks = Server::start(&mut tasks, &self.root.join("tasks.log"))?;
        let child = json!(["python3", "-B", script, "--stdio", "--calls", self.calls_file()]);
        let settings = match self.plant {
            Some(InjectedFault::RepeatCalls) => "task = \"optional\"\nidempotent = true\n",
            _ => "task = \"optional\"\n",
        };
        let config = format!(
            "[server]\nname = \"gateway\"\n\n[upstream.plain]\nurl = \"http://{}/mcp\"\n{settings}\n[upstream.child]\ncommand = {child}\n{settings}\n\
             [upstream.tasks]\nurl = \"http://{}/mcp\"\ntask_after = \"1h\"\n",
            plain.ready()?,
            tasks.ready()?,
        );
        fs::write(self.config_file(), config)?;
        Ok([plain, tasks])
    }

    fn config_file(&self) -> PathBuf {
        self.root.join("longhaul.toml")
    }

    /// Where the upstreams without tasks note their calls: tool and token.
    fn calls_file(&self) -> PathBuf {
        self.root.join("calls")
    }

    /// Where the upstream with tasks notes the steps of its calls: token and step.
    fn effects_file(&self) -> PathBuf {
        self.root.join("effects")
    }

    fn serve(&mut self) -> Result<Server, CrashError> {
        let mut command = Command::new(&self.programs.longhaul);
        command.arg("serve").arg(self.config_file());
        command.args(["--listen", "127.0.0.1:0", "--data-dir"]);
        command.arg(self.root.join("data"));
        if let Some(plant) = self.plant {
            command.env("LONGHAUL_PLANT", plant.name());
        }
        let mut server = Server::start(&mut command, &self.root.join("gateway.log"))?;
        let address = server.ready()?;
        self.client.moved(address);
        self.modern_client.moved(address);
        Ok(server)
    }

    fn all(&mut self) -> Result<Report, CrashError> {
        for round in 1..=self.rounds {
            self.round = round;
            let mut gateway = self.serve()?;
            self.look_at_some()?;
            for _ in 0..self.rng.usize(1..=MAX_CREATES) {
                self.create()?;
            }
            self.check_calls()?;
            clock::pause(Duration::from_millis(self.rng.u64(0..300)));
            gateway.kill()?;
            if round % 20 == 0 {
                eprintln!("crash: round {round}: {} calls made", self.calls.len());
            }
        }
        let mut gateway = self.serve()?;
        let mut report = Report {
            seed: self.seed,
            rounds: self.rounds,
            made: self.calls.len(),
            ..Report::default()
        };
        for nth in 0..self.calls.len() {
            self.end(nth, &mut report)?;
        }
        let received = self.check_calls()?;
        for call in &self.calls {
            let times = received.get(&call.token).copied().unwrap_or_default();
            report.received += times;
            report.repeated += times.saturating_sub(1);
        }
        let pid = gateway.pid();
        gateway.stop(pid, STOP)?;
        Ok(report)
    }

    /// Makes a call. If its acknowledgement is lost, it may have run or not, but not twice.
    fn create(&mut self) -> Result<(), CrashError> {
        let tool = Tool::draw(&mut self.rng);
        let token = format!("c{}.{}", self.calls.len(), self.rng.u32(..));
        let arguments = match tool {
            Tool::Chain(_) => json!({"token": token, "steps": self.rng.u32(2..9), "millis": self.rng.u64(0..60)}),
            _ => json!({"token": token, "millis": self.rng.u64(0..200)}),
        };
        let client = match tool {
            Tool::Chain(Era::Modern) => &mut self.modern_client,
            _ => &mut self.client,
        };
        let task = match client.create(&tool.name(), arguments) {
            Ok(task) => Some(task),
            Err(RequestError::Broken(_)) => None,
            Err(trouble) => return Err(self.broken(&format!("a call of {} was refused: {trouble}", tool.name()))),
        };
        self.calls.push(Call {
            tool,
            token,
            task,
            ended: None,
        });
        Ok(())
    }

    /// Reads some acknowledged tasks: each is known, and one that has ended does not change.
    fn look_at_some(&mut self) -> Result<(), CrashError> {
        for _ in 0..LOOKED_AT.min(self.calls.len()) {
            let nth = self.rng.usize(..self.calls.len());
            let Some(task) = self.calls[nth].task.clone() else {
                continue;
            };
            let now = match self.client.get(&task) {
                Ok(TaskState::Live) => None,
                Ok(TaskState::EndedStatus(status)) => Some(status),
                other => return Err(self.broken(&format!("task {task} was acknowledged and is now {other:?}"))),
            };
            let call = &mut self.calls[nth];
            if call.ended.is_some() && call.ended != now {
                let what = format!("task {task} was {:?} and is now {now:?}", call.ended);
                return Err(self.broken(&what));
            }
            call.ended = now;
        }
        Ok(())
    }

    /// Waits for the end of a task, and checks it.
    fn end(&mut self, nth: usize, report: &mut Report) -> Result<(), CrashError> {
        let Call { tool, token, task, .. } = &self.calls[nth];
        let (tool, token) = (*tool, token.clone());
        let Some(task) = task.clone() else { return Ok(()) };
        report.acknowledged += 1;
        report.recorded += usize::from(tool == Tool::Chain(Era::Modern));
        let outcome = self.client.result(&task);
        match &outcome {
            Ok(Outcome::Result { is_error: false, text }) if *text == token => report.succeeded += 1,
            Ok(Outcome::Error { message, .. })
                if tool.may_be_interrupted() && message.contains("it is not known whether") =>
            {
                report.interrupted += 1;
                return Ok(());
            }
            _ => return Err(self.broken(&format!("call {token} of {} came to {outcome:?}", tool.name()))),
        }
        if !self.received()?.contains_key(&token) {
            return Err(self.broken(&format!(
                "call {token} of {} ended well and was never made",
                tool.name()
            )));
        }
        Ok(())
    }

    /// How often the upstreams have got each call, by its token.
    fn received(&self) -> io::Result<HashMap<String, usize>> {
        let read = |file: PathBuf| {
            if file.exists() {
                fs::read_to_string(file)
            } else {
                Ok(String::new())
            }
        };
        let (calls, effects) = (read(self.calls_file())?, read(self.effects_file())?);
        let calls = calls.lines().filter_map(|line| Some(line.split_once(' ')?.1));
        // Its first step.
        let tasks = effects.lines().filter_map(|line| line.strip_suffix(" 0"));
        let mut received = HashMap::new();
        for token in calls.chain(tasks) {
            *received.entry(token.to_owned()).or_default() += 1;
        }
        Ok(received)
    }

    /// Checks that no call was made twice that must not be.
    fn check_calls(&self) -> Result<HashMap<String, usize>, CrashError> {
        let received = self.received()?;
        for Call { tool, token, .. } in &self.calls {
            let times = received.get(token).copied().unwrap_or_default();
            if times > 1 && !matches!(tool, Tool::Repeat(_)) {
                return Err(self.broken(&format!("call {token} of {} was made {times} times", tool.name())));
            }
        }
        Ok(received)
    }

    fn broken(&self, what: &str) -> CrashError {
        CrashError::one(what, self.round, (self.rounds, self.seed), &self.root, " --gateway")
    }
}

impl Report {
    /// A run in which nothing was interrupted or repeated has tested too little.
    fn check(&self) -> Result<(), CrashError> {
        let idle = |what| Err(CrashError::Idle { what, seed: self.seed });
        match (self.interrupted, self.repeated, self.recorded) {
            (0, ..) => idle("call was interrupted"),
            (_, 0, _) => idle("idempotent call was made again"),
            (.., 0) => idle("task of an upstream was recorded before it was acknowledged"),
            _ => Ok(()),
        }
    }

    fn print(&self, as_json: bool) {
        let lines = [
            ("rounds", self.rounds as usize),
            ("calls", self.made),
            ("acknowledged", self.acknowledged),
            ("succeeded", self.succeeded),
            ("interrupted", self.interrupted),
            ("recorded", self.recorded),
            ("received", self.received),
            ("repeated", self.repeated),
        ];
        if as_json {
            let mut object = serde_json::Map::from_iter([("seed".to_owned(), self.seed.into())]);
            object.extend(lines.map(|(name, number)| (name.to_owned(), number.into())));
            println!("{}", serde_json::Value::Object(object));
            return;
        }
        let mut text = format!("{:<20}{}\n", "seed", self.seed);
        for (name, number) in lines {
            // A string takes everything.
            let _ = writeln!(text, "{name:<20}{number}");
        }
        print!("{text}");
    }
}
