//! Converts the configuration's tools to the server's.

use crate::config::{Output, Stdin, ToolConfig};
use longhaul::Tool;
use longhaul_command::{CommandDefinition, CommandProvider, DEFINITION_VERSION, DefinitionError, KIND, OutputKind};
use longhaul_core::{Json, Millis};
use longhaul_runtime::Handoff;
use serde_json::Value;
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// A tool of a valid configuration that cannot be served.
#[derive(Debug, thiserror::Error)]
#[error("tool {tool}: {error}")]
pub(super) struct UnusableTool {
    tool: String,
    error: DefinitionError,
}

/// Converts the tools of a configuration.
pub(super) fn build_all(
    tools: Vec<ToolConfig>,
    queue_timeout: Millis,
    commands: &CommandProvider,
) -> Result<Vec<Tool>, UnusableTool> {
    tools
        .into_iter()
        .map(|tool| build(tool, queue_timeout, commands))
        .collect()
}

fn build(tool: ToolConfig, queue_timeout: Millis, commands: &CommandProvider) -> Result<Tool, UnusableTool> {
    let names = property_names(&tool.input_schema);
    let (output, output_schema) = match tool.output {
        Output::Text => (OutputKind::Text, None),
        Output::Json(schema) => (OutputKind::Json, schema),
        Output::Raw => (OutputKind::Raw, None),
    };
    let retry = tool.attempt.retry;
    let (stdin, stdin_json) = match tool.stdin {
        Stdin::Template(text) => (text, false),
        Stdin::Json => (String::new(), true),
    };
    let definition = CommandDefinition {
        version: DEFINITION_VERSION,
        command: tool.command,
        env: tool.env,
        env_templates: tool.env_templates,
        env_from: tool.env_from,
        env_file: tool.env_file,
        cwd: tool.cwd,
        cwd_template: tool.cwd_template,
        stdin,
        stdin_json,
        defaults: tool.defaults,
        allow_leading_dash: tool.allow_leading_dash,
        allow_placeholders_in_scripts: tool.allow_placeholders_in_scripts,
        optional: tool.optional,
        integers: tool.integers,
        output,
        output_schema: output_schema.clone(),
        progress: tool.progress,
        max_output: tool.max_output,
        max_log: tool.max_log,
        success: tool.attempt.success,
        timeout_ms: tool.attempt.timeout,
        stop: tool.attempt.stop,
    };
    let frozen = Json::trusted(definition.to_json());
    let executor = commands
        .executor(definition, names.as_ref(), &tool.harmless)
        .map_err(|error| UnusableTool {
            tool: tool.name.clone(),
            error,
        })?;
    let mut built = Tool::executor(tool.name, tool.input_schema, KIND, frozen, executor as Arc<_>)
        .description(tool.description)
        .annotations(tool.annotations)
        .task(tool.task)
        .queue_timeout(millis(queue_timeout))
        .retention(millis(tool.retention))
        .retry(retry.attempts, millis(retry.backoff), retry.on);
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
    if let Some(most) = tool.concurrency {
        built = built.concurrency(most as usize);
    }
    if let Some(template) = tool.unique {
        built = built.unique(template);
    }
    Ok(built)
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
