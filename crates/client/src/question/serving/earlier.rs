//! Serving again what an earlier process without a journal was asked. It yields to the same question, if the server asks that again.

use super::{ActiveRequest, Stream};
use crate::{
    Connection, RequestError, TaskSnapshot, TaskStatus,
    connect::{connection::WeakConnection, response::ServerRequest},
    task::earlier_requests::EarlierRequest,
};
use std::time::Duration;

/// How long a server may take to ask again what it has asked an earlier process. One that does so does not want the answer to the earlier request.
const LONGEST_WAIT_FOR_REPEAT: Duration = Duration::from_secs(2);

impl Connection {
    /// Serves what an earlier process was asked about a task that has been read just now.
    ///
    /// # Errors
    /// The session is not known.
    pub(crate) async fn serve_earlier(
        &self,
        task: &TaskSnapshot,
        requests: Vec<EarlierRequest>,
    ) -> Result<(), RequestError> {
        let era = self.era().await?;
        let Some(inputs) = self.options().inputs.as_ref().filter(|_| era.legacy().is_some()) else {
            return Ok(());
        };
        let session = self.session_of(&era).map(|session| session.id);
        for earlier in requests {
            let asked = earlier.asked(&task.id);
            if earlier.request.session != session {
                inputs.lost_with_session(&asked);
                continue;
            }
            if earlier.was_seen && task.status != TaskStatus::InputRequired {
                tracing::debug!(
                    task = task.id,
                    "a task does not ask any more what an earlier process was asked"
                );
                inputs.not_taken(&asked);
                continue;
            }
            let request = ServerRequest {
                id: earlier.request.id,
                method: earlier.method,
                params: earlier.params,
                malformed: None,
            };
            let stream = Stream {
                is_earlier: true,
                ..Stream::default()
            };
            self.serve_request(request, &era, Some(task.id.clone()), stream, None);
        }
        Ok(())
    }
}

/// Waits for the time in which the server may ask the same again.
pub(super) async fn until_not_asked_again(connection: &WeakConnection) {
    let clock = match connection.upgrade() {
        Some(connection) => connection.options().clock.clone(),
        None => return,
    };
    clock.sleep(LONGEST_WAIT_FOR_REPEAT).await;
}

/// Whether the server has not asked the same again. From now on it is too late for that.
pub(super) fn is_wanted(connection: &Connection, serving: &ActiveRequest) -> bool {
    connection
        .listening()
        .stop_yielding(&serving.request.id, &serving.digest)
}
