//! Noticing what other processes do with the journal. This is the one rule by which anything here waits for another process.

use crate::{
    ClientJournal,
    worker::{Scope, Worker},
};
use longhaul_client::{JournalError, JournalWatch};
use parking_lot::Mutex;
use std::{
    sync::{Arc, Weak},
    time::Duration,
};
use tokio::{runtime::Handle, sync::watch, task::AbortHandle};

/// How often the file is looked at, while anyone waits.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// A process that is killed gives up what it has in hand, and changes nothing. So those who wait for that look after this number of looks, too.
const LOOKS_FOR_DEATHS: u32 = 4;

/// What has been seen of the file, for all who wait in this process. One task looks at it for all of them.
#[derive(Default)]
pub(crate) struct Changes {
    /// How many changes were seen. Sent again when a process may have ended.
    seen: watch::Sender<u64>,
    looking: Mutex<Option<AbortHandle>>,
}

impl Changes {
    /// Tells those who wait here of a change of this process, too.
    pub(crate) fn tell(&self) {
        self.seen.send_modify(|seen| *seen += 1);
    }
}

impl ClientJournal {
    /// Watches the other processes, from now on: read what is waited for after this. What this journal changes itself is no change, but for
    /// [`cancel_call`](Self::cancel_call).
    ///
    /// ```no_run
    /// # async fn example(journal: longhaul_ledger::ClientJournal, call: longhaul_client::CallId) -> Result<(), longhaul_client::JournalError> {
    /// let mut watch = journal.watch();
    /// while journal.call_questions(call).await?.is_empty() {
    ///     watch.changed_or_ended().await;
    /// }
    /// # Ok(()) }
    /// ```
    #[expect(clippy::disallowed_methods, reason = "the client is not simulated")]
    pub fn watch(&self) -> JournalWatch {
        let watch = JournalWatch::new(self.0.changes.seen.subscribe());
        let mut looking = self.0.changes.looking.lock();
        // One that has ended ran in a runtime that has ended.
        if looking.as_ref().is_none_or(AbortHandle::is_finished)
            && let Ok(runtime) = Handle::try_current()
        {
            let look = look(Arc::downgrade(&self.0.worker), Arc::downgrade(&self.0.changes));
            *looking = Some(runtime.spawn(look).abort_handle());
        }
        watch
    }
}

#[expect(clippy::disallowed_methods, reason = "the client is not simulated")]
async fn look(worker: Weak<Worker>, changes: Weak<Changes>) {
    let (mut last, mut looks) = (None, 0_u32);
    loop {
        tokio::time::sleep(LOOK_AGAIN).await;
        let (Some(worker), Some(changes)) = (worker.upgrade(), changes.upgrade()) else {
            return;
        };
        {
            let mut looking = changes.looking.lock();
            if changes.seen.receiver_count() == 0 {
                *looking = None;
                return;
            }
        }
        let version = data_version(&worker).await.ok();
        // The first look counts: there may have been a change before it. So does one that fails: whoever waits finds out why.
        let has_changed = last.is_none() || version.is_none() || version != last;
        last = version;
        looks = looks.wrapping_add(1);
        let may_have_died = looks.is_multiple_of(LOOKS_FOR_DEATHS);
        if has_changed || may_have_died {
            changes.seen.send_modify(|seen| *seen += u64::from(has_changed));
        }
    }
}

/// A number that differs once another process has changed the file.
async fn data_version(worker: &Arc<Worker>) -> Result<i64, JournalError> {
    let read = |scope: &Scope<'_>| {
        let mut statement = scope.connection.prepare_cached("PRAGMA data_version")?;
        Ok(statement.query_row([], |row| row.get(0))?)
    };
    worker.read(read).await
}
