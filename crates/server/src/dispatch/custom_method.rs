//! Methods that the server's author answers: custom ones, and standard ones in place of the server's own answer.

use crate::{
    admission::request::AdmittedRequest,
    call::{author_call, follow_tools::FollowTool},
    catalog::task_resources,
    handler::{self, Handler},
    interaction::{Interaction, rounds::Round},
    methods::{Methods, legacy::logging_set_level, prompts_get, resources_read, tools_call},
    response::Answer,
};
use longhaul_core::Json;
use longhaul_runtime::{CallHandler, CustomMethod, FallbackHandler};
use longhaul_wire::{Method, RpcError};
use serde_json::value::RawValue;
use std::sync::Arc;

/// Answers a request of a custom method.
pub(crate) fn call(
    interaction: &Arc<Interaction>,
    request: &AdmittedRequest<'_>,
    own: Arc<CustomMethod>,
    params: Option<&RawValue>,
) -> Result<Answer, RpcError> {
    handler::answer_with(
        interaction,
        request,
        None,
        handler_of(own, params),
        handler::not_found(not_found()),
        handler::result_writer(&interaction.server_info, request.caller.generation),
    )
}

/// Answers a request of a standard method as its author does. What clients have from the server itself stays the server's: the log level of
/// their session, and the resources of their tasks.
pub(crate) async fn call_standard(
    methods: &Methods,
    method: Method,
    request: &AdmittedRequest<'_>,
    own: Arc<CustomMethod>,
    params: Option<&RawValue>,
) -> Result<Answer, RpcError> {
    let (interaction, generation) = (&methods.interaction, request.caller.generation);
    let (round, not_found) = match method {
        Method::LoggingSetLevel => {
            logging_set_level::answer(methods, request)?;
            (None, not_found())
        }
        Method::PromptsGet => {
            let params = request.params.get_prompt()?;
            let round = Round::of(interaction, request, prompts_get::round_request(&params))?;
            (
                round,
                RpcError::invalid_params(format!("Unknown prompt: {}", params.name)),
            )
        }
        Method::ResourcesRead => {
            let params = request.params.read_resource()?;
            if task_resources::is_uri(&params.uri) {
                return resources_read::answer(methods, request).await;
            }
            let round = Round::of(interaction, request, resources_read::round_request(&params))?;
            (round, RpcError::resource_not_found(generation, &params.uri))
        }
        _ => (None, not_found()),
    };
    let writer = match method.is_cacheable() {
        true => handler::cacheable_result_writer(&methods.server_info, generation, resources_read::READ_CACHE),
        false => handler::result_writer(&methods.server_info, generation),
    };
    handler::answer_with(
        interaction,
        request,
        round,
        handler_of(own, params),
        handler::not_found(not_found),
        writer,
    )
}

/// Answers a `tools/call` as the author does. The tools that follow calls which were handed off stay the server's.
pub(crate) async fn call_tool(
    methods: &Methods,
    request: &AdmittedRequest<'_>,
    author: Arc<dyn CallHandler>,
    params: Option<&RawValue>,
) -> Result<Answer, RpcError> {
    let call = request.params.call_tool()?;
    let handoff = request.caller.mode.handoff;
    if FollowTool::named(&call.name, &methods.engine.catalog().snapshot(), handoff).is_some() {
        return tools_call::answer(methods, request).await;
    }
    author_call::answer(&methods.calls, request, author, &call, object(params)).await
}

/// Answers a request of a method that nobody else knows.
pub(crate) fn call_fallback(
    interaction: &Arc<Interaction>,
    request: &AdmittedRequest<'_>,
    fallback: Arc<dyn FallbackHandler>,
    method: &str,
    params: Option<&RawValue>,
) -> Result<Answer, RpcError> {
    let generation = request.caller.generation;
    let not_found = RpcError::method_not_found(generation, method);
    let (method, params) = (method.to_owned(), object(params));
    handler::answer_with(
        interaction,
        request,
        None,
        Box::new(move |cx| fallback.call(method, params, cx)),
        handler::not_found(not_found),
        handler::result_writer(&interaction.server_info, generation),
    )
}

/// Params as handlers are given them.
pub(super) fn object(params: Option<&RawValue>) -> Json {
    params.map_or_else(|| Json::trusted("{}"), Json::from)
}

fn handler_of(own: Arc<CustomMethod>, params: Option<&RawValue>) -> Handler {
    let params = object(params);
    Box::new(move |cx| Arc::clone(&own.handler).call(params, cx))
}

fn not_found() -> RpcError {
    RpcError::invalid_params("There is nothing of this name")
}
