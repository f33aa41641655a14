//! Tools: functions that models call.

mod ask_before;
mod build;
mod call_text;
mod confirm;
mod executor;
mod handler;
mod name;
mod output;
mod secrets;

pub use handler::ToolHandler;
pub(crate) use name::check as check_name;
pub use output::{IntoToolOutput, Json, ToolOutput, ToolResult};

use crate::{Arguments, Error, Icon, RequestContext, ServerHandle, time::whole_millis};
use handler::BoxedToolHandler;
use longhaul_command::in_process;
use longhaul_core::{ConfirmBy, Json as RawJson, OnNonDeterminism, Priority, Retry, RetryOn, StartRate, TaskPolicy};
use longhaul_runtime::{Executor, Handoff, Intake, ToolSettings};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::{sync::Arc, time::Duration};

/// How many attempts of a durable tool may fail in a row without a new journal entry.
const DURABLE_ATTEMPTS: u32 = 5;
/// The wait before the second of them.
const DURABLE_BACKOFF: Duration = Duration::from_millis(200);

/// A function that models call, with its description and settings.
///
/// The function is async. It may take a [`TaskContext`](crate::TaskContext) and its arguments: any type that derives `Deserialize` and
/// [`JsonSchema`](schemars::JsonSchema). Arguments that do not fit are refused before it runs, with an error that a model can act on. For what
/// it may return see [`IntoToolOutput`]. Its future must be `Send`.
///
/// ```
/// use longhaul::{TaskContext, Tool, ToolOutput, ToolResult};
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Render {
///     /// Which scene.
///     scene: String,
///     /// From 1 to 100.
///     #[schemars(range(min = 1, max = 100))]
///     quality: u8,
/// }
/// async fn render(cx: TaskContext, args: Render) -> ToolResult {
///     for frame in 1..=240 {
///         // Ends the function here if the call was cancelled.
///         cx.progress(frame, 240).await?;
///     }
///     Ok(ToolOutput::text(format!("{} at {} %", args.scene, args.quality)))
/// }
/// let tool = Tool::new("render", render).description("Renders a scene").concurrency(2);
/// ```
pub struct Tool {
    /// Without a description: that of its arguments' type.
    settings: ToolSettings<Implementation>,
    intake: Option<MakeIntake>,
    /// The template of what is unique.
    unique: Option<String>,
    /// Names and templates.
    labels: Vec<(String, String)>,
    /// The template of what has its own concurrency.
    concurrency_key: Option<String>,
    /// The template of the question whether a call may run.
    confirm: Option<String>,
    confirm_by: Option<ConfirmBy>,
}

/// Makes the intake once its server is known.
type MakeIntake = Box<dyn FnOnce(ServerHandle) -> Arc<dyn Intake> + Send>;

/// How a tool's calls are run.
enum Implementation {
    Function { handler: BoxedToolHandler, durable: bool },
    Executor(Arc<dyn Executor>),
}

impl Tool {
    /// A tool that runs a function of this process.
    ///
    /// The name is unique on its server: 1 to 128 of `A-Z a-z 0-9 _ - .`. The schemas come from the function's types.
    pub fn new<In: 'static, H>(name: impl Into<Arc<str>>, handler: H) -> Self
    where
        H: ToolHandler<In, Output: IntoToolOutput, Future: Send>,
    {
        Self::function(name.into(), handler, false)
    }

    /// A tool whose calls survive this process: as [`new`](Self::new), with a journal. Each completed operation of the function's
    /// [`TaskContext`](crate::TaskContext) is recorded. After a crash, a restart or a long wait the function is **replayed**: it runs again
    /// from its start, and operations with a recorded result return that result without running again.
    ///
    /// So the function must be deterministic: effects, and everything that may differ the next time (the time, randomness, files), belong into
    /// these operations. A replay that asks for something else than the journal has is a non-determinism error, and blocks the task.
    ///
    /// | operation | what is recorded |
    /// | --- | --- |
    /// | [`step`](crate::TaskContext::step) | what its work returned |
    /// | [`elicit`](crate::RequestContext::elicit) and other questions | the question and its answer |
    /// | [`sleep`](crate::TaskContext::sleep), [`sleep_until`](crate::TaskContext::sleep_until) | when it ends |
    /// | [`call`](crate::TaskContext::call) | the child task and its outcome |
    /// | [`poll_until`](crate::TaskContext::poll_until) | the number of polls and what was found |
    /// | [`now`](crate::TaskContext::now), [`random`](crate::TaskContext::random), [`version`](crate::TaskContext::version) | the value |
    /// | [`emit`](crate::TaskContext::emit) | the output |
    /// | [`join`](crate::TaskContext::join), [`select`](crate::TaskContext::select) | which branch was first |
    ///
    /// An attempt that crashes or panics is followed by another. After 5 in a row without a new journal entry the task is blocked until another
    /// build of the program retries it ([`blocked_timeout`](Self::blocked_timeout)); [`retry`](Self::retry) changes the number. What survives
    /// the process depends on the store: see [`Server`](crate::Server).
    ///
    /// The module [`guide`](crate::guide) explains durable tools.
    ///
    /// ```
    /// use longhaul::{TaskContext, Tool, ToolOutput, ToolResult, time::{Timestamp, days}};
    /// use serde_json::json;
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Release { rev: String }
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Approval {
    ///     approved: bool,
    ///     /// When to publish.
    ///     window: Timestamp,
    /// }
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct Build { id: u64 }
    /// # async fn build(_: &str) -> Result<Build, std::io::Error> { Ok(Build { id: 1 }) }
    /// # async fn publish(_: &Build) -> Result<(), std::io::Error> { Ok(()) }
    ///
    /// async fn release(cx: TaskContext, args: Release) -> ToolResult {
    ///     let build = cx.step("build", || build(&args.rev)).await?; // recorded: does not run again after a crash
    ///     cx.status(format!("built {}", build.id)).await?;
    ///     let ok: Approval = cx.elicit("Ship it?").within(days(3)).await?; // suspended while it waits
    ///     if !ok.approved {
    ///         return Ok(ToolOutput::text("declined"));
    ///     }
    ///     cx.sleep_until(ok.window).await?; // a durable timer
    ///     let smoke = cx.call("smoke_tests", json!({"build": build.id})).await?; // a child task
    ///     cx.step("publish", || publish(&build)).max_attempts(5).idempotency_key(cx.idempotency_key("publish")).await?;
    ///     Ok(ToolOutput::json(&smoke)?)
    /// }
    /// let tool = Tool::durable("release", release).description("Builds, asks, and ships");
    /// ```
    pub fn durable<In: 'static, H>(name: impl Into<Arc<str>>, handler: H) -> Self
    where
        H: ToolHandler<In, Output: IntoToolOutput, Future: Send>,
    {
        Self::function(name.into(), handler, true).retry(DURABLE_ATTEMPTS, DURABLE_BACKOFF, [RetryOn::Crash])
    }

    fn function<In: 'static, H>(name: Arc<str>, handler: H, durable: bool) -> Self
    where
        H: ToolHandler<In, Output: IntoToolOutput, Future: Send>,
    {
        let handler = BoxedToolHandler::new(handler);
        let implementation = Implementation::Function { handler, durable };
        let mut settings = ToolSettings::new(name, in_process::KIND, RawJson::trusted("{}"), implementation);
        settings.input_schema = H::input_schema();
        settings.output_schema = H::Output::output_schema();
        Self::with(settings)
    }

    fn with(settings: ToolSettings<Implementation>) -> Self {
        Self {
            settings,
            intake: None,
            unique: None,
            labels: Vec::new(),
            concurrency_key: None,
            confirm: None,
            confirm_by: None,
        }
    }

    /// A tool whose calls are run by an [`Executor`] of your own. `kind` and `definition` are stored with its tasks, so that a
    /// [`Provider`](longhaul_runtime::Provider) of that kind can run them after the tool has changed.
    ///
    /// ```
    /// use longhaul::{
    ///     Era, Outcome, RawJson, Server, Tool,
    ///     internals::{core::BoxFuture, runtime::{ExecutorAttempt, ExecutionEnd, Executor, TaskContext}},
    /// };
    /// use serde_json::json;
    /// use std::sync::Arc;
    ///
    /// struct Hello;
    ///
    /// impl Executor for Hello {
    ///     fn run(self: Arc<Self>, attempt: ExecutorAttempt, _cx: TaskContext) -> BoxFuture<'static, ExecutionEnd> {
    ///         let text = format!("Hello from attempt {}", attempt.epoch);
    ///         let result = json!({"content": [{"type": "text", "text": text}]});
    ///         Box::pin(async move { ExecutionEnd::Finished(Outcome::result(RawJson::from(result))) })
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let tool = Tool::executor("hello", json!({"type": "object"}), "hello", RawJson::from(json!({})), Arc::new(Hello));
    /// let client = Server::new("test", "1.0.0").tool(tool).in_memory(Era::Modern).await?;
    /// assert_eq!(client.call("hello", json!({})).await?.text(), "Hello from attempt 1");
    /// # Ok(()) }
    /// ```
    pub fn executor(
        name: impl Into<Arc<str>>,
        input_schema: Value,
        kind: impl Into<Arc<str>>,
        definition: RawJson,
        executor: Arc<dyn Executor>,
    ) -> Self {
        let mut settings = ToolSettings::new(name, kind, definition, Implementation::Executor(executor));
        settings.input_schema = input_schema;
        Self::with(settings)
    }

    /// What it does and when to use it, for the model. By default the doc comment of the arguments' type.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.settings.description = text.into();
        self
    }

    /// Its display name.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.settings.title = Some(title.into());
        self
    }

    /// An icon; may be called several times.
    #[must_use]
    pub fn icon(mut self, icon: Icon) -> Self {
        let icons = self.settings.icons.get_or_insert_with(|| json!([]));
        if let Value::Array(icons) = icons {
            icons.push(json!(icon));
        }
        self
    }

    /// Says that it changes nothing, so [`retry`](Self::retry) may run it again after a crash.
    #[must_use]
    pub fn read_only(self) -> Self {
        self.hint("readOnlyHint", true)
    }

    /// Says whether it may destroy something. Without this hint clients assume that a tool that is not read-only may.
    #[must_use]
    pub fn destructive(self, destructive: bool) -> Self {
        self.hint("destructiveHint", destructive)
    }

    /// Says that calling it again with the same arguments changes nothing more.
    #[must_use]
    pub fn idempotent(self) -> Self {
        self.hint("idempotentHint", true)
    }

    /// Says whether it deals with the outside world, as a web search does. Clients assume so by default.
    #[must_use]
    pub fn open_world(self, open: bool) -> Self {
        self.hint("openWorldHint", open)
    }

    fn hint(mut self, name: &str, value: bool) -> Self {
        self.settings.annotations.get_or_insert_with(|| json!({}))[name] = value.into();
        self
    }

    /// All MCP annotations at once. Replaces those set before.
    #[must_use]
    pub fn annotations(mut self, annotations: Map<String, Value>) -> Self {
        self.settings.annotations = (!annotations.is_empty()).then(|| annotations.into());
        self
    }

    /// `_meta` of the tool. Names need a prefix of your own, such as `com.example/team`.
    #[must_use]
    pub fn meta(mut self, meta: Map<String, Value>) -> Self {
        self.settings.meta = Some(Value::Object(meta));
        self
    }

    /// The JSON Schema of the arguments, an object schema. Replaces the one derived from their type.
    ///
    /// ```
    /// use longhaul::Tool;
    /// use serde_json::{Value, json};
    /// let echo = Tool::new("echo", async |args: Value| args["text"].to_string())
    ///     .input_schema(json!({"type": "object", "properties": {"text": {"type": "string"}}}));
    /// ```
    #[must_use]
    pub fn input_schema(mut self, schema: Value) -> Self {
        self.settings.input_schema = schema;
        self
    }

    /// The JSON Schema of `structuredContent`. Replaces the one derived from [`Json`]. Each result is checked against it.
    #[must_use]
    pub fn output_schema(mut self, schema: Value) -> Self {
        self.settings.output_schema = Some(schema);
        self
    }

    /// Which calls become tasks; by default those of clients that support tasks.
    #[must_use]
    pub fn task(mut self, policy: TaskPolicy) -> Self {
        self.settings.policy = policy;
        self
    }

    /// What a host may tell its model when a call has become a task, until there is a result (MCP 2025-11-25, Tasks, "Model immediate response").
    /// By default a sentence that the tool runs in the background. Hosts may ignore it, and clients of 2026-07-28 are not sent it.
    ///
    /// ```
    /// use longhaul::Tool;
    /// let render = Tool::new("render", async || "done")
    ///     .immediate_response("Rendering has started and takes some minutes. Continue with something else.");
    /// ```
    #[must_use]
    pub fn immediate_response(mut self, text: impl Into<String>) -> Self {
        self.settings.immediate_response = Some(text.into());
        self
    }

    /// For clients without tasks: after this time the call is answered with "still running", and the client follows it with the tools `task_wait`,
    /// `task_status`, `task_cancel` and `task_list`. Without a hand-off such a client waits, and many give up after a minute; one that calls a tool which
    /// [only runs as a task](TaskPolicy::Always) gets an error, and with a hand-off that answer at once. No other tool of the server may have one of those names.
    /// The [`Tool::output_schema`] that such a client is shown also allows that answer.
    ///
    /// ```
    /// use longhaul::{Tool, time::{days, minutes, seconds}};
    /// let build = Tool::new("build", async || "built")
    ///     .handoff(seconds(45)) // for clients without tasks
    ///     .queue_timeout(minutes(10))
    ///     .deadline(minutes(90))
    ///     .retention(days(7))
    ///     .max_retention(days(30));
    /// ```
    #[must_use]
    pub fn handoff(mut self, after: Duration) -> Self {
        self.settings.handoff = Handoff::After(whole_millis(after));
        self
    }

    /// As [`handoff`](Self::handoff) after 45 seconds, as `longhaul serve` does with commands; but not while a tool of the server has one of the names of those
    /// tools, so no name is reserved.
    ///
    /// ```
    /// let build = longhaul::Tool::new("build", async || "built").default_handoff();
    /// ```
    #[must_use]
    pub fn default_handoff(mut self) -> Self {
        self.settings.handoff = Handoff::Default;
        self
    }

    /// How long a call may take in all, from its creation to its end, with all attempts and waits. By default there is no limit.
    #[must_use]
    pub fn deadline(mut self, limit: Duration) -> Self {
        self.settings.deadline = Some(whole_millis(limit));
        self
    }

    /// How long a call may wait in the queue. By default there is no limit.
    #[must_use]
    pub fn queue_timeout(mut self, limit: Duration) -> Self {
        self.settings.queue_timeout = Some(whole_millis(limit));
        self
    }

    /// How long a question waits for its answer, unless it sets [`within`](crate::Ask::within); by default 7 days.
    #[must_use]
    pub fn input_timeout(mut self, limit: Duration) -> Self {
        self.settings.input_timeout = whole_millis(limit);
        self
    }

    /// How long a task is kept after its end; by default a day. [`Duration::MAX`] keeps it forever. Kept tasks count towards the quotas.
    ///
    /// A client of 2025-11-25 can ask for another time with `task.ttl`: from a minute up to the longer of this and
    /// [`max_retention`](Self::max_retention).
    #[must_use]
    pub fn retention(mut self, time: Duration) -> Self {
        self.settings.retention = whole_millis(time);
        self
    }

    /// The longest [`retention`](Self::retention) that a client can ask for; by default it cannot ask for a longer one.
    #[must_use]
    pub fn max_retention(mut self, time: Duration) -> Self {
        self.settings.max_retention = Some(whole_millis(time));
        self
    }

    /// How many calls may run at once; more wait in the queue. By default as many as the server allows. With a
    /// [`concurrency_key`](Self::concurrency_key): how many with the same value.
    #[must_use]
    pub fn concurrency(mut self, limit: usize) -> Self {
        self.settings.concurrency = Some(limit.max(1));
        self
    }

    /// The priority of its calls, from 0 (the default) to 9: of the calls that wait for a slot, those with the highest begin first, also before those of
    /// other tools. A client can ask for a lower one with `dev.longhaul/priority` in `_meta`. A greater number counts as 9.
    #[must_use]
    pub fn priority(mut self, priority: u8) -> Self {
        self.settings.priority = Priority::new(priority).unwrap_or(Priority::HIGHEST);
        self
    }

    /// How often attempts of this tool begin at most, on all servers that share a store: `"10/m"` for one each six seconds, with `s`, `m` or `h` and a
    /// number from 1 to 1000. Retries count.
    ///
    /// ```
    /// use longhaul::Tool;
    /// let notify = Tool::new("notify", async || "sent").start_rate("10/m".parse()?);
    /// # Ok::<(), longhaul::InvalidStartRate>(())
    /// ```
    #[must_use]
    pub fn start_rate(mut self, rate: StartRate) -> Self {
        self.settings.start_rate = Some(rate);
        self
    }

    /// Retries a call that ends in one of these ways, up to `attempts` attempts in all. The wait before the second attempt is `backoff`, and it
    /// doubles with each. By default nothing is retried: only you know whether that is safe. For a [durable](Self::durable) tool an attempt with
    /// a new journal entry starts the count again.
    ///
    /// ```
    /// use longhaul::{RetryOn, Tool, time::seconds};
    /// let fetch = Tool::new("fetch", async || "done").retry(3, seconds(10), [RetryOn::Crash, RetryOn::Error]);
    /// ```
    #[must_use]
    pub fn retry(mut self, attempts: u32, backoff: Duration, on: impl IntoIterator<Item = RetryOn>) -> Self {
        self.settings.retry = Retry {
            attempts: attempts.max(1),
            backoff: whole_millis(backoff),
            on: on.into_iter().collect(),
        };
        self
    }

    /// What to do with a task of a [durable](Self::durable) tool on a non-determinism error. By default it is blocked: nothing is lost, and another
    /// build of the program retries it.
    ///
    /// ```
    /// use longhaul::{OnNonDeterminism, TaskContext, Tool, ToolResult};
    /// let tool = Tool::durable("nightly", async |_cx: TaskContext| ToolResult::Ok("done")).on_non_determinism(OnNonDeterminism::Fail);
    /// ```
    #[must_use]
    pub fn on_non_determinism(mut self, what: OnNonDeterminism) -> Self {
        self.settings.on_non_determinism = what;
        self
    }

    /// How long a task of a [durable](Self::durable) tool may be blocked before it fails; by default 7 days.
    #[must_use]
    pub fn blocked_timeout(mut self, limit: Duration) -> Self {
        self.settings.blocked_timeout = whole_millis(limit);
        self
    }

    /// Makes tasks fail instead of being blocked: in a test no other build follows.
    #[cfg(feature = "testing")]
    pub(crate) fn fail_instead_of_blocking(&mut self) {
        self.settings.on_non_determinism = OnNonDeterminism::Fail;
        self.settings.blocked_timeout = 0;
    }

    /// Asks the user for missing arguments before a task is created. `ask` takes the arguments of the client and returns those that the tool's
    /// function runs with. The tool's input schema becomes that of what `ask` takes.
    ///
    /// `ask` must do nothing but ask: a modern client answers by sending the request again, and `ask` then runs again from its start. If a
    /// client of 2025-11-25 asks for a task, there is a task first, and `ask` runs in each of its attempts.
    ///
    /// ```
    /// use longhaul::{Error, NoArguments, RequestContext, TaskPolicy, Tool};
    /// #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    /// struct Registration {
    ///     name: String,
    /// }
    /// let tool = Tool::new("register", async |args: Registration| format!("Registered {}", args.name))
    ///     .ask_before(async |cx: RequestContext, _: NoArguments| -> Result<Registration, Error> {
    ///         Ok(cx.elicit::<Registration>("What is your name?").key("user_name").await?)
    ///     })
    ///     .task(TaskPolicy::Always);
    /// ```
    #[must_use]
    pub fn ask_before<Given, Complete, F, W>(mut self, ask: F) -> Self
    where
        Given: Arguments,
        Complete: Serialize + 'static,
        F: Fn(RequestContext, Given) -> W + Send + Sync + 'static,
        W: Future<Output = Result<Complete, Error>> + Send + 'static,
    {
        self.settings.input_schema = Given::schema();
        if let Implementation::Function { handler, .. } = &mut self.settings.executor {
            handler.check = Arc::new(handler::check::<Given>);
        }
        self.intake = Some(Box::new(|server| ask_before::intake(ask, server)));
        self
    }

    pub(crate) fn hands_off(&self) -> bool {
        matches!(self.settings.handoff, Handoff::After(_))
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.settings.name
    }
}
