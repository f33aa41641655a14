//! A client that closes its connection right after it has sent a request: what was done is in the audit log.

use super::{Authenticated, audit::Told};
use crate::{
    clock::{TestClock, until},
    request::{Post, act, everything_and_tasks},
    server::{Options, cancel, get, update},
};
use longhaul_core::{BoxFuture, Store, StoreLayer};
use longhaul_store::MemoryStore;
use serde_json::json;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::watch;

/// Holds the operations that begin while it is closed.
struct HeldStore {
    inner: MemoryStore,
    is_open: watch::Sender<bool>,
    held: AtomicUsize,
}

impl StoreLayer for HeldStore {
    fn inner(&self) -> &dyn Store {
        &self.inner
    }

    fn forward<'a, T: Send + 'static>(&'a self, answer: BoxFuture<'a, T>) -> BoxFuture<'a, T> {
        Box::pin(async move {
            let mut is_open = self.is_open.subscribe();
            if !*is_open.borrow() {
                self.held.fetch_add(1, Ordering::SeqCst);
                is_open.wait_for(|is_open| *is_open).await.unwrap();
            }
            answer.await
        })
    }
}

#[tokio::test]
async fn s_07_what_is_done_for_a_client_that_has_left_is_recorded() {
    let told = Arc::new(Told::default());
    let store = Arc::new(HeldStore {
        inner: MemoryStore::default(),
        is_open: watch::Sender::new(true),
        held: AtomicUsize::new(0),
    });
    let served = Authenticated::with(Options {
        store: Arc::<HeldStore>::clone(&store),
        audit: Some(Arc::<Told>::clone(&told)),
        clock: TestClock::standing(),
        ..Options::default()
    })
    .await;
    let create = |what: &str| Post::modern_with("tools/call", act("optional", what), everything_and_tasks());
    let [asking, waiting, ended] = [
        served.task("ann", create("ask")).await,
        served.task("ann", create("wait")).await,
        served.task("ann", create("say")).await,
    ];
    served.poll("ann", &ended, "completed").await;
    let key = served.question("ann", &asking).await;
    let answer = update(&asking, json!({key: {"action": "decline"}}));
    let delete = Post::modern("dev.longhaul/tasks/delete", json!({"taskId": ended}));
    for (post, action, task) in [
        (create("wait"), "create", None),
        (answer, "answer", Some(&asking)),
        (cancel(&waiting), "cancel", Some(&waiting)),
        (get(&ended), "read", Some(&ended)),
        (delete, "delete", Some(&ended)),
    ] {
        // What many reads leave out is over.
        served.tokens.clock.advance(Duration::from_secs(1));
        told.take_whole();
        let requests = served.tokens.asked.load(Ordering::SeqCst);
        store.held.store(0, Ordering::SeqCst);
        store.is_open.send_replace(false);
        let connection = served.send("ann", post).await;
        while served.tokens.asked.load(Ordering::SeqCst) == requests || store.held.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        drop(connection);
        until(async || served.server.protocol.open().0 == 0).await;
        store.is_open.send_replace(true);
        let line = loop {
            let told = told.take_whole();
            if let Some(line) = told.into_iter().find(|line| line["action"] == action) {
                break line;
            }
            tokio::task::yield_now().await;
        };
        let seen = ["outcome", "principal"].map(|name| &line[name]);
        assert_eq!(seen, ["ok", "key:ann"], "{line}");
        match task {
            Some(task) => assert_eq!(&line["task"], task, "{line}"),
            None => assert!(line["task"].is_string(), "{line}"),
        }
    }
    let unknown = served.error("ann", get(&ended)).await;
    assert_eq!(unknown.1, -32602, "the task was deleted");
}
