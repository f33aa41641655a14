//! What a server asks of the client's user: elicitation, sampling and roots.

use crate::{InputRequest, RequestError, RpcFailure, error::rpc_failure::INTERNAL_ERROR};
use futures_util::FutureExt;
use longhaul_core::{BoxFuture, ClientCapabilities, Json, ParsedJson};
use serde::Serialize;
use serde_json::{Value, json};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

/// Answers what servers ask. One handler serves all ways of asking: requests of a legacy server, multi-round requests (MRTR) and the input requests
/// of tasks.
///
/// [`Inputs`] makes one from closures.
pub trait InputHandler: Send + Sync + 'static {
    /// What is declared to servers. They must not ask anything else.
    fn capabilities(&self) -> ClientCapabilities;

    /// Answers a request. The future is dropped if the answer is no longer wanted, for example because the task has ended.
    ///
    /// An error says that there is no answer, and so does a panic. A legacy server is sent it, and its tool can tell it from an answer. The other ways of asking cannot carry an error: there an elicitation is
    /// answered with `cancel`, and for everything else the call or the task is cancelled. The code −32601 says that nobody was asked: then a call that asks is
    /// given up, and not answered with `cancel`.
    ///
    /// ```
    /// use longhaul_client::{InputResponse, Inputs, RpcFailure};
    /// let inputs = Inputs::new().elicit(|question| async move {
    ///     match question.message() {
    ///         "" => Err(RpcFailure::new(-32603, "there is nothing to show")),
    ///         _ => Ok(InputResponse::decline()),
    ///     }
    /// });
    /// ```
    fn answer(&self, request: InputRequest) -> BoxFuture<'static, Result<InputResponse, RpcFailure>>;

    /// Whether to leave a question where it is, because nobody can be asked now. A legacy task shows its question only to who opens `tasks/result`, and some
    /// servers take it out of their queue then, so it would be lost if it is not recorded. `request` has no details. Default: `false`.
    fn leaves_open(&self, _request: &InputRequest) -> bool {
        false
    }

    /// A legacy server has got the answer to its request, or the error: over HTTP it has accepted the message, over a pipe the message was written.
    fn delivered(&self, _request: &InputRequest) {}

    /// The answer came too late and was not sent, or is ignored: another client has answered, or the task does not ask any more.
    fn not_taken(&self, _request: &InputRequest) {}

    /// The answer cannot be sent: the legacy server has ended the session that the request came in. It may ask again in another one.
    fn lost_with_session(&self, _request: &InputRequest) {}

    /// Whether legacy servers are told that they will be notified when the roots change: see [`Connection::roots_changed`](crate::Connection::roots_changed).
    /// Default: `false`.
    fn roots_change(&self) -> bool {
        false
    }

    /// The user has finished with the page of a URL elicitation (2025-11-25).
    fn elicitation_complete(&self, _elicitation_id: &str) {}

    /// Waits until the user says whether they have finished with the page of a URL elicitation that they have accepted, because a legacy server refuses a call
    /// until then (2025-11-25, error −32042). After `true` the call is made again, after `false` it is given up. The future is dropped if the server says that the
    /// page is finished, and after ten minutes: then the call is made again, too. Default: never completes.
    fn page_finished(&self, _request: &InputRequest) -> BoxFuture<'static, bool> {
        Box::pin(std::future::pending())
    }
}

/// The answer to an [`InputRequest`]: the result that the server gets.
#[derive(Debug, Clone, PartialEq)]
pub struct InputResponse(ParsedJson);

impl InputResponse {
    /// Accepts an elicitation with the form's values.
    ///
    /// ```
    /// use longhaul_client::InputResponse;
    /// let answer = InputResponse::accept(serde_json::json!({"approved": true}));
    /// assert_eq!(answer.as_value()["action"], "accept");
    /// ```
    pub fn accept(content: impl Serialize) -> Self {
        Self(json!({"action": "accept", "content": serde_json::to_value(content).unwrap_or_default()}).into())
    }

    /// Agrees to open the page of a URL elicitation.
    pub fn accept_url() -> Self {
        Self(json!({"action": "accept"}).into())
    }

    /// The user says no.
    pub fn decline() -> Self {
        Self(json!({"action": "decline"}).into())
    }

    /// The user has dismissed the question without a choice.
    pub fn cancel() -> Self {
        Self(json!({"action": "cancel"}).into())
    }

    /// The result of `sampling/createMessage` or another one, as it is.
    pub fn result(result: Value) -> Self {
        Self(result.into())
    }

    /// The same as it is written, also with numbers that a [`Value`] would round.
    pub fn written(result: Json) -> Self {
        Self(result.into())
    }

    /// The client's roots, as (URI, name).
    pub fn roots<'a>(roots: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let roots: Vec<Value> = roots
            .into_iter()
            .map(|(uri, name)| json!({"uri": uri, "name": name}))
            .collect();
        Self(json!({"roots": roots}).into())
    }

    /// The result.
    pub fn as_value(&self) -> &Value {
        &self.0
    }

    /// The result as it is written.
    pub fn as_json(&self) -> &Json {
        self.0.as_json()
    }

    pub(crate) fn into_json(self) -> Json {
        self.0.as_json().clone()
    }

    /// An answer from the journal.
    pub(crate) fn recorded(answer: &Json) -> Result<Self, RequestError> {
        Json::parse(answer.as_str())
            .map(Self::written)
            .map_err(|error| RequestError::Invalid(format!("the recorded answer: {error}")))
    }
}

type AnswerFn = Arc<dyn Fn(InputRequest) -> BoxFuture<'static, Result<InputResponse, RpcFailure>> + Send + Sync>;
type VisitFn = Arc<dyn Fn(InputRequest) -> BoxFuture<'static, bool> + Send + Sync>;

/// An [`InputHandler`] made from closures. Only what has a closure is declared to servers.
///
/// ```
/// use longhaul_client::{InputResponse, Inputs, Options};
/// use serde_json::json;
/// let inputs = Inputs::new()
///     .elicit(|question| async move {
///         println!("{}", question.message());
///         Ok(InputResponse::accept(question.defaults()))
///     })
///     .roots([("file:///srv/data", "data")]);
/// let mut options = Options::named("example", "1.0");
/// options.inputs = Some(inputs.into());
/// ```
#[derive(Clone, Default)]
pub struct Inputs {
    elicit: Option<AnswerFn>,
    open: Option<AnswerFn>,
    visit: Option<VisitFn>,
    sample: Option<AnswerFn>,
    sampling_tools: bool,
    roots: Option<InputResponse>,
    is_deferred: bool,
}

impl Inputs {
    /// A handler that declares nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// A handler that declares elicitation, and leaves what tasks ask to [`TaskHandle::answer`](crate::TaskHandle::answer), in both eras and with or without a
    /// journal. While the call or the task is waited for, [`CallStatus::Task`](crate::CallStatus::Task) has the questions, and so has
    /// [`TaskHandle::questions`](crate::TaskHandle::questions). What is asked before there is a task cannot be answered in this way: the call ends with
    /// [`RequestError::Unanswered`], and a legacy server is sent an error.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use futures_util::StreamExt;
    /// use longhaul_client::{CallStatus, Client, Connection, InputResponse, Inputs, Options};
    ///
    /// let mut options = Options::named("example", "1.0");
    /// options.inputs = Some(Inputs::deferred().into());
    /// let client = Client::new(Connection::open("http://127.0.0.1:7411/mcp", options).await?);
    /// let call = client.start("release", serde_json::json!({"version": "1.2"})).await?;
    /// let mut status = std::pin::pin!(call.status());
    /// while let Some(status) = status.next().await {
    ///     let CallStatus::Task(task) = status else { continue };
    ///     for question in &task.input_requests {
    ///         println!("{}", question.message());
    ///         let key = question.key.as_deref().unwrap_or_default();
    ///         call.answer(key, InputResponse::accept(question.defaults())).await?;
    ///     }
    /// }
    /// println!("{:?}", call.result().await?);
    /// # Ok(()) }
    /// ```
    pub fn deferred() -> Self {
        Self {
            is_deferred: true,
            ..Self::default()
        }
    }

    /// Answers form elicitations.
    #[must_use]
    pub fn elicit<W>(mut self, answer: impl Fn(InputRequest) -> W + Send + Sync + 'static) -> Self
    where
        W: Future<Output = Result<InputResponse, RpcFailure>> + Send + 'static,
    {
        self.elicit = Some(Arc::new(move |request| Box::pin(answer(request))));
        self
    }

    /// Answers URL elicitations: it asks the user, and opens the page. A legacy server may refuse a call until the user has finished with the page; how the client
    /// learns that is said by [`page_finished`](Self::page_finished).
    #[must_use]
    pub fn open_url<W>(mut self, answer: impl Fn(InputRequest) -> W + Send + Sync + 'static) -> Self
    where
        W: Future<Output = Result<InputResponse, RpcFailure>> + Send + 'static,
    {
        self.open = Some(Arc::new(move |request| Box::pin(answer(request))));
        self
    }

    /// Waits until the user says whether they have finished with the page of a URL elicitation that they have agreed to open, and that a call depends on: see
    /// [`InputHandler::page_finished`]. Without this closure the server says it, or [`Connection::page_finished`](crate::Connection::page_finished); if neither
    /// does, the call is made again after ten minutes.
    ///
    /// ```
    /// use longhaul_client::{InputResponse, Inputs};
    /// let inputs = Inputs::new()
    ///     .open_url(|page| async move {
    ///         println!("open {}", page.url().unwrap_or_default());
    ///         Ok(InputResponse::accept_url())
    ///     })
    ///     .page_finished(|_page| async move {
    ///         // Waits until the user has pressed a button.
    ///         true
    ///     });
    /// ```
    #[must_use]
    pub fn page_finished<W>(mut self, finished: impl Fn(InputRequest) -> W + Send + Sync + 'static) -> Self
    where
        W: Future<Output = bool> + Send + 'static,
    {
        self.visit = Some(Arc::new(move |page| Box::pin(finished(page))));
        self
    }

    /// Answers sampling requests, by asking a model. With `tools` also those with tools that the model may call.
    #[must_use]
    pub fn sample<W>(mut self, tools: bool, answer: impl Fn(InputRequest) -> W + Send + Sync + 'static) -> Self
    where
        W: Future<Output = Result<InputResponse, RpcFailure>> + Send + 'static,
    {
        self.sample = Some(Arc::new(move |request| Box::pin(answer(request))));
        self.sampling_tools = tools;
        self
    }

    /// The client's roots, as (URI, name).
    #[must_use]
    pub fn roots<'a>(mut self, roots: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        self.roots = Some(InputResponse::roots(roots));
        self
    }
}

impl InputHandler for Inputs {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities {
            elicitation_form: self.elicit.is_some() || self.is_deferred,
            elicitation_url: self.open.is_some() || self.is_deferred,
            sampling: self.sample.is_some(),
            sampling_tools: self.sampling_tools && self.sample.is_some(),
            roots: self.roots.is_some(),
            ..ClientCapabilities::default()
        }
    }

    fn answer(&self, request: InputRequest) -> BoxFuture<'static, Result<InputResponse, RpcFailure>> {
        let answering = match request.method.as_str() {
            "elicitation/create" if request.url().is_some() => &self.open,
            "elicitation/create" => &self.elicit,
            "sampling/createMessage" => &self.sample,
            "roots/list" => {
                let roots = self.roots.clone().ok_or_else(|| not_offered(&request.method));
                return Box::pin(std::future::ready(roots));
            }
            _ => &None,
        };
        match answering {
            Some(answer) => answer(request),
            None if self.is_deferred && request.is_elicitation() => match request.task.is_some() {
                true => Box::pin(std::future::pending()),
                false => Box::pin(std::future::ready(Err(RpcFailure {
                    code: NOT_OFFERED,
                    message: "this client answers only what a task asks, and there is no task yet".into(),
                    data: None,
                }))),
            },
            None => Box::pin(std::future::ready(Err(not_offered(&request.method)))),
        }
    }

    fn page_finished(&self, request: &InputRequest) -> BoxFuture<'static, bool> {
        match &self.visit {
            Some(visit) => visit(request.clone()),
            None => Box::pin(std::future::pending()),
        }
    }
}

impl From<Inputs> for Arc<dyn InputHandler> {
    fn from(inputs: Inputs) -> Self {
        Arc::new(inputs)
    }
}

/// The answer of the handler. If it panics that is an error, so that the server does not wait for it.
pub(crate) fn answer_by(
    inputs: &dyn InputHandler,
    request: InputRequest,
) -> BoxFuture<'static, Result<InputResponse, RpcFailure>> {
    let method = request.method.clone();
    let panicked = move || {
        tracing::error!(method, "the handler of a server's question panicked");
        Err(RpcFailure::new(INTERNAL_ERROR, "This client failed to answer"))
    };
    match catch_unwind(AssertUnwindSafe(|| inputs.answer(request))) {
        Ok(answer) => Box::pin(async move {
            let answered = AssertUnwindSafe(answer).catch_unwind().await;
            answered.unwrap_or_else(|_| panicked())
        }),
        Err(_) => Box::pin(std::future::ready(panicked())),
    }
}

/// The code of an error that says that nobody was asked: the method is not found (JSON-RPC).
pub(crate) const NOT_OFFERED: i32 = -32601;

/// The error for a request that this client does not serve.
pub(crate) fn not_offered(method: &str) -> RpcFailure {
    RpcFailure {
        code: NOT_OFFERED,
        message: format!("This client does not offer {method}").into(),
        data: None,
    }
}
