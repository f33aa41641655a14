//! Resources: the log of each task, for its owner.

use super::one_page;
use crate::{
    answer::{Answer, store_failed},
    dispatch::Call,
    front::Front,
};
use longhaul_runtime::{LogChunk, LogRange};
use longhaul_wire::{
    Cache, CacheScope, Generation, LogUri, RpcError, Stretch, TemplateEntry, TextContent, legacy, modern,
};
use std::sync::Arc;
use tracing::error;

const TEMPLATE: TemplateEntry<'static> = TemplateEntry {
    uri_template: LogUri::TEMPLATE,
    name: "task_log",
    title: Some("Log of a task"),
    description: Some(
        "What a task's command has written so far, standard output and error in order of arrival. Without a range: the last 64 KiB. \
         _meta dev.longhaul/log tells which part it is (offset), where to read on (next) and how much there is (total), in bytes.",
    ),
    mime_type: Some("text/plain"),
};

/// The template is the same for everyone and as long as the program.
const TEMPLATE_CACHE: Cache = Cache {
    ttl_ms: 600_000,
    scope: CacheScope::Public,
};
/// A log may grow at any moment and is its owner's.
const LOG_CACHE: Cache = Cache {
    ttl_ms: 0,
    scope: CacheScope::Private,
};

/// Logs are found by their task, so none is listed.
pub(super) fn list(front: &Arc<Front>, call: &Call<'_>) -> Result<Answer, RpcError> {
    one_page(call)?;
    Ok(Answer::result(call.id, |out| match call.caller.generation {
        Generation::Legacy => legacy::resources::write_empty_list(out),
        Generation::Modern => modern::resources::write_empty_list(out, TEMPLATE_CACHE, &front.identity),
    }))
}

pub(super) fn list_templates(front: &Arc<Front>, call: &Call<'_>) -> Result<Answer, RpcError> {
    one_page(call)?;
    Ok(Answer::result(call.id, |out| match call.caller.generation {
        Generation::Legacy => legacy::resources::write_templates(out, &[TEMPLATE], None),
        Generation::Modern => {
            modern::resources::write_templates(out, &[TEMPLATE], None, TEMPLATE_CACHE, &front.identity);
        }
    }))
}

pub(super) async fn read(front: &Arc<Front>, call: &Call<'_>) -> Result<Answer, RpcError> {
    let uri = call.params.uri()?;
    let chunk = log_chunk(front, call, &uri).await?;
    let content = TextContent {
        uri: &uri,
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
