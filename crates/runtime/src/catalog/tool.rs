//! Tools: their settings, checked.

use super::{Intake, violation};
use crate::executor::Executor;
use longhaul_core::{
    ConcurrencyGroup, ConfirmBy, Confirmation, Json, Labels, Millis, OnNonDeterminism, Priority, Retry, SpecId,
    StartRate, TaskPolicy, ToolSpec, UnixMillis, shorten, store::Uniqueness,
};
use longhaul_json_schema::{Schema, SchemaAuthor, Unchecked, Violation, off_thread};
use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};
use sha2::{Digest, Sha256};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    sync::Arc,
};

/// The names of the server's own tools that follow what was handed off. Where a tool hands off, they are called in place of those of the catalog with such a name.
pub const FOLLOW_TOOLS: [&str; 4] = ["task_wait", "task_status", "task_cancel", "task_list"];
/// When a call is handed off by default, in milliseconds: below the 60 s after which the least patient clients give up.
pub const DEFAULT_HANDOFF: Millis = 45_000;

/// When a plain call that is waited for is answered with how to follow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Handoff {
    /// Never.
    #[default]
    Off,
    /// After 45 seconds, unless a tool of the catalog has the name of one of [`FOLLOW_TOOLS`].
    Default,
    /// After so many milliseconds. No tool of the catalog can be called then that has the name of one of [`FOLLOW_TOOLS`].
    After(Millis),
}

impl Handoff {
    /// As configurations write it, in milliseconds; 0 is off.
    pub const fn of_configured(millis: Millis) -> Self {
        match millis {
            0 => Self::Off,
            millis => Self::After(millis),
        }
    }
}

/// How long a task usually stays blocked before it ends: 7 days.
pub const BLOCKED_TIMEOUT: Millis = 7 * 24 * 60 * 60 * 1000;

/// The usual timeout of a question: 7 days.
pub const INPUT_TIMEOUT: Millis = 7 * 24 * 60 * 60 * 1000;

/// A value that calls of a tool are compared by, of their arguments, which were checked before.
pub type CallValue = Arc<dyn Fn(&Json) -> String + Send + Sync>;

/// Limits how many tasks of a tool with the same value are in progress at once.
#[derive(Clone)]
pub struct ConcurrencyKey {
    /// The value.
    pub value: CallValue,
    /// So many. A task is in progress from when it could begin until it is over and its work has stopped, also while it waits for its next attempt or is suspended.
    pub limit: usize,
}

/// The labels of a task, of its arguments.
pub type LabelsOf = Arc<dyn Fn(&Json) -> Labels + Send + Sync>;
/// What is asked before a call of a tool runs.
#[derive(Clone)]
pub struct ConfirmSettings {
    /// The elicitation about a call with these arguments, which were checked before: `{"method": …, "params": …}`.
    pub request: Arc<dyn Fn(&Json) -> Json + Send + Sync>,
    /// Who may answer it.
    pub by: ConfirmBy,
}

impl ConfirmSettings {
    /// What a task that is created now asks, for up to `timeout`.
    pub(crate) fn of_call(&self, arguments: &Json, now: UnixMillis, timeout: Millis) -> Confirmation {
        Confirmation {
            by: self.by,
            request: (self.request)(arguments),
            until: now.plus(timeout),
        }
    }
}

/// How many violations of a schema one answer lists.
const LISTED_VIOLATIONS: usize = 5;
/// How many of the others are counted.
const COUNTED_VIOLATIONS: usize = 1_000;
/// The longest description of one, in bytes: names and paths in arguments can be as long as a request.
const LONGEST_VIOLATION: usize = 300;
/// The longest objection of an executor to arguments, in bytes.
const LONGEST_OBJECTION: usize = 1_000;

/// A tool's definition as its author or operator gives it. `E` is what runs it, which a builder may know only later: see
/// [`map_executor`](Self::map_executor).
pub struct ToolSettings<E = Arc<dyn Executor>> {
    /// Unique in the catalog.
    pub name: Arc<str>,
    /// For people; the name if there is none.
    pub title: Option<String>,
    /// For the model.
    pub description: String,
    /// MCP icons, as they are shown.
    pub icons: Option<Value>,
    /// JSON Schema 2020-12, an object schema.
    pub input_schema: Value,
    /// What `structuredContent` conforms to, if anything.
    pub output_schema: Option<Value>,
    /// MCP tool annotations, as they are shown.
    pub annotations: Option<Value>,
    /// `_meta` of the tool, as it is shown.
    pub meta: Option<Value>,
    /// The whole tool object, if another server has listed it. Clients see it with the `name` above and an `execution` of this server, and otherwise byte
    /// for byte; nothing else above is shown. Arguments are not checked against its schema, since that server checks them.
    pub listed: Option<Json>,
    /// Which calls become tasks.
    pub policy: TaskPolicy,
    /// Has somebody confirm each call before it runs, once for all of its attempts. Then each call is a task, whatever `policy` says.
    pub confirm: Option<ConfirmSettings>,
    /// Asks for what is missing before there is a task.
    pub intake: Option<Arc<dyn Intake>>,
    /// What a host may tell its model while a task of 2025-11-25 runs; a sentence with the tool's title if absent.
    pub immediate_response: Option<String>,
    /// Answers a waiting plain call with how to follow it (hand-off).
    pub handoff: Handoff,
    /// From creation to the end of all work.
    pub deadline: Option<Millis>,
    /// The longest wait for a slot.
    pub queue_timeout: Option<Millis>,
    /// The timeout of questions without one of their own, and of a confirmation, in milliseconds; [`INPUT_TIMEOUT`] is usual.
    pub input_timeout: Millis,
    /// From the end to deletion.
    pub retention: Millis,
    /// The longest retention that a client can ask for, in milliseconds; no longer than `retention` if absent.
    pub max_retention: Option<Millis>,
    /// How many of its tasks run at once, over all nodes that share the store; `None` for no limit of its own.
    pub concurrency: Option<usize>,
    /// How many of its tasks with the same value are in progress at once, over all nodes that share the store; others wait in its queue. Its plain calls are
    /// stored from their beginning.
    pub concurrency_key: Option<ConcurrencyKey>,
    /// Makes of a call's arguments what no two of its live tasks have in common, over all nodes that share the store.
    pub unique: Option<CallValue>,
    /// Makes the labels of a call's task, by which operators find and count it.
    pub labels: Option<LabelsOf>,
    /// Arguments that the store has encrypted only.
    pub secrets: BTreeSet<String>,
    /// The priority of its calls, and the highest that a client can ask for.
    pub priority: Priority,
    /// How often its attempts begin at most, over all nodes that share the store. Its plain calls are stored from their beginning.
    pub start_rate: Option<StartRate>,
    /// When failed attempts are retried.
    pub retry: Retry,
    /// What becomes of a task whose code does not follow its journal, if it keeps one.
    pub on_non_determinism: OnNonDeterminism,
    /// How long a task may be blocked before it ends; [`BLOCKED_TIMEOUT`] is usual.
    pub blocked_timeout: Millis,
    /// The provider's kind and the executor's definition in its format, kept with each task.
    pub kind: Arc<str>,
    /// See `kind`.
    pub definition: Json,
    /// Runs it.
    pub executor: E,
}

impl ToolSettings {
    /// The usual retention of a finished task: a day.
    pub const RETENTION: Millis = 24 * 60 * 60 * 1000;

    /// A retention that never ends.
    pub const FOREVER: Millis = Millis::MAX;
    /// The shortest retention that a client can ask for: a minute, so that a client that polls can read the result.
    const SHORTEST_ASKED: Millis = 60 * 1000;
}

impl<E> ToolSettings<E> {
    /// How long a task is kept after its end if its client asks for `ttl`.
    pub fn retention_for(&self, ttl: Option<Millis>) -> Millis {
        let most = self
            .max_retention
            .map_or(self.retention, |most| most.max(self.retention));
        ttl.map_or(self.retention, |ttl| {
            ttl.clamp(self.retention.min(ToolSettings::SHORTEST_ASKED), most)
        })
    }

    /// The settings of a tool with defaults: any object as arguments, a call is a task if the client supports tasks, no limits, no retries,
    /// [`ToolSettings::RETENTION`].
    ///
    /// `kind` and `definition` are what the executor is found again by after a restart, see [`Provider`](crate::Provider).
    pub fn new(name: impl Into<Arc<str>>, kind: impl Into<Arc<str>>, definition: Json, executor: E) -> Self {
        Self {
            name: name.into(),
            title: None,
            description: String::new(),
            icons: None,
            input_schema: json!({"type": "object"}),
            output_schema: None,
            annotations: None,
            meta: None,
            listed: None,
            policy: TaskPolicy::default(),
            confirm: None,
            intake: None,
            immediate_response: None,
            handoff: Handoff::Off,
            deadline: None,
            queue_timeout: None,
            input_timeout: INPUT_TIMEOUT,
            retention: ToolSettings::RETENTION,
            max_retention: None,
            concurrency: None,
            concurrency_key: None,
            unique: None,
            labels: None,
            secrets: BTreeSet::new(),
            priority: Priority::default(),
            start_rate: None,
            retry: Retry::default(),
            on_non_determinism: OnNonDeterminism::default(),
            blocked_timeout: BLOCKED_TIMEOUT,
            kind: kind.into(),
            definition,
            executor,
        }
    }

    /// The same settings with another executor.
    ///
    /// # Errors
    /// That of `make`, which is given the old executor.
    pub fn map_executor<N, Error>(self, make: impl FnOnce(E) -> Result<N, Error>) -> Result<ToolSettings<N>, Error> {
        let Self {
            name,
            title,
            description,
            icons,
            input_schema,
            output_schema,
            annotations,
            meta,
            listed,
            policy,
            confirm,
            intake,
            immediate_response,
            handoff,
            deadline,
            queue_timeout,
            input_timeout,
            retention,
            max_retention,
            concurrency,
            concurrency_key,
            priority,
            start_rate,
            unique,
            labels,
            secrets,
            retry,
            on_non_determinism,
            blocked_timeout,
            kind,
            definition,
            executor,
        } = self;
        Ok(ToolSettings {
            name,
            title,
            description,
            icons,
            input_schema,
            output_schema,
            annotations,
            meta,
            listed,
            policy,
            confirm,
            intake,
            immediate_response,
            handoff,
            deadline,
            queue_timeout,
            input_timeout,
            retention,
            max_retention,
            concurrency,
            concurrency_key,
            priority,
            start_rate,
            unique,
            labels,
            secrets,
            retry,
            on_non_determinism,
            blocked_timeout,
            kind,
            definition,
            executor: make(executor)?,
        })
    }
}

/// A tool in the catalog: settings, checked and ready.
pub struct Tool {
    settings: ToolSettings,
    spec: ToolSpec,
    /// `None` if another server checks the arguments.
    input: Option<Arc<Schema>>,
}

/// A tool's settings cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolError {
    /// The input schema does not compile.
    #[error("the input schema is not usable: {why}")]
    InputSchema {
        /// The tool.
        tool: Arc<str>,
        /// What is wrong, and where.
        why: String,
    },
}

/// Arguments that a tool does not accept; the text says what to change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ArgumentError(pub String);

impl Tool {
    /// Compiles the schema, and makes the definition that is stored with tasks.
    ///
    /// # Errors
    /// [`ToolError::InputSchema`] if the schema cannot be compiled; references to anything outside it are not followed.
    pub fn new(mut settings: ToolSettings) -> Result<Self, ToolError> {
        if settings.confirm.is_some() {
            settings.policy = TaskPolicy::Always;
        }
        let compile = || {
            Schema::with_formats(&settings.input_schema, SchemaAuthor::Own, true).map_err(|error| {
                ToolError::InputSchema {
                    tool: Arc::clone(&settings.name),
                    why: error.to_string(),
                }
            })
        };
        let input = match settings.listed {
            Some(_) => None,
            None => Some(Arc::new(compile()?)),
        };
        let spec = spec_of(&settings);
        Ok(Self { settings, spec, input })
    }

    /// What no other live task of the tool may have in common with a call with these arguments, if anything. `digest` is that of the arguments.
    pub(crate) fn uniqueness(&self, arguments: &Json, digest: [u8; 32]) -> Option<Uniqueness> {
        let value = self.settings.unique.as_ref()?(arguments);
        Some(Uniqueness {
            value: Sha256::digest(value).into(),
            arguments: digest,
        })
    }

    /// The tasks of the tool that a call with these arguments shares a limit with, if the tool has a concurrency key.
    pub(crate) fn group(&self, arguments: &Json) -> Option<ConcurrencyGroup> {
        let key = self.settings.concurrency_key.as_ref()?;
        Some(ConcurrencyGroup(Sha256::digest((key.value)(arguments)).into()))
    }

    /// How many of its tasks may be in progress at once: in all, and in each group.
    pub(crate) fn limits(&self) -> (Option<usize>, Option<usize>) {
        let key = self.settings.concurrency_key.as_ref();
        (self.settings.concurrency, key.map(|key| key.limit))
    }

    /// Whether only a claim from the queue may begin its tasks, so that the store holds them to their rate, or their group's limit.
    pub(crate) fn begins_from_queue(&self) -> bool {
        self.settings.start_rate.is_some() || self.settings.concurrency_key.is_some()
    }

    /// Its settings.
    pub fn settings(&self) -> &ToolSettings {
        &self.settings
    }

    /// Its name.
    pub fn name(&self) -> &Arc<str> {
        &self.settings.name
    }

    /// The definition that is stored with its tasks.
    pub fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    /// Checks arguments against the schema and then against the executor's own rules. Those of a tool that another server has
    /// [listed](ToolSettings::listed) are left to that server. Waits only for large arguments, which are checked on another thread.
    ///
    /// # Errors
    /// What is wrong and where, so that the model can mend it.
    pub async fn check(&self, arguments: &Json) -> Result<(), ArgumentError> {
        let Some(schema) = &self.input else { return Ok(()) };
        let text = arguments.as_str();
        if schema.is_quick(text.len()) {
            let value = read(text)?;
            let name = &self.settings.name;
            if let Some(checked) = schema.check_now(&value, text.len(), |violations| describe(name, violations)) {
                return checked.and_then(|()| self.check_own_rules(text, &value));
            }
        }
        // Boxed, since calls are rarely so large.
        let name = Arc::clone(&self.settings.name);
        let value = Box::pin(check_elsewhere(name, schema, arguments.clone())).await?;
        self.check_own_rules(text, &value)
    }

    fn check_own_rules(&self, arguments: &str, value: &Value) -> Result<(), ArgumentError> {
        let empty = Map::new();
        let checked = self
            .settings
            .executor
            .check(arguments, value.as_object().unwrap_or(&empty));
        checked.map_err(|objection| ArgumentError(shorten(&objection, LONGEST_OBJECTION).into_owned()))
    }
}

/// Returns the arguments as a value.
async fn check_elsewhere(tool: Arc<str>, schema: &Arc<Schema>, arguments: Json) -> Result<Value, ArgumentError> {
    let check = move |schema: &Schema| {
        let text = arguments.as_str();
        let value = read(text)?;
        match schema.check(&value, text.len(), |violations| describe(&tool, violations)) {
            Ok(checked) => checked.map(|()| value),
            Err(Unchecked) => Err(ArgumentError(format!(
                "The arguments of {tool} take too long to check: make them smaller, or less deep"
            ))),
        }
    };
    let busy = |busy| {
        ArgumentError(format!(
            "The arguments were not checked: {busy}; call again in a moment"
        ))
    };
    off_thread(schema, check).await.map_err(busy)?
}

fn read(arguments: &str) -> Result<Value, ArgumentError> {
    serde_json::from_str(arguments).map_err(|error| unreadable(arguments, &error))
}

/// Legal JSON may hold lone surrogates and numbers beyond 64-bit floats. Says which argument does.
fn unreadable(arguments: &str, error: &serde_json::Error) -> ArgumentError {
    let members = serde_json::from_str::<BTreeMap<String, &RawValue>>(arguments).unwrap_or_default();
    let culprit = members.iter().find_map(|(name, raw)| {
        let error = serde_json::from_str::<Value>(raw.get()).err()?;
        Some(format!("{}: {error}", shorten(name, LONGEST_VIOLATION)))
    });
    ArgumentError(culprit.unwrap_or_else(|| error.to_string()))
}

fn describe(tool: &str, violations: &mut dyn Iterator<Item = Violation<'_>>) -> ArgumentError {
    let mut text = format!("The arguments do not fit {tool}:");
    let mut violations = violations.peekable();
    if violations.peek().is_none() {
        text.push_str("\n- they are too large to say where");
    }
    for found in violations.by_ref().take(LISTED_VIOLATIONS) {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n- {}", shorten(&violation::describe(&found), LONGEST_VIOLATION));
    }
    let _ = match violations.take(COUNTED_VIOLATIONS).count() {
        0 => Ok(()),
        COUNTED_VIOLATIONS => write!(text, "\nand {COUNTED_VIOLATIONS} others or more"),
        others => write!(text, "\nand {others} more"),
    };
    ArgumentError(text)
}

/// What a task needs when its tool was removed: the executor's definition, the retry policy, and whether the tool is durable.
#[derive(Deserialize)]
struct StoredDefinition {
    retry: Retry,
    executor: Box<RawValue>,
    /// Only written if it is, so that the digests of all other definitions stay what earlier versions made them.
    #[serde(default)]
    durable: bool,
}

fn spec_of(settings: &ToolSettings) -> ToolSpec {
    let retry = serde_json::to_string(&settings.retry).unwrap_or_default();
    let durable = if settings.executor.replays() {
        r#","durable":true"#
    } else {
        ""
    };
    let definition = format!(
        r#"{{"retry":{retry},"executor":{}{durable}}}"#,
        settings.definition.as_str()
    );
    let mut digest = Sha256::new();
    digest.update(settings.kind.as_bytes());
    digest.update([0]);
    digest.update(definition.as_bytes());
    let id = digest
        .finalize()
        .iter()
        .take(16)
        .fold(String::with_capacity(32), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
    ToolSpec {
        id: SpecId::named(id),
        kind: Arc::clone(&settings.kind),
        definition: Json::trusted(definition),
    }
}

/// The retry policy and the executor's definition of a stored definition.
pub(crate) fn retry_and_definition(spec: &ToolSpec) -> Result<(Retry, Json), String> {
    let stored = read_definition(spec).map_err(|error| error.to_string())?;
    Ok((stored.retry, Json::from(&*stored.executor)))
}

/// The executor's part of a stored definition, which its [`Provider`](crate::Provider) reads.
///
/// # Errors
/// Why it cannot be read.
pub fn executor_definition(spec: &ToolSpec) -> Result<Json, String> {
    retry_and_definition(spec).map(|(_, definition)| definition)
}

/// Whether the tool of this definition is durable.
pub(crate) fn is_durable(spec: &ToolSpec) -> bool {
    read_definition(spec).is_ok_and(|stored| stored.durable)
}

fn read_definition(spec: &ToolSpec) -> Result<StoredDefinition, serde_json::Error> {
    serde_json::from_str(spec.definition.as_str())
}
