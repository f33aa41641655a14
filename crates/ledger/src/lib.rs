//! The journal of a user's calls, kept across the restarts of the processes that made them, for [`Client::recorded`](longhaul_client::Client::recorded).
//!
//! It is one SQLite file. Any number of processes use it at once. A change is on disk when its function returns.
//!
//! # A call
//!
//! | step | recorded before it | after a crash here |
//! | --- | --- | --- |
//! | [`begin`](ClientJournal::begin) | – | nothing was recorded and nothing sent |
//! | the call is sent | the intent | [`CallState::Interrupted`]: one process [claims](ClientJournal::claim_unresolved) it, and sends it again under its idempotency key; without one it is [settled](ClientJournal::settle_abandoned) as of unknown outcome |
//! | the answer arrives | the intent | the same: the answer is lost with the process, but not the idempotency key |
//! | [`acknowledge`](ClientJournal::acknowledge) | the task | [`CallState::Task`]: any process reads the task |
//! | the result is fetched | the task | the same: it is fetched again |
//! | [`finish`](ClientJournal::finish) | the end, without the result | [`CallState::Finished`], listed for 24 hours |
//!
//! While the process that has sent a call lives, the call is [`CallState::InFlight`] and no other process may claim it, unless it
//! [releases](ClientJournal::release_call) the call. Each process holds a
//! lock that ends with it, so neither a `kill -9` nor a restart of the machine leaves a call in flight.
//!
//! # A question
//!
//! The user is asked each question once, whichever process asks.
//!
//! | step | recorded before it | after a crash here, the next [`ask`](ClientJournal::ask) returns |
//! | --- | --- | --- |
//! | the user is asked | asked, by this process | [`Asked::First`]: the user may be asked again, since no answer has left the process |
//! | the user answers | the same | the same |
//! | [`record_answer`](ClientJournal::record_answer), then the answer is sent | the answer | [`Asked::Answered`] with the answer, which is sent again: it may not have arrived |
//! | the server accepts | the answer | the same: the server ignores the second one |
//! | [`answer_accepted`](ClientJournal::answer_accepted) | accepted; the answer is deleted | [`Asked::Accepted`]: nothing is to be done |
//!
//! While the process that asks, or sends the answer, lives, others get [`Asked::Pending`].
//!
//! A legacy server asks with a request. Some servers send it once, so it is recorded too (`server_requests.rs`), before the user is asked: any process can
//! respond to it in its session, for as long as the server has no response.
//!
//! Questions that come before there is a task (rounds of `tools/call`, and requests of a legacy server during a plain call) have names of their own, so `acknowledge` forgets them. Do not report their
//! answers as accepted: a call that is sent again from its beginning is asked again, and then needs them.
#![warn(missing_docs)]

mod batch_run;
mod call;
mod call_journal;
mod call_questions;
mod changes;
#[cfg(test)]
mod crash_tests;
mod file;
mod questions;
mod refusal;
mod retention;
mod server_requests;
mod stored_call;
#[cfg(test)]
mod tests;
mod worker;

pub use batch_run::{BatchRun, BatchStep};
pub use call::cancellation::CallCancellation;

use changes::Changes;
#[cfg(doc)]
use longhaul_client::{Asked, CallState};
use longhaul_client::{Clock, JournalError, SystemClock, state_folder};
use std::{
    fmt,
    ops::Deref,
    path::{Path, PathBuf},
    sync::Arc,
};
use worker::Worker;

/// The journal of a user's calls. Cheap to clone; all clones count as one process, which ends when the last of them is dropped.
///
/// Calls of all processes share one file, so that a task is found again after the process that has started it is gone. A change is on disk when
/// its function returns. If the returned future is dropped, the change may or may not be recorded.
///
/// ```no_run
/// use longhaul_client::{Finished, Generation, NewCall, TaskRef};
/// use longhaul_ledger::ClientJournal;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let journal = ClientJournal::open(&ClientJournal::default_path()?).await?;
/// let call = journal
///     .begin(NewCall {
///         server: "http://127.0.0.1:7411/mcp".to_owned(),
///         server_name: None,
///         tool: "hash_tree".to_owned(),
///         arguments_digest: [0; 32],
///         idempotency_key: Some("5f0c".to_owned()),
///         session: None,
///         login: None,
///         batch_line: None,
///     })
///     .await?;
/// // The call is sent. The server answers that it has created a task.
/// let task = TaskRef {
///     task_id: "0192".to_owned(),
///     generation: Generation::Modern,
///     session: None,
///     created_at: None,
///     ttl: None,
/// };
/// journal.acknowledge(call, task).await?;
/// assert_eq!(journal.live().await?.len(), 1);
/// // The task completes, and its result is fetched.
/// journal.finish(call, Finished::Completed).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct ClientJournal(Arc<Handle>);

/// What all clones share. The worker's thread may outlive it a little.
struct Handle {
    worker: Arc<Worker>,
    changes: Arc<Changes>,
}

impl Deref for Handle {
    type Target = Arc<Worker>;

    fn deref(&self) -> &Self::Target {
        &self.worker
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.worker.close();
    }
}

impl ClientJournal {
    /// Where the journal of this user is: `$XDG_STATE_HOME/longhaul/.client/handles.db`, or the same in `~/.local/state`.
    ///
    /// # Errors
    /// [`JournalError::NoStateDirectory`] if neither `XDG_STATE_HOME` nor `HOME` is set to an absolute path.
    pub fn default_path() -> Result<PathBuf, JournalError> {
        path_in_folder(state_folder())
    }

    /// Opens the journal at `path`, and creates it and its directory if need be.
    ///
    /// The directory should contain nothing else: all permissions of other users are removed from it, and the journal keeps further files there.
    /// It must be on a local disk. A path in the current folder itself is refused, since that would become private.
    ///
    /// # Errors
    /// [`JournalError::Unusable`], [`Corrupt`](JournalError::Corrupt), [`NewerVersion`](JournalError::NewerVersion), and those of changes.
    pub async fn open(path: &Path) -> Result<Self, JournalError> {
        Self::open_with_clock(path, Arc::new(SystemClock)).await
    }

    /// Opens the journal as [`open`](Self::open) does, with another clock, which decides when finished calls are deleted.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn open_with_clock(path: &Path, clock: Arc<dyn Clock>) -> Result<Self, JournalError> {
        let worker = Worker::open(path.to_owned(), clock).await?;
        Ok(Self(Arc::new(Handle {
            worker,
            changes: Arc::default(),
        })))
    }

    /// Where the journal is, without links.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

fn path_in_folder(folder: Option<PathBuf>) -> Result<PathBuf, JournalError> {
    Ok(folder.ok_or(JournalError::NoStateDirectory)?.join("handles.db"))
}

impl fmt::Debug for ClientJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientJournal({})", self.path().display())
    }
}

/// The examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
