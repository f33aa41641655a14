//! The crash test of durable tools in Rust: kills their server under load, and counts the effects of their steps.
//!
//! A step appends a line to a file before its journal entry is written. So the file shows whether a step was left out, and whether one
//! was repeated after a later step of its call: then its journal entry was lost.

use super::{CrashError, RunOptions, release::Release};
use crate::{
    clock,
    mcp::{Client, Era, Outcome, RequestError},
    server::Server,
    workspace,
};
use fastrand::Rng;
use serde_json::json;
use std::{
    collections::{HashMap, HashSet},
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::Command,
    time::Duration,
};

/// How many calls are open at most.
const MAX_OPEN: usize = 24;
/// How many calls a round makes at most.
const MAX_CREATES: usize = 12;
/// How long the last server may take to complete the open calls.
const DRAIN: Duration = Duration::from_secs(120);
const STOP: Duration = Duration::from_secs(15);
/// As in the example.
const BRANCHES: u32 = 3;

/// A call that was acknowledged.
struct Call {
    task: String,
    token: String,
    steps: u32,
}

/// The report of a run.
struct Report {
    seed: u64,
    rounds: u32,
    acknowledged: usize,
    effects: usize,
    /// Repeated effects, because the process was killed between an effect and its entry.
    repeated: usize,
}

/// Kills the server `rounds` times.
pub(super) fn run(rounds: u32, RunOptions { seed, release, json }: RunOptions) -> Result<(), CrashError> {
    eprintln!("crash: {rounds} rounds of durable tools, seed {seed}");
    let name = format!("native-{seed}-{}", std::process::id());
    let root = workspace::target().join("crash").join(name);
    fs::create_dir_all(&root)?;
    let run = Run { root, release };
    let report = run.all(rounds, seed)?;
    report.print(json);
    fs::remove_dir_all(&run.root)?;
    match report.repeated {
        0 => Err(CrashError::Idle {
            what: "step was caught between its effect and its entry",
            seed,
        }),
        _ => Ok(()),
    }
}

struct Run {
    root: PathBuf,
    release: Release,
}

impl Run {
    fn all(&self, rounds: u32, seed: u64) -> Result<Report, CrashError> {
        let mut rng = Rng::with_seed(seed);
        let mut client = Client::new(Era::Legacy, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let mut calls = Vec::new();
        let mut ended = 0;
        for round in 1..=rounds {
            let mut server = self.serve(round, rounds)?;
            client.moved(server.ready()?);
            ended = self.check_effects(&calls, round, rounds, seed)?.max(ended);
            for _ in 0..rng.usize(1..=MAX_CREATES) {
                if calls.len() - ended < MAX_OPEN {
                    calls.extend(create(&mut client, &mut rng, calls.len())?);
                }
            }
            clock::pause(Duration::from_millis(rng.u64(20..300)));
            server.kill()?;
            if round % 20 == 0 {
                eprintln!(
                    "crash: round {round}: {} acknowledged, {ended} seen to end",
                    calls.len()
                );
            }
        }
        let mut server = self.serve(rounds, rounds)?;
        client.moved(server.ready()?);
        let since = clock::now();
        for call in &calls {
            let outcome = client.result(&call.task);
            let right = matches!(&outcome, Ok(Outcome::Result { is_error: false, text }) if *text == call.token);
            if !right || since.elapsed() > DRAIN {
                return Err(self.broken(format!("call {} came to {outcome:?}", call.token), rounds, rounds, seed));
            }
        }
        if self.check_effects(&calls, rounds, rounds, seed)? != calls.len() {
            return Err(self.broken("a call ended without all of its steps".to_owned(), rounds, rounds, seed));
        }
        let pid = server.pid();
        server.stop(pid, STOP)?;
        let effects = self.effects()?;
        let different: HashSet<_> = effects.iter().collect();
        Ok(Report {
            seed,
            rounds,
            acknowledged: calls.len(),
            effects: effects.len(),
            repeated: effects.len() - different.len(),
        })
    }

    fn serve(&self, round: u32, rounds: u32) -> Result<Server, CrashError> {
        let mut command = Command::new(self.release.of_round(round, rounds));
        command.arg("--data-dir").arg(self.root.join("data"));
        command
            .arg(self.release.effects_flag(round, rounds))
            .arg(self.effects_file());
        Ok(Server::start(&mut command, &self.root.join("server.log"))?)
    }

    fn effects_file(&self) -> PathBuf {
        self.root.join("side")
    }

    /// All effects in their order: token and step.
    fn effects(&self) -> Result<Vec<(String, String)>, CrashError> {
        let text = if self.effects_file().exists() {
            fs::read_to_string(self.effects_file())?
        } else {
            String::new()
        };
        let read = |line: &str| {
            line.split_once(' ')
                .map(|(token, step)| (token.to_owned(), step.to_owned()))
        };
        Ok(text.lines().filter_map(read).collect())
    }

    /// Checks the order of the effects. Returns how many calls have reached their last step.
    fn check_effects(&self, calls: &[Call], round: u32, rounds: u32, seed: u64) -> Result<usize, CrashError> {
        let mut done: HashMap<&str, u32> = HashMap::new();
        let plans: HashMap<&str, &Call> = calls.iter().map(|call| (call.token.as_str(), call)).collect();
        let effects = self.effects()?;
        for (token, step) in &effects {
            // If the acknowledgement was lost with its server, the number of steps is unknown.
            let Some(call) = plans.get(token.as_str()) else {
                continue;
            };
            let rank = rank(step, call.steps);
            let furthest = done.entry(token).or_default();
            if rank < *furthest {
                let what = format!("step {step} of call {token} happened after a later step had");
                return Err(self.broken(what, round, rounds, seed));
            }
            *furthest = rank;
        }
        let came_to_the_last = |call: &&Call| done.get(call.token.as_str()).is_some_and(|rank| *rank >= last(call));
        Ok(calls.iter().filter(came_to_the_last).count())
    }

    fn broken(&self, what: String, round: u32, rounds: u32, seed: u64) -> CrashError {
        CrashError::one(&what, round, (rounds, seed), &self.root, " --native")
    }
}

/// The rank of a step among the steps of its call. Branches are between their step and the next, in any order.
fn rank(step: &str, steps: u32) -> u32 {
    let (trunk, branch) = step
        .split_once('/')
        .map_or((step, None), |(trunk, nth)| (trunk, Some(nth)));
    let trunk: u32 = trunk.parse().unwrap_or(steps);
    debug_assert!(branch.is_none_or(|nth| nth.parse().is_ok_and(|nth: u32| nth < BRANCHES)));
    trunk * 2 + 2 + u32::from(branch.is_some())
}

/// The rank of a call's last step; its branches may come after it.
fn last(call: &Call) -> u32 {
    call.steps * 2
}

/// `None` if it is unknown whether the call exists.
fn create(client: &mut Client, rng: &mut Rng, nth: usize) -> Result<Option<Call>, CrashError> {
    let tool = if rng.u8(0..4) == 0 { "family" } else { "chain" };
    let (token, steps) = (format!("c{nth}.{}", rng.u32(..)), rng.u32(2..9));
    let arguments = json!({"token": token, "steps": steps, "millis": rng.u64(0..25)});
    match client.create(tool, arguments) {
        Ok(task) => Ok(Some(Call { task, token, steps })),
        Err(RequestError::Broken(_)) => Ok(None),
        Err(trouble) => Err(CrashError::Io(std::io::Error::other(trouble.to_string()))),
    }
}

impl Report {
    fn print(&self, as_json: bool) {
        if as_json {
            println!(
                "{}",
                json!({
                    "seed": self.seed,
                    "rounds": self.rounds,
                    "acknowledged": self.acknowledged,
                    "effects": self.effects,
                    "repeated": self.repeated,
                })
            );
            return;
        }
        println!("seed                {}", self.seed);
        println!("rounds              {}", self.rounds);
        println!("acknowledged        {}", self.acknowledged);
        println!("effects of steps    {}", self.effects);
        println!(
            "repeated            {}, each cut off between its effect and its entry",
            self.repeated
        );
    }
}
