//! Benchmarks of durable tools: `cargo bench -p longhaul-counts --bench durable`. Arguments select measurements (`steps`, `answers`, `waiting`).
//!
//! Everything runs in this process, over SQLite on disk with an fsync for each acknowledgement. The results are in `docs/performance.md`.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a benchmark may panic and read the clock"
)]

use longhaul::{
    Era, Server, ServerHandle, TaskContext, Tool, ToolResult,
    testing::{Client, Task},
    time::days,
};
use serde_json::json;
use std::{
    convert::Infallible,
    path::Path,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

/// How many steps a task has.
const STEPS: u32 = 100;
/// How many tasks wait; `LONGHAUL_BENCH_WAITING` sets another number.
const WAITING: usize = 100_000;
/// How many answers are measured.
const ANSWERS: usize = 500;
/// How many tasks are created concurrently.
const CONCURRENT_CREATES: usize = 64;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Approval {
    #[expect(dead_code, reason = "the answer does not matter")]
    approved: bool,
}

async fn steps(cx: TaskContext) -> ToolResult<&'static str> {
    for _ in 0..STEPS {
        cx.step("step", || async { Ok::<_, Infallible>(1) }).await?;
    }
    Ok("done")
}

async fn waits(cx: TaskContext) -> ToolResult<&'static str> {
    cx.sleep(days(30)).await?;
    Ok("done")
}

/// When the code continued after its answer.
type ContinuedAt = Arc<Mutex<Option<Instant>>>;

fn asks(
    continued_at: ContinuedAt,
) -> impl Fn(TaskContext) -> futures_util::future::BoxFuture<'static, ToolResult<&'static str>> {
    move |cx| {
        let continued_at = Arc::clone(&continued_at);
        Box::pin(async move {
            let _: Approval = cx.elicit("Go on?").await?;
            *continued_at.lock().unwrap() = Some(Instant::now());
            Ok("done")
        })
    }
}

async fn serve(directory: &Path, continued_at: &ContinuedAt) -> ServerHandle {
    Server::new("bench", "1.0.0")
        .tool(Tool::durable("steps", steps))
        .tool(Tool::durable("waits", waits))
        .tool(Tool::durable("asks", asks(Arc::clone(continued_at))))
        .data_dir(directory)
        .start()
        .await
        .unwrap()
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let selected = |name: &str| wanted.is_empty() || wanted.iter().any(|word| name.contains(word.as_str()));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let continued_at = ContinuedAt::default();
        let server = serve(directory.path(), &continued_at).await;
        let client = Client::connect(&server, Era::Modern).await.unwrap();
        if selected("steps") {
            measure_steps(&client).await;
        }
        if selected("answers") {
            measure_answers(&client, &continued_at).await;
        }
        if selected("waiting") {
            measure_waiting(&client, &continued_at).await;
        }
        server.stop().await;
    });
}

/// Steps per second. Each is acknowledged after an fsync, which steps of several tasks share.
async fn measure_steps(client: &Client) {
    println!("## Steps\n\n| tasks at once | steps/s |\n| --- | --- |");
    for tasks in [1, 16, 64] {
        let start = Instant::now();
        let all = (0..tasks).map(|_| async {
            let task = client.start("steps", json!({})).await.unwrap();
            assert!(!task.wait().await.unwrap().is_error());
        });
        futures_util::future::join_all(all).await;
        let steps = f64::from(tasks * STEPS);
        println!("| {tasks} | {:.0} |", steps / start.elapsed().as_secs_f64());
    }
    println!();
}

/// The time from sending an answer until the code continues.
async fn measure_answers(client: &Client, continued_at: &ContinuedAt) {
    let mut durations = Vec::new();
    for _ in 0..ANSWERS {
        let task = client.start("asks", json!({})).await.unwrap();
        task.questions().await.unwrap();
        durations.push(answer(&task, continued_at).await);
    }
    println!("## An answer to a task in memory\n\n{}\n", percentiles(durations));
}

async fn answer(task: &Task<'_>, continued_at: &ContinuedAt) -> Duration {
    let key = task.questions().await.unwrap().keys().next().unwrap().clone();
    let start = Instant::now();
    let answer = json!({"action": "accept", "content": {"approved": true}});
    task.answer(&key, answer).await.unwrap();
    task.wait().await.unwrap();
    continued_at.lock().unwrap().take().unwrap() - start
}

/// The memory of many waiting tasks, and the time until one of them continues.
async fn measure_waiting(client: &Client, continued_at: &ContinuedAt) {
    let number = std::env::var("LONGHAUL_BENCH_WAITING").map_or(WAITING, |number| number.parse().unwrap());
    let empty = resident();
    let start = Instant::now();
    let mut asking = Vec::new();
    for batch in 0..number / CONCURRENT_CREATES / 2 {
        let tool = |nth: usize| if nth.is_multiple_of(2) { "asks" } else { "waits" };
        let all = (0..CONCURRENT_CREATES * 2).map(|nth| client.start(tool(nth), json!({})));
        let created = futures_util::future::join_all(all).await;
        if asking.len() < ANSWERS {
            asking.extend(created.into_iter().step_by(2).map(|task| task.unwrap().id().to_owned()));
        }
        if batch % 100 == 99 {
            eprintln!("{} wait", (batch + 1) * CONCURRENT_CREATES * 2);
        }
    }
    let created = start.elapsed();
    // Tasks that are still in memory are suspended after 30 s.
    tokio::time::sleep(Duration::from_secs(35)).await;
    println!(
        "## {number} waiting tasks, half for an answer, half for a timer\n\n\
         created in {:.1} s; resident {:.1} MB, {:.1} MB of it before the first task\n",
        created.as_secs_f64(),
        resident(),
        empty,
    );
    let mut durations = Vec::new();
    for id in asking.iter().take(ANSWERS) {
        durations.push(answer(&client.follow(id.as_str()), continued_at).await);
    }
    println!("An answer to one of them: {}\n", percentiles(durations));
}

fn percentiles(mut durations: Vec<Duration>) -> String {
    durations.sort_unstable();
    let at = |part: usize| durations[(durations.len() - 1) * part / 100].as_secs_f64() * 1_000.0;
    format!("p50 {:.2} ms, p99 {:.2} ms", at(50), at(99))
}

/// `VmRSS` in MB.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<f64>().ok());
    kilobytes.unwrap_or_default() / 1_024.0
}
