//! A client of the gateway: with tasks of either generation, or without.

use crate::{
    upstream::Tasks,
    world::{Seen, guarded},
};
use http::HeaderMap;
use longhaul_client::{
    CallOptions, CallResponse, Connection, Event, InputResponse, Inputs, Options, Outcome, RequestError, RpcFailure,
    TaskHandle,
};
use serde_json::{Map, Value, json};

/// A connected client, whose user answers each question with yes.
pub(crate) struct Client {
    pub(crate) connection: Connection,
    pub(crate) tasks: Tasks,
    /// The questions that its user was asked.
    pub(crate) asked: Seen<String>,
}

/// What became of a call, as far as the client knows.
pub(crate) enum Called {
    Done(Outcome),
    Task(TaskHandle),
}

impl Client {
    pub(crate) fn connect(url: &str, tasks: Tasks) -> Self {
        Self::connect_as(url, tasks, None)
    }

    pub(crate) fn connect_as(url: &str, tasks: Tasks, user: Option<&str>) -> Self {
        let asked = Seen::<String>::default();
        let mut options = Options::named("client", "1.0.0");
        options.era = tasks.era();
        if let Some(user) = user {
            options.headers = HeaderMap::from_iter([("x-user".parse().unwrap(), user.parse().unwrap())]).into();
        }
        let list = asked.clone();
        let inputs = Inputs::new().elicit(move |question| {
            list.lock().unwrap().push(question.message().to_owned());
            std::future::ready(Ok(InputResponse::accept(json!({"confirm": true}))))
        });
        options.inputs = Some(inputs.into());
        Self {
            connection: Connection::lazy(url, options).unwrap(),
            tasks,
            asked,
        }
    }

    /// Calls a tool; returns when there is a result or a task.
    pub(crate) async fn start(&self, tool: &str, arguments: Value) -> Result<Called, RequestError> {
        let arguments = arguments.as_object().unwrap().clone();
        // Boxed: a test awaits many.
        guarded(tool, Box::pin(self.send(tool, arguments))).await
    }

    /// Calls a tool whose call becomes a task.
    pub(crate) async fn task(&self, tool: &str, arguments: Value) -> TaskHandle {
        match self.start(tool, arguments).await.unwrap() {
            Called::Task(task) => task,
            Called::Done(outcome) => panic!("no task: {outcome:?}"),
        }
    }

    /// Calls a tool without a task; returns its end. `on_progress` gets the messages of its progress.
    pub(crate) async fn call_plainly(
        &self,
        tool: &str,
        mut on_progress: impl FnMut(&str) + Send,
    ) -> Result<CallResponse, RequestError> {
        let listed = self.connection.tool(tool).await?.expect("a tool of this name");
        let mut options = CallOptions::default();
        options.without_task = true;
        let on_event = &mut |event: Event<'_>| {
            if let Event::Progress(progress) = event {
                on_progress(progress.message.as_deref().unwrap_or_default());
            }
        };
        let arguments = Map::new();
        let call = self.connection.call_tool_with(&listed, &arguments, &options, on_event);
        guarded(tool, call).await
    }

    async fn send(&self, tool: &str, arguments: Map<String, Value>) -> Result<Called, RequestError> {
        if self.tasks == Tasks::None {
            let params = json!({"name": tool, "arguments": arguments});
            let result = self.connection.send("tools/call", params).await?;
            return Ok(Called::Done(Outcome::result(result)));
        }
        let tool = self.connection.tool(tool).await?.expect("a tool of this name");
        Ok(match self.connection.call_tool(&tool, &arguments, &mut |_| {}).await? {
            CallResponse::Done(outcome) => Called::Done(outcome),
            CallResponse::Task(task) => Called::Task(task),
        })
    }

    /// Calls a tool, and waits for the end of its task.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Result<Outcome, RequestError> {
        match self.start(tool, arguments).await? {
            Called::Done(outcome) => Ok(outcome),
            Called::Task(task) => guarded(tool, task.wait(&mut |_: Event<'_>| {})).await,
        }
    }

    /// As [`call`](Self::call), the result as JSON without `_meta`.
    pub(crate) async fn result(&self, tool: &str, arguments: Value) -> Value {
        match self.call(tool, arguments).await.unwrap() {
            Outcome::Result { json, .. } => {
                let mut result: Value = serde_json::from_str(json.as_str()).unwrap();
                result.as_object_mut().unwrap().remove("_meta");
                result.as_object_mut().unwrap().remove("resultType");
                result
            }
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn text(&self, tool: &str, arguments: Value) -> String {
        let result = self.result(tool, arguments).await;
        result["content"][0]["text"].as_str().unwrap_or_default().to_owned()
    }
}

/// Waits until the status message of a task is such a one.
pub(crate) async fn says(task: &TaskHandle, what: &str, is_met: impl Fn(&str) -> bool) {
    let says = async {
        while !task.get().await.unwrap().message.as_deref().is_some_and(&is_met) {
            tokio::task::yield_now().await;
        }
    };
    guarded(what, says).await;
}

/// How a task ends.
pub(crate) async fn end(task: &TaskHandle) -> Outcome {
    guarded("the end", task.wait(&mut |_| {})).await.unwrap()
}

/// The result of a tool that has succeeded.
#[track_caller]
pub(crate) fn success(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Result { json, is_error: false } => json.as_str(),
        other => panic!("{other:?}"),
    }
}

/// Why a call could not be carried through.
#[track_caller]
pub(crate) fn failure(outcome: &Outcome) -> &RpcFailure {
    match outcome {
        Outcome::RpcError(failure) => failure,
        other => panic!("{other:?}"),
    }
}
