//! Roots: the folders that a client works in.

use super::{Ask, AskError, QuestionKind};
use crate::RequestContext;
use longhaul_core::{BoxFuture, Capability};
use serde::Deserialize;
use serde_json::{Value, json};
use std::future::IntoFuture;

/// A folder that the client works in.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Root {
    /// Where it is, as `file:///home/ann/project`.
    pub uri: String,
    /// The name that the client shows.
    pub name: Option<String>,
}

/// A request for the client's roots; see [`RequestContext::roots`].
pub struct RootsQuestion;

impl RequestContext {
    /// Asks which folders the client works in.
    ///
    /// ```
    /// # async fn f(cx: longhaul::TaskContext) -> longhaul::ToolResult<()> {
    /// for root in cx.roots().await? {
    ///     cx.status(format!("looking at {}", root.uri)).await?;
    /// }
    /// # Ok(()) }
    /// ```
    pub fn roots(&self) -> Ask<RootsQuestion> {
        Ask::new(self, RootsQuestion)
    }
}

impl IntoFuture for Ask<RootsQuestion> {
    type Output = Result<Vec<Root>, AskError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        self.ask_within()
    }
}

impl QuestionKind for RootsQuestion {
    type Answer = Vec<Root>;

    fn request(&self, _: Option<&str>) -> Result<(Value, Capability), AskError> {
        Ok((json!({"method": "roots/list", "params": {}}), Capability::Roots))
    }

    fn read(&self, answer: &str) -> Result<Vec<Root>, String> {
        #[derive(Deserialize)]
        struct Answer {
            roots: Vec<Root>,
        }
        let Answer { roots } = serde_json::from_str(answer).map_err(|error| error.to_string())?;
        Ok(roots)
    }
}
