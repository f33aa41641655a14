//! A tool's function as an executor.

use super::{ToolOutput, handler::BoxedToolHandler};
use crate::{AskError, Error, ServerHandle, TaskContext, error::ErrorKind};
use longhaul_command::in_process::Function;
use longhaul_core::{Json, Outcome, RpcFailure};
use longhaul_json_schema::{Schema, SchemaAuthor, Violation, off_thread, text_len};
use longhaul_runtime::{ExecutionEnd, Executor, JournalError, Requestor};
use serde_json::Value;
use std::sync::Arc;

/// Runs a tool's function. Its results are checked against the output schema.
///
/// # Errors
/// What is wrong with the output schema.
pub(super) fn function_executor(
    tool: &Arc<str>,
    handler: BoxedToolHandler,
    durable: bool,
    output: Option<&Value>,
    server: ServerHandle,
) -> Result<Arc<dyn Executor>, String> {
    let schema = output
        .map(|schema| Schema::compile(schema, SchemaAuthor::Own))
        .transpose();
    let results = Arc::new(Results {
        durable,
        tool: Arc::clone(tool),
        schema: schema
            .map_err(|error| format!("the output schema is not usable: {error}"))?
            .map(Arc::new),
    });
    let BoxedToolHandler { call, check } = handler;
    let function = move |arguments: Json, cx: longhaul_runtime::TaskContext| {
        let context = TaskContext::new(cx.clone(), server.clone());
        let (work, results) = (call(context, arguments.as_str()), Arc::clone(&results));
        async move { results.end(work.await, cx.requestor()).await }
    };
    Ok(Arc::new(
        Function::new(function)
            .durable(durable)
            .check(move |members| check(members)),
    ))
}

/// What a function's results mean for its attempt.
struct Results {
    durable: bool,
    tool: Arc<str>,
    schema: Option<Arc<Schema>>,
}

impl Results {
    /// A result that does not fit the output schema is the server's fault and must not be stored as a success.
    async fn check_output(&self, output: ToolOutput) -> Outcome {
        let Some(schema) = self.schema.as_ref().filter(|_| !output.is_error()) else {
            return Outcome::result(output.into_json());
        };
        let value = output.structured().unwrap_or(&Value::Null);
        let size = text_len(value);
        let checked = match schema.check_now(value, size, first) {
            Some(checked) => checked,
            None => {
                let value = value.clone();
                match off_thread(schema, move |schema| schema.check(&value, size, first)).await {
                    Ok(Ok(checked)) => checked,
                    Ok(Err(unchecked)) => Err(unchecked.to_string()),
                    Err(busy) => Err(busy.to_string()),
                }
            }
        };
        match checked {
            Ok(()) => Outcome::result(output.into_json()),
            Err(why) => {
                tracing::error!(tool = &*self.tool, why, "an output does not fit its schema");
                Outcome::RpcError(RpcFailure {
                    code: -32603,
                    message: "The tool's output does not fit its output schema".into(),
                    data: None,
                })
            }
        }
    }

    async fn end(&self, result: Result<ToolOutput, Error>, requestor: &Requestor) -> ExecutionEnd {
        match result {
            Ok(output) => ExecutionEnd::Finished(self.check_output(output).await),
            Err(Error(kind)) => match kind {
                ErrorKind::Text(text) => ExecutionEnd::Errored(Outcome::tool_error(&text)),
                ErrorKind::Rpc(failure) => ExecutionEnd::Errored(Outcome::RpcError(failure)),
                ErrorKind::NotFound => ExecutionEnd::Errored(Outcome::tool_error("not found")),
                ErrorKind::Stopped(reason) => ExecutionEnd::Stopped(reason),
                // The store failed, not the tool: replay it.
                ErrorKind::Journal(JournalError::Task(_)) => ExecutionEnd::Crashed,
                ErrorKind::Journal(error) => ExecutionEnd::Errored(Outcome::tool_error(&error.to_string())),
                ErrorKind::Ask(AskError::Task(_)) if self.durable => ExecutionEnd::Crashed,
                ErrorKind::Ask(AskError::Unsupported(capability)) => {
                    ExecutionEnd::Finished(requestor.missing_capability(capability))
                }
                ErrorKind::Ask(error) => ExecutionEnd::Errored(Outcome::tool_error(&error.to_string())),
            },
        }
    }
}

/// The first violation, without the value.
fn first(violations: &mut dyn Iterator<Item = Violation<'_>>) -> String {
    let described = |violation: Violation<'_>| format!("at `{}`: {}", violation.instance_path(), violation.masked());
    violations
        .next()
        .map_or_else(|| "it is too large to say where".to_owned(), described)
}
