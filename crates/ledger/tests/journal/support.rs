//! A journal in a temporary directory, and a clock that tests set.

use longhaul_client::{CallId, Generation, JournalError, NewCall, SessionRef, TaskRef};
use longhaul_core::{BoxFuture, Clock, Json, UnixMillis};
use longhaul_ledger::ClientJournal;
use std::{
    future::pending,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

pub(crate) const SERVER: &str = "http://server/mcp";
pub(crate) const HOUR: i64 = 60 * 60 * 1000;

/// A clock that stands still until it is moved.
#[derive(Default)]
pub(crate) struct ManualClock(AtomicI64);

impl ManualClock {
    pub(crate) fn pass(&self, millis: i64) {
        self.0.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> UnixMillis {
        UnixMillis(self.0.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, _duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(pending())
    }
}

pub(crate) fn path_in(directory: &Path) -> PathBuf {
    directory.join("client/handles.db")
}

pub(crate) async fn try_open(directory: &Path) -> Result<ClientJournal, JournalError> {
    ClientJournal::open(&path_in(directory)).await
}

pub(crate) async fn open(directory: &Path) -> ClientJournal {
    try_open(directory).await.unwrap()
}

pub(crate) async fn open_with(directory: &Path, clock: &Arc<ManualClock>) -> ClientJournal {
    let opened = ClientJournal::open_with_clock(&path_in(directory), clock.clone()).await;
    opened.unwrap()
}

pub(crate) fn new_call(tool: &str) -> NewCall {
    NewCall {
        server: SERVER.to_owned(),
        server_name: Some("name".to_owned()),
        tool: tool.to_owned(),
        arguments_digest: [7; 32],
        idempotency_key: Some("key".to_owned()),
        session: None,
        login: None,
        batch_line: None,
    }
}

pub(crate) fn session(id: &str) -> SessionRef {
    SessionRef {
        id: id.to_owned(),
        revision: "2025-11-25".to_owned(),
        capabilities: Json::trusted(r#"{"elicitation":{}}"#),
    }
}

pub(crate) fn task(id: &str) -> TaskRef {
    TaskRef {
        task_id: id.to_owned(),
        generation: Generation::Modern,
        session: None,
        created_at: Some("2026-08-01T10:00:00Z".to_owned()),
        ttl: Some(3_600_000),
    }
}

/// Begins a call and records its task.
pub(crate) async fn begin_task(journal: &ClientJournal, id: &str) -> CallId {
    let call = journal.begin(new_call("tool")).await.unwrap();
    journal.acknowledge(call, task(id)).await.unwrap();
    call
}
