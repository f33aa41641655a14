//! Steps, recorded values, polls and output.

use super::{Effects, TestStore, entries, replayed};
use longhaul::{
    Error, NonRetryable, OnNonDeterminism, Poll, RetryOn, StepError, TaskContext, Tool, ToolResult,
    time::{Timestamp, millis, seconds},
};
use longhaul_core::EntryKind;
use serde_json::{Value, json};
use std::sync::Arc;

#[tokio::test]
async fn a_recorded_step_does_not_run_again() {
    let effects = Effects::default();
    let seen = effects.clone();
    let output = replayed(vec![], move |cx| {
        let effects = effects.clone();
        async move {
            let borrowed = String::from("built");
            let built = cx.step("build", || build(&effects, &borrowed)).await?;
            // `()` is a result, too.
            cx.step("tidy", async || {
                effects.record("tidied");
                Ok::<(), Error>(())
            })
            .await?;
            for _ in 0..3 {
                cx.step("page", async || Ok::<_, Error>(effects.record("page"))).await?;
            }
            Ok(json!(built))
        }
    })
    .await;
    assert_eq!(output, json!(["built", 1]));
    let counts = ["built", "tidied", "page"].map(|what| seen.count(what));
    assert_eq!(counts, [1, 1, 3]);
}

async fn build(effects: &Effects, what: &str) -> Result<(String, u32), std::io::Error> {
    Ok((what.to_owned(), effects.record(what)))
}

#[tokio::test]
async fn recorded_values_stay_the_same() {
    let output = replayed(vec![], |cx| async move {
        let now: Timestamp = cx.now().await?;
        let first: u64 = cx.random().await?;
        let bytes: [u8; 16] = cx.random().await?;
        let wide = cx.random::<u128>().await?;
        let mut versions = Vec::new();
        for _ in 0..2 {
            versions.push(cx.version("v2").await?);
        }
        Ok(json!([
            now,
            first,
            bytes,
            wide.to_string(),
            versions,
            cx.idempotency_key("pay")
        ]))
    })
    .await;
    assert_ne!(output[2], json!([0_u8; 16].as_slice()));
    assert_eq!(output[4], json!([true, true]));
    assert!(output[5].as_str().unwrap().ends_with("::pay"), "{output}");
}

#[tokio::test]
async fn a_step_is_retried_and_its_failures_are_recorded() {
    let effects = Effects::default();
    let seen = effects.clone();
    let output = replayed(vec![], move |cx| {
        let effects = effects.clone();
        async move {
            let step = cx
                .step("upload", async || {
                    let nth = effects.record("upload");
                    Err::<(), _>(Error::new(format!("refused the {nth}. time")))
                })
                .max_attempts(3)
                .backoff(millis(1), millis(2));
            let failed = step.await.unwrap_err();
            let failures: Vec<_> = failed.failures().iter().map(|one| one.why.clone()).collect();
            Ok(json!([failed.to_string(), failed.name(), failed.attempts(), failures]))
        }
    })
    .await;
    assert_eq!(
        output[0],
        "step \"upload\" failed 3 times, the last time: refused the 3. time"
    );
    assert_eq!(output[1], "upload");
    assert_eq!(output[2], 3);
    assert_eq!(
        output[3],
        json!(["refused the 1. time", "refused the 2. time", "refused the 3. time"])
    );
    assert_eq!(seen.count("upload"), 3);
}

#[tokio::test]
async fn a_step_that_succeeds_when_retried_returns_its_value() {
    let effects = Effects::default();
    let output = replayed(vec![], move |cx| {
        let effects = effects.clone();
        async move {
            let upload = || async {
                match effects.record("upload") {
                    1 => Err(std::io::Error::other("busy")),
                    nth => Ok(nth),
                }
            };
            Ok(json!(
                cx.step("upload", upload)
                    .max_attempts(9)
                    .backoff(millis(1), millis(1))
                    .await?
            ))
        }
    })
    .await;
    assert_eq!(output, 2);
}

#[tokio::test]
async fn a_non_retryable_error_is_not_retried() {
    let effects = Effects::default();
    let seen = effects.clone();
    let output = replayed(vec![], move |cx| {
        let effects = effects.clone();
        async move {
            let pay = || async {
                effects.record("pay");
                Err::<(), StepError>(NonRetryable("there is no card").into())
            };
            cx.step("pay", pay).max_attempts(9).await?;
            Ok(Value::Null)
        }
    })
    .await;
    assert_eq!(output, "step \"pay\" failed: there is no card");
    assert_eq!(seen.count("pay"), 1);
}

#[tokio::test]
async fn an_attempt_that_times_out_has_failed() {
    let output = replayed(vec![], |cx| async move {
        let hang = || std::future::pending::<Result<(), Error>>();
        cx.step("hang", hang).timeout(millis(5)).await?;
        Ok(Value::Null)
    })
    .await;
    assert_eq!(output, "step \"hang\" failed: it took longer than 5ms");
}

#[tokio::test]
async fn a_result_too_long_to_record_fails_the_step_without_a_retry() {
    let effects = Effects::default();
    let seen = effects.clone();
    let output = replayed(vec![], move |cx| {
        let effects = effects.clone();
        async move {
            let long = async || {
                effects.record("long");
                Ok::<_, Error>("x".repeat(1 << 20))
            };
            let failed = cx.step("long", long).max_attempts(5).await.unwrap_err();
            cx.step("after", async || Ok::<_, Error>(())).await?;
            Ok(json!(failed.message()))
        }
    })
    .await;
    assert!(output.as_str().unwrap().contains("bytes long"), "{output}");
    assert_eq!(seen.count("long"), 1);
}

#[tokio::test]
async fn journaled_operations_are_refused_inside_a_step() {
    let output = replayed(vec![], |cx| async move {
        let inner = cx.clone();
        let outer = async || {
            inner.step("inner", async || Ok::<_, Error>(())).await?;
            Ok::<_, StepError>(())
        };
        cx.step("outer", outer).await?;
        Ok(Value::Null)
    })
    .await;
    assert_eq!(
        output,
        "step \"outer\" failed: step \"inner\" is asked for inside of step \"outer\": it belongs before or after it"
    );
}

#[tokio::test]
async fn polling_tolerates_failures_and_records_what_it_found() {
    let effects = Effects::default();
    let seen = effects.clone();
    let output = replayed(vec![], move |cx| {
        let effects = effects.clone();
        async move {
            let poll = async || match effects.record("look") {
                1 => Err(Error::new("no answer")),
                2 => Ok(Poll::Pending),
                3 => Ok(Poll::after(millis(2))),
                nth => Ok(Poll::Ready(nth)),
            };
            let found = cx
                .poll_until("job", poll)
                .interval(millis(1), millis(5))
                .max_consecutive_failures(1)
                .await?;
            let broken = async || Err::<Poll<()>, _>(Error::new("it is gone"));
            let failed = cx
                .poll_until("gone", broken)
                .interval(millis(1), millis(1))
                .max_consecutive_failures(1)
                .await
                .unwrap_err();
            Ok(json!([found, failed.to_string()]))
        }
    })
    .await;
    assert_eq!(
        output,
        json!([4, "polling \"gone\" failed 2 times, the last time: it is gone"])
    );
    assert_eq!(seen.count("look"), 4);
}

#[tokio::test]
async fn output_is_emitted_once() {
    let effects = Effects::default();
    let emit = move |cx: TaskContext| {
        let effects = effects.clone();
        async move {
            for part in 1..=3 {
                cx.emit(format!("part {part}")).await?;
            }
            assert!(effects.record("run") > 1, "the first attempt ends here");
            ToolResult::Ok("all")
        }
    };
    let tool = Tool::durable("emit", emit).retry(2, millis(1), [RetryOn::Crash]);
    let (server, client, store) = TestStore::Memory(Arc::default()).serve(vec![tool]).await;
    let task = client.start("emit", json!({})).await.unwrap();
    assert_eq!(task.wait().await.unwrap().text(), "all");
    let emitted: Vec<Value> = (entries(&store, task.id(), EntryKind::Emit).await.iter())
        .map(|entry| serde_json::from_str(entry.value.as_str()).unwrap())
        .collect();
    let texts: Vec<_> = emitted.iter().map(|block| block["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["part 1", "part 2", "part 3"]);
    server.stop().await;
}

#[tokio::test]
async fn a_non_determinism_error_names_both_operations() {
    let effects = Effects::default();
    let changed = move |cx: TaskContext| {
        let effects = effects.clone();
        async move {
            let name = if effects.record("run") == 1 { "build" } else { "compile" };
            cx.step(name, async || Ok::<_, Error>(())).await?;
            assert!(effects.count("run") > 1, "the first attempt ends here");
            ToolResult::Ok("done")
        }
    };
    let tool = Tool::durable("changed", changed)
        .retry(3, millis(1), [RetryOn::Crash])
        .on_non_determinism(OnNonDeterminism::Fail);
    let (server, client, _) = TestStore::Memory(Arc::default()).serve(vec![tool]).await;
    let failure = client.call("changed", json!({})).await.unwrap_err();
    assert!(failure.message.contains("step \"compile\""), "{failure}");
    assert!(failure.message.contains("step \"build\""), "{failure}");
    server.stop().await;
}

#[tokio::test]
async fn a_step_in_a_tool_without_a_journal_is_an_error() {
    let plain = |cx: TaskContext| async move {
        cx.sleep(millis(1)).await?;
        cx.sleep_until(std::time::UNIX_EPOCH).await?;
        cx.step("build", async || Ok::<_, Error>(()))
            .timeout(seconds(1))
            .await?;
        ToolResult::Ok("done")
    };
    let (server, client, _) = TestStore::Memory(Arc::default())
        .serve(vec![Tool::new("plain", plain)])
        .await;
    let called = client.call("plain", json!({})).await.unwrap();
    assert!(called.is_error());
    assert!(called.text().contains("durable"), "{}", called.text());
    server.stop().await;
}

#[tokio::test]
async fn a_tool_that_always_panics_is_blocked_with_its_history() {
    let panics = |cx: TaskContext| async move {
        cx.step("build", async || Ok::<_, Error>(())).await?;
        assert!(cx.is_cancelled(), "this tool is broken");
        ToolResult::Ok("done")
    };
    let tool = Tool::durable("panics", panics)
        .retry(3, millis(1), [RetryOn::Crash])
        .blocked_timeout(millis(0));
    let (server, client, _) = TestStore::Memory(Arc::default()).serve(vec![tool]).await;
    let failure = client.call("panics", json!({})).await.unwrap_err();
    let panicked = "it panicked after step \"build\": this tool is broken";
    assert!(failure.message.ends_with(panicked), "{failure}");
    server.stop().await;
}
