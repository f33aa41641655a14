//! Converts the configuration's tools to the server's.

use crate::config::{HttpTool, Output, Stdin, ToolConfig};
use longhaul::Tool;
use longhaul_command::{CommandDefinition, CommandProvider, DEFINITION_VERSION, KIND, OutputKind};
use longhaul_core::{Json, Millis, Retry, RetryOn};
use longhaul_gateway::{HTTP_JOB_KIND, HttpJobDefinition, HttpJobs};
use longhaul_runtime::{Executor, Handoff, Ports};
use serde_json::Value;
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// A tool of a valid configuration that cannot be served.
#[derive(Debug, thiserror::Error)]
#[error("tool {tool}: {error}")]
pub(super) struct UnusableTool {
    tool: String,
    error: String,
}

/// What runs the tools of a configuration.
pub(super) struct ToolProviders {
    pub(super) commands: Arc<CommandProvider>,
    pub(super) http_jobs: Arc<HttpJobs>,
}

impl ToolProviders {
    pub(super) fn new(commands: Arc<CommandProvider>, ports: &Ports) -> Self {
        let http_jobs = Arc::new(HttpJobs::new(ports.clone()));
        Self { commands, http_jobs }
    }
}

/// Converts the tools of a configuration.
pub(super) fn build_all(
    tools: Vec<ToolConfig>,
    queue_timeout: Millis,
    providers: &ToolProviders,
) -> Result<Vec<Tool>, UnusableTool> {
    tools
        .into_iter()
        .map(|tool| build(tool, queue_timeout, providers))
        .collect()
}

fn build(mut tool: ToolConfig, queue_timeout: Millis, providers: &ToolProviders) -> Result<Tool, UnusableTool> {
    let output_schema = match &tool.output.format {
        Output::Text | Output::Raw => None,
        Output::Json(schema) => schema.clone(),
    };
    let secrets = tool.secrets.clone();
    let parts = match tool.http.take() {
        Some(http) => prepare_http(http, &tool.attempt.retry, &providers.http_jobs),
        None => prepare_command(&mut tool, output_schema.clone(), &providers.commands),
    };
    let (kind, frozen, executor) = parts.map_err(|error| UnusableTool {
        tool: tool.name.clone(),
        error,
    })?;
    let mut built = Tool::executor(tool.name, tool.input_schema, kind, frozen, executor)
        .description(tool.description)
        .annotations(tool.annotations)
        .secrets(secrets)
        .task(tool.task)
        .queue_timeout(millis(queue_timeout))
        .retention(millis(tool.retention))
        .retry(
            tool.attempt.retry.attempts,
            millis(tool.attempt.retry.backoff),
            tool.attempt.retry.on,
        );
    if let Some(title) = tool.display.title {
        built = built.title(title);
    }
    for icon in tool.display.icons {
        built = built.icon(icon);
    }
    if let Some(schema) = output_schema {
        built = built.output_schema(schema);
    }
    if let Some(most) = tool.max_retention {
        built = built.max_retention(millis(most));
    }
    if let Some(confirm) = tool.confirm {
        built = built.confirm(confirm.question).confirm_by(confirm.by);
    }
    if let Some(text) = tool.immediate_response {
        built = built.immediate_response(text);
    }
    match tool.handoff {
        Handoff::Off => {}
        Handoff::Default => built = built.default_handoff(),
        Handoff::After(patience) => built = built.handoff(millis(patience)),
    }
    if let Some(limit) = tool.deadline {
        built = built.deadline(millis(limit));
    }
    if let Some(most) = tool.queue.concurrency {
        built = built.concurrency(most as usize);
    }
    if let Some(template) = tool.queue.concurrency_key {
        built = built.concurrency_key(template);
    }
    if let Some(template) = tool.queue.unique {
        built = built.unique(template);
    }
    for (name, template) in tool.labels {
        built = built.label(name, template);
    }
    built = built.priority(tool.queue.priority.get());
    if let Some(rate) = tool.queue.start_rate {
        built = built.start_rate(rate);
    }
    Ok(built)
}

/// The kind of an executor, its definition, and itself.
type ExecutorParts = (&'static str, Json, Arc<dyn Executor>);

fn prepare_command(
    tool: &mut ToolConfig,
    output_schema: Option<Value>,
    commands: &CommandProvider,
) -> Result<ExecutorParts, String> {
    let names = property_names(&tool.input_schema);
    let (stdin, stdin_json) = match std::mem::take(&mut tool.stdin) {
        Stdin::Template(text) => (text, false),
        Stdin::Json => (String::new(), true),
    };
    let definition = CommandDefinition {
        version: DEFINITION_VERSION,
        command: std::mem::take(&mut tool.command),
        env: std::mem::take(&mut tool.env),
        env_templates: std::mem::take(&mut tool.env_templates),
        env_from: std::mem::take(&mut tool.env_from),
        env_file: tool.env_file.take(),
        cwd: std::mem::take(&mut tool.cwd),
        cwd_template: tool.cwd_template.take(),
        stdin,
        stdin_json,
        defaults: std::mem::take(&mut tool.defaults),
        allow_leading_dash: std::mem::take(&mut tool.allow_leading_dash),
        allow_placeholders_in_scripts: tool.allow_placeholders_in_scripts,
        optional: std::mem::take(&mut tool.optional),
        integers: std::mem::take(&mut tool.integers),
        secrets: tool.secrets.clone(),
        output: match tool.output.format {
            Output::Text => OutputKind::Text,
            Output::Json(_) => OutputKind::Json,
            Output::Raw => OutputKind::Raw,
        },
        output_schema,
        progress: tool.output.progress.take(),
        max_output: tool.output.max_output,
        max_log: tool.output.max_log,
        success: std::mem::take(&mut tool.attempt.success),
        timeout_ms: tool.attempt.timeout,
        stop: tool.attempt.stop,
        artifacts: tool.output.artifacts.take(),
    };
    let frozen = Json::trusted(definition.to_json());
    let executor = commands
        .executor(definition, names.as_ref(), &tool.harmless)
        .map_err(|error| error.to_string())?;
    Ok((KIND, frozen, executor))
}

fn prepare_http(http: HttpTool, retry: &Retry, jobs: &HttpJobs) -> Result<ExecutorParts, String> {
    let definition = HttpJobDefinition {
        key_per_attempt: retry.attempts > 1 && retry.on.contains(&RetryOn::Error),
        ..http.definition
    };
    let frozen = Json::from(serde_json::to_value(&definition).map_err(|error| error.to_string())?);
    let executor = jobs.executor(definition, http.headers).map_err(|mistakes| {
        let mistakes: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
        mistakes.join("; ")
    })?;
    Ok((HTTP_JOB_KIND, frozen, executor))
}

fn millis(millis: Millis) -> Duration {
    Duration::from_millis(millis)
}

/// The names placeholders may have; `None` if the schema allows any.
fn property_names(schema: &Value) -> Option<BTreeSet<String>> {
    let closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
    let properties = schema.get("properties")?.as_object()?;
    closed.then(|| properties.keys().cloned().collect())
}
