//! From the configuration's tools to those a server offers.

use crate::config::{Output, ToolConfig};
use longhaul::Tool;
use longhaul_core::{Json, Millis};
use longhaul_upstream::command::{
    CommandDefinition, CommandProvider, DEFINITION_VERSION, DefinitionError, KIND, OutputKind,
};
use serde_json::Value;
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// A tool that passed the configuration's checks and still cannot be served.
#[derive(Debug, thiserror::Error)]
#[error("tool {tool}: {error}")]
pub(super) struct UnusableTool {
    tool: String,
    error: DefinitionError,
}

/// These tools, as a server offers them.
pub(super) fn offered(
    tools: Vec<ToolConfig>,
    queue_timeout: Millis,
    commands: &CommandProvider,
) -> Result<Vec<Tool>, UnusableTool> {
    tools
        .into_iter()
        .map(|tool| make(tool, queue_timeout, commands))
        .collect()
}

fn make(tool: ToolConfig, queue_timeout: Millis, commands: &CommandProvider) -> Result<Tool, UnusableTool> {
    let names = property_names(&tool.input_schema);
    let (output, output_schema) = match tool.output {
        Output::Text => (OutputKind::Text, None),
        Output::Json(schema) => (OutputKind::Json, schema),
    };
    let definition = CommandDefinition {
        version: DEFINITION_VERSION,
        command: tool.command,
        env: tool.env,
        cwd: tool.cwd,
        stdin: tool.stdin,
        allow_leading_dash: tool.allow_leading_dash,
        allow_placeholders_in_scripts: tool.allow_placeholders_in_scripts,
        optional: tool.optional,
        output,
        output_schema: output_schema.clone(),
        progress: tool.progress,
        max_output: tool.max_output,
        max_log: tool.max_log,
    };
    let frozen = Json::trusted(definition.to_json());
    let executor = commands
        .executor(definition, names.as_ref())
        .map_err(|error| UnusableTool {
            tool: tool.name.clone(),
            error,
        })?;
    let mut offered = Tool::executor(tool.name, tool.input_schema, KIND, frozen, executor as Arc<_>)
        .description(tool.description)
        .annotations(tool.annotations)
        .task(tool.task)
        .queue_timeout(millis(queue_timeout))
        .retention(millis(tool.retention))
        .retry(tool.retry.attempts, millis(tool.retry.backoff), tool.retry.on);
    if let Some(schema) = output_schema {
        offered = offered.output_schema(schema);
    }
    if let Some(most) = tool.max_retention {
        offered = offered.max_retention(millis(most));
    }
    if let Some(text) = tool.immediate_response {
        offered = offered.immediate_response(text);
    }
    if let Some(patience) = tool.handoff {
        offered = offered.handoff(millis(patience));
    }
    if let Some(limit) = tool.deadline {
        offered = offered.deadline(millis(limit));
    }
    if let Some(most) = tool.concurrency {
        offered = offered.concurrency(most as usize);
    }
    Ok(offered)
}

fn millis(millis: Millis) -> Duration {
    Duration::from_millis(millis)
}

/// The names a placeholder may have, if the schema allows no others.
fn property_names(schema: &Value) -> Option<BTreeSet<String>> {
    let closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
    let properties = schema.get("properties")?.as_object()?;
    closed.then(|| properties.keys().cloned().collect())
}
