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

/// Where tasks are kept while servers come and go.
pub(super) enum Place {
    Memory(Arc<MemoryStore>),
    Directory(tempfile::TempDir),
}

impl Place {
    pub(super) fn all() -> [Self; 2] {
        [
            Self::Memory(Arc::default()),
            Self::Directory(tempfile::tempdir().unwrap()),
        ]
    }

    /// A server on it with these tools, and a client that answers nothing.
    #[expect(clippy::disallowed_methods, reason = "the test is the outside world")]
    pub(super) async fn serve(&self, tools: Vec<Tool>) -> (ServerHandle, Client, Arc<dyn Store>) {
        let store: Arc<dyn Store> = match self {
            Self::Memory(store) => Arc::clone(store) as _,
            Self::Directory(directory) => {
                // The server before lets go of it when its last work has.
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

/// What happened, and how often.
#[derive(Clone, Default)]
pub(super) struct Effects(Arc<Mutex<HashMap<String, u32>>>);

impl Effects {
    /// Lets one happen; says how often it has.
    pub(super) fn happen(&self, what: &str) -> u32 {
        let mut all = self.0.lock().unwrap();
        let count = all.entry(what.to_owned()).or_default();
        *count += 1;
        *count
    }

    pub(super) fn count(&self, what: &str) -> u32 {
        self.0.lock().unwrap().get(what).copied().unwrap_or_default()
    }
}

/// A durable tool whose first attempt does `work` and then panics, and whose second does it again. Gives what both came to, which is to be
/// the same.
pub(super) async fn replayed<W>(others: Vec<Tool>, work: impl Fn(TaskContext) -> W + Send + Sync + 'static) -> Value
where
    W: Future<Output = ToolResult<Value>> + Send + 'static,
{
    let came_to = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&came_to);
    let twice = move |cx: TaskContext| {
        let (work, noted) = (work(cx), Arc::clone(&noted));
        async move {
            let value = work.await;
            let said = value
                .as_ref()
                .map_or_else(|error| json!(error.to_string()), Value::clone);
            noted.lock().unwrap().push(said);
            assert!(noted.lock().unwrap().len() > 1, "the first attempt ends here");
            ToolResult::Ok("done")
        }
    };
    let mut tools = others;
    tools.push(Tool::durable("twice", twice).retry(3, millis(1), [RetryOn::Crash]));
    let (server, client, _) = Place::Memory(Arc::default()).serve(tools).await;
    let task = client.start("twice", json!({})).await.unwrap();
    // It may ask: this client answers nothing.
    let state = loop {
        let state = task.next().await.unwrap();
        if state["status"] != "input_required" {
            break state;
        }
    };
    assert_eq!(state["result"]["content"][0]["text"], "done", "{state}");
    server.stop().await;
    let mut came_to = came_to.lock().unwrap().clone();
    assert_eq!(came_to.len(), 2);
    assert_eq!(came_to[0], came_to[1], "live and replayed");
    came_to.remove(0)
}

/// The entries of this kind in a task's journal.
pub(super) async fn entries(store: &Arc<dyn Store>, task: &str, kind: EntryKind) -> Vec<Entry> {
    let all = store.journal(&task.parse().unwrap(), 0, 1_000).await.unwrap();
    all.into_iter().filter(|entry| entry.key.kind == kind).collect()
}
