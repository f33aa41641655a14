//! `tools/call`: of a tool in the catalog, or of one that follows what was handed off.

use super::Methods;
use crate::{
    admission::request::AdmittedRequest,
    call::{
        follow_tools::{self, FollowTool},
        repeated, start,
    },
    interaction::rounds::Asked,
    response::Answer,
};
use longhaul_core::Json;
use longhaul_runtime::FOLLOW_TOOLS;
use longhaul_wire::{Method, RpcError};

pub(crate) async fn answer(methods: &Methods, request: &AdmittedRequest<'_>) -> Result<Answer, RpcError> {
    let params = request.params.call_tool()?;
    let asked = Asked {
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
        && let Some(tool) = FollowTool::named(&params.name, &catalog.snapshot())
    {
        return follow_tools::call(&methods.interaction, request, tool, asked);
    }
    match tool {
        Some(tool) => start::start_or_rejoin(&methods.calls, request, tool, params.arguments, asked).await,
        None => Err(match catalog.snapshot().unavailable_for(request.caller.principal()) {
            Some(why) => RpcError::internal(why.to_string()),
            None => RpcError::unknown_tool(&params.name),
        }),
    }
}
