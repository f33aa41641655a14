//! Tests of what only the crate can reach.

mod crash;
mod process_locks;
mod transactions;

use super::{ClientJournal, JournalError};
use crate::NewCall;
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
fn the_default_path_is_in_the_users_state_directory() {
    let path = |state: Option<&str>, home: Option<&str>| {
        let path = super::default_path(|name| match name {
            "XDG_STATE_HOME" => state.map(Into::into),
            "HOME" => home.map(Into::into),
            _ => None,
        });
        path.map(|path| path.display().to_string())
    };
    let in_home = "/home/a/.local/state/longhaul/.client/handles.db";
    assert_eq!(path(None, Some("/home/a")).as_deref(), Ok(in_home));
    assert_eq!(path(Some("relative"), Some("/home/a")).as_deref(), Ok(in_home));
    let elsewhere = path(Some("/state"), Some("/home/a"));
    assert_eq!(elsewhere.as_deref(), Ok("/state/longhaul/.client/handles.db"));
    for home in [None, Some(""), Some("relative")] {
        assert_eq!(path(None, home), Err(JournalError::NoStateDirectory));
    }
}
