//! Calls that become tasks: policies, cancellation, retries, retention.

use crate::{ERAS, connect, low_level::connect_http, start};
use futures_util::StreamExt;
use longhaul::{
    Era, Error, RetryOn, Server, TaskContext, TaskPolicy, Tool, ToolResult,
    time::{millis, seconds},
};
use longhaul_client::{CallStatus, Client, Outcome};
use serde_json::json;
use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

async fn forever(cx: TaskContext) -> ToolResult<()> {
    cx.status("waiting for cancellation");
    Err(cx.cancelled().await.into())
}

#[tokio::test]
async fn a_tool_says_which_calls_become_tasks() {
    let server = start(|server| {
        server
            .tool(Tool::new("never", async || "now").task(TaskPolicy::Never))
            .tool(Tool::new("always", async || "later").task(TaskPolicy::Always))
    })
    .await;
    for era in ERAS {
        let client = connect(&server, era).await;
        assert!(client.start("never", json!({})).await.is_err());
        assert_eq!(client.call("never", json!({})).await.unwrap().text(), "now");
        let task = client.start("always", json!({})).await.unwrap();
        assert_eq!(task.wait().await.unwrap().text(), "later");
    }
}

#[tokio::test]
async fn a_cancelled_task_ends_its_function() {
    let server = start(|server| server.tool(Tool::new("forever", forever))).await;
    for era in ERAS {
        let client = connect(&server, era).await;
        let task = client.start("forever", json!({})).await.unwrap();
        task.cancel().await.unwrap();
        let state = task.next().await.unwrap();
        assert_eq!(state["status"], "cancelled");
    }
}

/// Legacy clients are sent it; for modern ones the status message says it.
#[tokio::test]
async fn the_progress_of_a_task_is_in_its_status_at_the_client() {
    async fn count(cx: TaskContext) -> ToolResult<()> {
        for done in 1_u64.. {
            cx.progress(done, 1_000_000_u64);
            let pause = cx.server().engine().unwrap().ports().clock.sleep(millis(20));
            tokio::select! {
                () = pause => {}
                stopped = cx.cancelled() => return Err(stopped.into()),
            }
        }
        Ok(())
    }
    let server = start(|server| server.tool(Tool::new("count", count).task(TaskPolicy::Always))).await;
    let (connection, _) = connect_http(&server, Era::Legacy).await;
    let call = Client::new(connection).start("count", json!({})).await.unwrap();
    let mut status = Box::pin(call.status());
    let mut seen = Vec::new();
    while seen.len() < 2 {
        if let Some(CallStatus::Task(task)) = status.next().await
            && let Some(progress) = &task.progress
        {
            assert_eq!(progress.total, Some(1_000_000.0));
            seen.push(progress.progress);
        }
    }
    assert!(seen[0] < seen[1], "{seen:?}");
    call.cancel().await.unwrap();
    assert_eq!(call.result().await.unwrap(), Outcome::Cancelled);
}

#[tokio::test]
async fn a_status_message_is_cut_to_one_kib() {
    async fn talk(cx: TaskContext) -> ToolResult<()> {
        cx.status(format!("x{}", "ä".repeat(1 << 20)));
        Err(cx.cancelled().await.into())
    }
    let server = start(|server| server.tool(Tool::new("talk", talk))).await;
    for era in ERAS {
        let client = connect(&server, era).await;
        let task = client.start("talk", json!({})).await.unwrap();
        let line = loop {
            match task.get().await.unwrap()["statusMessage"].as_str() {
                Some(line) if line.starts_with('x') => break line.to_owned(),
                _ => tokio::task::yield_now().await,
            }
        };
        assert_eq!(line, format!("x{}", "ä".repeat(511)));
        task.cancel().await.unwrap();
    }
}

#[tokio::test]
async fn a_deadline_ends_a_tool() {
    let server = start(|server| server.tool(Tool::new("forever", forever).deadline(millis(10)))).await;
    for era in ERAS {
        let called = connect(&server, era).await.call("forever", json!({})).await.unwrap();
        assert!(
            called.is_error() && called.text().contains("deadline"),
            "{}",
            called.text()
        );
    }
}

#[tokio::test]
async fn a_tool_may_be_retried() {
    let attempts = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&attempts);
    let flaky = move || {
        let nth = count.fetch_add(1, Ordering::SeqCst) + 1;
        async move {
            if nth < 3 {
                Err(Error::new("not yet"))
            } else {
                Ok(format!("in attempt {nth}"))
            }
        }
    };
    let server = start(|server| server.tool(Tool::new("flaky", flaky).retry(3, millis(1), [RetryOn::Error]))).await;
    let client = connect(&server, Era::Modern).await;
    assert_eq!(client.call("flaky", json!({})).await.unwrap().text(), "in attempt 3");
    assert_eq!(attempts.load(Ordering::SeqCst), 3);
}

/// The error has the panic's message, and not its place in the code.
#[tokio::test]
async fn a_panic_fails_the_call_and_not_the_server() {
    let panics = async || -> &'static str { panic!("no such page") };
    let server = start(|server| {
        server
            .tool(Tool::new("panics", panics))
            .tool(Tool::new("fine", async || "fine"))
    })
    .await;
    for era in ERAS {
        let client = connect(&server, era).await;
        let text = match client.call("panics", json!({})).await {
            Ok(called) => called.text(),
            Err(failure) => failure.message,
        };
        assert_eq!(text, "the tool panicked: no such page");
        assert_eq!(client.call("fine", json!({})).await.unwrap().text(), "fine");
    }
}

/// The next process can read the result of a finished task.
#[tokio::test]
async fn a_data_directory_keeps_tasks() {
    let directory = tempfile::tempdir().unwrap();
    let server = || {
        Server::new("kept", "1.0.0")
            .tool(
                Tool::new("work", async || "done")
                    .task(TaskPolicy::Always)
                    .retention(seconds(600)),
            )
            .data_dir(directory.path())
    };
    let first = server().start().await.unwrap();
    let client = connect(&first, Era::Modern).await;
    let task = client.start("work", json!({})).await.unwrap();
    task.wait().await.unwrap();
    let id = task.id().to_owned();
    drop(client);
    first.stop().await;
    drop(first);
    let second = server().start().await.unwrap();
    let client = connect(&second, Era::Modern).await;
    let kept = client.request("tasks/get", json!({"taskId": id})).await.unwrap();
    assert_eq!(kept["result"]["content"][0]["text"], "done");
}
