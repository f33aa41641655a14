//! The server that `cargo xtask crash --native` kills repeatedly: durable tools whose steps append to a file.
//!
//! `under_fire --data-dir DIR --effects FILE`. Each step appends `<token> <step>` to the file *before* its result is recorded, so the file
//! shows how often each effect happened, and in which order. `cargo xtask durability` uses the tool that is not durable.

use longhaul::{RetryOn, Server, TaskContext, TaskPolicy, Tool, ToolResult, schemars::JsonSchema, time::millis};
use std::{
    error::Error,
    fs::OpenOptions,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// How many branches the join in the middle has.
const BRANCHES: u32 = 3;
/// How many attempts may crash without forward progress: more than a run has in a row.
const ATTEMPTS: u32 = 50;
/// Milliseconds after which a call of `linger` becomes a task.
const AFTER: u64 = 40;

#[derive(Clone, serde::Serialize, serde::Deserialize, JsonSchema)]
struct Chain {
    /// Names the call in the file of effects.
    token: String,
    steps: u32,
    /// How long a step takes.
    millis: u64,
}

#[derive(Clone)]
struct EffectLog(Arc<Path>);

impl EffectLog {
    /// Appends a line in a single write, so that it is there as a whole or not at all.
    fn append(&self, token: &str, step: &str) -> io::Result<()> {
        let mut file = OpenOptions::new().append(true).create(true).open(&self.0)?;
        file.write_all(format!("{token} {step}\n").as_bytes())
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
    let effects = EffectLog(effects.into().into());
    let with_retries = |tool: Tool| tool.retry(ATTEMPTS, millis(10), [RetryOn::Crash]);
    let chain = move |cx: TaskContext, args: Chain| chain(cx, args, effects.clone());
    Server::new("under-fire", env!("CARGO_PKG_VERSION"))
        .tool(with_retries(Tool::durable("chain", chain)))
        .tool(with_retries(Tool::durable("family", family)))
        .tool(Tool::new("linger", linger).task(TaskPolicy::After(AFTER)))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (mut data, mut effects) = (None, None);
    while let Some(flag) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{flag} needs a path"))?;
        match &*flag {
            "--data-dir" => data = Some(PathBuf::from(value)),
            "--effects" => effects = Some(PathBuf::from(value)),
            _ => return Err(format!("{flag} is not known; there are --data-dir and --effects").into()),
        }
    }
    let data = data.ok_or("--data-dir DIR is missing")?;
    let effects = effects.ok_or("--effects FILE is missing")?;
    let running = server(effects).data_dir(data).start().await?;
    let listening = running.listen("127.0.0.1:0").await?;
    println!("{}", listening.url());
    listening.serve_until_signal().await?;
    running.stop().await;
    Ok(())
}
