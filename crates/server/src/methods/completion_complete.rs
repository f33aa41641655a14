//! `completion/complete`: what an argument of a prompt or a resource template could become (U-36).

use crate::{dispatch::Call, handler, response::Answer, transport::front::Front};
use longhaul_core::Json;
use longhaul_runtime::{Completer, Snapshot};
use longhaul_wire::{Generation, RpcError, completion, legacy, modern, params::Reference};
use std::sync::Arc;

pub(super) fn answer(front: &Arc<Front>, call: &Call<'_>) -> Result<Answer, RpcError> {
    let wish = call.params.complete()?;
    let completer = completer(&front.engine.catalog().snapshot(), &wish.reference)?;
    let (argument, value) = (wish.argument.into_owned(), wish.value.into_owned());
    let context = wish.context.map_or_else(|| Json::trusted("{}"), Json::from);
    let (writer, generation) = (Arc::clone(front), call.caller.generation);
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
    handler::answer(
        front,
        call,
        None,
        handler,
        RpcError::invalid_params("There is nothing to complete here"),
        Box::new(move |out, id, result| match generation {
            Generation::Legacy => legacy::result::write(out, id, result),
            Generation::Modern => modern::result::write(out, id, result, None, &writer.identity),
        }),
    )
}

/// What completes the arguments of what is referred to; it may be that nothing does.
fn completer(snapshot: &Snapshot, reference: &Reference<'_>) -> Result<Option<Arc<dyn Completer>>, RpcError> {
    match reference {
        Reference::Prompt(name) => match snapshot.prompts.get(&**name) {
            Some(prompt) => Ok(prompt.completer.clone()),
            None => Err(RpcError::invalid_params(format!("Unknown prompt: {name}"))),
        },
        Reference::Resource(uri) => match snapshot.templates.get(&**uri) {
            Some(template) => Ok(template.completer.clone()),
            None if snapshot.resources.contains_key(&**uri) => Ok(None),
            None => Err(RpcError::invalid_params(format!("Unknown resource template: {uri}"))),
        },
    }
}
