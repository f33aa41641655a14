//! The server that `cargo xtask crash --native` kills again and again: durable tools whose steps leave their traces in a file.
//!
//! `under_fire --data-dir DIR --side FILE`. Each step appends `<token> <step>` to the file *before* it is journaled, so that the file
//! says from outside how often each effect happened, and in which order. For `cargo xtask durability` there is a tool that is not durable.

use longhaul::{RetryOn, Server, TaskContext, TaskPolicy, Tool, ToolResult, schemars::JsonSchema, time::millis};
use std::{
    error::Error,
    fs::OpenOptions,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// Branches of the fork in the middle.
const BRANCHES: u32 = 3;
/// Crashes that a call survives without coming further: more than a run has in a row.
const ATTEMPTS: u32 = 50;
/// Milliseconds after which a call of `linger` becomes a task.
const AFTER: u64 = 40;

#[derive(Clone, serde::Serialize, serde::Deserialize, JsonSchema)]
struct Chain {
    /// Says from outside which call an effect belongs to.
    token: String,
    steps: u32,
    /// How long a step takes.
    millis: u64,
}

#[derive(Clone)]
struct Side(Arc<Path>);

impl Side {
    /// One write, so that a line is whole or not there.
    fn happened(&self, token: &str, step: &str) -> io::Result<()> {
        let mut file = OpenOptions::new().append(true).create(true).open(&self.0)?;
        file.write_all(format!("{token} {step}\n").as_bytes())
    }

    async fn step(&self, cx: &TaskContext, args: &Chain, name: String) -> ToolResult<()> {
        let work = || async {
            pause(args.millis / 2).await;
            self.happened(&args.token, &name)?;
            // So that some are killed between their effect and their entry.
            pause(args.millis / 2).await;
            io::Result::Ok(())
        };
        Ok(cx.step(name.as_str(), work).await?)
    }
}

#[expect(clippy::disallowed_methods, reason = "an effect takes its time in the world outside")]
async fn pause(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

/// Steps one after the other, a timer and a fork in the middle.
async fn chain(cx: TaskContext, args: Chain, side: Side) -> ToolResult<String> {
    for step in 0..args.steps {
        side.step(&cx, &args, format!("{step}")).await?;
        if step == args.steps / 2 {
            cx.sleep(millis(20)).await?;
            let branches = (0..BRANCHES).map(|nth| {
                let (side, args) = (&side, &args);
                move |cx: TaskContext| async move { side.step(&cx, args, format!("{step}/{nth}")).await }
            });
            for branch in cx.join(branches).await? {
                branch?;
            }
        }
    }
    Ok(args.token)
}

/// Lets another task do it.
async fn family(cx: TaskContext, args: Chain) -> ToolResult<String> {
    Ok(cx.call("chain", &args).await?.text())
}

#[derive(serde::Deserialize, JsonSchema)]
struct Linger {
    token: String,
    /// How long it takes.
    millis: u64,
}

/// Leaves no trace, and ends early when it is asked to stop.
async fn linger(cx: TaskContext, args: Linger) -> ToolResult<String> {
    tokio::select! {
        biased;
        () = pause(args.millis) => Ok(args.token),
        stopped = cx.cancelled() => Err(stopped.into()),
    }
}

/// The server, whose steps leave their traces in this file.
pub fn server(side: impl Into<PathBuf>) -> Server {
    let side = Side(side.into().into());
    let patient = |tool: Tool| tool.retry(ATTEMPTS, millis(10), [RetryOn::Crash]);
    let chain = move |cx: TaskContext, args: Chain| chain(cx, args, side.clone());
    Server::new("under-fire", env!("CARGO_PKG_VERSION"))
        .tool(patient(Tool::durable("chain", chain)))
        .tool(patient(Tool::durable("family", family)))
        .tool(Tool::new("linger", linger).task(TaskPolicy::After(AFTER)))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (mut data, mut side) = (None, None);
    while let Some(flag) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{flag} needs a path"))?;
        match &*flag {
            "--data-dir" => data = Some(PathBuf::from(value)),
            "--side" => side = Some(PathBuf::from(value)),
            _ => return Err(format!("{flag} is not known; there are --data-dir and --side").into()),
        }
    }
    let data = data.ok_or("--data-dir says where tasks are kept")?;
    let side = side.ok_or("--side says where traces are left")?;
    let running = server(side).data_dir(data).start().await?;
    let listening = running.listen("127.0.0.1:0").await?;
    println!("{}", listening.url());
    listening.serve_until_signal().await?;
    running.stop().await;
    Ok(())
}
