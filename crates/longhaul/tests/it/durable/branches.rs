//! Doing several things at once.

use super::{Effects, Place, entries, replayed};
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
async fn branches_are_told_apart_whichever_is_faster() {
    let effects = Effects::default();
    let seen = effects.clone();
    let came_to = replayed(vec![], move |cx| {
        let effects = effects.clone();
        async move {
            let pages = (0..4_u64).map(|page| {
                let effects = &effects;
                move |cx: TaskContext| async move {
                    // The last comes first.
                    cx.sleep(millis(8 - 2 * page)).await?;
                    let key = cx.key("page");
                    let nth = cx.step("page", async || Ok::<_, Error>(effects.happen("page"))).await?;
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
    let order: Vec<_> = (0..4).map(|page| came_to[0][page][0].as_u64().unwrap()).collect();
    assert_eq!(order, [0, 1, 2, 3]);
    let keys: std::collections::HashSet<_> = (0..4).map(|page| came_to[0][page][2].to_string()).collect();
    assert_eq!(keys.len(), 4);
    assert_eq!(seen.count("page"), 4);
}

#[tokio::test]
async fn no_more_run_at_once_than_the_limit() {
    let came_to = replayed(vec![], |cx| async move {
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
    assert_eq!(came_to, json!([0, 1, 2, 3, 4, 5, 6]));
}

/// Whose step is whose would depend on which of them is faster.
#[tokio::test]
async fn a_branch_that_uses_the_context_of_all_is_told_so() {
    let came_to = replayed(vec![], |cx| async move {
        let shared = &cx;
        let pages = (0..2).map(|page| {
            move |_: TaskContext| async move { shared.step("page", async || Ok::<_, Error>(page)).await.unwrap_err() }
        });
        Ok(json!(cx.join(pages).await?[1].message()))
    })
    .await;
    assert!(came_to.as_str().unwrap().contains("forked from"), "{came_to}");
}

#[tokio::test]
async fn nothing_joined_is_nothing() {
    let came_to = replayed(vec![], |cx| async move {
        let none: [fn(TaskContext) -> std::future::Ready<u8>; 0] = [];
        Ok(json!(cx.join(none).await?))
    })
    .await;
    assert_eq!(came_to, json!([]));
}

#[tokio::test]
async fn the_first_is_decided_once_and_only_it_is_run_again() {
    let effects = Effects::default();
    let seen = effects.clone();
    let came_to = replayed(vec![], move |cx| {
        let effects = effects.clone();
        async move {
            let (first, said) = cx
                .select((
                    async |cx: TaskContext| {
                        effects.happen("slow");
                        cx.sleep(days(1)).await.map(|()| "slow")
                    },
                    async |cx: TaskContext| {
                        effects.happen("quick");
                        cx.sleep(millis(2)).await.map(|()| "quick")
                    },
                ))
                .await?;
            cx.step("after", async || Ok::<_, Error>(effects.happen("after")))
                .await?;
            Ok(json!([first, said?]))
        }
    })
    .await;
    assert_eq!(came_to, json!([1, "quick"]));
    let counts = ["slow", "quick", "after"].map(|what| seen.count(what));
    assert_eq!(counts, [1, 2, 1]);
}

#[tokio::test]
async fn the_error_that_came_first_stays_the_first() {
    let effects = Effects::default();
    let seen = effects.clone();
    let came_to = replayed(vec![], move |cx| {
        let effects = effects.clone();
        async move {
            let branches = [days(1), millis(2), days(2)].map(|time| {
                let effects = &effects;
                move |cx: TaskContext| async move {
                    effects.happen("begun");
                    cx.sleep(time).await?;
                    Err::<(), _>(Error::new(format!("after {time:?}")))
                }
            });
            let failed = cx.join(branches).all().await.unwrap_err();
            cx.step("after", async || Ok::<_, Error>(())).await?;
            // Those that all succeed are kept as such.
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
    assert_eq!(came_to, json!(["after 2ms", [0, 1], 1, "two"]));
    assert_eq!(seen.count("begun"), 3 + 1, "the losers are not run again");
}

#[tokio::test]
async fn a_question_that_lost_is_withdrawn() {
    let tool = Tool::durable("impatient", |cx: TaskContext| async move {
        cx.select((
            async |cx: TaskContext| drop(cx.elicit_url("Read this", "https://example.com").await),
            async |cx: TaskContext| drop(cx.sleep(millis(20)).await),
        ))
        .await?;
        cx.elicit_url("Then this", "https://example.com").await?;
        ToolResult::Ok("read")
    });
    let (server, client, store) = Place::Memory(Arc::default()).serve(vec![tool]).await;
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
    let asked = entries(&store, task.id(), EntryKind::Input).await;
    assert_eq!(asked.len(), 2);
    server.stop().await;
}
