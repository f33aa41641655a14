//! `resources/read`: what the catalog offers, and the log of each task for its owner.

use crate::{
    answer::{Answer, store_failed},
    dispatch::Call,
    front::Front,
    handler,
    rounds::{Asked, Round},
};
use longhaul_runtime::{LogChunk, LogRange, ResourceHandler, Snapshot};
use longhaul_wire::{
    Cache, CacheScope, Generation, LogUri, Method, RpcError, Stretch, TextContent, legacy, modern, params::ReadResource,
};
use std::sync::Arc;
use tracing::error;

/// How logs are listed.
pub(super) const LOG_TEMPLATE: &str = concat!(
    r#"{"uriTemplate":"longhaul://task/{id}/log{?offset,limit}","name":"task_log","title":"Log of a task","mimeType":"text/plain","#,
    r#""description":"What a task's command has written so far, standard output and error in order of arrival. "#,
    "Without a range: the last 64 KiB. _meta dev.longhaul/log tells which part it is (offset), where to read on (next) ",
    r#"and how much there is (total), in bytes."}"#,
);

/// A log may grow at any moment and is its owner's.
const LOG_CACHE: Cache = Cache {
    ttl_ms: 0,
    scope: CacheScope::Private,
};

/// What a handler reads is its own business; it may say otherwise in its result.
const READ_CACHE: Cache = Cache {
    ttl_ms: 0,
    scope: CacheScope::Private,
};

pub(super) async fn read(front: &Arc<Front>, call: &Call<'_>) -> Result<Answer, RpcError> {
    let wish = call.params.read_resource()?;
    match find(&front.engine.catalog().snapshot(), &wish.uri) {
        Some((handler, variables)) => read_with(front, call, &wish, handler, variables),
        None => read_log(front, call, &wish.uri).await,
    }
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

async fn read_log(front: &Arc<Front>, call: &Call<'_>, uri: &str) -> Result<Answer, RpcError> {
    let chunk = log_chunk(front, call, uri).await?;
    let content = TextContent {
        uri,
        mime_type: Some("text/plain"),
        text: &chunk.text,
        stretch: Some(Stretch {
            offset: chunk.offset,
            next: chunk.next,
            total: chunk.total,
        }),
    };
    Ok(Answer::result(call.id, |out| match call.caller.generation {
        Generation::Legacy => legacy::resources::write_content(out, &content),
        Generation::Modern => modern::resources::write_content(out, &content, LOG_CACHE, &front.identity),
    }))
}

/// An unknown task, a foreign one and one without a log are the same to the reader.
async fn log_chunk(front: &Front, call: &Call<'_>, uri: &str) -> Result<LogChunk, RpcError> {
    let not_found = || RpcError::resource_not_found(call.caller.generation, uri);
    let log: LogUri = uri.parse().map_err(|why: longhaul_wire::InvalidLogUri| match why {
        longhaul_wire::InvalidLogUri::NotALog => not_found(),
        wrong_range => RpcError::invalid_params(wrong_range.to_string()),
    })?;
    let record = front
        .engine
        .get(&call.caller.scope(), &log.task)
        .await
        .map_err(store_failed)?;
    let task = record.ok_or_else(not_found)?.task;
    let range = LogRange {
        offset: log.offset,
        limit: log.limit,
    };
    match front.engine.read_log(&task, range).await {
        Ok(chunk) => chunk.ok_or_else(not_found),
        Err(why) => {
            error!(why, "a log could not be read");
            Err(RpcError::internal("The log cannot be read"))
        }
    }
}
