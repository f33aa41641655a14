//! `tools/call`: of a tool in the catalog, or of one that follows what was handed off.

use super::Methods;
use crate::{
    admission::request::AdmittedRequest,
    call::{
        follow_tools::{self, FollowTool},
        repeated, start,
    },
    interaction::rounds::RoundRequest,
    response::Answer,
};
use longhaul_core::Json;
use longhaul_runtime::{FOLLOW_TOOLS, Tool};
use longhaul_wire::{Method, RpcError};
use std::{sync::Arc, time::Duration};

/// How long a call waits for a tool that may come: below the 60 s after which many clients give up.
const LONGEST_WAIT_FOR_TOOL: Duration = Duration::from_secs(45);

pub(crate) async fn answer(methods: &Methods, request: &AdmittedRequest<'_>) -> Result<Answer, RpcError> {
    let params = request.params.call_tool()?;
    if let Some(call) = request.resumed_call {
        return Box::pin(start::resume(&methods.calls, request, &params.name, call)).await;
    }
    let asked = RoundRequest {
        method: Method::ToolsCall,
        target: &params.name,
        arguments: params.arguments.map(Json::from),
        answers: &params.input_responses,
        state: params.request_state.as_deref(),
    };
    let catalog = methods.engine.catalog();
    let tool = catalog.tool(&params.name);
    if let Some(key) = request.meta.idempotency_key()? {
        // Boxed, since it is rare and large.
        let found = Box::pin(repeated::find(&methods.calls, request, &key, &asked)).await?;
        if let Some(task) = found {
            return Box::pin(repeated::rejoin(&methods.calls, request, task, tool.as_deref(), asked)).await;
        }
    }
    if FOLLOW_TOOLS.contains(&&*params.name)
        && let Some(tool) = FollowTool::named(&params.name, &catalog.snapshot(), request.caller.mode.handoff)
    {
        return follow_tools::call(&methods.interaction, request, tool, asked);
    }
    let tool = match tool {
        // Boxed, since it is rare.
        None => Box::pin(tool_that_comes(methods, &params.name)).await?,
        tool => tool,
    };
    match tool {
        Some(tool) => start::start_or_rejoin(&methods.calls, request, tool, params.arguments, asked).await,
        None => {
            let (snapshot, principal) = (catalog.snapshot(), request.caller.principal());
            Err(match snapshot.unavailable_for(principal) {
                Some(why) => RpcError::internal(why.to_string()),
                None => RpcError::unknown_tool(&params.name, snapshot.why_missing(&params.name, principal).as_deref()),
            })
        }
    }
}

/// The tool of this name, if it is waited for and comes.
async fn tool_that_comes(methods: &Methods, name: &str) -> Result<Option<Arc<Tool>>, RpcError> {
    let catalog = methods.engine.catalog();
    let Some(known) = catalog
        .snapshot()
        .pending_tools
        .as_ref()
        .and_then(|pending| pending.until_known(name))
    else {
        return Ok(None);
    };
    let is_known = methods
        .engine
        .ports()
        .within(LONGEST_WAIT_FOR_TOOL, known)
        .await
        .is_some();
    match catalog.tool(name) {
        None if !is_known => Err(RpcError::internal(format!(
            "It is not known yet whether there is a tool {name}: the server that may have it was started and has not answered. Call it again"
        ))),
        tool => Ok(tool),
    }
}
