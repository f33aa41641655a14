//! The crash test of the gateway, in front of upstreams that live on and count their calls.
//!
//! Each upstream notes a call before it does anything. So its notes show whether a call was made twice, and whether one was never made that ended well. One
//! upstream makes tasks, one makes none, and one is a child of the gateway and ends with it.

use super::{InjectedFault, ServerPrograms};
use fastrand::Rng;
use harness::{
    clock,
    durable::steps::Steps,
    durable::under_fire,
    ledger::caller::{Caller, Excuse},
    ledger::{Ledger, LedgerCall},
    mcp::{CallOutcome, Client, ClientEra},
    rounds::report::RunReport,
    rounds::violation::{Invariant, Violation},
    rounds::{Campaign, RunError},
    server::{self, Server},
    site::Site,
};
use serde_json::json;
use std::{collections::HashMap, fs, path::PathBuf, process::Command, sync::Arc, time::Duration};

/// How many calls a round makes at most.
const MAX_CREATES: usize = 6;
/// How many old tasks are checked after each restart.
const OLD: usize = 6;
const STOP: Duration = Duration::from_secs(15);
/// The upstream without tasks.
const UPSTREAM: &str = include_str!("upstream.py");
/// What a client is told of a call that may have run or not.
const UNKNOWN: &str = "it is not known whether";

/// A tool of an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tool {
    /// Not idempotent: at most one call.
    Note(&'static str),
    /// Idempotent: at least one call.
    Repeat(&'static str),
    /// A task of the upstream: at most one call, which is followed again.
    Chain(ClientEra),
}

/// The upstreams without tasks: one that lives on, and one that ends with the gateway.
const PLAIN: [&str; 2] = ["plain", "child"];

impl Tool {
    fn draw(rng: &mut Rng) -> Self {
        let upstream = PLAIN[rng.usize(..PLAIN.len())];
        match rng.u8(0..5) {
            0 | 1 => Self::Note(upstream),
            2 => Self::Repeat(upstream),
            3 => Self::Chain(ClientEra::Legacy),
            _ => Self::Chain(ClientEra::Modern),
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
        matches!(self, Self::Note(_) | Self::Chain(ClientEra::Legacy))
    }
}

#[derive(Debug, Clone)]
struct Call {
    tool: Tool,
    token: String,
}

impl LedgerCall for Call {
    fn token(&self) -> &str {
        &self.token
    }

    fn may_end_as(&self, outcome: &CallOutcome) -> bool {
        match outcome {
            CallOutcome::Error { message, .. } => self.tool.may_be_interrupted() && message.contains(UNKNOWN),
            outcome => outcome.is(&self.token),
        }
    }
}

pub(super) struct GatewayCrashes {
    longhaul: PathBuf,
    configuration: PathBuf,
    data: PathBuf,
    log: PathBuf,
    plant: Option<InjectedFault>,
    ledger: Arc<Ledger<Call>>,
    /// All calls, acknowledged or not.
    made: Vec<Call>,
    client: Caller<Call>,
    /// Makes the calls that become tasks when their upstream has made tasks of them.
    modern_client: Caller<Call>,
    auditor: Caller<Call>,
    /// The notes of the upstreams without tasks, and the effects of the one with tasks.
    notes: PathBuf,
    steps: Steps,
    _upstreams: [Server; 2],
}

impl GatewayCrashes {
    /// Starts the upstreams that live on, and writes the configuration of the gateway.
    pub(super) fn start(site: &Site, programs: ServerPrograms, plant: Option<InjectedFault>) -> Result<Self, RunError> {
        let script = site.write("upstream.py", UPSTREAM)?;
        let notes = site.write("calls", "")?;
        let mut plain = Command::new("python3");
        plain.arg("-B").arg(&script).arg("--calls").arg(&notes);
        let mut plain = Server::start(&mut plain, &site.file("plain.log"))?;
        let effects = site.file("effects");
        let mut tasks = under_fire(
            &programs.under_fire,
            &site.file("tasks"),
            programs.effects_flag,
            &effects,
        );
        let mut tasks = Server::start(&mut tasks, &site.file("tasks.log"))?;
        let child = json!(["python3", "-B", script, "--stdio", "--calls", notes]);
        let settings = match plant {
            Some(InjectedFault::RepeatCalls) => "task = \"optional\"\nidempotent = true\n",
            _ => "task = \"optional\"\n",
        };
        let configuration = format!(
            "[server]\nname = \"gateway\"\n\n[upstream.plain]\nurl = \"http://{}/mcp\"\n{settings}\n[upstream.child]\ncommand = {child}\n{settings}\n\
             [upstream.tasks]\nurl = \"http://{}/mcp\"\ntask_after = \"1h\"\n",
            plain.ready()?,
            tasks.ready()?,
        );
        let ledger = Arc::default();
        let caller = |era, excuse| Caller::new(Client::of_nobody(era), &ledger, excuse);
        Ok(Self {
            longhaul: programs.longhaul,
            configuration: site.write("longhaul.toml", configuration)?,
            data: site.file("data"),
            log: site.file("gateway.log"),
            plant,
            made: Vec::new(),
            client: caller(ClientEra::Legacy, Excuse::Killed),
            modern_client: caller(ClientEra::Modern, Excuse::Killed),
            auditor: caller(ClientEra::Legacy, Excuse::Nothing),
            ledger,
            notes,
            steps: Steps::open(&effects)?,
            _upstreams: [plain, tasks],
        })
    }

    fn serve(&mut self) -> Result<Server, RunError> {
        let mut command = server::serve(&self.longhaul, &self.configuration);
        command.args(["--listen", "127.0.0.1:0", "--data-dir"]).arg(&self.data);
        command.envs(self.plant.map(|plant| ("LONGHAUL_PLANT", plant.name())));
        let mut gateway = Server::start(&mut command, &self.log)?;
        let address = gateway.ready()?;
        for client in [&mut self.client, &mut self.modern_client, &mut self.auditor] {
            client.moved(address);
        }
        Ok(gateway)
    }

    /// Makes a call. If its acknowledgement is lost, it may have run or not, but not twice.
    fn create(&mut self, rng: &mut Rng) {
        let tool = Tool::draw(rng);
        let token = format!("c{}.{}", self.made.len(), rng.u32(..));
        let arguments = match tool {
            Tool::Chain(_) => json!({"token": token, "steps": rng.u32(2..9), "millis": rng.u64(0..60)}),
            _ => json!({"token": token, "millis": rng.u64(0..200)}),
        };
        let client = match tool {
            Tool::Chain(ClientEra::Modern) => &mut self.modern_client,
            _ => &mut self.client,
        };
        let call = Call { tool, token };
        let _ = client.create(&tool.name(), arguments, call.clone());
        self.made.push(call);
    }

    /// How often the upstreams have got each call, and what is wrong with that.
    fn received(&mut self) -> Result<(HashMap<String, usize>, Vec<Violation>), RunError> {
        let mut found = self.steps.violations()?;
        let notes = fs::read_to_string(&self.notes)?;
        let mut received: HashMap<String, usize> = HashMap::new();
        for (_, token) in notes.lines().filter_map(|line| line.split_once(' ')) {
            *received.entry(token.to_owned()).or_default() += 1;
        }
        for Call { tool, token } in &self.made {
            if let Tool::Chain(_) = tool {
                // A second call would be a second task, which the steps show.
                if self.steps.runs(token) > 0 {
                    received.insert(token.clone(), 1);
                }
            }
            let times = received.get(token).copied().unwrap_or_default();
            if times > 1 && !matches!(tool, Tool::Repeat(_)) {
                let what = format!("call {token} of {} was made {times} times", tool.name());
                found.push(Invariant::RUN_ONCE.violated(what));
            }
        }
        found.extend(self.ledger.violations());
        Ok((received, found))
    }
}

impl Campaign for GatewayCrashes {
    fn round(&mut self, _: u32, rng: &mut Rng) -> Result<Vec<Violation>, RunError> {
        let mut gateway = self.serve()?;
        self.auditor.poll_all(self.ledger.due(rng, OLD));
        for _ in 0..rng.usize(1..=MAX_CREATES) {
            self.create(rng);
        }
        let (_, found) = self.received()?;
        clock::pause(Duration::from_millis(rng.u64(0..300)));
        gateway.kill()?;
        Ok(found)
    }

    fn finish(&mut self, report: &mut RunReport) -> Result<Vec<Violation>, RunError> {
        let mut gateway = self.serve()?;
        let (mut succeeded, mut interrupted, mut recorded) = (0, 0, 0);
        let mut ended = Vec::new();
        for task in self.ledger.tasks() {
            let _ = self.auditor.result(&task);
            let Some(entry) = self.ledger.entry(&task) else {
                continue;
            };
            recorded += usize::from(entry.call.tool == Tool::Chain(ClientEra::Modern));
            match entry.outcome {
                Some(CallOutcome::Error { .. }) => interrupted += 1,
                _ => {
                    succeeded += 1;
                    ended.push(entry.call);
                }
            }
        }
        let (received, mut found) = self.received()?;
        for call in ended.iter().filter(|call| !received.contains_key(&call.token)) {
            let what = format!(
                "call {} of {} ended well and was never made",
                call.token,
                call.tool.name()
            );
            found.push(Invariant::OWN_RESULT.violated(what));
        }
        gateway.stop(STOP)?;
        report.line("calls", self.made.len());
        report.line("acknowledged", self.ledger.acknowledged());
        report.line("succeeded", succeeded);
        report.needed("interrupted", interrupted, "call was interrupted");
        report.needed(
            "recorded",
            recorded,
            "task of an upstream was recorded before it was acknowledged",
        );
        report.line("received", received.values().sum::<usize>());
        let repeated = received.values().map(|times| times.saturating_sub(1)).sum();
        report.needed("repeated", repeated, "idempotent call was made again");
        Ok(found)
    }

    fn progress(&self) -> String {
        format!("{} calls made", self.made.len())
    }
}
