//! What a server asks of the client's user: elicitation, sampling and roots.

use crate::{RequestError, RequestRef, RpcFailure};
use longhaul_core::{BoxFuture, ClientCapabilities, Json};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Answers what servers ask. One handler serves all ways of asking: requests of a legacy server, multi-round requests (MRTR) and the input requests
/// of tasks.
///
/// [`Inputs`] makes one from closures.
pub trait InputHandler: Send + Sync + 'static {
    /// What is declared to servers. They must not ask anything else.
    fn capabilities(&self) -> ClientCapabilities;

    /// Answers a request. The future is dropped if the answer is no longer wanted, for example because the task has ended.
    ///
    /// An error says that there is no answer. A legacy server is sent it. The other ways of asking cannot carry an error: there an elicitation is
    /// answered with `cancel`, and for everything else the call or the task is cancelled. The code −32601 says that nobody was asked: then a call that asks is
    /// given up, and not answered with `cancel`.
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

/// A request to the client's user.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct InputRequest {
    /// Its name among the input requests of its call or task. A request of a legacy server has one if it is recorded: see
    /// [`TaskHandle::recorded_questions`](crate::TaskHandle::recorded_questions).
    pub key: Option<String>,
    /// The task that asks, if it is one.
    pub task: Option<String>,
    /// The [number](crate::CallOptions::source) of the call or request that asks, if it has one and the server asks in a response to it, or on its stream.
    pub source: Option<u64>,
    /// By what it can be answered from another process, if it is a request of a legacy server over HTTP: see
    /// [`TaskHandle::with_earlier_requests`](crate::TaskHandle::with_earlier_requests).
    pub request: Option<Box<RequestRef>>,
    /// `elicitation/create`, `sampling/createMessage` or `roots/list`.
    pub method: String,
    /// The request's params, as they came.
    pub params: Value,
}

impl InputRequest {
    pub(crate) fn new(key: Option<String>, task: Option<String>, request: Value) -> Self {
        let Value::Object(mut request) = request else {
            return Self {
                key,
                task,
                source: None,
                request: None,
                method: String::new(),
                params: Value::Null,
            };
        };
        let method = match request.remove("method") {
            Some(Value::String(method)) => method,
            _ => String::new(),
        };
        Self {
            key,
            task,
            source: None,
            request: None,
            method,
            params: request.remove("params").unwrap_or_default(),
        }
    }

    /// The text that the user is shown; empty if there is none.
    pub fn message(&self) -> &str {
        self.params["message"].as_str().unwrap_or_default()
    }

    /// The page that the user is sent to, if this is a URL elicitation.
    pub fn url(&self) -> Option<&str> {
        self.params["url"].as_str().filter(|_| self.params["mode"] == "url")
    }

    /// The JSON Schema of the form, if this is a form elicitation.
    pub fn schema(&self) -> Option<&Value> {
        self.params.get("requestedSchema")
    }

    /// The defaults of the form's fields: an answer that leaves all of them as they are.
    pub fn defaults(&self) -> Map<String, Value> {
        let fields = self.schema().and_then(|schema| schema["properties"].as_object());
        let defaults = fields.into_iter().flatten();
        defaults
            .filter_map(|(name, field)| Some((name.clone(), field.get("default")?.clone())))
            .collect()
    }

    /// Whether it is an elicitation.
    pub fn is_elicitation(&self) -> bool {
        self.method == "elicitation/create"
    }
}

/// The answer to an [`InputRequest`]: the result that the server gets.
#[derive(Debug, Clone, PartialEq)]
pub struct InputResponse(Value);

impl InputResponse {
    /// Accepts an elicitation with the form's values.
    ///
    /// ```
    /// use longhaul_client::InputResponse;
    /// let answer = InputResponse::accept(serde_json::json!({"approved": true}));
    /// assert_eq!(answer.as_value()["action"], "accept");
    /// ```
    pub fn accept(content: impl Serialize) -> Self {
        Self(json!({"action": "accept", "content": serde_json::to_value(content).unwrap_or_default()}))
    }

    /// Agrees to open the page of a URL elicitation.
    pub fn accept_url() -> Self {
        Self(json!({"action": "accept"}))
    }

    /// The user says no.
    pub fn decline() -> Self {
        Self(json!({"action": "decline"}))
    }

    /// The user has dismissed the question without a choice.
    pub fn cancel() -> Self {
        Self(json!({"action": "cancel"}))
    }

    /// The result of `sampling/createMessage` or another one, as it is.
    pub fn result(result: Value) -> Self {
        Self(result)
    }

    /// The client's roots, as (URI, name).
    pub fn roots<'a>(roots: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let roots: Vec<Value> = roots
            .into_iter()
            .map(|(uri, name)| json!({"uri": uri, "name": name}))
            .collect();
        Self(json!({"roots": roots}))
    }

    /// The result.
    pub fn as_value(&self) -> &Value {
        &self.0
    }

    pub(crate) fn into_value(self) -> Value {
        self.0
    }

    /// An answer from the journal.
    pub(crate) fn recorded(answer: &Json) -> Result<Self, RequestError> {
        serde_json::from_str(answer.as_str())
            .map(Self)
            .map_err(|error| RequestError::Invalid(format!("the recorded answer: {error}")))
    }
}

type Answering = Arc<dyn Fn(InputRequest) -> BoxFuture<'static, Result<InputResponse, RpcFailure>> + Send + Sync>;

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
    elicit: Option<Answering>,
    open: Option<Answering>,
    sample: Option<Answering>,
    sampling_tools: bool,
    roots: Option<InputResponse>,
    is_deferred: bool,
}

impl Inputs {
    /// A handler that declares nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// A handler that declares elicitation, and leaves what tasks ask to [`TaskHandle::answer`](crate::TaskHandle::answer). What is asked
    /// before there is a task cannot be answered in this way: the call ends with [`RequestError::Unanswered`], and a legacy server is sent an error.
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

    /// Answers URL elicitations: it asks the user, and opens the page.
    #[must_use]
    pub fn open_url<W>(mut self, answer: impl Fn(InputRequest) -> W + Send + Sync + 'static) -> Self
    where
        W: Future<Output = Result<InputResponse, RpcFailure>> + Send + 'static,
    {
        self.open = Some(Arc::new(move |request| Box::pin(answer(request))));
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
}

impl From<Inputs> for Arc<dyn InputHandler> {
    fn from(inputs: Inputs) -> Self {
        Arc::new(inputs)
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
