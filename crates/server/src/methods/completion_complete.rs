//! `completion/complete`: what an argument of a prompt or a resource template could become.

use super::Methods;
use crate::{admission::request::AdmittedRequest, catalog::task_resources, handler, response::Answer};
use longhaul_core::Json;
use longhaul_runtime::{Completer, Engine};
use longhaul_wire::{RpcError, completion, params::Reference};
use std::sync::Arc;

pub(crate) fn answer(methods: &Methods, request: &AdmittedRequest<'_>) -> Result<Answer, RpcError> {
    let params = request.params.complete()?;
    let completer = completer(&methods.engine, &params.reference)?;
    let (argument, value) = (params.argument.into_owned(), params.value.into_owned());
    let context = params.context.map_or_else(|| Json::trusted("{}"), Json::from);
    let handler = Box::new(move |cx| {
        let values = (completer.clone()).map(|completer| completer.complete(argument, value, context, cx));
        Box::pin(async move {
            let values = match values {
                Some(values) => values.await?,
                None => Vec::new(),
            };
            Ok(completion::build_result(&values))
        }) as _
    });
    handler::answer_with(
        &methods.interaction,
        request,
        None,
        handler,
        handler::not_found(RpcError::invalid_params("There is nothing to complete here")),
        handler::result_writer(&methods.server_info, request.caller.generation),
    )
}

/// The completer of what is referred to, if it has one.
fn completer(engine: &Engine, reference: &Reference<'_>) -> Result<Option<Arc<dyn Completer>>, RpcError> {
    let snapshot = engine.catalog().snapshot();
    match reference {
        Reference::Prompt(name) => match snapshot.prompts.get(&**name) {
            Some(prompt) => Ok(prompt.completer.clone()),
            None => Err(RpcError::invalid_params(format!("Unknown prompt: {name}"))),
        },
        Reference::Resource(uri) => match snapshot.templates.get(&**uri) {
            Some(template) => Ok(template.completer.clone()),
            None if snapshot.resources.contains_key(&**uri) => Ok(None),
            None if task_resources::is_template(engine, &snapshot, uri) => Ok(None),
            None => Err(RpcError::invalid_params(format!("Unknown resource template: {uri}"))),
        },
    }
}
