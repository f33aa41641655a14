//! Requests of legacy servers that belong to a call or its task. A response can be sent to them from any process, in their session.

/// A request of a legacy server that is to be recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewServerRequest {
    /// The legacy session that it came in, if it has an id.
    pub session: Option<String>,
    /// As JSON.
    pub id: String,
    /// The name of what it asks.
    pub question: String,
    /// Its method.
    pub method: String,
    /// As JSON.
    pub params: String,
}

/// A request of a legacy server that is recorded, and has no response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerRequestRecord {
    /// Its number.
    pub number: RequestNumber,
    /// The number of the first request that asks the same. Users name the question by it.
    pub first: RequestNumber,
    /// What was recorded.
    pub request: NewServerRequest,
    /// Whether the user has not answered it.
    pub is_unanswered: bool,
    /// When the task had changed last, when the user answered.
    pub task_updated_at: Option<String>,
}

/// The number of a recorded request. It is never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestNumber(pub i64);

impl RequestNumber {
    /// The key of the question that it was the first to ask.
    pub(crate) fn key(self) -> String {
        format!("q{}", self.0)
    }
}
