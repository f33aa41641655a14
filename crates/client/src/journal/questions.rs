//! What a journal knows of questions.

use crate::{
    BoxFuture, CallId, InputRequest, JournalError, Json, NewServerRequest, RequestNumber, ServerRequestRecord,
};
use std::fmt;

/// The beginning of the names of all questions of legacy tasks. They stay when a call becomes a task.
pub const LEGACY_QUESTION: &str = "legacy ";
/// The beginning of the names that other questions may have later.
pub const QUESTION_BY_TEXT: &str = "legacy text ";

/// Whether the user is to be asked a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// Ask the user now. A process that asked before has ended without an answer, or there was none.
    First,
    /// A process that lives asks the user, or is sending the answer. It may be this one.
    Pending,
    /// The user has answered, and the server may not have got the answer: send this one.
    Answered(Json),
    /// The server has accepted an answer.
    Accepted,
}

/// What becomes of a read or a change of a journal.
pub type JournalFuture<'a, T> = BoxFuture<'a, Result<T, JournalError>>;

/// Where the questions of calls are recorded, each under a name that it has among those of its call. The user is asked each of them once, whichever process asks.
pub trait QuestionJournal: fmt::Debug + Send + Sync + 'static {
    /// Whether to ask the user a question of a call. After [`Asked::First`] and [`Asked::Answered`] the question is in the hands of this process until it ends or
    /// releases it. For a recorded `request` of a server it is [`Asked::Accepted`] if the server has a response to that, or wants none.
    fn ask(&self, call: CallId, name: String, request: Option<RequestNumber>) -> JournalFuture<'_, Asked>;

    /// As [`ask`](Self::ask), for what other processes can show and answer, too: what a call asks that is no task, or whose task ends with this process.
    fn ask_in_call(&self, call: CallId, name: String, request: InputRequest) -> JournalFuture<'_, Asked>;

    /// Records the user's answer, which is kept until the server has accepted it. `false` if there is another one, or the server has a response to the recorded
    /// `request`, or wants none: then this answer must not be sent. With a request goes when its task had changed last.
    fn record_answer(
        &self,
        call: CallId,
        name: String,
        answer: Json,
        request: Option<(RequestNumber, Option<String>)>,
    ) -> JournalFuture<'_, bool>;

    /// Whether a question has an answer, or the server a response to the `request` that asks it.
    fn has_answer(&self, call: CallId, name: String, request: Option<RequestNumber>) -> JournalFuture<'_, bool>;

    /// The names of the questions of a call whose answers the server has accepted.
    fn accepted_answers(&self, call: CallId) -> JournalFuture<'_, Vec<String>>;

    /// Records a request of a server before anyone is asked. The same request again gets the same number. `None` if there are too many, or it is too long.
    ///
    /// An id that comes with another question is used again: the server has the response to the earlier request, which is forgotten.
    fn record_request(&self, call: CallId, request: NewServerRequest)
    -> JournalFuture<'_, Option<ServerRequestRecord>>;

    /// The requests of a call's server that have no response, in the order of their arrival.
    fn open_requests(&self, call: CallId) -> JournalFuture<'_, Vec<ServerRequestRecord>>;

    /// The requests for the result of a call's task in this session whose processes have ended. This process cancels them: they are forgotten.
    fn take_abandoned_result_requests(&self, call: CallId, session: Option<String>) -> JournalFuture<'_, Vec<u64>>;
}
