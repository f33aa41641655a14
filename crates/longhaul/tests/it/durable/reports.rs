//! Status lines and progress: suppressed during replay.

use super::{TestStore, waits::until_journaled};
use longhaul::{Error, LogLevel, Server, TaskContext, Tool, ToolResult};
use longhaul_core::{
    BoxFuture, EntryKind, Event, Input, InputKey, Store, StoreLayer, Task, TaskId,
    store::{ApplyError, Change, StoreError},
};
use longhaul_runtime::ToolMessage;
use serde_json::json;
use std::sync::{Arc, Mutex};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Consent {
    go: bool,
}

/// All status messages that were stored.
#[derive(Clone, Default)]
struct StatusLines(Arc<Mutex<Vec<String>>>);

struct StatusRecorder {
    inner: Arc<dyn Store>,
    lines: StatusLines,
}

impl StoreLayer for StatusRecorder {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn apply(&self, change: Change) -> BoxFuture<'_, Result<Task, ApplyError>> {
        let statuses = change.events.iter().filter_map(|event| match event {
            Event::Reported { status, .. } => Some(status.as_ref()?.to_string()),
            _ => None,
        });
        self.lines.0.lock().unwrap().extend(statuses);
        self.inner.apply(change)
    }

    /// Yields first, so that messages could be sent meanwhile.
    fn input(&self, id: &TaskId, key: &InputKey) -> BoxFuture<'_, Result<Option<Input>, StoreError>> {
        let input = self.inner.input(id, key);
        Box::pin(async move {
            tokio::task::yield_now().await;
            input.await
        })
    }
}

fn reports() -> Tool {
    Tool::durable("reports", |cx: TaskContext| async move {
        cx.status("early");
        cx.progress(1, 3);
        cx.log(LogLevel::Warning, "early");
        let first: Consent = cx.elicit("The first?").await?;
        cx.step("between", async || Ok::<_, Error>(())).await?;
        cx.status("middle");
        cx.progress(2, 3);
        let second: Consent = cx.elicit("The second?").await?;
        cx.status("late");
        cx.progress(3, 3);
        cx.log(LogLevel::Warning, "late");
        ToolResult::Ok(format!("{} {}", first.go, second.go))
    })
}

/// The server stops while the second question is open, and the next one resumes the task.
#[tokio::test]
async fn status_lines_are_suppressed_during_replay() {
    let store_kind = TestStore::Memory(Arc::default());
    let answer = json!({"action": "accept", "content": {"go": true}});
    let (server, client, store) = store_kind.serve(vec![reports()]).await;
    let task = client.start("reports", json!({})).await.unwrap();
    for nth in 1..=2 {
        let questions = task.questions().await.unwrap();
        assert_eq!(questions.len(), 1);
        if nth == 1 {
            let key = questions.keys().next().unwrap();
            task.answer(key, answer.clone()).await.unwrap();
            until_journaled(&store, task.id(), EntryKind::Step).await;
        }
    }
    let id = task.id().to_owned();
    drop(task);
    server.stop().await;
    let state = store.get_unscoped(&id.parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(state.task.status.as_deref(), Some("middle"));

    let lines = StatusLines::default();
    let recorder = lines.clone();
    let server = Server::new("test", "1.0.0").tool(reports()).store(store);
    let server = server.wrap_store(move |inner| Arc::new(StatusRecorder { inner, lines: recorder }));
    let server = server.start().await.unwrap();
    let client = longhaul::testing::Client::connect(&server, longhaul::Era::Modern)
        .await
        .unwrap();
    let mut progress = server.engine().unwrap().subscribe(&id.parse().unwrap());
    let task = client.follow(&*id);
    let key = task.questions().await.unwrap().keys().next().unwrap().clone();
    task.answer(&key, answer).await.unwrap();
    assert_eq!(task.wait().await.unwrap().text(), "true true");
    let stored = lines.0.lock().unwrap().clone();
    assert!(!stored.iter().any(|line| line == "early"), "{stored:?}");
    assert_eq!(stored.last().map(String::as_str), Some("late"), "{stored:?}");
    let received: Vec<ToolMessage> = std::iter::from_fn(|| progress.try_next()).collect();
    let is_late = |message: &ToolMessage| match message {
        ToolMessage::Progress { current, .. } => *current == 3.0,
        ToolMessage::Log { data, .. } => data.as_str().contains("late"),
        _ => true,
    };
    assert!(received.iter().all(is_late) && received.len() >= 2, "{received:?}");
    server.stop().await;
}
