//! `server/discover` (modern): what this server is and can (L-10).

use crate::{answer::Answer, dispatch::Call, front::Front};
use longhaul_wire::{Cache, CacheScope, Features, modern};
use std::sync::Arc;

/// What is offered, in both generations.
pub(super) const FEATURES: Features = Features {
    tools: true,
    resources: true,
    prompts: false,
    completions: false,
    tasks: true,
};

/// Changes only with a new release or configuration.
const CACHE: Cache = Cache {
    ttl_ms: 600_000,
    scope: CacheScope::Public,
};

pub(super) fn answer(front: &Arc<Front>, call: &Call<'_>) -> Answer {
    Answer::result(call.id, |out| {
        modern::handshake::write_discover(out, &FEATURES, CACHE, &front.identity)
    })
}
