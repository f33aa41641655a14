//! `join` and `select`.

use super::{Effects, TestStore, entries, replayed};
use longhaul::{
    Error, TaskContext, Tool, ToolResult,
    time::{days, millis},
};
use longhaul_core::EntryKind;
use serde_json::json;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

#[tokio::test]
async fn each_branch_has_its_own_entries_whichever_is_faster() {
    let effects = Effects::default();
    let seen = effects.clone();
    let output = replayed(vec![], move |cx| {
        let effects = effects.clone();
        async move {
            let pages = (0..4_u64).map(|page| {
                let effects = &effects;
                move |cx: TaskContext| async move {
                    // The last branch is the fastest.
                    cx.sleep(millis(8 - 2 * page)).await?;
                    let key = cx.idempotency_key("page");
                    let nth = cx.step("page", async || Ok::<_, Error>(effects.record("page"))).await?;
                    Ok::<_, Error>((page, nth, key))
                }
            });
            let pages = cx.join(pages).all().await?;
            let (a, b) = cx
                .join((
                    async |cx: TaskContext| cx.random::<u64>().await.unwrap(),
                    async |cx: TaskContext| cx.random::<[u8; 4]>().await.unwrap(),
                ))
                .await?;
            Ok(json!([pages, a, b]))
        }
    })
    .await;
    let order: Vec<_> = (0..4).map(|page| output[0][page][0].as_u64().unwrap()).collect();
    assert_eq!(order, [0, 1, 2, 3]);
    let keys: std::collections::HashSet<_> = (0..4).map(|page| output[0][page][2].to_string()).collect();
    assert_eq!(keys.len(), 4);
    assert_eq!(seen.count("page"), 4);
}

#[tokio::test]
async fn no_more_run_at_once_than_the_limit() {
    let output = replayed(vec![], |cx| async move {
        let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let branches = (0..7).map(|nth| {
            let (running, most) = (&running, &most);
            move |cx: TaskContext| async move {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                let _ = cx.sleep(millis(1)).await;
                running.fetch_sub(1, Ordering::SeqCst);
                nth
            }
        });
        let all = cx.join(branches).limit(3).await?;
        assert!(most.into_inner() <= 3);
        Ok(json!(all))
    })
    .await;
    assert_eq!(output, json!([0, 1, 2, 3, 4, 5, 6]));
}

/// Otherwise the order of their entries would depend on which branch is faster.
#[tokio::test]
async fn a_branch_that_uses_its_parents_context_is_refused() {
    let output = replayed(vec![], |cx| async move {
        let shared = &cx;
        let pages = (0..2).map(|page| {
            move |_: TaskContext| async move { shared.step("page", async || Ok::<_, Error>(page)).await.unwrap_err() }
        });
        Ok(json!(cx.join(pages).await?[1].message()))
    })
    .await;
    assert!(output.as_str().unwrap().contains("forked from"), "{output}");
}

#[tokio::test]
async fn joining_no_branches_returns_nothing() {
    let output = replayed(vec![], |cx| async move {
        let none: [fn(TaskContext) -> std::future::Ready<u8>; 0] = [];
        Ok(json!(cx.join(none).await?))
    })
    .await;
    assert_eq!(output, json!([]));
}

#[tokio::test]
async fn the_winner_is_recorded_and_only_it_is_replayed() {
    let effects = Effects::default();
    let seen = effects.clone();
    let output = replayed(vec![], move |cx| {
        let effects = effects.clone();
        async move {
            let (first, value) = cx
                .select((
                    async |cx: TaskContext| {
                        effects.record("slow");
                        cx.sleep(days(1)).await.map(|()| "slow")
                    },
                    async |cx: TaskContext| {
                        effects.record("quick");
                        cx.sleep(millis(2)).await.map(|()| "quick")
                    },
                ))
                .await?;
            cx.step("after", async || Ok::<_, Error>(effects.record("after")))
                .await?;
            Ok(json!([first, value?]))
        }
    })
    .await;
    assert_eq!(output, json!([1, "quick"]));
    let counts = ["slow", "quick", "after"].map(|what| seen.count(what));
    assert_eq!(counts, [1, 2, 1]);
}

#[tokio::test]
async fn the_first_failure_is_recorded() {
    let effects = Effects::default();
    let seen = effects.clone();
    let output = replayed(vec![], move |cx| {
        let effects = effects.clone();
        async move {
            let branches = [days(1), millis(2), days(2)].map(|time| {
                let effects = &effects;
                move |cx: TaskContext| async move {
                    effects.record("started");
                    cx.sleep(time).await?;
                    Err::<(), _>(Error::new(format!("after {time:?}")))
                }
            });
            let failed = cx.join(branches).all().await.unwrap_err();
            cx.step("after", async || Ok::<_, Error>(())).await?;
            // That all branches succeeded is recorded, too.
            let fine = (0..2).map(|nth| move |_: TaskContext| async move { Ok::<_, Error>(nth) });
            let fine = cx.join(fine).all().await?;
            cx.step("after", async || Ok::<_, Error>(())).await?;
            let (one, two) = cx
                .join((
                    async |_: TaskContext| Ok::<_, Error>(1),
                    async |_: TaskContext| Ok::<_, Error>("two"),
                ))
                .all()
                .await?;
            Ok(json!([failed.to_string(), fine, one, two]))
        }
    })
    .await;
    assert_eq!(output, json!(["after 2ms", [0, 1], 1, "two"]));
    assert_eq!(
        seen.count("started"),
        3 + 1,
        "the replay runs only the branch that failed"
    );
}

#[tokio::test]
async fn a_question_of_a_losing_branch_is_withdrawn() {
    let tool = Tool::durable("impatient", |cx: TaskContext| async move {
        cx.select((
            async |cx: TaskContext| drop(cx.elicit_url("Read this", "https://example.com").await),
            async |cx: TaskContext| drop(cx.sleep(millis(20)).await),
        ))
        .await?;
        cx.elicit_url("Then this", "https://example.com").await?;
        ToolResult::Ok("read")
    });
    let (server, client, store) = TestStore::Memory(Arc::default()).serve(vec![tool]).await;
    let task = client.start("impatient", json!({})).await.unwrap();
    let open = loop {
        let questions = task.questions().await.unwrap();
        let then = questions
            .iter()
            .find(|(_, question)| question["params"]["message"] == "Then this");
        if let Some((key, _)) = then {
            break (key.clone(), questions.len());
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(open.1, 1, "the first is withdrawn");
    task.answer(&open.0, json!({"action": "accept"})).await.unwrap();
    assert_eq!(task.wait().await.unwrap().text(), "read");
    let inputs = entries(&store, task.id(), EntryKind::Input).await;
    assert_eq!(inputs.len(), 2);
    server.stop().await;
}
