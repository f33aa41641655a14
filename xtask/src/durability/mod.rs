//! `cargo xtask durability`: shows with strace that no acknowledgement is sent before its changes are on disk.
//!
//! `kill -9` cannot show this, because the page cache survives it. So the server's system calls are traced while clients of
//! both eras create and cancel tasks at once, and checked afterwards. A second run checks the check itself: with
//! `synchronous=OFF` in the server it must fail. A third run has plain calls of a tool in Rust among its tasks. They acknowledge
//! nothing, so they must write nothing; those that become tasks must be synced.

mod plain;
mod proof;
mod trace;

use crate::{
    clock,
    mcp::{Client, Era, RequestError},
    process::ProcessError,
    requirement::{self, RequirementError},
    server::{Server, ServerError},
    workspace,
};
use proof::Proof;
use rustix::process::Pid;
use serde_json::json;
use std::{
    fs, io,
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

/// Why the check failed or could not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DurabilityError {
    #[error("this proof reads what strace writes, so it needs Linux")]
    NotLinux,
    #[error(transparent)]
    Requirement(#[from] RequirementError),
    #[error(transparent)]
    Build(#[from] ProcessError),
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error("a client was not served: {0}")]
    Client(#[from] RequestError),
    #[error("a file of the run cannot be used: {0}")]
    Io(#[from] io::Error),
    #[error("the server's lock file does not name its process: {0:?}")]
    NoOwner(String),
    #[error(
        "{early} of {all} acknowledgements left before they were on disk, for example that of {example}; see {trace}"
    )]
    Refuted {
        early: usize,
        all: usize,
        example: String,
        trace: PathBuf,
    },
    #[error("during {wrote} of {all} plain calls something was written, for example {example}; see {trace}")]
    Wrote {
        wrote: usize,
        all: usize,
        example: String,
        trace: PathBuf,
    },
    #[error(
        "with synchronous=OFF only {early} of {all} acknowledgements were found to leave too early: the proof is blind; see {trace}"
    )]
    Blind { early: usize, all: usize, trace: PathBuf },
}

/// Runs the server as it is, and with `synchronous=OFF`.
pub(crate) fn run(args: &Args) -> Result<(), DurabilityError> {
    if !cfg!(target_os = "linux") {
        return Err(DurabilityError::NotLinux);
    }
    requirement::program("strace")?;
    let program = workspace::longhaul().or_build(args.program.as_ref())?;
    let tools = workspace::under_fire().or_build(args.tools.as_ref())?;
    let sound = accepted(observe(&program, None)?)?;
    let plain = accepted(observe_plain(&tools)?)?;
    let broken = observe(&program, Some("synchronous-off"))?;
    if broken.proof.early.len() < broken.proof.all {
        return Err(DurabilityError::Blind {
            early: broken.proof.early.len(),
            all: broken.proof.all,
            trace: broken.trace,
        });
    }
    report(args.json, &sound.proof, &plain.proof, &broken.proof);
    for run in [SOUND, PLAIN, BROKEN] {
        fs::remove_dir_all(folder(run))?;
    }
    Ok(())
}

/// Checks that no acknowledgement was sent too early, and that no plain call wrote anything.
fn accepted(seen: Observation) -> Result<Observation, DurabilityError> {
    if let Some(example) = seen.proof.early.first() {
        return Err(DurabilityError::Refuted {
            early: seen.proof.early.len(),
            all: seen.proof.all,
            example: example.clone(),
            trace: seen.trace,
        });
    }
    if let Some(example) = seen.proof.wrote.first() {
        return Err(DurabilityError::Wrote {
            wrote: seen.proof.wrote.len(),
            all: seen.proof.plain,
            example: example.clone(),
            trace: seen.trace,
        });
    }
    Ok(seen)
}

fn report(as_json: bool, sound: &Proof, plain: &Proof, broken: &Proof) {
    if as_json {
        let report = json!({
            "acknowledgements": sound.all, "early": sound.early.len(), "syncs": sound.syncs,
            "beside plain calls": {"acknowledgements": plain.all, "early": plain.early.len(), "syncs": plain.syncs, "plain": plain.plain},
            "planted": {"acknowledgements": broken.all, "early": broken.early.len(), "syncs": broken.syncs},
        });
        println!("{report}");
        return;
    }
    println!(
        "as it is          {} acknowledgements, each after its fdatasync ({} of them)",
        sound.all, sound.syncs
    );
    println!(
        "beside plain calls {} acknowledgements, each after its fdatasync; {} plain calls, which wrote nothing",
        plain.all, plain.plain
    );
    println!(
        "synchronous=OFF   {} of {} acknowledgements too early, as it must be",
        broken.early.len(),
        broken.all
    );
}

struct Observation {
    proof: Proof,
    trace: PathBuf,
}

/// The folders of the runs.
const SOUND: &str = "sound";
const PLAIN: &str = "plain";
const BROKEN: &str = "synchronous-off";

fn folder(run: &str) -> PathBuf {
    let name = format!("{run}-{}", std::process::id());
    workspace::target().join("durability").join(name)
}

/// Traces the server of commands while tasks are created and cancelled.
fn observe(program: &Path, plant: Option<&str>) -> Result<Observation, DurabilityError> {
    let folder = folder(plant.unwrap_or(SOUND));
    fs::create_dir_all(&folder)?;
    let configuration = folder.join("jobs.toml");
    fs::write(&configuration, CONFIGURATION)?;
    let serve = |command: &mut Command, data: &Path| {
        command.arg(program).arg("serve").arg(&configuration);
        command
            .args(["--json", "--data-dir"])
            .arg(data)
            .env_remove("LONGHAUL_PLANT");
        if let Some(plant) = plant {
            command.env("LONGHAUL_PLANT", plant);
        }
    };
    traced(&folder, serve, create_and_cancel)
}

/// Traces the server of tools in Rust while some calls become tasks and some do not.
fn observe_plain(program: &Path) -> Result<Observation, DurabilityError> {
    let folder = folder(PLAIN);
    fs::create_dir_all(&folder)?;
    let serve = |command: &mut Command, data: &Path| {
        command.arg(program).arg("--data-dir").arg(data);
        command.arg("--effects").arg(folder.join("effects"));
    };
    traced(&folder, serve, plain::work)
}

/// Runs a server under strace and reads the trace.
fn traced(
    folder: &Path,
    serve: impl FnOnce(&mut Command, &Path),
    work: impl FnOnce(SocketAddr) -> Result<Acknowledgements, RequestError>,
) -> Result<Observation, DurabilityError> {
    let (data, trace) = (folder.join("data"), folder.join("trace"));
    let mut command = Command::new("strace");
    // Children of the server are not traced after their exec: commands do not matter here.
    command.args(["-f", "-b", "execve", "-y", "-xx", "-s", "65536", "-e"]);
    command.arg("trace=fdatasync,fsync,write,writev,pwrite64,pwritev,sendto,sendmsg,read,recvfrom,execve");
    command.arg("-o").arg(&trace);
    serve(&mut command, &data);
    let mut server = Server::start(&mut command, &folder.join("server.log"))?;
    let address = server.ready()?;
    let acknowledged = work(address)?;
    server.stop(owner(&data)?, STOP)?;
    let calls = trace::read(&trace)?;
    Ok(Observation {
        proof: proof::judge(&calls, &acknowledged),
        trace,
    })
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
        let eras = [Era::Legacy, Era::Modern].into_iter().cycle().take(CLIENTS);
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
                Ok(()) if client.era() == Era::Legacy => told.cancelled.push(task.clone()),
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
fn owner(data: &Path) -> Result<Pid, DurabilityError> {
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
    number.and_then(Pid::from_raw).ok_or(DurabilityError::NoOwner(text))
}
