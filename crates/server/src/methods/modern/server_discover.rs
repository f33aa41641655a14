//! `server/discover` (modern): what this server is and can.

use crate::methods::Methods;
use crate::{admission::request::AdmittedRequest, catalog::features, response::Answer};
use longhaul_wire::{CacheHints, CacheScope, RpcError, modern};

/// Changes with the catalog.
const CACHE: CacheHints = CacheHints {
    ttl_ms: 60_000,
    scope: CacheScope::Public,
};

pub(crate) fn answer(methods: &Methods, request: &AdmittedRequest<'_>) -> Result<Answer, RpcError> {
    Ok(Answer::result(request.id, |out| {
        modern::handshake::write_discover(
            out,
            &features::of(&methods.engine, &request.caller),
            CACHE,
            &methods.described(request.caller.mode.handoff),
        );
    }))
}
