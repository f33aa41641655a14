//! What a client needs of a journal of calls. The one of this user is `longhaul-ledger`.

pub(crate) mod call_change;
pub(crate) mod call_record;
pub(crate) mod error;
pub(crate) mod idempotency_key;
pub(crate) mod other_login;
pub(crate) mod questions;
pub(crate) mod recorded_call;
pub(crate) mod server_request;
pub(crate) mod state_folder;
pub(crate) mod watch;

use crate::{CallFilter, CallId, NewCall, RecordedCall, TakenOver, TaskRef};
use call_change::CallChange;
use longhaul_core::Millis;
use questions::{JournalFuture, QuestionJournal};
use watch::JournalWatch;

/// For how long an interrupted call is taken over, at most: also if its server does not say how long it knows the key of a call.
pub const LONGEST_TAKE_OVER: Millis = 24 * 60 * 60 * 1000;

/// Where a [`Client`](crate::Client) records its calls, so that they outlive its process. Any number of processes use one journal at once. A change is on disk when
/// its future completes; changes take place in the order in which they are asked for.
pub trait CallJournal: QuestionJournal {
    /// Records that a call is about to be sent. It is sent when this has completed.
    fn begin(&self, call: NewCall) -> JournalFuture<'_, CallId>;

    /// Takes over a call of this user with the same server, under the same name, tool and arguments whose process has ended without recording an answer, so that it
    /// is sent again under its idempotency key: that of `call` if it has one, else any. One that began more than `known_for` milliseconds ago, or more than
    /// [`LONGEST_TAKE_OVER`], is of unknown outcome: servers forget keys.
    fn take_over(&self, call: NewCall, known_for: Option<Millis>) -> JournalFuture<'_, Option<TakenOver>>;

    /// Records the task that the server has created for a call, or its new session, and whether it goes on when this process has ended. Returns the call that has
    /// the task: another one under the same key may have it already.
    fn acknowledge(&self, call: CallId, task: TaskRef, is_kept: bool) -> JournalFuture<'_, CallId>;

    /// Records a change, also if the future is dropped.
    fn change(&self, call: CallId, change: CallChange) -> JournalFuture<'static, ()>;

    /// Records what has become of calls whose process has ended, and which nobody may send again.
    fn settle_abandoned(&self) -> JournalFuture<'_, ()>;

    /// The call with this number.
    fn get(&self, call: CallId) -> JournalFuture<'_, RecordedCall>;

    /// Lists calls, the latest first.
    fn list(&self, filter: CallFilter) -> JournalFuture<'_, Vec<RecordedCall>>;

    /// Whether another process wants the call to be cancelled.
    fn is_cancel_requested(&self, call: CallId) -> JournalFuture<'_, bool>;

    /// Whether the task of a call ends with another process that lives.
    fn is_followed_elsewhere(&self, call: CallId) -> JournalFuture<'_, bool>;

    /// Whether no call is sent in this legacy session of the server, and no listed task is in it.
    fn may_end_session(&self, server: String, session: String) -> JournalFuture<'_, bool>;

    /// Watches the other processes, from now on.
    fn watch(&self) -> JournalWatch;
}
