//! What a legacy server has asked an earlier process about a task that no journal has: it can be answered in the same session.

use crate::{InputRequest, RequestRef};
use longhaul_core::ParsedJson;
use parking_lot::Mutex;
use std::sync::Arc;

/// A request of a legacy server about a task that an earlier process got, and may not have answered.
#[derive(Debug, Clone, PartialEq)]
pub struct EarlierRequest {
    /// By what it can be answered.
    pub request: RequestRef,
    /// `elicitation/create`, `sampling/createMessage` or `roots/list`.
    pub method: String,
    /// The request's params, as they came.
    pub params: ParsedJson,
    /// Whether the task was seen asking when it came. Then it is over once the task does not ask. Some servers never say that a task asks.
    pub was_seen: bool,
}

impl EarlierRequest {
    /// As the handler is asked.
    pub(crate) fn asked(&self, task: &str) -> InputRequest {
        InputRequest {
            task: Some(task.to_owned()),
            request: Some(Box::new(self.request.clone())),
            ..InputRequest::of(self.method.clone(), self.params.clone())
        }
    }
}

/// The requests that nobody in this process has answered yet.
pub(crate) type UnansweredRequests = Arc<Mutex<Vec<EarlierRequest>>>;
