//! `server/discover` (modern): what this server is and can (L-10).

use crate::catalog::task_resources;
use crate::{dispatch::Call, response::Answer, transport::front::Front};
use longhaul_wire::{CacheHints, CacheScope, ListCapability, ResourcesCapability, ServerCapabilities, modern};
use std::sync::Arc;

/// What is offered now. What is never used is not announced: each kind costs a client a request. What changes is told to a
/// legacy session by push, to a modern client by `subscriptions/listen`.
pub(super) fn features(front: &Front) -> ServerCapabilities {
    let snapshot = front.engine.catalog().snapshot();
    let completes = snapshot.prompts.values().any(|prompt| prompt.completer.is_some())
        || snapshot.templates.values().any(|template| template.completer.is_some());
    let resources = task_resources::are_kept(front, &snapshot) || snapshot.versions.resources > 0;
    ServerCapabilities {
        tools: Some(ListCapability { list_changed: true }),
        resources: resources.then_some(ResourcesCapability {
            list_changed: true,
            subscribe: true,
        }),
        prompts: (snapshot.versions.prompts > 0).then_some(ListCapability { list_changed: true }),
        completions: completes,
        logging: true,
        tasks: true,
    }
}

/// Changes with the catalog.
const CACHE: CacheHints = CacheHints {
    ttl_ms: 60_000,
    scope: CacheScope::Public,
};

pub(super) fn answer(front: &Arc<Front>, call: &Call<'_>) -> Answer {
    Answer::result(call.id, |out| {
        modern::handshake::write_discover(out, &features(front), CACHE, &front.identity)
    })
}
