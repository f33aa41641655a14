//! URL elicitation.

use super::{Ask, AskError, ElicitResult, QuestionKind, elicit::ElicitAnswer};
use crate::{Era, RequestContext};
use longhaul_core::{BoxFuture, Capability};
use serde_json::{Value, json};
use std::{fmt, future::IntoFuture, sync::Arc};

/// A question whether the user opens a page; see [`RequestContext::elicit_url`].
pub struct UrlQuestion {
    message: String,
    url: String,
    elicitation: UrlElicitation,
}

/// A page that the user has agreed to open.
#[derive(Clone)]
pub struct UrlElicitation {
    cx: RequestContext,
    id: Arc<str>,
}

impl RequestContext {
    /// Asks the user to open a page: to sign in, to pay, or for anything else that must not pass through the client. The answer is only the
    /// consent to open it. When the server learns that the user has finished there, it can tell the client: [`UrlElicitation::complete`].
    ///
    /// ```
    /// # use longhaul::{TaskContext, ToolResult};
    /// async fn buy(cx: TaskContext) -> ToolResult<&'static str> {
    ///     let page = cx.elicit_url("Please pay", "https://acme.example/pay/7").await?;
    ///     paid(7).await;
    ///     page.complete();
    ///     Ok("bought")
    /// }
    /// # async fn paid(_: u32) {}
    /// ```
    pub fn elicit_url(&self, message: impl Into<String>, url: impl Into<String>) -> Ask<UrlQuestion> {
        let mut id = [0u8; 16];
        self.ports().entropy.fill(&mut id);
        let elicitation = UrlElicitation {
            cx: self.clone(),
            id: format!("{:032x}", u128::from_be_bytes(id)).into(),
        };
        let question = UrlQuestion {
            message: message.into(),
            url: url.into(),
            elicitation,
        };
        Ask::new(self, question)
    }
}

impl UrlElicitation {
    /// Tells the client that the user has finished on the page. Clients of 2025-11-25 receive `notifications/elicitation/complete`; later
    /// revisions have no such message.
    pub fn complete(&self) {
        self.cx.elicitation_complete(&self.id);
    }
}

impl fmt::Debug for UrlElicitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UrlElicitation")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl Ask<UrlQuestion> {
    /// Asks, and returns whether the user accepted, declined or dismissed the question.
    ///
    /// # Errors
    /// [`AskError`], except `Declined` and `Dismissed`.
    pub fn answer(self) -> BoxFuture<'static, Result<ElicitResult<UrlElicitation>, AskError>> {
        self.ask_within()
    }
}

impl IntoFuture for Ask<UrlQuestion> {
    type Output = Result<UrlElicitation, AskError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.ask_within().await?.accepted() })
    }
}

impl QuestionKind for UrlQuestion {
    type Answer = ElicitResult<UrlElicitation>;

    fn request(&self, _: Option<&str>) -> Result<(Value, Capability), AskError> {
        let mut params = json!({"mode": "url", "message": self.message, "url": self.url});
        if self.elicitation.cx.era() == Era::Legacy {
            params["elicitationId"] = json!(*self.elicitation.id);
        }
        Ok((
            json!({"method": "elicitation/create", "params": params}),
            Capability::ElicitationUrl,
        ))
    }

    fn read(&self, answer: &str) -> Result<ElicitResult<UrlElicitation>, String> {
        let accepted = ElicitAnswer::read(answer)?;
        Ok(accepted.map(|_| self.elicitation.clone()))
    }
}
