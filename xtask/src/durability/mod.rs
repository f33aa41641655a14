//! `cargo xtask durability`: shows with strace that no acknowledgement is sent before its changes are on disk.
//!
//! `kill -9` cannot show this, because the page cache survives it. So the server's system calls are traced while clients of
//! both eras create and cancel tasks at once, and checked afterwards. A second run has plain calls of a tool in Rust among its
//! tasks. They acknowledge nothing, so they must write nothing; those that become tasks must be synced. A third run checks the
//! check itself: with `synchronous=OFF` in the server it must fail.

mod plain;
mod proof;
mod trace;

use crate::requirement;
use fastrand::Rng;
use harness::{
    clock,
    durable::under_fire,
    mcp::{Client, ClientEra, RequestError},
    rounds::report::RunReport,
    rounds::violation::{Invariant, Violation},
    rounds::{Campaign, Rounds, RunError},
    server::{self, Server},
    workspace,
};
use proof::Proof;
use rustix::process::Pid;
use serde_json::json;
use std::{
    fs,
    net::SocketAddr,
    panic::resume_unwind,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

const CLIENTS: usize = 8;
/// Tasks of each client; every third is cancelled.
const TASKS: usize = 12;
/// How long the server may take to stop; everything is slow under strace.
const STOP: Duration = Duration::from_secs(30);

/// `cargo xtask durability`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Use this server instead of building one
    #[arg(long, value_name = "FILE")]
    pub(crate) program: Option<PathBuf>,
    /// Use this server with tools in Rust instead of building `under_fire`
    #[arg(long, value_name = "FILE")]
    pub(crate) tools: Option<PathBuf>,
    /// Report as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What is traced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TracedRun {
    /// The server of commands while tasks are created and cancelled.
    Sound,
    /// The server of tools in Rust while some calls become tasks and some do not.
    Plain,
    /// As the first, with `synchronous=OFF`.
    Broken,
}

/// Three runs, one a round.
struct Durability {
    root: PathBuf,
    program: PathBuf,
    tools: PathBuf,
    shown: Vec<(&'static str, String)>,
}

/// Runs the server as it is, with plain calls, and with `synchronous=OFF`.
pub(crate) fn run(args: &Args) -> Result<(), RunError> {
    if !cfg!(target_os = "linux") {
        return Err(RunError::NotLinux);
    }
    requirement::program("strace").map_err(|missing| RunError::Impossible(missing.to_string()))?;
    let rounds = Rounds::undecided("durability", 3);
    let site = rounds.site()?;
    let durability = Durability {
        root: site.root().to_owned(),
        program: workspace::longhaul().or_build(args.program.as_ref())?,
        tools: workspace::under_fire().or_build(args.tools.as_ref())?,
        shown: Vec::new(),
    };
    rounds.run(site, durability, args.json)
}

impl Campaign for Durability {
    fn round(&mut self, round: u32, _: &mut Rng) -> Result<Vec<Violation>, RunError> {
        let traced = [TracedRun::Sound, TracedRun::Plain, TracedRun::Broken][round as usize - 1];
        let proof = self.observe(traced)?;
        let Proof {
            all,
            plain,
            early,
            wrote,
            syncs,
        } = &proof;
        let shown = format!(
            "{all} acknowledgements, {} before their sync, {syncs} syncs, {plain} plain calls",
            early.len()
        );
        self.shown.push((traced.name(), shown));
        if traced == TracedRun::Broken {
            let is_blind = early.len() < *all;
            let what = || {
                format!(
                    "with synchronous=OFF only {} of {all} acknowledgements were found to leave too early: the proof is blind",
                    early.len()
                )
            };
            return Ok(is_blind
                .then(|| Invariant::DURABLE_FIRST.violated(what()))
                .into_iter()
                .collect());
        }
        let early = early
            .iter()
            .map(|what| format!("{what} was acknowledged before it was on disk"));
        let wrote = wrote
            .iter()
            .map(|what| format!("something was written during the plain call {what}"));
        Ok(early
            .chain(wrote)
            .map(|what| Invariant::DURABLE_FIRST.violated(what))
            .collect())
    }

    fn finish(&mut self, report: &mut RunReport) -> Result<Vec<Violation>, RunError> {
        for (name, what) in self.shown.drain(..) {
            report.line(name, what);
        }
        Ok(Vec::new())
    }
}

impl TracedRun {
    fn name(self) -> &'static str {
        match self {
            Self::Sound => "as it is",
            Self::Plain => "beside plain calls",
            Self::Broken => "synchronous=OFF",
        }
    }
}

impl Durability {
    /// Runs a server under strace and reads the trace.
    fn observe(&self, traced: TracedRun) -> Result<Proof, RunError> {
        let folder = self.root.join(format!("{traced:?}"));
        fs::create_dir_all(&folder)?;
        let (data, trace) = (folder.join("data"), folder.join("trace"));
        let serve = match traced {
            TracedRun::Plain => under_fire(&self.tools, &data, "--effects", &folder.join("effects")),
            TracedRun::Sound | TracedRun::Broken => {
                let configuration = folder.join("jobs.toml");
                fs::write(&configuration, CONFIGURATION)?;
                let mut serve = server::serve(&self.program, &configuration);
                serve.args(["--json", "--data-dir"]).arg(&data);
                serve
            }
        };
        let mut command = Command::new("strace");
        // Children of the server are not traced after their exec: commands do not matter here.
        command.args(["-f", "-b", "execve", "-y", "-xx", "-s", "65536", "-e"]);
        command.arg("trace=fdatasync,fsync,write,writev,pwrite64,pwritev,sendto,sendmsg,read,recvfrom,execve");
        command.arg("-o").arg(&trace);
        command.arg(serve.get_program()).args(serve.get_args());
        command.env_remove("LONGHAUL_PLANT");
        if traced == TracedRun::Broken {
            command.env("LONGHAUL_PLANT", "synchronous-off");
        }
        let mut server = Server::start(&mut command, &folder.join("server.log"))?;
        let address = server.ready()?;
        let acknowledged = match traced {
            TracedRun::Plain => plain::work(address)?,
            TracedRun::Sound | TracedRun::Broken => create_and_cancel(address)?,
        };
        server.stop_process(owner(&data)?, STOP)?;
        Ok(proof::judge(&trace::read(&trace)?, &acknowledged))
    }
}

/// One slot: most tasks are queued, so that most writes are of creates and cancels.
const CONFIGURATION: &str = r#"
[server]
name = "durability"
listen = "127.0.0.1:0"
max_running = 1

[[tool]]
name = "nothing"
description = "Does nothing"
task = "optional"
command = ["true"]
"#;

/// The responses that clients got.
#[derive(Default)]
struct Acknowledgements {
    created: Vec<String>,
    cancelled: Vec<String>,
    /// Tasks that were plain calls at first, made while nothing else ran.
    promoted: Vec<String>,
    /// Tokens of calls that returned their results, made while nothing else ran.
    plain: Vec<String>,
}

impl Acknowledgements {
    fn all(&self) -> usize {
        self.created.len() + self.cancelled.len() + self.promoted.len()
    }
}

/// Runs several clients at once, so that commits are shared.
fn create_and_cancel(address: SocketAddr) -> Result<Acknowledgements, RequestError> {
    std::thread::scope(|scope| {
        let eras = [ClientEra::Legacy, ClientEra::Modern].into_iter().cycle().take(CLIENTS);
        let clients: Vec<_> = eras
            .map(|era| scope.spawn(move || work(&mut Client::new(era, address))))
            .collect();
        let mut all = Acknowledgements::default();
        for client in clients {
            let told = client.join().unwrap_or_else(|panic| resume_unwind(panic))?;
            all.created.extend(told.created);
            all.cancelled.extend(told.cancelled);
        }
        Ok(all)
    })
}

fn work(client: &mut Client) -> Result<Acknowledgements, RequestError> {
    let mut told = Acknowledgements::default();
    for nth in 0..TASKS {
        let task = client.create("nothing", json!({}))?;
        if nth % 3 == 2 {
            match client.cancel(&task) {
                // Only in the legacy era the acknowledgement means that the task is cancelled.
                Ok(()) if client.era() == ClientEra::Legacy => told.cancelled.push(task.clone()),
                // The task had ended before.
                Ok(()) | Err(RequestError::Refused { .. }) => {}
                Err(trouble) => return Err(trouble),
            }
        }
        told.created.push(task);
    }
    Ok(told)
}

/// The process id of the server, which is a child of strace: the lock file of its data directory starts with `pid 123, …`.
fn owner(data: &Path) -> Result<Pid, RunError> {
    let read = || {
        fs::read_to_string(data.join("lock"))
            .ok()
            .filter(|text| !text.is_empty())
    };
    let text = clock::wait_for(STOP, read).unwrap_or_default();
    let number = text
        .trim_start_matches("pid ")
        .split([',', '\n'])
        .next()
        .and_then(|number| number.parse().ok());
    let nobody = || RunError::Impossible(format!("the server's lock file does not name its process: {text:?}"));
    number.and_then(Pid::from_raw).ok_or_else(nobody)
}
