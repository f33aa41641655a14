//! URL elicitation.

use super::{Ask, AskError, ElicitResult, QuestionKind, elicit::Answer};
use crate::{Era, RequestContext};
use longhaul_core::{BoxFuture, Capability};
use serde_json::{Value, json};
use std::{fmt, future::IntoFuture, sync::Arc};

/// A request to open a page; see [`RequestContext::elicit_url`].
pub struct PageQuestion {
    message: String,
    url: String,
    page: Page,
}

/// A page that the user has agreed to open.
#[derive(Clone)]
pub struct Page {
    cx: RequestContext,
    id: Arc<str>,
}

impl RequestContext {
    /// Asks the user to open a page: to sign in, to pay, or for anything else that must not pass through the client. The answer is only the
    /// consent to open it. When the server learns that the user has finished there, it can tell the client: [`Page::done`].
    ///
    /// ```
    /// # use longhaul::{TaskContext, ToolResult};
    /// async fn buy(cx: TaskContext) -> ToolResult<&'static str> {
    ///     let page = cx.elicit_url("Please pay", "https://acme.example/pay/7").await?;
    ///     paid(7).await;
    ///     page.done();
    ///     Ok("bought")
    /// }
    /// # async fn paid(_: u32) {}
    /// ```
    pub fn elicit_url(&self, message: impl Into<String>, url: impl Into<String>) -> Ask<PageQuestion> {
        let mut id = [0u8; 16];
        self.ports().entropy.fill(&mut id);
        let page = Page {
            cx: self.clone(),
            id: format!("{:032x}", u128::from_be_bytes(id)).into(),
        };
        let question = PageQuestion {
            message: message.into(),
            url: url.into(),
            page,
        };
        Ask::new(self, question)
    }
}

impl Page {
    /// Tells the client that the user has finished on the page. Clients of 2025-11-25 receive `notifications/elicitation/complete`; later
    /// revisions have no such message.
    pub fn done(&self) {
        self.cx.elicitation_complete(&self.id);
    }
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Page").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Ask<PageQuestion> {
    /// Asks, and returns whether the user accepted, declined or dismissed the question.
    ///
    /// # Errors
    /// [`AskError`], except `Declined` and `Dismissed`.
    pub fn answer(self) -> BoxFuture<'static, Result<ElicitResult<Page>, AskError>> {
        self.ask_within()
    }
}

impl IntoFuture for Ask<PageQuestion> {
    type Output = Result<Page, AskError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.ask_within().await?.accepted() })
    }
}

impl QuestionKind for PageQuestion {
    type Answer = ElicitResult<Page>;

    fn request(&self, _: Option<&str>) -> Result<(Value, Capability), AskError> {
        let mut params = json!({"mode": "url", "message": self.message, "url": self.url});
        if self.page.cx.era() == Era::Legacy {
            params["elicitationId"] = json!(*self.page.id);
        }
        Ok((
            json!({"method": "elicitation/create", "params": params}),
            Capability::ElicitationUrl,
        ))
    }

    fn read(&self, answer: &str) -> Result<ElicitResult<Page>, String> {
        let accepted = Answer::read(answer)?;
        Ok(accepted.map(|_| self.page.clone()))
    }
}
