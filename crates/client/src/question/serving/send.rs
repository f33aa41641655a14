//! Sending the response to a request of a legacy server.

use super::{ActiveRequest, Reply, asked_by, is_question};
use crate::{
    Connection, RequestError, ServerRequestRecord,
    connect::legacy::questions::{QuestionName, ServedAnswer, TakenAnswer},
    question::recorded::{RecordedQuestion, read_again},
    transport::polling,
};
use std::{sync::Arc, time::Duration};

/// How often a response is sent again: for about a minute.
const RETRIES: u32 = 8;

impl Connection {
    /// Sends a response to the server, again while it is not available. What becomes of a recorded answer depends on whether the server takes it.
    pub(super) async fn send_reply(self, serving: &ActiveRequest, reply: Reply, recorded: Option<RecordedQuestion>) {
        let request = &serving.request;
        let (sent_at, was_seen) = self.listening().sending(&request.id, &serving.digest);
        let Some((connection, sent)) = send_until_taken(self, serving, &reply.text).await else {
            return;
        };
        let may_come_again = match &sent {
            Ok(true) => {
                if let (Some(task), Some(outcome)) = (&serving.task, &reply.outcome)
                    && is_question(&request.method)
                {
                    connection.listening().keep_taken(TakenAnswer {
                        task: task.clone(),
                        name: QuestionName::of(request, task).name,
                        sent_at,
                        was_seen,
                        answer: outcome.clone(),
                    });
                }
                if let Some(recorded) = &recorded {
                    if let Some(outcome) = &reply.outcome {
                        connection.answer_earlier(serving, recorded, outcome).await;
                    }
                    recorded.answered(reply.held).await;
                }
                false
            }
            // It is sent when the question comes again: the server, or its session, was gone.
            Ok(false) => true,
            Err(error) if error.is_transient() || matches!(error, RequestError::Http { status: 404, .. }) => true,
            // The request stays recorded: the user can give another answer.
            Err(_) => {
                if let Some(held) = reply.held {
                    held.discarded().await;
                }
                false
            }
        };
        let may_come_again = may_come_again && is_question(&request.method);
        connection
            .listening()
            .note_response(&request.id, serving.digest, &reply.text, may_come_again);
        match (&sent, &connection.options().inputs) {
            (Ok(true), Some(inputs)) => inputs.delivered(&asked_by(serving, recorded.as_ref())),
            (Ok(true), None) => {}
            (Ok(false), inputs) => {
                tracing::debug!(
                    method = request.method,
                    "a request of the server was not answered: its session has ended"
                );
                if let Some(inputs) = inputs {
                    inputs.lost_with_session(&asked_by(serving, recorded.as_ref()));
                }
            }
            (Err(RequestError::Http { status: 404, .. }), Some(inputs)) => {
                tracing::debug!(
                    method = request.method,
                    "a request of the server was not answered: the server knows its session no more"
                );
                inputs.lost_with_session(&asked_by(serving, recorded.as_ref()));
            }
            (Err(error), _) => {
                tracing::warn!(%error, method = request.method, "the server did not get the answer to its request");
            }
        }
        if let Some(question) = serving.question.get() {
            question.settle(sent);
        }
    }

    /// Sends an answer to the earlier requests that ask the same, too: earlier processes got them.
    async fn answer_earlier(&self, serving: &ActiveRequest, recorded: &RecordedQuestion, outcome: &ServedAnswer) {
        let Some(number) = recorded.number() else { return };
        let session = self.session_of(&serving.era).map(|session| session.id);
        let open = recorded.record.open_requests().await.unwrap_or_default();
        let is_same = |known: &ServerRequestRecord| {
            let asks_same = known.request.question == recorded.name && known.request.session == session;
            // What this process serves gets the answer anyway.
            asks_same && known.number < number && !self.listening().serves_id(&known.request.id)
        };
        for known in open.into_iter().filter(is_same) {
            let response = read_again(&known).respond(outcome.clone());
            if let Err(error) = self.send_message(&serving.era, response).await {
                tracing::debug!(%error, "a request that was sent twice was answered once");
            }
        }
    }
}

/// The response is sent again while the server is not available. The connection is not held during the pauses, so that dropping it ends this: `None`. So does the
/// end of the task.
async fn send_until_taken(
    connection: Connection,
    serving: &ActiveRequest,
    text: &str,
) -> Option<(Connection, Result<bool, RequestError>)> {
    let weak = connection.downgrade();
    let (mut connection, mut failures) = (connection, 0);
    loop {
        match connection.send_message(&serving.era, text.to_owned()).await {
            Err(error) if error.is_transient() && failures < RETRIES && !connection.transport().is_session() => {
                failures += 1;
                let wait = polling::next_retry(failures, error.retry_after(), connection.jitter());
                let clock = Arc::clone(&connection.options().clock);
                drop(connection);
                clock.sleep(Duration::from_millis(wait)).await;
                connection = weak.upgrade()?;
                if !connection.listening().serves(&serving.request.id, &serving.digest) {
                    return None;
                }
            }
            sent => return Some((connection, sent)),
        }
    }
}
