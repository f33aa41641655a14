//! Runs a tool's function.

use super::{ToolOutput, handler::BoxedToolHandler};
use crate::{AskError, Error, ServerHandle, TaskContext, error::ErrorKind};
use longhaul_core::{BoxFuture, Outcome, RpcFailure};
use longhaul_runtime::{Attempt, End, Executor, JournalError, Requestor};
use longhaul_upstream::in_process;
use serde_json::{Map, Value};
use std::sync::Arc;

/// A function, and the schema that its results are checked against.
pub(super) struct Function {
    durable: bool,
    tool: Arc<str>,
    handler: BoxedToolHandler,
    output: Option<jsonschema::Validator>,
    server: ServerHandle,
}

impl Function {
    /// # Errors
    /// What is wrong with the output schema.
    pub(super) fn new(
        tool: &Arc<str>,
        handler: BoxedToolHandler,
        durable: bool,
        output: Option<&Value>,
        server: ServerHandle,
    ) -> Result<Arc<Self>, String> {
        let output = output.map(jsonschema::validator_for).transpose();
        let output = output.map_err(|error| format!("the output schema is not usable: {error}"))?;
        Ok(Arc::new(Self {
            durable,
            tool: Arc::clone(tool),
            handler,
            output,
            server,
        }))
    }

    /// A result that does not fit the output schema is the server's fault and must not be stored as a success.
    fn check_output(&self, output: ToolOutput) -> Outcome {
        let Some(validator) = self.output.as_ref().filter(|_| !output.is_error()) else {
            return Outcome::result(output.into_json());
        };
        let nothing = Value::Null;
        match validator.validate(output.structured().unwrap_or(&nothing)) {
            Ok(()) => Outcome::result(output.into_json()),
            Err(violation) => {
                let path = violation.instance_path().to_string();
                tracing::error!(tool = &*self.tool, path, why = %violation.masked(), "an output does not fit its schema");
                Outcome::RpcError(RpcFailure {
                    code: -32603,
                    message: "The tool's output does not fit its output schema".into(),
                    data: None,
                })
            }
        }
    }

    fn end(&self, result: Result<ToolOutput, Error>, requestor: &Requestor) -> End {
        match result {
            Ok(output) => End::Finished(self.check_output(output)),
            Err(Error(kind)) => match kind {
                ErrorKind::Text(text) => End::Errored(Outcome::tool_error(&text)),
                ErrorKind::Rpc(failure) => End::Errored(Outcome::RpcError(failure)),
                ErrorKind::NotFound => End::Errored(Outcome::tool_error("not found")),
                ErrorKind::Stopped(reason) => End::Stopped(reason),
                // The store failed, not the tool: replay it.
                ErrorKind::Journal(JournalError::Task(_)) => End::Crashed,
                ErrorKind::Journal(error) => End::Errored(Outcome::tool_error(&error.to_string())),
                ErrorKind::Ask(AskError::Task(_)) if self.durable => End::Crashed,
                ErrorKind::Ask(AskError::Unsupported(capability)) => {
                    End::Finished(requestor.missing_capability(capability))
                }
                ErrorKind::Ask(error) => End::Errored(Outcome::tool_error(&error.to_string())),
            },
        }
    }
}

impl Executor for Function {
    fn check(&self, _: &str, members: &Map<String, Value>) -> Result<(), String> {
        (self.handler.check)(members)
    }

    fn replays(&self) -> bool {
        self.durable
    }

    fn run(self: Arc<Self>, attempt: Attempt, cx: longhaul_runtime::TaskContext) -> BoxFuture<'static, End> {
        Box::pin(async move {
            let Attempt { arguments, .. } = attempt;
            let context = TaskContext::new(cx.clone(), self.server.clone());
            let work = (self.handler.call)(context, arguments.as_str());
            drop(arguments);
            let outlasted = async { End::Stopped(in_process::outlasted(&cx).await) };
            tokio::select! {
                // A result counts, however late it is.
                biased;
                result = work => self.end(result, cx.requestor()),
                end = outlasted => end,
            }
        })
    }
}
