//! What durable tools cost: `cargo bench -p longhaul-counts --bench durable`. Words on the command line select measurements (`steps`, `answers`, `waiting`).
//!
//! Everything runs in this process, over SQLite on disk with an fsync for each acknowledgement. `docs/performance.md` keeps the figures.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    missing_docs,
    reason = "a program for people who measure"
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

/// Steps of one task.
const STEPS: u32 = 100;
/// Tasks that wait: `LONGHAUL_BENCH_WAITING` sets another number.
const WAITING: usize = 100_000;
/// Answers whose way is measured.
const ANSWERS: usize = 500;
/// Creates at once.
const AT_ONCE: usize = 64;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Approval {
    #[expect(dead_code, reason = "what is answered does not matter")]
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

/// When code went on after its answer.
type WentOn = Arc<Mutex<Option<Instant>>>;

fn asks(went_on: WentOn) -> impl Fn(TaskContext) -> futures_util::future::BoxFuture<'static, ToolResult<&'static str>> {
    move |cx| {
        let went_on = Arc::clone(&went_on);
        Box::pin(async move {
            let _: Approval = cx.elicit("Go on?").await?;
            *went_on.lock().unwrap() = Some(Instant::now());
            Ok("done")
        })
    }
}

async fn serve(directory: &Path, went_on: &WentOn) -> ServerHandle {
    Server::new("bench", "1.0.0")
        .tool(Tool::durable("steps", steps))
        .tool(Tool::durable("waits", waits))
        .tool(Tool::durable("asks", asks(Arc::clone(went_on))))
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
        let went_on = WentOn::default();
        let server = serve(directory.path(), &went_on).await;
        let client = Client::connect(&server, Era::Modern).await.unwrap();
        if selected("steps") {
            measure_steps(&client).await;
        }
        if selected("answers") {
            measure_answers(&client, &went_on).await;
        }
        if selected("waiting") {
            measure_waiting(&client, &went_on).await;
        }
        server.stop().await;
    });
}

/// Steps in a second, each acknowledged after an fsync that it shares with those of other tasks.
async fn measure_steps(client: &Client) {
    println!("## Steps\n\n| tasks at once | steps/s |\n| --- | --- |");
    for tasks in [1, 16, 64] {
        let begun = Instant::now();
        let all = (0..tasks).map(|_| async {
            let task = client.start("steps", json!({})).await.unwrap();
            assert!(!task.wait().await.unwrap().is_error());
        });
        futures_util::future::join_all(all).await;
        let steps = f64::from(tasks * STEPS);
        println!("| {tasks} | {:.0} |", steps / begun.elapsed().as_secs_f64());
    }
    println!();
}

/// From the sending of an answer to the code that goes on.
async fn measure_answers(client: &Client, went_on: &WentOn) {
    let mut took = Vec::new();
    for _ in 0..ANSWERS {
        let task = client.start("asks", json!({})).await.unwrap();
        task.questions().await.unwrap();
        took.push(answer(&task, went_on).await);
    }
    println!("## An answer to code in memory\n\n{}\n", percentiles(took));
}

async fn answer(task: &Task<'_>, went_on: &WentOn) -> Duration {
    let key = task.questions().await.unwrap().keys().next().unwrap().clone();
    let begun = Instant::now();
    let answer = json!({"action": "accept", "content": {"approved": true}});
    task.answer(&key, answer).await.unwrap();
    task.wait().await.unwrap();
    went_on.lock().unwrap().take().unwrap() - begun
}

/// Memory of many that wait, and how long one of them takes to go on.
async fn measure_waiting(client: &Client, went_on: &WentOn) {
    let number = std::env::var("LONGHAUL_BENCH_WAITING").map_or(WAITING, |number| number.parse().unwrap());
    let empty = resident();
    let begun = Instant::now();
    let mut asking = Vec::new();
    for batch in 0..number / AT_ONCE / 2 {
        let tool = |nth: usize| if nth.is_multiple_of(2) { "asks" } else { "waits" };
        let all = (0..AT_ONCE * 2).map(|nth| client.start(tool(nth), json!({})));
        let created = futures_util::future::join_all(all).await;
        if asking.len() < ANSWERS {
            asking.extend(created.into_iter().step_by(2).map(|task| task.unwrap().id().to_owned()));
        }
        if batch % 100 == 99 {
            eprintln!("{} wait", (batch + 1) * AT_ONCE * 2);
        }
    }
    let created = begun.elapsed();
    // Those still in memory are let go after 30 s.
    tokio::time::sleep(Duration::from_secs(35)).await;
    println!(
        "## {number} that wait, half for an answer, half for a moment\n\n\
         created in {:.1} s; resident {:.1} MB, of which {:.1} MB before the first was created\n",
        created.as_secs_f64(),
        resident(),
        empty,
    );
    let mut took = Vec::new();
    for id in asking.iter().take(ANSWERS) {
        took.push(answer(&client.follow(id.as_str()), went_on).await);
    }
    println!("An answer to one of them: {}\n", percentiles(took));
}

fn percentiles(mut took: Vec<Duration>) -> String {
    took.sort_unstable();
    let at = |part: usize| took[(took.len() - 1) * part / 100].as_secs_f64() * 1_000.0;
    format!("p50 {:.2} ms, p99 {:.2} ms", at(50), at(99))
}

/// `VmRSS` in MB.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<f64>().ok());
    kilobytes.unwrap_or_default() / 1_024.0
}
