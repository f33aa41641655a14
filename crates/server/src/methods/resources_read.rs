//! `resources/read`: resources of the catalog, and those of tasks.

use super::Methods;
use crate::{
    admission::request::AdmittedRequest,
    catalog::task_resources,
    handler,
    interaction::rounds::{Round, RoundRequest},
    response::Answer,
};
use longhaul_runtime::ResourceHandler;
use longhaul_wire::{CacheHints, CacheScope, Method, RpcError, params::ReadResource};
use std::sync::Arc;

/// The default; a handler's result may override it.
pub(crate) const READ_CACHE: CacheHints = CacheHints {
    ttl_ms: 0,
    scope: CacheScope::Private,
};

pub(crate) async fn answer(methods: &Methods, request: &AdmittedRequest<'_>) -> Result<Answer, RpcError> {
    let params = request.params.read_resource()?;
    match methods.engine.catalog().snapshot().find_resource(&params.uri) {
        Some((handler, variables)) => read_with(methods, request, &params, handler, variables),
        None => task_resources::read(&methods.engine, &methods.server_info, request, &params.uri).await,
    }
}

fn read_with(
    methods: &Methods,
    request: &AdmittedRequest<'_>,
    params: &ReadResource<'_>,
    reader: Arc<dyn ResourceHandler>,
    variables: Vec<(String, String)>,
) -> Result<Answer, RpcError> {
    let generation = request.caller.generation;
    let not_found = RpcError::resource_not_found(generation, &params.uri);
    let uri = params.uri.to_string();
    handler::answer_with(
        &methods.interaction,
        request,
        Round::of(&methods.interaction, request, round_request(params))?,
        Box::new(move |cx| reader.read(uri, variables, cx)),
        handler::not_found(not_found),
        handler::cacheable_result_writer(&methods.server_info, generation, READ_CACHE),
    )
}

/// What a series of rounds needs of it.
pub(crate) fn round_request<'a>(params: &'a ReadResource<'_>) -> RoundRequest<'a> {
    RoundRequest {
        method: Method::ResourcesRead,
        target: &params.uri,
        arguments: None,
        answers: &params.input_responses,
        state: params.request_state.as_deref(),
    }
}
