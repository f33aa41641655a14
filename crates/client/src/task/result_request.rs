//! An open request for the result of a legacy task.

use crate::{Connection, RequestError, connect::era::Era, journal::call_record::CallRecord};
use std::sync::Arc;

/// A request for the result of a legacy task, on whose stream the server asks. If it is dropped before it is answered, it is cancelled: the server may send the
/// next question to a stream that nobody reads otherwise. It is recorded, so that the next process can cancel it if this one is killed.
pub(crate) struct ResultRequest {
    connection: Connection,
    task: String,
    era: Arc<Era>,
    id: u64,
    record: Option<CallRecord>,
    is_answered: bool,
}

impl ResultRequest {
    /// Records it. Over a pipe it needs no record: the next process has another pipe.
    pub(crate) async fn begin(
        connection: &Connection,
        task: &str,
        record: Option<&CallRecord>,
    ) -> Result<Self, RequestError> {
        let era = connection.era().await?;
        let is_recorded = era.legacy().is_some() && !connection.transport().is_session();
        let request = Self {
            id: connection.next_id(),
            connection: connection.clone(),
            task: task.to_owned(),
            record: record.filter(|_| is_recorded).cloned(),
            is_answered: !is_recorded,
            era,
        };
        if let Some(record) = &request.record {
            let session = connection.session_of(&request.era).map(|session| session.id);
            record.result_requested(session, request.id).await;
        }
        Ok(request)
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The server has answered it.
    pub(crate) fn is_answered(&mut self) {
        self.is_answered = true;
    }
}

impl Drop for ResultRequest {
    fn drop(&mut self) {
        let record = self.record.take();
        // That of a task that has ended is being answered.
        if !self.is_answered && self.connection.legacy_tasks().is_live(&self.task) {
            self.connection.cancel_by_message(&self.era, self.id, record);
        } else if let Some(record) = record {
            record.result_request_ended(self.id);
        }
    }
}
