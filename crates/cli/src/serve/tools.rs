//! From the configuration's tools to the catalog's.

use crate::config::{Output, ToolConfig};
use longhaul_core::{Json, Millis};
use longhaul_runtime::{Catalog, Tool, ToolError, ToolSettings};
use longhaul_upstream::command::{
    CommandDefinition, CommandProvider, DEFINITION_VERSION, DefinitionError, KIND, OutputKind,
};
use serde_json::Value;
use std::{collections::BTreeSet, sync::Arc};

/// A tool that passed the configuration's checks and still cannot be served.
#[derive(Debug, thiserror::Error)]
pub(super) enum ToolsError {
    #[error("tool {tool}: {error}")]
    Definition { tool: String, error: DefinitionError },
    #[error(transparent)]
    Tool(#[from] ToolError),
}

/// Makes the catalog of these tools.
pub(super) fn catalog(
    tools: Vec<ToolConfig>,
    queue_timeout: Millis,
    commands: &CommandProvider,
) -> Result<Catalog, ToolsError> {
    let tools = tools
        .into_iter()
        .map(|tool| make(tool, queue_timeout, commands))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Catalog::new(tools)?)
}

fn make(tool: ToolConfig, queue_timeout: Millis, commands: &CommandProvider) -> Result<Tool, ToolsError> {
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
        .map_err(|error| ToolsError::Definition {
            tool: tool.name.clone(),
            error,
        })?;
    Ok(Tool::new(ToolSettings {
        name: tool.name.into(),
        description: tool.description,
        input_schema: tool.input_schema,
        output_schema,
        annotations: (!tool.annotations.is_empty()).then_some(Value::Object(tool.annotations)),
        policy: tool.task,
        deadline: tool.deadline,
        queue_timeout: Some(queue_timeout),
        retention: tool.retention,
        concurrency: tool.concurrency.map(|count| count as usize),
        retry: tool.retry,
        kind: KIND.into(),
        definition: frozen,
        executor: executor as Arc<_>,
    })?)
}

/// The names a placeholder may have, if the schema allows no others.
fn property_names(schema: &Value) -> Option<BTreeSet<String>> {
    let closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
    let properties = schema.get("properties")?.as_object()?;
    closed.then(|| properties.keys().cloned().collect())
}
