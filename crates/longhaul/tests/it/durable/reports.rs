//! Status lines and progress: suppressed during replay.

use super::{Place, waits::until_journaled};
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

/// Every line that is kept as a task's status.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

struct Noting {
    inner: Arc<dyn Store>,
    lines: Lines,
}

impl StoreLayer for Noting {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn apply(&self, change: Change) -> BoxFuture<'_, Result<Task, ApplyError>> {
        let said = change.events.iter().filter_map(|event| match event {
            Event::Reported { status, .. } => Some(status.as_ref()?.to_string()),
            _ => None,
        });
        self.lines.0.lock().unwrap().extend(said);
        self.inner.apply(change)
    }

    /// Takes its time, in which news could be told.
    fn input(&self, id: &TaskId, key: &InputKey) -> BoxFuture<'_, Result<Option<Input>, StoreError>> {
        let input = self.inner.input(id, key);
        Box::pin(async move {
            tokio::task::yield_now().await;
            input.await
        })
    }
}

fn talks() -> Tool {
    Tool::durable("talks", |cx: TaskContext| async move {
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

/// A server is stopped while the second question is open, and another one goes on.
#[tokio::test]
async fn status_lines_are_suppressed_during_replay() {
    let place = Place::Memory(Arc::default());
    let answer = json!({"action": "accept", "content": {"go": true}});
    let (server, client, store) = place.serve(vec![talks()]).await;
    let task = client.start("talks", json!({})).await.unwrap();
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
    let state = store.peek(&id.parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(state.task.status.as_deref(), Some("middle"));

    let lines = Lines::default();
    let noting = lines.clone();
    let server = Server::new("test", "1.0.0").tool(talks()).store(store);
    let server = server.wrap_store(move |inner| Arc::new(Noting { inner, lines: noting }));
    let server = server.start().await.unwrap();
    let client = longhaul::testing::Client::connect(&server, longhaul::Era::Modern)
        .await
        .unwrap();
    let mut progress = server.engine().unwrap().subscribe(&id.parse().unwrap());
    let task = client.follow(&*id);
    let key = task.questions().await.unwrap().keys().next().unwrap().clone();
    task.answer(&key, answer).await.unwrap();
    assert_eq!(task.wait().await.unwrap().text(), "true true");
    let kept = lines.0.lock().unwrap().clone();
    assert!(!kept.iter().any(|line| line == "early"), "{kept:?}");
    assert_eq!(kept.last().map(String::as_str), Some("late"), "{kept:?}");
    let heard: Vec<ToolMessage> = std::iter::from_fn(|| progress.try_next()).collect();
    let is_late = |said: &ToolMessage| match said {
        ToolMessage::Progress { current, .. } => *current == 3.0,
        ToolMessage::Log { data, .. } => data.as_str().contains("late"),
        _ => true,
    };
    assert!(heard.iter().all(is_late) && heard.len() >= 2, "{heard:?}");
    server.stop().await;
}
