//! By what a request of a legacy server can be answered.

/// By what a request of a legacy server over HTTP can be answered, from any process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RequestRef {
    /// The id of the session that it came in, if that has one.
    pub session: Option<String>,
    /// The id of the request, as JSON.
    pub id: String,
}
