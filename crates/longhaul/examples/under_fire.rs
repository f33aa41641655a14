//! The server that `cargo xtask crash --native` kills repeatedly: durable tools whose steps append to a file.
//!
//! `under_fire --data-dir DIR --effects FILE`. Each run of a tool appends `<token> begin <task> <run>` to the file, and each step
//! `<token> <step> <run>` *before* its result is recorded, so the file shows how often each effect happened, and in which order.
//! `cargo xtask durability` uses the tool that is not durable.
//!
//! With `--store URL --lease MILLISECONDS` it is one of several servers that share a database, which `cargo xtask cluster` kills.

#[path = "under_fire/shared.rs"]
mod shared;

use longhaul::{RetryOn, Server, TaskContext, TaskPolicy, Tool, ToolResult, schemars::JsonSchema, time::millis};
use shared::{InjectedFault, Shared};
use std::{
    error::Error,
    fs::OpenOptions,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// How many branches the join in the middle has.
const BRANCHES: u32 = 3;
/// How many attempts may crash without forward progress: more than a run has in a row.
const ATTEMPTS: u32 = 50;
/// Milliseconds after which a call of `linger` becomes a task.
const AFTER: u64 = 40;
/// How long a lease of a shared database lasts, in milliseconds, unless said otherwise.
const LEASE: u64 = 10_000;
/// How many attempts such a server runs at a time, unless said otherwise.
const MAX_RUNNING: usize = 64;

#[derive(Clone, serde::Serialize, serde::Deserialize, JsonSchema)]
struct Chain {
    /// Names the call in the file of effects.
    token: String,
    steps: u32,
    /// How long a step takes.
    millis: u64,
}

#[derive(Clone)]
struct EffectLog {
    file: Arc<Path>,
    /// Counts the runs of tools in this process.
    runs: Arc<AtomicU64>,
    run: String,
}

impl EffectLog {
    /// The log of a run of a tool, which begins now.
    fn of_run(mut self, cx: &TaskContext, token: &str) -> io::Result<Self> {
        self.run = format!("{}.{}", std::process::id(), self.runs.fetch_add(1, Ordering::Relaxed));
        self.append(token, &format!("begin {}", cx.task_id()))?;
        Ok(self)
    }

    /// Appends a line in a single write, so that it is there as a whole or not at all.
    fn append(&self, token: &str, step: &str) -> io::Result<()> {
        let mut file = OpenOptions::new().append(true).create(true).open(&self.file)?;
        file.write_all(format!("{token} {step} {}\n", self.run).as_bytes())
    }

    async fn step(&self, cx: &TaskContext, args: &Chain, name: String) -> ToolResult<()> {
        let work = || async {
            pause(args.millis / 2).await;
            self.append(&args.token, &name)?;
            // So that some are killed between the effect and its entry.
            pause(args.millis / 2).await;
            io::Result::Ok(())
        };
        Ok(cx.step(name.as_str(), work).await?)
    }
}

#[expect(clippy::disallowed_methods, reason = "the effect of a step takes real time")]
async fn pause(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

/// Steps one after the other, with a timer and a join in the middle.
async fn chain(cx: TaskContext, args: Chain, effects: EffectLog) -> ToolResult<String> {
    let effects = effects.of_run(&cx, &args.token)?;
    for step in 0..args.steps {
        effects.step(&cx, &args, format!("{step}")).await?;
        if step == args.steps / 2 {
            cx.sleep(millis(20)).await?;
            let branches = (0..BRANCHES).map(|nth| {
                let (effects, args) = (&effects, &args);
                move |cx: TaskContext| async move { effects.step(&cx, args, format!("{step}/{nth}")).await }
            });
            for branch in cx.join(branches).await? {
                branch?;
            }
        }
    }
    Ok(args.token)
}

#[derive(serde::Deserialize, JsonSchema)]
struct Answer {
    word: String,
}

/// A step, a question, and a step.
async fn confirm(cx: TaskContext, args: Chain, effects: EffectLog) -> ToolResult<String> {
    let effects = effects.of_run(&cx, &args.token)?;
    effects.step(&cx, &args, "0".to_owned()).await?;
    let answer: Answer = cx.elicit("Which word?").await?;
    effects.step(&cx, &args, "1".to_owned()).await?;
    Ok(format!("{} {}", args.token, answer.word))
}

/// Calls `chain` as a child task.
async fn family(cx: TaskContext, args: Chain) -> ToolResult<String> {
    Ok(cx.call("chain", &args).await?.text())
}

#[derive(serde::Deserialize, JsonSchema)]
struct Linger {
    token: String,
    /// How long it takes.
    millis: u64,
}

/// Has no effect, and ends early when it is to stop.
async fn linger(cx: TaskContext, args: Linger) -> ToolResult<String> {
    tokio::select! {
        biased;
        () = pause(args.millis) => Ok(args.token),
        stopped = cx.cancelled() => Err(stopped.into()),
    }
}

/// The server, whose steps append to this file.
pub fn server(effects: impl Into<PathBuf>) -> Server {
    let effects = EffectLog {
        file: effects.into().into(),
        runs: Arc::default(),
        run: String::new(),
    };
    let with_retries = |tool: Tool| tool.retry(ATTEMPTS, millis(10), [RetryOn::Crash]);
    let of_confirm = effects.clone();
    let confirm = move |cx: TaskContext, args: Chain| confirm(cx, args, of_confirm.clone());
    let chain = move |cx: TaskContext, args: Chain| chain(cx, args, effects.clone());
    Server::new("under-fire", env!("CARGO_PKG_VERSION"))
        .tool(with_retries(Tool::durable("chain", chain)))
        .tool(with_retries(Tool::durable("family", family)))
        .tool(with_retries(Tool::durable("confirm", confirm)))
        .tool(Tool::new("linger", linger).task(TaskPolicy::After(AFTER)))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let flags = Flags::read()?;
    let server = server(flags.effects.ok_or("--effects FILE is missing")?);
    let server = match (flags.data_dir, flags.store) {
        (Some(data_dir), None) => server.data_dir(data_dir),
        (None, Some(store)) => {
            let shared = Shared {
                store,
                lease: flags.lease.unwrap_or(LEASE),
                fault: flags.fault,
            };
            shared
                .serve(server)
                .await?
                .max_running(flags.max_running.unwrap_or(MAX_RUNNING))
        }
        _ => return Err("there must be --data-dir DIR or --store URL".into()),
    };
    let running = server.start().await?;
    let listening = running.listen("127.0.0.1:0").await?;
    println!("{}", listening.url());
    listening.serve_until_signal().await?;
    running.stop().await;
    Ok(running.check_lease()?)
}

#[derive(Default)]
struct Flags {
    data_dir: Option<PathBuf>,
    effects: Option<PathBuf>,
    store: Option<String>,
    lease: Option<u64>,
    max_running: Option<usize>,
    fault: Option<InjectedFault>,
}

impl Flags {
    fn read() -> Result<Self, Box<dyn Error>> {
        let mut flags = Self::default();
        let mut arguments = std::env::args().skip(1);
        while let Some(flag) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{flag} needs a value"))?;
            match &*flag {
                "--data-dir" => flags.data_dir = Some(value.into()),
                "--effects" => flags.effects = Some(value.into()),
                "--store" => flags.store = Some(value),
                "--lease" => flags.lease = Some(value.parse()?),
                "--max-running" => flags.max_running = Some(value.parse()?),
                "--fault" => flags.fault = Some(InjectedFault::named(&value)?),
                _ => {
                    let known = "--data-dir, --effects, --store, --lease, --max-running and --fault";
                    return Err(format!("{flag} is not known; there are {known}").into());
                }
            }
        }
        Ok(flags)
    }
}
