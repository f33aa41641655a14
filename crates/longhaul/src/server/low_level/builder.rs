//! Answering below tools, prompts and resources.

use super::{Method, extension, method, notification, subscription};
use crate::{Error, MethodParams, MethodResult, RequestContext, server::Server};
use std::sync::Arc;

impl Server {
    /// Answers a method with a function: a method of your own, or a standard one in place of the server's answer.
    ///
    /// The function is given the params of the request as they came, `_meta` included: as a `Map<String, Value>`, or as a [`RawJson`](crate::RawJson), which is their
    /// text. It returns the members of the result in one of the same two types. A function for `tools/call` may also take a [`ToolCall`](crate::ToolCall) and return a [`CallAnswer`](crate::CallAnswer).
    ///
    /// The name of a method of your own needs a prefix of yours, such as `com.example/status`. The standard methods that you may answer are
    /// `tools/list`, `tools/call`, `prompts/list`, `prompts/get`, `resources/list`, `resources/templates/list`, `resources/read`, `completion/complete` and
    /// `logging/setLevel`. The server answers all others itself, because they act on its tasks, sessions and subscriptions.
    ///
    /// For a standard method
    /// - the server declares the capability, adds the members that the client's era requires (`resultType`, caching hints: by default nothing is
    ///   cached) and leaves out those that it does not have. The rest of the result is sent as it is.
    /// - what was added with [`tool`](Self::tool), [`prompt`](Self::prompt), [`resource`](Self::resource) and [`template`](Self::template) does not
    ///   show in the function's answer.
    /// - report changes with [`ServerHandle::tool_list_changed`](crate::ServerHandle::tool_list_changed), [`prompt_list_changed`](crate::ServerHandle::prompt_list_changed),
    ///   [`resource_list_changed`](crate::ServerHandle::resource_list_changed) and [`resource_updated`](crate::ServerHandle::resource_updated).
    /// - `resources/read` is not given the resources of tasks (`longhaul://task/…`), and any other resource can be subscribed to, unless
    ///   [`on_subscribe`](Self::on_subscribe) refuses it.
    /// - `logging/setLevel` has already set the level of the session's log messages when the function runs.
    ///
    /// The function can ask the user as a prompt or a resource can; a client of the modern era only in `tools/call`, `prompts/get` and `resources/read`.
    ///
    /// # Calls of tools
    ///
    /// A function for `tools/call` is given every call, whatever its name: for tools that are known only while the server runs. What it returns is the result, as it is.
    /// Such a call is a plain call, and no task: it is not stored, its result is not checked against a schema, an error is a JSON-RPC error, a crash ends it, and it is not
    /// repeated under an idempotency key. So the server declares no idempotency keys, and tasks only if it has tools of [`tool`](Self::tool).
    ///
    /// To make a call a task, return [`CallAnswer::call_of`](crate::CallAnswer::call_of) one of those tools: then its arguments are checked, its policy decides whether the call is a task, and everything is as
    /// in a call of the tool itself. A client of MCP 2025-11-25 asks for a task only where your `tools/list` says that there may be one, by `execution.taskSupport`.
    ///
    /// ```
    /// use longhaul::{Error, RequestContext, Server};
    /// use serde_json::{Map, Value, json};
    ///
    /// type Members = Map<String, Value>;
    ///
    /// async fn list(_: RequestContext, _params: Members) -> Result<Members, Error> {
    ///     let files: Vec<Value> = (1..=3).map(|n| json!({"uri": format!("file:///{n}"), "name": format!("{n}")})).collect();
    ///     Ok(Members::from_iter([("resources".to_owned(), files.into())]))
    /// }
    ///
    /// let server = Server::new("hello", "1.0.0")
    ///     .method("resources/list", list)
    ///     .method("com.example/echo", async |_: RequestContext, params: Members| {
    ///         Ok::<_, Error>(Members::from_iter([("echo".to_owned(), params["text"].clone())]))
    ///     });
    /// ```
    ///
    /// Tools that are made up while the server runs, one of them durable:
    ///
    /// ```
    /// use longhaul::{CallAnswer, Error, Json, RawJson, RequestContext, Server, StepError, TaskContext, Tool, ToolCall, ToolResult};
    /// use serde_json::{Map, Value, json};
    ///
    /// async fn list(_: RequestContext, _params: Map<String, Value>) -> Result<RawJson, Error> {
    ///     let tool = |name: &str, task_support: &str| {
    ///         json!({"name": name, "inputSchema": {"type": "object"}, "execution": {"taskSupport": task_support}})
    ///     };
    ///     Ok(json!({"tools": [tool("ping", "forbidden"), tool("render_2026", "optional")]}).into())
    /// }
    ///
    /// async fn call(_: RequestContext, call: ToolCall) -> Result<CallAnswer, Error> {
    ///     match call.name.split_once('_') {
    ///         Some(("render", year)) => Ok(CallAnswer::call_of("render", json!({"year": year}))),
    ///         _ if call.name == "ping" => Ok(CallAnswer::text("pong")),
    ///         _ => Err(Error::not_found()),
    ///     }
    /// }
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Year { year: String }
    ///
    /// async fn render(cx: TaskContext, args: Year) -> ToolResult<String> {
    ///     let frames = cx.step("render", async || Ok::<_, StepError>(24)).await?;
    ///     Ok(format!("{frames} frames of {}", args.year))
    /// }
    ///
    /// let server = Server::new("studio", "1.0.0")
    ///     .tool(Tool::durable("render", render))
    ///     .method("tools/list", list)
    ///     .method("tools/call", call);
    /// ```
    pub fn method<F, W, P, R>(mut self, name: impl Into<Arc<str>>, function: F) -> Self
    where
        F: Fn(RequestContext, P) -> W + Send + Sync + 'static,
        W: Future<Output = Result<R, Error>> + Send + 'static,
        P: MethodParams,
        R: MethodResult,
    {
        self.methods.push(Method::new(name, function));
        self
    }

    /// Answers requests of methods that nobody else answers: neither MCP, in any revision, nor a [`method`](Self::method) of yours. The function is given the name of the
    /// method and the params. [`Error::not_found`] says that there is no such method. Everyone who is served may send such requests, so check
    /// [`principal`](RequestContext::principal) if it matters.
    ///
    /// ```
    /// use longhaul::{Error, RequestContext, Server};
    /// use serde_json::{Map, Value, json};
    ///
    /// let server = Server::new("hello", "1.0.0").fallback_method(async |_: RequestContext, method: String, params: Map<String, Value>| {
    ///     match method.strip_prefix("acme/") {
    ///         Some(name) => Ok(Map::from_iter([("asked".to_owned(), json!([name, params]))])),
    ///         None => Err(Error::not_found()),
    ///     }
    /// });
    /// ```
    pub fn fallback_method<F, W, P, R>(mut self, function: F) -> Self
    where
        F: Fn(RequestContext, String, P) -> W + Send + Sync + 'static,
        W: Future<Output = Result<R, Error>> + Send + 'static,
        P: MethodParams,
        R: MethodResult,
    {
        self.author.fallback_method = Some(method::fallback(function));
        self
    }

    /// Declares an extension of yours with these settings, an object, such as `json!({})`: to modern clients in `capabilities.extensions`, to legacy ones, which
    /// know no extensions, in `capabilities.experimental`. The name needs a prefix of yours. What the extension does is yours to answer, with
    /// [`method`](Self::method), [`notification`](Self::notification) and `_meta`.
    ///
    /// ```
    /// use longhaul::Server;
    /// use serde_json::json;
    /// let server = Server::new("hello", "1.0.0").extension("com.example/reports", json!({"formats": ["pdf"]}));
    /// ```
    pub fn extension(mut self, name: impl Into<Arc<str>>, settings: serde_json::Value) -> Self {
        let name = name.into();
        self.author.extensions.push(extension::Extension { name, settings });
        self
    }

    /// Calls a function for each notification of this method that a client sends: `notifications/roots/list_changed`, or one of your own. The server has handled it
    /// before, if it is one that the server knows, such as `notifications/initialized` or `notifications/cancelled`.
    ///
    /// The function runs beside what comes after the notification, and up to 64 run at once for one principal. It belongs to no request, so it cannot ask anything, and what it
    /// reports goes nowhere. An error is logged. A notification is lost if the server stops.
    ///
    /// ```
    /// use longhaul::{Error, RequestContext, Server};
    /// use serde_json::{Map, Value};
    ///
    /// let server = Server::new("hello", "1.0.0")
    ///     .notification("notifications/roots/list_changed", async |cx: RequestContext, _params: Map<String, Value>| {
    ///         println!("{} has other roots", cx.principal().as_str());
    ///         Ok::<_, Error>(())
    ///     });
    /// ```
    pub fn notification<F, W, P>(mut self, name: impl Into<Arc<str>>, function: F) -> Self
    where
        F: Fn(RequestContext, P) -> W + Send + Sync + 'static,
        W: Future<Output = Result<(), Error>> + Send + 'static,
        P: MethodParams,
    {
        let function = notification::function(move |cx, _, params| function(cx, params));
        let name = name.into();
        self.author
            .notifications
            .push(notification::Notification { name, function });
        self
    }

    /// Calls a function for each notification that neither MCP, in any revision, nor a [`notification`](Self::notification) of yours knows. The function is given its
    /// method and its params.
    ///
    /// ```
    /// use longhaul::{Error, RawJson, RequestContext, Server};
    ///
    /// let server = Server::new("hello", "1.0.0").fallback_notification(async |_: RequestContext, method: String, params: RawJson| {
    ///     println!("{method}: {}", params.as_str());
    ///     Ok::<_, Error>(())
    /// });
    /// ```
    pub fn fallback_notification<F, W, P>(mut self, function: F) -> Self
    where
        F: Fn(RequestContext, String, P) -> W + Send + Sync + 'static,
        W: Future<Output = Result<(), Error>> + Send + 'static,
        P: MethodParams,
    {
        self.author.fallback_notification = Some(notification::function(function));
        self
    }

    /// Calls a function when a client subscribes to a resource, by `resources/subscribe` or `subscriptions/listen`, so that you watch only what somebody wants to know.
    /// What the function returns is kept while the subscription lasts and dropped at its end: when the client unsubscribes, ends its stream or its session, or closes its
    /// connection. A client that leaves a session over HTTP without ending it stays subscribed until the session is removed. Report changes with
    /// [`ServerHandle::resource_updated`](crate::ServerHandle::resource_updated).
    ///
    /// The function is asked about resources that exist: those of [`resource`](Self::resource) and [`template`](Self::template), and all if you answer `resources/read`; but not
    /// about those of tasks. If it returns an error, the resource is not subscribed to. A legacy client gets that error; a modern one sees that the acknowledgement of its
    /// subscription leaves the resource out. The function cannot ask anything. With several subscribers it is called for each.
    ///
    /// ```
    /// use longhaul::{Error, RequestContext, ResourceTemplate, Server};
    /// use std::time::Duration;
    /// use tokio::task::AbortHandle;
    ///
    /// /// Ends the polling.
    /// struct Watching(AbortHandle);
    ///
    /// impl Drop for Watching {
    ///     fn drop(&mut self) {
    ///         self.0.abort();
    ///     }
    /// }
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Sensor { id: u64 }
    ///
    /// async fn watch(cx: RequestContext, uri: String) -> Result<Watching, Error> {
    ///     if uri == "sensor://13" {
    ///         return Err(Error::new("sensor 13 cannot be watched: read it instead"));
    ///     }
    ///     let server = cx.server().clone();
    ///     let polling = tokio::spawn(async move {
    ///         loop {
    ///             tokio::time::sleep(Duration::from_secs(5)).await;
    ///             server.resource_updated(&*uri);
    ///         }
    ///     });
    ///     Ok(Watching(polling.abort_handle()))
    /// }
    ///
    /// let server = Server::new("sensors", "1.0.0")
    ///     .template(ResourceTemplate::new("sensor://{id}", async |sensor: Sensor| format!("{} degrees", sensor.id)))
    ///     .on_subscribe(watch);
    /// ```
    pub fn on_subscribe<F, W, G>(mut self, function: F) -> Self
    where
        F: Fn(RequestContext, String) -> W + Send + Sync + 'static,
        W: Future<Output = Result<G, Error>> + Send + 'static,
        G: Send + Sync + 'static,
    {
        self.author.on_subscribe = Some(subscription::function(function));
        self
    }
}
