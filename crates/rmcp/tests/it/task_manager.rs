//! The task manager behaves as rmcp's own, and its records survive it.

use longhaul_core::{
    Event,
    store::{Change, TaskStore},
};
use longhaul_rmcp::{TaskContext, TaskManager};
use longhaul_store::MemoryStore;
use rmcp::{
    ErrorData,
    model::{CallToolResult, ContentBlock, ErrorCode, InputRequest, TaskPayload, TaskStatus},
    task_manager::{TaskExit, TaskFuture, TaskOptions},
};
use serde_json::{Value, json};
use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::sync::oneshot;

fn text(text: &str) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

fn question() -> InputRequest {
    let params = json!({"mode": "form", "message": "Go on?", "requestedSchema": {"type": "object", "properties": {}}});
    serde_json::from_value(json!({"method": "elicitation/create", "params": params})).unwrap()
}

async fn until(tasks: &TaskManager, id: &str, status: TaskStatus) -> TaskPayload {
    loop {
        let task = tasks.get_task(id).await.unwrap();
        if task.status() == status {
            return task.payload;
        }
        assert!(!task.status().is_terminal(), "{task:?}");
        tokio::task::yield_now().await;
    }
}

async fn manager() -> TaskManager {
    TaskManager::builder().in_memory().await.unwrap()
}

#[tokio::test]
async fn a_task_completes_with_its_result_inlined() {
    let tasks = manager().await;
    let options = TaskOptions::default()
        .with_status_message("soon")
        .with_poll_interval_ms(250);
    let task = tasks
        .spawn(options, |_| Box::pin(async { Ok(text("42")) }))
        .await
        .unwrap();
    assert_eq!(task.status, TaskStatus::Working);
    assert_eq!((task.ttl_ms, task.poll_interval_ms), (Some(300_000), Some(250)));
    assert_eq!(task.status_message.as_deref(), Some("soon"));
    let TaskPayload::Completed { result } = until(&tasks, &task.task_id, TaskStatus::Completed).await else {
        panic!("no result")
    };
    assert_eq!(result["content"][0]["text"], "42");
    let shown = tasks.get_task(&task.task_id).await.unwrap().task;
    assert_eq!((shown.ttl_ms, shown.poll_interval_ms), (Some(300_000), Some(250)));
    assert_eq!(shown.created_at, task.created_at);
    assert_eq!(tasks.running_task_count().await.unwrap(), 0);
}

#[tokio::test]
async fn the_code_decides_the_outcome_of_a_cancelled_task() {
    type End = fn() -> Result<CallToolResult, TaskExit>;
    let ends: [(TaskStatus, End); 3] = [
        (TaskStatus::Cancelled, || Err(TaskExit::Cancelled)),
        (TaskStatus::Completed, || Ok(text("finished after all"))),
        (TaskStatus::Failed, || {
            Err(ErrorData::internal_error("the disk", None).into())
        }),
    ];
    for (status, end) in ends {
        let tasks = manager().await;
        let work = move |cx: TaskContext| -> TaskFuture {
            Box::pin(async move {
                cx.cancelled().await;
                assert!(cx.is_cancel_requested());
                end()
            })
        };
        let task = tasks.spawn(TaskOptions::default(), work).await.unwrap();
        assert_eq!(tasks.running_task_count().await.unwrap(), 1);
        tasks.cancel_task(&task.task_id).await.unwrap();
        let payload = until(&tasks, &task.task_id, status).await;
        if let TaskPayload::Failed { error } = payload {
            assert_eq!(error["message"], "the disk");
        }
        // Cancelling a task that has ended is not an error.
        tasks.cancel_task(&task.task_id).await.unwrap();
    }
}

#[tokio::test]
async fn a_task_can_use_each_question_key_once() {
    let tasks = manager().await;
    let work = |cx: TaskContext| -> TaskFuture {
        Box::pin(async move {
            let both = tokio::join!(cx.request_input("a", question()), cx.request_input("b", question()));
            let (a, b) = (both.0?, both.1?);
            assert!(matches!(
                cx.request_input("a", question()).await,
                Err(TaskExit::Error(_))
            ));
            Ok(text(&format!("{} {}", a["action"], b["action"])))
        })
    };
    let task = tasks.spawn(TaskOptions::default(), work).await.unwrap();
    let TaskPayload::InputRequired { input_requests } = until(&tasks, &task.task_id, TaskStatus::InputRequired).await
    else {
        panic!("no questions")
    };
    assert_eq!(input_requests.keys().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(input_requests["a"], question());
    let answers = |key: &str, action: &str| [(key.to_owned(), json!({"action": action}))];
    tasks.update_task(&task.task_id, answers("a", "accept")).await.unwrap();
    // These keys are answered already, or were never asked: ignored.
    tasks.update_task(&task.task_id, answers("a", "cancel")).await.unwrap();
    tasks.update_task(&task.task_id, answers("c", "cancel")).await.unwrap();
    tasks.update_task(&task.task_id, answers("b", "decline")).await.unwrap();
    let TaskPayload::Completed { result } = until(&tasks, &task.task_id, TaskStatus::Completed).await else {
        panic!("no result")
    };
    assert_eq!(result["content"][0]["text"], r#""accept" "decline""#);
}

#[tokio::test]
async fn a_cancel_ends_the_wait_for_an_answer() {
    let tasks = manager().await;
    let work = |cx: TaskContext| -> TaskFuture {
        Box::pin(async move { cx.request_input("k", question()).await.map(|_: Value| text("answered")) })
    };
    let task = tasks.spawn(TaskOptions::default(), work).await.unwrap();
    until(&tasks, &task.task_id, TaskStatus::InputRequired).await;
    tasks.cancel_task(&task.task_id).await.unwrap();
    until(&tasks, &task.task_id, TaskStatus::Cancelled).await;
}

#[tokio::test]
async fn unknown_tasks_are_invalid_params() {
    let tasks = manager().await;
    for id in ["nope", "", "not/an/id"] {
        let errors = [
            tasks.get_task(id).await.map(drop).unwrap_err(),
            tasks.update_task(id, []).await.unwrap_err(),
            tasks.cancel_task(id).await.unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.code, ErrorCode::INVALID_PARAMS, "{id:?}");
        }
    }
}

#[tokio::test]
async fn a_task_that_exceeds_its_ttl_is_dropped_and_fails() {
    struct NotifyOnDrop(Option<oneshot::Sender<()>>);
    impl Drop for NotifyOnDrop {
        fn drop(&mut self) {
            let _ = self.0.take().unwrap().send(());
        }
    }
    let tasks = manager().await;
    let (sender, dropped) = oneshot::channel();
    let notify = NotifyOnDrop(Some(sender));
    let work = |_: TaskContext| -> TaskFuture {
        Box::pin(async move {
            let _notify = notify;
            std::future::pending().await
        })
    };
    let task = tasks
        .spawn(TaskOptions::default().with_ttl_ms(30_000), work)
        .await
        .unwrap();
    assert_eq!(tasks.get_task(&task.task_id).await.unwrap().task.ttl_ms, Some(30_000));
    drop(tasks.cancel_task(&task.task_id).await);
    // The code decides when to stop…
    assert_eq!(
        tasks.get_task(&task.task_id).await.unwrap().status(),
        TaskStatus::Working
    );
    // …until its TTL has passed: see the next task.
    tasks.shutdown();
    dropped.await.unwrap();

    let tasks = manager().await;
    let forever = |_: TaskContext| -> TaskFuture { Box::pin(std::future::pending()) };
    let task = tasks
        .spawn(TaskOptions::default().with_ttl_ms(200), forever)
        .await
        .unwrap();
    let TaskPayload::Failed { error } = until(&tasks, &task.task_id, TaskStatus::Failed).await else {
        panic!("not failed")
    };
    assert_eq!(error["message"], "task expired: TTL elapsed before completion");
}

#[tokio::test]
async fn a_panic_fails_its_task_and_no_other() {
    let tasks = manager().await;
    let task = tasks
        .spawn(TaskOptions::default(), |_| Box::pin(async { panic!("on purpose") }))
        .await
        .unwrap();
    until(&tasks, &task.task_id, TaskStatus::Failed).await;
    let task = tasks
        .spawn(TaskOptions::default(), |_| Box::pin(async { Ok(text("fine")) }))
        .await
        .unwrap();
    until(&tasks, &task.task_id, TaskStatus::Completed).await;
}

#[tokio::test]
async fn a_reopened_manager_has_the_records_and_runs_functions_again() {
    let directory = tempfile::tempdir().unwrap();
    let started = Arc::new(AtomicUsize::new(0));
    let open = |never_ends: bool| {
        let started = Arc::clone(&started);
        let work = move |_: TaskContext, arguments: serde_json::Map<String, Value>| -> TaskFuture {
            started.fetch_add(1, Ordering::SeqCst);
            Box::pin(async move {
                if never_ends {
                    std::future::pending::<()>().await;
                }
                Ok(text(arguments["text"].as_str().unwrap()))
            })
        };
        TaskManager::builder().function("work", work).open(directory.path())
    };
    let tasks = open(true).await.unwrap();
    let arguments = json!({"text": "again"}).as_object().cloned().unwrap();
    let function = tasks
        .spawn_function(TaskOptions::default(), "work", arguments.clone())
        .await
        .unwrap();
    let unknown = tasks
        .spawn_function(TaskOptions::default(), "wrok", arguments)
        .await
        .unwrap_err();
    assert!(unknown.message.contains("wrok"));
    let forever = |_: TaskContext| -> TaskFuture { Box::pin(std::future::pending()) };
    let closure = tasks
        .spawn(TaskOptions::default().with_ttl_ms(None), forever)
        .await
        .unwrap();
    while started.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    tasks.shutdown();
    drop(tasks);

    let tasks = open(false).await.unwrap();
    let TaskPayload::Failed { error } = until(&tasks, &closure.task_id, TaskStatus::Failed).await else {
        panic!("not failed")
    };
    assert_eq!(error["data"]["reason"], "interrupted");
    assert_eq!(tasks.get_task(&closure.task_id).await.unwrap().task.ttl_ms, None);
    let TaskPayload::Completed { result } = until(&tasks, &function.task_id, TaskStatus::Completed).await else {
        panic!("no result")
    };
    assert_eq!(result["content"][0]["text"], "again");
    assert_eq!(started.load(Ordering::SeqCst), 2);
    tasks.shutdown();
}

/// An answer is stored before it is acknowledged, whether or not the function waits for it.
#[tokio::test]
async fn an_answer_is_stored_before_the_function_asks_again() {
    let directory = tempfile::tempdir().unwrap();
    let open = || {
        let work = |cx: TaskContext, _: serde_json::Map<String, Value>| -> TaskFuture {
            Box::pin(async move {
                let answer = cx.request_input("k", question()).await?;
                Ok(text(answer["action"].as_str().unwrap()))
            })
        };
        TaskManager::builder().function("work", work).open(directory.path())
    };
    let tasks = open().await.unwrap();
    let asks = tasks.spawn_function(TaskOptions::default(), "work", Default::default());
    let id = asks.await.unwrap().task_id;
    until(&tasks, &id, TaskStatus::InputRequired).await;
    tasks.shutdown();
    drop(tasks);

    let tasks = open().await.unwrap();
    assert_eq!(tasks.get_task(&id).await.unwrap().status(), TaskStatus::InputRequired);
    let answer = [("k".to_owned(), json!({"action": "decline"}))];
    tasks.update_task(&id, answer).await.unwrap();
    assert_eq!(tasks.get_task(&id).await.unwrap().status(), TaskStatus::Working);
    let TaskPayload::Completed { result } = until(&tasks, &id, TaskStatus::Completed).await else {
        panic!("no result")
    };
    assert_eq!(result["content"][0]["text"], "decline");
    tasks.shutdown();
}

/// Definitions are never deleted, so their number must not grow with the number of tasks.
#[tokio::test]
async fn tasks_with_different_status_messages_share_a_definition() {
    let store = Arc::new(MemoryStore::default());
    let tasks = TaskManager::builder().with_store(store.clone()).await.unwrap();
    let mut specs = HashSet::new();
    for name in ["a.png", "b.png"] {
        let options = TaskOptions::default().with_status_message(format!("resizing {name}"));
        let task = tasks
            .spawn(options, |_| Box::pin(async { Ok(text("done")) }))
            .await
            .unwrap();
        until(&tasks, &task.task_id, TaskStatus::Completed).await;
        let shown = tasks.get_task(&task.task_id).await.unwrap().task;
        assert_eq!(shown.status_message, Some(format!("resizing {name}")));
        let record = store
            .get_unscoped(&task.task_id.parse().unwrap())
            .await
            .unwrap()
            .unwrap();
        specs.insert(record.task.spec.clone());
    }
    assert_eq!(specs.len(), 1);
}

/// It fails as if it had been running.
#[tokio::test]
async fn a_task_whose_ttl_passes_while_no_process_runs_it_fails() {
    let store = Arc::new(MemoryStore::default());
    let open = || {
        let forever = |_: TaskContext, _| -> TaskFuture { Box::pin(std::future::pending()) };
        TaskManager::builder()
            .function("forever", forever)
            .with_store(store.clone())
    };
    let tasks = open().await.unwrap();
    let task = tasks.spawn_function(TaskOptions::default(), "forever", Default::default());
    let id = task.await.unwrap().task_id;
    tasks.shutdown();
    let record = store.get_unscoped(&id.parse().unwrap()).await.unwrap().unwrap();
    let over = record.task.created_at.plus(300_000);
    let passed = Change::of(&record.task.id, Event::DeadlinePassed, over);
    store.apply(passed).await.unwrap();

    let tasks = open().await.unwrap();
    let TaskPayload::Failed { error } = until(&tasks, &id, TaskStatus::Failed).await else {
        panic!("not failed")
    };
    assert_eq!(error["message"], "task expired: TTL elapsed before completion");
}
