//! Durable tools: their operations are recorded and replayed.

mod branches;
mod calls;
mod code_changes;
mod history;
mod reports;
mod steps;
mod waits;

use longhaul::{Era, RetryOn, Server, ServerHandle, TaskContext, Tool, ToolResult, testing::Client, time::millis};
use longhaul_core::{Entry, EntryKind, Store};
use longhaul_store::{MemoryStore, SqliteOptions, SqliteStore};
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

/// The store that the servers of a test share.
pub(super) enum TestStore {
    Memory(Arc<MemoryStore>),
    Directory(tempfile::TempDir),
}

impl TestStore {
    pub(super) fn all() -> [Self; 2] {
        [
            Self::Memory(Arc::default()),
            Self::Directory(tempfile::tempdir().unwrap()),
        ]
    }

    /// Starts a server with these tools on it, and a client that answers no questions.
    #[expect(clippy::disallowed_methods, reason = "the test is the outside world")]
    pub(super) async fn serve(&self, tools: Vec<Tool>) -> (ServerHandle, Client, Arc<dyn Store>) {
        let store: Arc<dyn Store> = match self {
            Self::Memory(store) => Arc::clone(store) as _,
            Self::Directory(directory) => {
                // The previous server may still hold the lock: opening waits for it.
                let path = directory.path().to_owned();
                let opened = tokio::task::spawn_blocking(move || SqliteStore::open(&path, SqliteOptions::default()));
                Arc::new(opened.await.unwrap().unwrap())
            }
        };
        let server = Server::new("test", "1.0.0").tools(tools).store(Arc::clone(&store));
        let server = server.start().await.unwrap();
        let client = Client::connect(&server, Era::Modern).await.unwrap();
        (server, client, store)
    }
}

/// Counts effects by name.
#[derive(Clone, Default)]
pub(super) struct Effects(Arc<Mutex<HashMap<String, u32>>>);

impl Effects {
    /// Records an effect; returns how often it has happened.
    pub(super) fn record(&self, what: &str) -> u32 {
        let mut all = self.0.lock().unwrap();
        let count = all.entry(what.to_owned()).or_default();
        *count += 1;
        *count
    }

    pub(super) fn count(&self, what: &str) -> u32 {
        self.0.lock().unwrap().get(what).copied().unwrap_or_default()
    }
}

/// Runs a durable tool whose first attempt panics after `work`, and whose second attempt replays it. Returns what `work` returned, which must
/// be the same in both.
pub(super) async fn replayed<W>(others: Vec<Tool>, work: impl Fn(TaskContext) -> W + Send + Sync + 'static) -> Value
where
    W: Future<Output = ToolResult<Value>> + Send + 'static,
{
    let outputs = Arc::new(Mutex::new(Vec::new()));
    let recorder = Arc::clone(&outputs);
    let twice = move |cx: TaskContext| {
        let (work, recorder) = (work(cx), Arc::clone(&recorder));
        async move {
            let value = work.await;
            let output = value
                .as_ref()
                .map_or_else(|error| json!(error.to_string()), Value::clone);
            recorder.lock().unwrap().push(output);
            assert!(recorder.lock().unwrap().len() > 1, "the first attempt ends here");
            ToolResult::Ok("done")
        }
    };
    let mut tools = others;
    tools.push(Tool::durable("twice", twice).retry(3, millis(1), [RetryOn::Crash]));
    let (server, client, _) = TestStore::Memory(Arc::default()).serve(tools).await;
    let task = client.start("twice", json!({})).await.unwrap();
    // The client answers no questions.
    let state = loop {
        let state = task.next().await.unwrap();
        if state["status"] != "input_required" {
            break state;
        }
    };
    assert_eq!(state["result"]["content"][0]["text"], "done", "{state}");
    server.stop().await;
    let mut outputs = outputs.lock().unwrap().clone();
    assert_eq!(outputs.len(), 2);
    assert_eq!(outputs[0], outputs[1], "the first attempt and its replay");
    outputs.remove(0)
}

/// The entries of this kind in a task's journal.
pub(super) async fn entries(store: &Arc<dyn Store>, task: &str, kind: EntryKind) -> Vec<Entry> {
    let all = store.journal(&task.parse().unwrap(), 0, 1_000).await.unwrap();
    all.into_iter().filter(|entry| entry.key.kind == kind).collect()
}
