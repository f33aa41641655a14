//! What is recorded of a call after its beginning.

use crate::{Finished, RequestNumber, SessionRef, TaskStatus};

/// A change of what is recorded of a call: see [`CallJournal::change`](crate::CallJournal::change).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallChange {
    /// It is about to be sent in this session instead of the one that it began in: the server has lost that one.
    EnterSession(SessionRef),
    /// Its task was seen with this status.
    NoteStatus(TaskStatus),
    /// Nothing more is to be done: the answer or the result was fetched, or there will be none.
    Finish(Finished),
    /// This process does not wait for the answer any more. Whoever makes the same call continues it.
    Release,
    /// As [`Release`](Self::Release); without an idempotency key its outcome is unknown at once.
    Abandon,
    /// Nobody knows whether it was carried out: with the reason, for people.
    MarkUnknown(String),
    /// Its task can no longer be reached: with the reason, for people.
    MarkLost(String),
    /// Its task was deleted. It is forgotten, with all others that have this task.
    Forget,
    /// The server has the answer to the question of this name.
    AcceptAnswer(String),
    /// The server has refused the answer to the question of this name, so that the user can be asked again.
    RefuseAnswer(String),
    /// This process does not deal with the question of this name any more.
    ReleaseQuestion(String),
    /// The question of this name is forgotten, with its answer.
    ForgetQuestion(String),
    /// The server has the response to a request, and to the earlier ones that ask the same. The same text is another question from now on, unless the question
    /// has a key of its own.
    AnswerRequest {
        /// The request.
        request: RequestNumber,
        /// Whether no other question ever has the name of this one.
        has_own_key: bool,
    },
    /// The server wants no response to a request any more. What it asks is forgotten too, unless another open request asks the same.
    WithdrawRequest(RequestNumber),
    /// The server may have the recorded answer to a request, and use its id for another question: both are forgotten, unless a process that lives is sending the answer.
    DoubtAnswer(RequestNumber),
    /// This process is about to read the stream of a request for the result of the task.
    RequestResult {
        /// The legacy session, if it has an id.
        session: Option<String>,
        /// The id of the request.
        id: u64,
    },
    /// The request for the result with this id has ended.
    EndResultRequest(u64),
}
