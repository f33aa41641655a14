//! Tools: functions that models call.

mod executor;
mod handler;
mod name;
mod output;

pub(crate) use handler::read;
pub use handler::{Arguments, NoArguments, ToolHandler};
pub(crate) use name::check as check_name;
pub use output::{IntoToolOutput, Json, ToolOutput};

use crate::{DefinitionError, Error, Icon, RequestContext, ServerHandle, content::icons_json, intake, schema};
use executor::Function;
use handler::Work;
use longhaul_core::{Json as Frozen, OnNonDeterminism, Retry, RetryOn, TaskPolicy};
use longhaul_runtime::{Executor, Intake, ToolSettings};
use longhaul_upstream::in_process;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::{sync::Arc, time::Duration};

/// From the end of a task to its deletion, unless the tool says otherwise: a day.
const RETENTION: Duration = Duration::from_millis(ToolSettings::RETENTION);

/// How many attempts of a durable tool may come no further than the one before.
const DURABLE_ATTEMPTS: u32 = 5;
/// The wait before the second of them.
const DURABLE_BACKOFF: Duration = Duration::from_millis(200);

/// A function that models call, and what is said about it.
///
/// The function is async and takes, as it needs them, a [`TaskContext`](crate::TaskContext) and its arguments: any type that derives
/// `Deserialize` and [`JsonSchema`](schemars::JsonSchema). Arguments that do not fit are refused before it runs, with words that a
/// model can act on. What it returns becomes the result: see [`IntoToolOutput`].
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
    name: Arc<str>,
    title: Option<String>,
    description: Option<String>,
    icons: Vec<Icon>,
    annotations: Map<String, Value>,
    meta: Option<Value>,
    input_schema: Value,
    output_schema: Option<Value>,
    policy: TaskPolicy,
    immediate_response: Option<String>,
    handoff: Option<Duration>,
    deadline: Option<Duration>,
    queue_timeout: Option<Duration>,
    input_timeout: Option<Duration>,
    retention: Duration,
    max_retention: Option<Duration>,
    concurrency: Option<usize>,
    retry: Retry,
    on_non_determinism: OnNonDeterminism,
    blocked_timeout: Option<Duration>,
    intake: Option<MakeIntake>,
    runs: Runs,
}

/// Intakes know their server, which is there only when it is built.
type MakeIntake = Box<dyn FnOnce(ServerHandle) -> Arc<dyn Intake> + Send>;

/// What runs a tool's calls.
enum Runs {
    Function {
        work: Work,
        durable: bool,
    },
    Executor {
        kind: Arc<str>,
        definition: Frozen,
        executor: Arc<dyn Executor>,
    },
}

impl Tool {
    /// A tool that runs a function of this process.
    ///
    /// The name is unique on its server: 1 to 128 of `A-Z a-z 0-9 _ - .` (X-02). Its schemas come from the function's types.
    pub fn new<In: 'static, H>(name: impl Into<Arc<str>>, handler: H) -> Self
    where
        H: ToolHandler<In, Output: IntoToolOutput, Future: Send>,
    {
        Self::function(name.into(), handler, false)
    }

    /// A tool that runs a function of this process which outlives it: as [`new`](Self::new), but what the function comes to is kept in a
    /// journal, and the function may be run again from its start at any time: after a crash, when the server is started again, and after
    /// every long wait, for which it is let go. Run again, each operation of its [`TaskContext`](crate::TaskContext) gives what it gave
    /// before, without doing anything, until the function is where it was.
    ///
    /// So everything with an effect, and everything that comes out differently each time, belongs into such an operation; between them the
    /// function must do the same each time. If it does not, the task fails and says what it asked for, and what it had asked for before.
    ///
    /// | operation | what it keeps |
    /// | --- | --- |
    /// | [`step`](crate::TaskContext::step) | that something was done, and what it returned |
    /// | [`elicit`](crate::RequestContext::elicit) and the other questions | that it was asked, and the answer |
    /// | [`sleep`](crate::TaskContext::sleep), [`sleep_until`](crate::TaskContext::sleep_until) | until when |
    /// | [`call`](crate::TaskContext::call) | the task that was started, and how it ended |
    /// | [`poll_until`](crate::TaskContext::poll_until) | how often was looked, and what was found |
    /// | [`now`](crate::TaskContext::now), [`random`](crate::TaskContext::random), [`version`](crate::TaskContext::version) | what was drawn |
    /// | [`emit`](crate::TaskContext::emit) | what was given out |
    /// | [`join`](crate::TaskContext::join), [`select`](crate::TaskContext::select) | what was first |
    ///
    /// An attempt that ends in a crash or a panic is followed by another, up to 5 that come no further than the one before; then the task
    /// is blocked until another build of the program tries it again ([`blocked_timeout`](Self::blocked_timeout)). [`retry`](Self::retry) says otherwise. How much outlives the process is the store's business: see
    /// [`Server`](crate::Server).
    ///
    /// ```
    /// use longhaul::{TaskContext, Tool, ToolOutput, ToolResult, time::{Moment, days}};
    /// use serde_json::json;
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Release { rev: String }
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Approval {
    ///     approved: bool,
    ///     /// When to publish.
    ///     window: Moment,
    /// }
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct Build { id: u64 }
    /// # async fn build(_: &str) -> Result<Build, std::io::Error> { Ok(Build { id: 1 }) }
    /// # async fn publish(_: &Build) -> Result<(), std::io::Error> { Ok(()) }
    ///
    /// async fn release(cx: TaskContext, args: Release) -> ToolResult {
    ///     let build = cx.step("build", || build(&args.rev)).await?; // journaled: not repeated after a crash
    ///     cx.status(format!("built {}", build.id)).await?;
    ///     let ok: Approval = cx.elicit("Ship it?").within(days(3)).await?; // nothing is held while waiting
    ///     if !ok.approved {
    ///         return Ok(ToolOutput::text("declined"));
    ///     }
    ///     cx.sleep_until(ok.window).await?; // a durable timer
    ///     let smoke = cx.call("smoke_tests", json!({"build": build.id})).await?; // a child task, with lineage
    ///     cx.step("publish", || publish(&build)).max_attempts(5).idempotency_key(cx.key("publish")).await?;
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
        let work = Work::of(handler);
        Self::of(
            name,
            H::input_schema(),
            H::Output::output_schema(),
            Runs::Function { work, durable },
        )
    }

    /// A tool whose calls an [`Executor`] of yours runs; `kind` and `definition` are kept with its tasks, so that a
    /// [`Provider`](longhaul_runtime::Provider) of that kind can run them when the tool has changed.
    pub fn executor(
        name: impl Into<Arc<str>>,
        input_schema: Value,
        kind: impl Into<Arc<str>>,
        definition: Frozen,
        executor: Arc<dyn Executor>,
    ) -> Self {
        let runs = Runs::Executor {
            kind: kind.into(),
            definition,
            executor,
        };
        Self::of(name.into(), input_schema, None, runs)
    }

    fn of(name: Arc<str>, input_schema: Value, output_schema: Option<Value>, runs: Runs) -> Self {
        Self {
            name,
            title: None,
            description: None,
            icons: Vec::new(),
            annotations: Map::new(),
            meta: None,
            input_schema,
            output_schema,
            policy: TaskPolicy::default(),
            immediate_response: None,
            handoff: None,
            deadline: None,
            queue_timeout: None,
            input_timeout: None,
            retention: RETENTION,
            max_retention: None,
            concurrency: None,
            retry: Retry::default(),
            on_non_determinism: OnNonDeterminism::default(),
            blocked_timeout: None,
            intake: None,
            runs,
        }
    }

    /// What it does and when to use it, for the model. Without one the doc comment of the arguments' type is taken.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.description = Some(text.into());
        self
    }

    /// Its name for people.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// A picture for it; may be called several times.
    #[must_use]
    pub fn icon(mut self, icon: Icon) -> Self {
        self.icons.push(icon);
        self
    }

    /// Says that it changes nothing. It may then also be run again after a crash (X-13), if [`retry`](Self::retry) says so.
    #[must_use]
    pub fn read_only(self) -> Self {
        self.hint("readOnlyHint", true)
    }

    /// Says that it may destroy something. Clients take that for granted of tools that are not read-only, unless told otherwise.
    #[must_use]
    pub fn destructive(self, destructive: bool) -> Self {
        self.hint("destructiveHint", destructive)
    }

    /// Says that calling it again with the same arguments changes nothing more.
    #[must_use]
    pub fn idempotent(self) -> Self {
        self.hint("idempotentHint", true)
    }

    /// Says whether it deals with the world outside, as a web search does. Clients take that for granted unless told otherwise.
    #[must_use]
    pub fn open_world(self, open: bool) -> Self {
        self.hint("openWorldHint", open)
    }

    fn hint(mut self, name: &str, value: bool) -> Self {
        self.annotations.insert(name.to_owned(), value.into());
        self
    }

    /// All of MCP's annotations at once, as they are shown; in the place of those set before.
    #[must_use]
    pub fn annotations(mut self, annotations: Map<String, Value>) -> Self {
        self.annotations = annotations;
        self
    }

    /// `_meta` of the tool, as it is shown; names want a prefix of yours, as `com.example/team`.
    #[must_use]
    pub fn meta(mut self, meta: Map<String, Value>) -> Self {
        self.meta = Some(Value::Object(meta));
        self
    }

    /// A JSON Schema for the arguments, in the place of the one derived from their type: an object schema, shown as it is (X-03).
    ///
    /// ```
    /// use longhaul::Tool;
    /// use serde_json::{Value, json};
    /// let echo = Tool::new("echo", async |args: Value| args["text"].to_string())
    ///     .input_schema(json!({"type": "object", "properties": {"text": {"type": "string"}}}));
    /// ```
    #[must_use]
    pub fn input_schema(mut self, schema: Value) -> Self {
        self.input_schema = schema;
        self
    }

    /// A JSON Schema for `structuredContent`, in the place of the one derived from [`Json`]. Each result is checked against it before
    /// it is kept (X-07).
    #[must_use]
    pub fn output_schema(mut self, schema: Value) -> Self {
        self.output_schema = Some(schema);
        self
    }

    /// Which calls become tasks; by default those of clients that can cope with one.
    #[must_use]
    pub fn task(mut self, policy: TaskPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// What a host may tell its model as soon as a call has become a task, in the place of the result that is to come (G1-15): what
    /// goes on, and what to do meanwhile. By default a sentence that the tool has begun and goes on in the background. Hosts need not heed it,
    /// and those of 2026-07-28 are not told.
    ///
    /// ```
    /// use longhaul::Tool;
    /// let render = Tool::new("render", async || "done")
    ///     .immediate_response("Rendering has begun and takes some minutes. Go on with something else.");
    /// ```
    #[must_use]
    pub fn immediate_response(mut self, text: impl Into<String>) -> Self {
        self.immediate_response = Some(text.into());
        self
    }

    /// Answers a client that knows no tasks after so long with how to follow the work, which goes on, by the tools `task_wait` and
    /// `task_cancel`. Such a client would else wait, and many give up after a minute. No other tool of the server may have one of those
    /// names then.
    #[must_use]
    pub fn handoff(mut self, after: Duration) -> Self {
        self.handoff = Some(after);
        self
    }

    /// How long a call may take from creation to the end of all work, all attempts and waits included; by default as long as it takes.
    #[must_use]
    pub fn deadline(mut self, limit: Duration) -> Self {
        self.deadline = Some(limit);
        self
    }

    /// How long a call may wait for its turn; by default as long as it takes.
    #[must_use]
    pub fn queue_timeout(mut self, limit: Duration) -> Self {
        self.queue_timeout = Some(limit);
        self
    }

    /// How long a question waits for its answer, if it does not say so itself; by default 7 days.
    #[must_use]
    pub fn input_timeout(mut self, limit: Duration) -> Self {
        self.input_timeout = Some(limit);
        self
    }

    /// How long a task is kept after its end; by default a day. [`Duration::MAX`] keeps it for good; what is kept counts towards the quotas.
    ///
    /// A client of 2025-11-25 can wish for another time with `task.ttl`: a shorter one, of a minute at least, or a longer one up to
    /// [`max_retention`](Self::max_retention).
    #[must_use]
    pub fn retention(mut self, time: Duration) -> Self {
        self.retention = time;
        self
    }

    /// The longest [`retention`](Self::retention) that a client can wish for; by default no longer one.
    #[must_use]
    pub fn max_retention(mut self, time: Duration) -> Self {
        self.max_retention = Some(time);
        self
    }

    /// How many calls may run at once; further ones wait their turn. By default as many as the server allows.
    #[must_use]
    pub fn concurrency(mut self, most: usize) -> Self {
        self.concurrency = Some(most.max(1));
        self
    }

    /// Runs a call again after an end of these kinds, up to `attempts` times in all, waiting `backoff` before the second attempt and
    /// twice as long before each further one. By default nothing is run again: only you know whether that is harmless. Of a
    /// [durable](Self::durable) tool an attempt that came further than the one before begins the count anew.
    ///
    /// ```
    /// use longhaul::{RetryOn, Tool, time::seconds};
    /// let fetch = Tool::new("fetch", async || "done").retry(3, seconds(10), [RetryOn::Crash, RetryOn::Error]);
    /// ```
    #[must_use]
    pub fn retry(mut self, attempts: u32, backoff: Duration, on: impl IntoIterator<Item = RetryOn>) -> Self {
        self.retry = Retry {
            attempts: attempts.max(1),
            backoff: millis(backoff),
            on: on.into_iter().collect(),
        };
        self
    }

    /// What becomes of a task of a [durable](Self::durable) tool whose code, run again, asks for something else than its journal has. By default
    /// it is blocked: another build of the program tries it again, and until then nothing is lost.
    ///
    /// ```
    /// use longhaul::{OnNonDeterminism, TaskContext, Tool, ToolResult};
    /// let tool = Tool::durable("nightly", async |_cx: TaskContext| ToolResult::Ok("done")).on_non_determinism(OnNonDeterminism::Fail);
    /// ```
    #[must_use]
    pub fn on_non_determinism(mut self, what: OnNonDeterminism) -> Self {
        self.on_non_determinism = what;
        self
    }

    /// How long a task of a [durable](Self::durable) tool may be blocked before it fails; by default 7 days.
    #[must_use]
    pub fn blocked_timeout(mut self, limit: Duration) -> Self {
        self.blocked_timeout = Some(limit);
        self
    }

    /// Has tasks fail that would be blocked: a test is not to wait for other code.
    pub(crate) fn fail_instead_of_blocking(&mut self) {
        self.on_non_determinism = OnNonDeterminism::Fail;
        self.blocked_timeout = Some(Duration::ZERO);
    }

    /// Asks for what is missing before there is a task (G2-17). `ask` takes the arguments as the client gives them and returns those
    /// the tool's function runs with; the tool's input schema becomes that of what `ask` takes.
    ///
    /// A modern client answers by sending its request again, so `ask` is run from its start with each round of answers: it must do
    /// nothing but ask. A client of 2025-11-25 that asks for a task has it first, and is asked within it: there `ask` is run again with
    /// each attempt.
    ///
    /// ```
    /// use longhaul::{Error, NoArguments, RequestContext, TaskPolicy, Tool};
    /// #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    /// struct Ready {
    ///     name: String,
    /// }
    /// let tool = Tool::new("register", async |args: Ready| format!("Registered {}", args.name))
    ///     .ask_before(async |cx: RequestContext, _: NoArguments| -> Result<Ready, Error> {
    ///         Ok(cx.elicit::<Ready>("What is your name?").key("user_name").await?)
    ///     })
    ///     .task(TaskPolicy::Always);
    /// ```
    #[must_use]
    pub fn ask_before<Wish, Ready, F, W>(mut self, ask: F) -> Self
    where
        Wish: Arguments,
        Ready: Serialize + 'static,
        F: Fn(RequestContext, Wish) -> W + Send + Sync + 'static,
        W: Future<Output = Result<Ready, Error>> + Send + 'static,
    {
        self.input_schema = Wish::schema();
        if let Runs::Function { work, .. } = &mut self.runs {
            work.check = Arc::new(handler::check::<Wish>);
        }
        self.intake = Some(Box::new(|server| intake::of(ask, server)));
        self
    }

    /// Checks it and makes it ready to be offered by `server`.
    pub(crate) fn build(mut self, server: &ServerHandle) -> Result<longhaul_runtime::Tool, DefinitionError> {
        let name = Arc::clone(&self.name);
        let wrong = |why: String| DefinitionError {
            what: format!("tool `{name}`"),
            why,
        };
        name::check(&self.name).map_err(wrong)?;
        let mut input_schema = std::mem::take(&mut self.input_schema);
        schema::check_arguments(&mut input_schema).map_err(wrong)?;
        let description = self.description.take().unwrap_or_else(|| documented(&input_schema));
        let (kind, definition, executor) = match self.runs {
            Runs::Executor {
                kind,
                definition,
                executor,
            } => (kind, definition, executor),
            Runs::Function { work, durable } => {
                let function =
                    Function::new(&name, work, durable, self.output_schema.as_ref(), server.clone()).map_err(wrong)?;
                (
                    in_process::KIND.into(),
                    Frozen::trusted("{}"),
                    function as Arc<dyn Executor>,
                )
            }
        };
        let settings = ToolSettings {
            name: Arc::clone(&name),
            title: self.title,
            description,
            icons: icons_json(&self.icons),
            input_schema,
            output_schema: self.output_schema,
            annotations: (!self.annotations.is_empty()).then(|| json!(self.annotations)),
            meta: self.meta,
            policy: self.policy,
            intake: self.intake.map(|make| make(server.clone())),
            immediate_response: self.immediate_response,
            handoff: self.handoff.map(millis),
            deadline: self.deadline.map(millis),
            queue_timeout: self.queue_timeout.map(millis),
            input_timeout: self.input_timeout.map_or(longhaul_runtime::INPUT_TIMEOUT, millis),
            retention: millis(self.retention),
            max_retention: self.max_retention.map(millis),
            concurrency: self.concurrency,
            retry: self.retry,
            on_non_determinism: self.on_non_determinism,
            blocked_timeout: self.blocked_timeout.map_or(longhaul_runtime::BLOCKED_TIMEOUT, millis),
            kind,
            definition,
            executor,
        };
        longhaul_runtime::Tool::new(settings).map_err(|error| wrong(error.to_string()))
    }

    pub(crate) fn hands_off(&self) -> bool {
        self.handoff.is_some()
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }
}

/// What the type of the arguments says about itself.
fn documented(schema: &Value) -> String {
    schema["description"].as_str().unwrap_or_default().to_owned()
}

/// A duration as the domain counts it; what is longer than 584 million years is cut off there.
pub(crate) fn millis(duration: Duration) -> longhaul_core::Millis {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
