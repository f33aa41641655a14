//! The contexts of handlers: what they know about a request, and how they report and ask.

mod caller;
mod progress_value;
mod task;

pub use caller::{ClientInfo, Era};
pub use progress_value::ProgressValue;
pub use task::{CancellationCheck, TaskContext};

use crate::{AskError, ServerHandle};
use longhaul_core::{BoxFuture, ClientCapabilities as Capabilities, Json, LogLevel, Principal};
use longhaul_runtime::{HandlerContext, Ports, Question, Requestor, Trace};
use longhaul_wire::InputRequest;
use serde::Serialize;
use std::{future::ready, sync::Arc};

/// What a handler knows about its request, and how it reports to the client and asks it. Cheap to clone.
///
/// Tools have a [`TaskContext`], which dereferences to this. A helper that takes `&RequestContext` works in tools, prompts and resources.
///
/// When the client stops waiting, the future of a prompt's, a resource's or a method's handler is dropped.
#[derive(Clone)]
pub struct RequestContext {
    inner: HandlerContext,
    server: ServerHandle,
}

impl RequestContext {
    pub(crate) fn of_request(cx: longhaul_runtime::RequestContext, server: ServerHandle) -> Self {
        Self {
            inner: HandlerContext::Request(cx),
            server,
        }
    }

    fn of_task(cx: longhaul_runtime::TaskContext, server: ServerHandle) -> Self {
        Self {
            inner: HandlerContext::Task(cx),
            server,
        }
    }

    fn requestor(&self) -> &Arc<Requestor> {
        self.inner.requestor()
    }

    pub(crate) fn ports(&self) -> &Ports {
        self.inner.ports()
    }

    pub(crate) fn is_task(&self) -> bool {
        matches!(self.inner, HandlerContext::Task(_))
    }

    /// The era of the client: which family of protocol revisions it uses.
    pub fn era(&self) -> Era {
        match self.requestor().modern {
            true => Era::Modern,
            false => Era::Legacy,
        }
    }

    /// The protocol revision, such as `2026-07-28`.
    pub fn protocol_version(&self) -> &str {
        &self.requestor().version
    }

    /// The name and version that the client gives itself, if any. For display and logs only: they are not checked.
    pub fn client(&self) -> Option<ClientInfo> {
        ClientInfo::read(self.requestor().client.as_ref()?.as_str())
    }

    /// What the client can be asked, as it has declared. In a task these are the capabilities of the client that made the call, in every
    /// attempt.
    ///
    /// ```
    /// # async fn f(cx: longhaul::TaskContext) -> longhaul::ToolResult<&'static str> {
    /// use longhaul::Capability;
    /// if !cx.capabilities().has(Capability::ElicitationForm) {
    ///     return Ok("not confirmed: your client shows no forms");
    /// }
    /// # Ok("") }
    /// ```
    pub fn capabilities(&self) -> Capabilities {
        self.requestor().capabilities
    }

    /// The principal that the request belongs to.
    pub fn principal(&self) -> &Principal {
        self.inner.principal()
    }

    /// The trace context that the client sent, if any: pass it on to what you call.
    pub fn trace(&self) -> Option<&Trace> {
        self.requestor().trace.as_ref()
    }

    /// The server that this handler runs on. What it offers can be changed through it.
    pub fn server(&self) -> &ServerHandle {
        &self.server
    }

    /// Reports progress. `total` is `()` if it is unknown. `current` must grow: a value that does not is not sent.
    ///
    /// ```
    /// # async fn f(cx: longhaul::TaskContext) -> longhaul::ToolResult<()> {
    /// for page in 1..=9 {
    ///     cx.progress(page, 9).await?; // the `?` ends the tool if the call was cancelled
    /// }
    /// # Ok(()) }
    /// ```
    pub fn progress(&self, current: impl ProgressValue, total: impl ProgressValue) -> CancellationCheck {
        self.report_to_client(current, total, None)
    }

    /// As [`progress`](Self::progress), with a message for people.
    pub fn report(
        &self,
        current: impl ProgressValue,
        total: impl ProgressValue,
        message: impl AsRef<str>,
    ) -> CancellationCheck {
        self.report_to_client(current, total, Some(message.as_ref()))
    }

    fn report_to_client(
        &self,
        current: impl ProgressValue,
        total: impl ProgressValue,
        message: Option<&str>,
    ) -> CancellationCheck {
        if let Some(current) = current.value() {
            self.inner.report(current, total.value(), message);
        }
        self.cancellation_check()
    }

    /// Sends a log message to the client, if it wants messages of this level: a text, or anything else that can be written as JSON. It must
    /// not contain secrets. The server's own log is `tracing`.
    ///
    /// ```
    /// # fn f(cx: &longhaul::TaskContext) {
    /// use longhaul::LogLevel;
    /// cx.log(LogLevel::Warning, "The cache is cold");
    /// cx.log(LogLevel::Debug, serde_json::json!({"rows": 120}));
    /// # }
    /// ```
    pub fn log(&self, level: LogLevel, data: impl Serialize) -> CancellationCheck {
        if let Ok(data) = serde_json::to_value(data) {
            self.inner.log(level, None, Json::from(data));
        }
        self.cancellation_check()
    }

    /// Sends an input request of your own making: `question.request` is `{"method":…,"params":…}`, and the answer is the client's result.
    /// [`elicit`](Self::elicit), [`sample`](Self::sample) and [`roots`](Self::roots) do this for you.
    ///
    /// ```
    /// use longhaul::{Capability, Question, RawJson, TaskContext, ToolResult};
    /// use serde_json::json;
    /// async fn folders(cx: TaskContext) -> ToolResult<String> {
    ///     let request = json!({"method": "roots/list", "params": {}});
    ///     let question = Question {
    ///         needs: Some(Capability::Roots),
    ///         ..Question::new(RawJson::from(request))
    ///     };
    ///     Ok(cx.ask(question).await?.as_str().to_owned())
    /// }
    /// ```
    ///
    /// # Errors
    /// [`AskError`] if the client cannot be asked this, or there is no answer.
    pub fn ask(&self, question: Question) -> BoxFuture<'static, Result<Json, AskError>> {
        let form = InputRequest::read(question.request.as_str()).map(|request| request.form());
        if let Ok(Some(Err(invalid))) = form {
            return Box::pin(ready(Err(AskError::Invalid(invalid.to_string()))));
        }
        let inner = self.inner.clone();
        Box::pin(async move { Ok(inner.ask(question).await?) })
    }

    pub(crate) fn elicitation_complete(&self, id: &Arc<str>) {
        self.inner.elicitation_complete(id);
    }

    fn cancellation_check(&self) -> CancellationCheck {
        CancellationCheck::of(self.inner.stop_requested())
    }
}
