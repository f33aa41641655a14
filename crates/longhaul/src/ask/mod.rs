//! Questions to the client: elicitation, sampling, roots.

mod elicit;
mod form;
mod roots;
mod sample;
mod url;

pub use elicit::{ElicitResult, Elicitation};
pub use form::{Field, Form};
pub use roots::{Root, RootsQuestion};
pub use sample::{CreateMessageResult, IntoMessages, SampleTool, Sampling, ToolChoice};
pub use url::{UrlElicitation, UrlQuestion};

use crate::{AskError, RequestContext};
use longhaul_core::{BoxFuture, Capability, Json};
use longhaul_runtime::Question;
use longhaul_wire::InvalidResponse;
use serde_json::Value;
use std::{fmt, sync::Arc, time::Duration};

/// How often a question is asked until an answer fits its form.
const MAX_ASKS: usize = 3;

/// A question to the client. Awaiting it asks the question and returns the answer.
///
/// A question may stay open for days. A tool that waits for one holds no slot. A modern client answers a prompt, a resource or an
/// [`ask_before`](crate::Tool::ask_before) function by sending the request again, so what comes before the question runs again.
///
/// Questions asked together are shown together: `tokio::join!(first.into_future(), second.into_future())`.
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

    /// Names the question, for example `user_name`. Clients see this name if there is no task yet; the questions of a task have ids.
    pub fn key(mut self, name: impl Into<Arc<str>>) -> Self {
        self.key = Some(name.into());
        self
    }

    /// How long to wait for the answer; then the question is withdrawn, with [`AskError::Unanswered`]. By default the tool's
    /// [`input_timeout`](crate::Tool::input_timeout).
    pub fn within(mut self, time: Duration) -> Self {
        self.within = Some(time);
        self
    }
}

/// A form, a page, a sampling request or the roots. Public because it bounds public types; no other crate can name it.
pub trait QuestionKind: Send + Sync + 'static {
    /// The answer.
    type Answer: Send;

    /// The request, and the capability that the client must have declared. `rejection` says why the previous answer could not be used.
    fn request(&self, rejection: Option<&str>) -> Result<(Value, Capability), AskError>;

    /// Reads an answer, or says why it cannot be used.
    fn read(&self, answer: &str) -> Result<Self::Answer, String>;
}

impl<Q: QuestionKind> Ask<Q> {
    fn ask_within(self) -> BoxFuture<'static, Result<Q::Answer, AskError>> {
        Box::pin(async move {
            match self.within.filter(|_| !self.cx.is_task()) {
                // The runtime times the questions of tasks itself, also over a restart.
                None => self.ask_until_usable().await,
                Some(limit) => {
                    let ports = self.cx.ports().clone();
                    let answer = ports.within(limit, self.ask_until_usable()).await;
                    answer.unwrap_or(Err(AskError::Unanswered))
                }
            }
        })
    }

    /// Asks until an answer can be used, with another key each time.
    async fn ask_until_usable(self) -> Result<Q::Answer, AskError> {
        let mut rejection: Option<String> = None;
        for _ in 0..MAX_ASKS {
            let (request, needs) = self.question.request(rejection.as_deref())?;
            let answer = self.cx.ask(Question {
                name: self.key.clone(),
                request: Json::from(request),
                needs: Some(needs),
                within: self.within,
            });
            let read = match answer.await {
                Ok(answer) => self.question.read(answer.as_str()),
                // A legacy client is not told that its answer does not fit.
                Err(AskError::Refused(failure)) if InvalidResponse::is_failure(&failure) => {
                    Err(failure.message.to_string())
                }
                Err(error) => return Err(error),
            };
            match read {
                Ok(answer) => return Ok(answer),
                Err(why) => rejection = Some(why),
            }
        }
        Err(AskError::Unusable(rejection.unwrap_or_default()))
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
