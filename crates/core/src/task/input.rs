//! Questions a running task asks its client.

use crate::{Json, UnixMillis};
use std::sync::Arc;

/// The key of a question: minted by us, unique for the task's life, never reused.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InputKey(Arc<str>);

impl InputKey {
    /// The key of a task's `nth` question, counted from 1.
    pub fn nth(nth: u32) -> Self {
        Self(format!("in-{nth}").into())
    }

    /// A key as it came from outside or from the store.
    pub fn named(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// The key as it stands on the wire.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What has become of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputState {
    /// Not answered yet.
    Open,
    /// The client's answer, as it came.
    Answered(Json),
    /// The task ended or no longer needs the answer.
    Withdrawn,
}

/// Who answered a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AnsweredBy {
    /// A client of the task's principal.
    Client,
    /// An operator.
    Operator,
    /// The server: the client cannot be asked, or not any more.
    Server,
}

impl AnsweredBy {
    /// The word that operators see.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Operator => "operator",
            Self::Server => "server",
        }
    }
}

/// A question and what has become of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// What it is answered by.
    pub key: InputKey,
    /// The author's name for it, if any. A round shows the question under this name, a task under its key. It need not be unique.
    pub name: Option<Arc<str>>,
    /// `{"method": …, "params": …}` as MCP embeds it.
    pub request: Json,
    /// What has become of it.
    pub state: InputState,
    /// When it was asked.
    pub asked_at: UnixMillis,
    /// When it was answered or withdrawn; `None` while it is open, or if an earlier version settled it, which did not record it.
    pub settled_at: Option<UnixMillis>,
    /// Who answered it; `None` while nobody has, or if an earlier version took the answer, which did not record it.
    pub answered_by: Option<AnsweredBy>,
}
