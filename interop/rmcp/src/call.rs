//! Tool calls without tasks, for both protocol eras.

use crate::{session::Session, steps::Deviation};
use rmcp::model::{CallToolRequestParams, CallToolResult};
use serde_json::Value;

/// Calls a tool and waits for its result.
pub(crate) async fn call(session: &Session, name: &'static str, arguments: Value) -> Result<CallToolResult, Deviation> {
    let mut params = CallToolRequestParams::new(name);
    params.arguments = arguments.as_object().cloned();
    Ok(session.call_tool(params).await?)
}

/// The text of a result.
pub(crate) fn text(result: &CallToolResult) -> String {
    let texts = result.content.iter().filter_map(|block| block.as_text());
    texts.map(|block| block.text.as_str()).collect()
}
