//! `cargo xtask proxies`: the gateway beside other proxies, each in front of the same server, which is a child of it.
//!
//! A client in this process calls over HTTP, in one session. CPU time and memory are those of the proxy alone. The proxies take turns, so that other work
//! on the machine meets them all.

mod measure;
mod proxy;
mod upstream;

use crate::{peers::interop::InteropError, requirement::RequirementError};
use harness::{
    mcp::RequestError,
    process::{self, ProcessError},
    server::ServerError,
    workspace,
};
use measure::{Crowd, Memory, Sequence};
use proxy::{Proxy, ProxySite};
use serde_json::{Value, json};
use std::{fs, io, path::PathBuf, time::Duration};
pub(crate) use upstream::run as serve_upstream;

/// The sizes of the arguments, in bytes, and how many calls of each a turn makes.
const SIZES: [(usize, usize); 2] = [(60, 1_000), (60_000, 200)];
/// How many calls are made at once, and how long each of them takes.
const CROWD: (usize, u64) = (1_000, 1_000);

/// `cargo xtask proxies`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How often everything is measured
    #[arg(long, default_value_t = 5)]
    turns: usize,
    /// Use this program instead of building a release
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Report as lines of JSON
    #[arg(long)]
    json: bool,
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProxiesError {
    #[error(transparent)]
    Requirement(#[from] RequirementError),
    #[error(transparent)]
    Install(#[from] InteropError),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error("{name} did not start; see {log}")]
    Start { name: &'static str, log: PathBuf },
    #[error("a call failed: {0}")]
    Request(#[from] RequestError),
    #[error("a call had an unexpected answer: {0}")]
    Answer(String),
    #[error("an answer is not JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What was measured of one proxy.
struct Figures {
    proxy: Proxy,
    /// For each of [`SIZES`].
    sequences: Vec<Sequence>,
    /// The fastest of all turns.
    crowd: Crowd,
    memory: Memory,
}

/// Installs the proxies, measures them, and prints a table.
pub(crate) fn run(args: &Args) -> Result<(), ProxiesError> {
    let site = site(args)?;
    let mut direct: Vec<Vec<Sequence>> = SIZES.map(|_| Vec::new()).into();
    let mut turns: Vec<_> = Proxy::ALL
        .map(|proxy| (proxy, SIZES.map(|_| Vec::new()), Vec::new()))
        .into();
    for turn in 0..args.turns.max(1) {
        for (nth, (bytes, calls)) in SIZES.into_iter().enumerate() {
            direct[nth].push(measure::direct(&site, calls, bytes)?);
        }
        // Each second turn in the reverse order.
        turns.reverse();
        for (proxy, sequences, crowds) in &mut turns {
            eprintln!("proxies: turn {}: {}", turn + 1, proxy.name());
            let running = proxy.start(1, &site)?;
            let mut client = running.client();
            for (nth, (bytes, calls)) in SIZES.into_iter().enumerate() {
                sequences[nth].push(measure::sequence(&running, &mut client, calls, bytes)?);
            }
            crowds.push(measure::crowd(&running, CROWD.0, CROWD.1)?);
        }
    }
    turns.sort_by_key(|(proxy, ..)| Proxy::ALL.iter().position(|it| it == proxy));
    let mut all = Vec::new();
    for (proxy, sequences, crowds) in turns {
        let fastest = crowds.into_iter().min_by_key(|crowd| (crowd.failed, crowd.duration));
        all.extend(fastest.map(|crowd| -> Result<_, ProxiesError> {
            Ok(Figures {
                proxy,
                sequences: sequences.into_iter().map(Sequence::joined).collect(),
                crowd,
                memory: measure::memory(proxy, &site)?,
            })
        }));
    }
    let direct: Vec<_> = direct.into_iter().map(Sequence::joined).collect();
    for figures in all {
        figures?.report(&direct, args.json);
    }
    fs::remove_dir_all(site.folder)?;
    Ok(())
}

fn site(args: &Args) -> Result<ProxySite, ProxiesError> {
    let target = workspace::target();
    let longhaul = match &args.program {
        Some(program) => program.clone(),
        None => {
            process::run(workspace::longhaul().build().arg("--release"))?;
            target.join("release").join(workspace::longhaul().name())
        }
    };
    let folder = target.join("proxies").join(std::process::id().to_string());
    fs::create_dir_all(&folder)?;
    Ok(ProxySite {
        folder,
        longhaul,
        xtask: std::env::current_exe()?,
    })
}

impl Figures {
    fn report(&self, direct: &[Sequence], is_json: bool) {
        let sizes = SIZES.iter().zip(&self.sequences).zip(direct);
        if is_json {
            let sizes = sizes.map(|(((bytes, _), through), direct)| through.to_json(*bytes, direct));
            let line = json!({
                "proxy": self.proxy.name(),
                "calls": sizes.collect::<Vec<_>>(),
                "at_once": {
                    "calls": CROWD.0,
                    "failed": self.crowd.failed,
                    "ms": self.crowd.duration.as_millis(),
                    "cpu_ms": self.crowd.cpu.as_millis(),
                },
                "resident": self.memory.with_one,
                "resident_each_more": self.memory.each_more,
            });
            println!("{line}");
            return;
        }
        println!("{}", self.proxy.name());
        for (((bytes, _), through), direct) in sizes {
            println!(
                "  {bytes:>6} B  p50 {:>8.1} µs  p99 {:>8.1} µs  added to direct, p50 {:>8.1} µs  CPU {:>8.1} µs",
                micros(through.percentile(50)),
                micros(through.percentile(99)),
                micros(through.percentile(50).saturating_sub(direct.percentile(50))),
                micros(through.cpu_per_call()),
            );
        }
        println!(
            "  {} calls of {} ms at once: {} ms, {} failed, CPU {} ms",
            CROWD.0,
            CROWD.1,
            self.crowd.duration.as_millis(),
            self.crowd.failed,
            self.crowd.cpu.as_millis(),
        );
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        println!(
            "  resident {:.1} MB with one server, {:.1} MB for each more",
            megabytes(self.memory.with_one),
            megabytes(self.memory.each_more)
        );
    }
}

impl Sequence {
    fn to_json(&self, bytes: usize, direct: &Self) -> Value {
        json!({
            "bytes": bytes,
            "p50_us": micros(self.percentile(50)),
            "p99_us": micros(self.percentile(99)),
            "direct_p50_us": micros(direct.percentile(50)),
            "cpu_us": micros(self.cpu_per_call()),
        })
    }
}

fn micros(span: Duration) -> f64 {
    span.as_secs_f64() * 1e6
}
