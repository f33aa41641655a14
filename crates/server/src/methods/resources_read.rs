//! `resources/read`: what the catalog offers, and what is kept of each task for its owner.

use crate::catalog::task_resources;
use crate::{
    admission::caller::Caller,
    dispatch::Call,
    handler,
    interaction::{
        resource_watch::{self, TaskSubscription},
        rounds::{Asked, Round},
    },
    response::Answer,
    transport::front::Front,
};
use longhaul_runtime::{ResourceHandler, Snapshot};
use longhaul_wire::{CacheHints, CacheScope, Generation, Method, RpcError, legacy, modern, params::ReadResource};
use std::sync::Arc;

/// What a handler reads is its own business; it may say otherwise in its result.
const READ_CACHE: CacheHints = CacheHints {
    ttl_ms: 0,
    scope: CacheScope::Private,
};

pub(super) async fn read(front: &Arc<Front>, call: &Call<'_>) -> Result<Answer, RpcError> {
    let wish = call.params.read_resource()?;
    match find(&front.engine.catalog().snapshot(), &wish.uri) {
        Some((handler, variables)) => read_with(front, call, &wish, handler, variables),
        None => task_resources::read(front, call, &wish.uri).await,
    }
}

/// A subscription to a resource, which may need something to be held. A resource that does not exist, and a task that is not the
/// caller's, are the same to the subscriber.
///
/// # Errors
/// As [`read`] has them.
pub(super) async fn subscribe(
    front: &Arc<Front>,
    caller: &Caller,
    uri: &str,
) -> Result<Option<TaskSubscription>, RpcError> {
    if find(&front.engine.catalog().snapshot(), uri).is_some() {
        return Ok(None);
    }
    let subscribed = resource_watch::subscribe(front, caller, uri).await?;
    let not_found = || RpcError::resource_not_found(caller.generation, uri);
    subscribed.map(Some).ok_or_else(not_found)
}

/// Names and values.
type Variables = Vec<(String, String)>;

/// Who reads the resource, and with which values of its template's variables.
fn find(snapshot: &Snapshot, uri: &str) -> Option<(Arc<dyn ResourceHandler>, Variables)> {
    if let Some(resource) = snapshot.resources.get(uri) {
        return Some((Arc::clone(&resource.handler), Vec::new()));
    }
    snapshot.templates.values().find_map(|template| {
        let variables = template.uri_template.match_uri(uri)?;
        Some((Arc::clone(&template.handler), variables))
    })
}

fn read_with(
    front: &Arc<Front>,
    call: &Call<'_>,
    wish: &ReadResource<'_>,
    reader: Arc<dyn ResourceHandler>,
    variables: Variables,
) -> Result<Answer, RpcError> {
    let asked = Asked {
        method: Method::ResourcesRead,
        target: &wish.uri,
        arguments: None,
        answers: &wish.input_responses,
        state: wish.request_state.as_deref(),
    };
    let generation = call.caller.generation;
    let not_found = RpcError::resource_not_found(generation, &wish.uri);
    let (uri, writer) = (wish.uri.to_string(), Arc::clone(front));
    handler::answer(
        front,
        call,
        Round::of(front, call, asked)?,
        Box::new(move |cx| reader.read(uri, variables, cx)),
        not_found,
        Box::new(move |out, id, result| match generation {
            Generation::Legacy => legacy::result::write_cacheable(out, id, result),
            Generation::Modern => modern::result::write(out, id, result, Some(READ_CACHE), &writer.identity),
        }),
    )
}
