//! Asking the client: a person, a model, a list of folders.

mod elicit;
mod form;
mod page;
mod roots;
mod sample;

pub use elicit::{Elicitation, Elicited};
pub use form::{Field, Form};
pub use page::{Page, PageQuestion};
pub use roots::{Root, RootsQuestion};
pub use sample::{IntoMessages, SampleTool, Sampled, Sampling, ToolChoice};

use crate::RequestContext;
use longhaul_core::{BoxFuture, Json, StopReason};
use longhaul_runtime::{Ability, AskError as Unasked, JournalError, Question};
use serde_json::Value;
use std::{fmt, sync::Arc, time::Duration};

/// How often a question is asked before its answers are given up on (G2-42).
const TRIES: usize = 3;

/// A question, not asked yet: awaiting it asks, and gives the answer. What else there is to say about it comes before that.
///
/// A question may be open for days. Meanwhile a tool holds no slot; a modern client may have got its answer in between (MRTR), so what
/// comes before the question in a prompt's, a resource's or an [`ask_before`](crate::Tool::ask_before) function runs again.
///
/// Questions asked at once are shown at once: `tokio::join!(first.into_future(), second.into_future())`.
#[must_use = "nothing is asked until it is awaited"]
pub struct Ask<Q> {
    cx: RequestContext,
    key: Option<Arc<str>>,
    within: Option<Duration>,
    question: Q,
}

impl<Q> Ask<Q> {
    pub(crate) fn new(cx: &RequestContext, question: Q) -> Self {
        Self {
            cx: cx.clone(),
            key: None,
            within: None,
            question,
        }
    }

    /// Names the question for clients and their logs, as `user_name`. Questions asked before there is a task are shown by this name
    /// (U-10); inside a task names are not shown, as each question needs one of its own for the task's whole life (G2-34).
    pub fn key(mut self, name: impl Into<Arc<str>>) -> Self {
        self.key = Some(name.into());
        self
    }

    /// Waits at most so long for the answer, then withdraws the question: [`AskError::Unanswered`]. By default as long as the tool
    /// [says](crate::Tool::input_timeout).
    pub fn within(mut self, time: Duration) -> Self {
        self.within = Some(time);
        self
    }
}

/// What can be asked. Public in name only: its module is not.
pub trait Questioning: Send + Sync + 'static {
    /// What comes of it.
    type Answer: Send;

    /// The request as MCP embeds it, and what the client must have declared. After an answer that could not be used, `unfit` says why.
    fn request(&self, unfit: Option<&str>) -> Result<(Value, Ability), AskError>;

    /// The answer, or why it cannot be used.
    fn read(&self, answer: &str) -> Result<Self::Answer, String>;
}

impl<Q: Questioning> Ask<Q> {
    fn asked(self) -> BoxFuture<'static, Result<Q::Answer, AskError>> {
        Box::pin(async move {
            match self.within.filter(|_| !self.cx.is_task()) {
                // A task's questions know it themselves, and over a restart.
                None => self.ask().await,
                Some(limit) => {
                    let ports = self.cx.ports().clone();
                    let answer = ports.within(limit, self.ask()).await;
                    answer.unwrap_or(Err(AskError::Unanswered))
                }
            }
        })
    }

    /// Asks until the answer can be used, each time under another key.
    async fn ask(self) -> Result<Q::Answer, AskError> {
        let mut unfit: Option<String> = None;
        for _ in 0..TRIES {
            let (request, needs) = self.question.request(unfit.as_deref())?;
            let answer = self.cx.ask(Question {
                name: self.key.clone(),
                request: Json::from(request),
                needs: Some(needs),
                within: self.within,
            });
            match self.question.read(answer.await?.as_str()) {
                Ok(answer) => return Ok(answer),
                Err(why) => unfit = Some(why),
            }
        }
        Err(AskError::Unusable(unfit.unwrap_or_default()))
    }
}

impl<Q> fmt::Debug for Ask<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask")
            .field("key", &self.key)
            .field("within", &self.within)
            .finish_non_exhaustive()
    }
}

/// A question could not be asked, or has no answer to go on with. `?` hands it on from a tool: the client reads why.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AskError {
    /// The person said no.
    #[error("the user declined")]
    Declined,
    /// The person dismissed the question without an answer.
    #[error("the user dismissed the question")]
    Dismissed,
    /// The work is asked to stop: nobody waits for the answer any more.
    #[error("the work is to stop")]
    Stopped(StopReason),
    /// The question cannot be asked as it is: a mistake of the handler's author.
    #[error("the question cannot be asked: {0}")]
    Invalid(String),
    /// All answers were unusable; the last one for this reason.
    #[error("the answers could not be used: {0}")]
    Unusable(String),
    /// No answer came within the time given.
    #[error("nobody answered in time")]
    Unanswered,
    /// The tool's code does not follow its journal, or the journal has no room.
    #[error(transparent)]
    Journal(JournalError),
    /// The client has not declared that it can be asked this, it refused, the question was withdrawn, or the store failed.
    #[error(transparent)]
    Unasked(Unasked),
}

impl From<Unasked> for AskError {
    fn from(error: Unasked) -> Self {
        match error {
            Unasked::Stopped(reason) => Self::Stopped(reason),
            Unasked::Unanswered => Self::Unanswered,
            Unasked::Journal(error) => Self::Journal(error),
            other => Self::Unasked(other),
        }
    }
}

/// So that a branch which asks and one which waits can fail alike.
impl From<JournalError> for AskError {
    fn from(error: JournalError) -> Self {
        Unasked::from(error).into()
    }
}
