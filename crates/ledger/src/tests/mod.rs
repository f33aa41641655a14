//! Tests of what only the crate can reach.

mod crash;
mod process_locks;
mod transactions;

use super::{ClientJournal, JournalError, path_in_folder};
use longhaul_client::NewCall;
use longhaul_core::{BoxFuture, Clock, UnixMillis};
use std::{
    future::pending,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

/// A clock that stands still until it is set.
#[derive(Default)]
struct ManualClock(AtomicI64);

impl ManualClock {
    fn set(&self, now: i64) {
        self.0.store(now, Ordering::SeqCst);
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

fn path_in(directory: &Path) -> PathBuf {
    directory.join("client/handles.db")
}

async fn open(directory: &Path) -> (ClientJournal, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    let journal = ClientJournal::open_with_clock(&path_in(directory), clock.clone()).await;
    (journal.unwrap(), clock)
}

fn new_call(tool: &str) -> NewCall {
    NewCall {
        server: "http://server/mcp".to_owned(),
        server_name: None,
        tool: tool.to_owned(),
        arguments_digest: [7; 32],
        idempotency_key: None,
        session: None,
        login: None,
        batch_line: None,
    }
}

#[test]
fn the_default_path_is_in_the_state_folder() {
    let folder = Some(PathBuf::from("/home/a/.local/state/longhaul/.client"));
    let path = PathBuf::from("/home/a/.local/state/longhaul/.client/handles.db");
    assert_eq!(path_in_folder(folder), Ok(path));
    assert_eq!(path_in_folder(None), Err(JournalError::NoStateDirectory));
}
