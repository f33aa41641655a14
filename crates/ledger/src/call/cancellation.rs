//! Cancelling a call that another process makes, before it is a task, or whose task only that process reaches: it watches for it.

use crate::{
    ClientJournal,
    call::calls::mark_unknown,
    refusal::Refusal,
    server_requests,
    stored_call::{StateCode, StoredCall},
    worker::Scope,
};
use longhaul_client::{CallId, JournalError};

/// What becomes of a call that is to be cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallCancellation {
    /// The process that makes the call is told, and stops waiting for the answer. The call is recorded as cancelled then, unless the answer comes first; as of unknown outcome if it may go on
    /// at the server, which has not answered within two seconds. One that waits for a task cancels that.
    Requested,
    /// The process that made the call has ended. The call is recorded as of unknown outcome, so it is not made again under its idempotency key: nobody has told the server, and
    /// it may go on there.
    Recorded,
}

impl ClientJournal {
    /// Cancels a call that is no task, or whose task [ends with its process](longhaul_client::RecordedCall::ends_with_process), also one that another process makes.
    ///
    /// ```no_run
    /// # async fn example(journal: longhaul_ledger::ClientJournal) -> Result<(), longhaul_client::JournalError> {
    /// use longhaul_client::{CallFilter, CallState};
    ///
    /// for call in journal.list(CallFilter::default()).await? {
    ///     if call.state == CallState::InFlight {
    ///         journal.cancel_call(call.id).await?;
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`JournalError::WrongState`] if the call has an answer or a task, or its outcome is unknown; [`JournalError::UnknownCall`], and those of the disk and the
    /// file.
    pub async fn cancel_call(&self, call: CallId) -> Result<CallCancellation, JournalError> {
        let cancelled = self.0.write(move |scope| cancel(scope, call)).await?;
        // The call may be made in this process.
        self.0.changes.tell();
        Ok(cancelled)
    }
}

/// Whether somebody wants the call to be cancelled.
pub(crate) fn is_requested(scope: &Scope<'_>, call: CallId) -> Result<bool, Refusal> {
    let sql = "SELECT 1 FROM calls WHERE seq = ?1 AND cancel_requested IS NOT NULL";
    Ok(scope.connection.prepare_cached(sql)?.exists([call.number()])?)
}

fn cancel(scope: &Scope<'_>, call: CallId) -> Result<CallCancellation, Refusal> {
    let stored = StoredCall::read(scope, call)?;
    let is_made = (stored.process.as_deref()).is_some_and(|process| scope.locks.is_alive(process));
    if stored.state != StateCode::Intent && !(stored.state == StateCode::Task && is_made) {
        return Err(stored.refuse("cancel"));
    }
    if is_made {
        let sql = "UPDATE calls SET cancel_requested = ?2 WHERE seq = ?1";
        let requested = (call.number(), scope.now.0);
        scope.connection.prepare_cached(sql)?.execute(requested)?;
        return Ok(CallCancellation::Requested);
    }
    server_requests::forget_all(scope, call)?;
    mark_unknown(
        scope,
        call,
        "it was given up after the process that made it had ended; it may go on at the server",
    )?;
    Ok(CallCancellation::Recorded)
}
