//! `resources/read`: resources of the catalog, and those of tasks.

use super::Methods;
use crate::{
    admission::request::AdmittedRequest,
    catalog::{
        resources::{self, Variables},
        task_resources,
    },
    handler,
    interaction::rounds::{Asked, Round},
    response::Answer,
};
use longhaul_runtime::ResourceHandler;
use longhaul_wire::{CacheHints, CacheScope, Generation, Method, RpcError, legacy, modern, params::ReadResource};
use std::sync::Arc;

/// The default; a handler's result may override it.
const READ_CACHE: CacheHints = CacheHints {
    ttl_ms: 0,
    scope: CacheScope::Private,
};

pub(crate) async fn answer(methods: &Methods, request: &AdmittedRequest<'_>) -> Result<Answer, RpcError> {
    let params = request.params.read_resource()?;
    match resources::find(&methods.engine.catalog().snapshot(), &params.uri) {
        Some((handler, variables)) => read_with(methods, request, &params, handler, variables),
        None => task_resources::read(&methods.engine, &methods.identity, request, &params.uri).await,
    }
}

fn read_with(
    methods: &Methods,
    request: &AdmittedRequest<'_>,
    params: &ReadResource<'_>,
    reader: Arc<dyn ResourceHandler>,
    variables: Variables,
) -> Result<Answer, RpcError> {
    let asked = Asked {
        method: Method::ResourcesRead,
        target: &params.uri,
        arguments: None,
        answers: &params.input_responses,
        state: params.request_state.as_deref(),
    };
    let generation = request.caller.generation;
    let not_found = RpcError::resource_not_found(generation, &params.uri);
    let (uri, identity) = (params.uri.to_string(), Arc::clone(&methods.identity));
    handler::answer_with(
        &methods.interaction,
        request,
        Round::of(&methods.interaction, request, asked)?,
        Box::new(move |cx| reader.read(uri, variables, cx)),
        not_found,
        Box::new(move |out, id, result| match generation {
            Generation::Legacy => legacy::result::write_cacheable(out, id, result),
            Generation::Modern => modern::result::write(out, id, result, Some(READ_CACHE), &identity),
        }),
    )
}
