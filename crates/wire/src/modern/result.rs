//! Results that handlers return as JSON objects: prompts, resource contents, completions, results of custom methods.

use crate::{
    json::Edit,
    jsonrpc::write_spliced,
    meta::SERVER_INFO,
    protocol::RequestId,
    result::{CacheHints, ServerInfo},
};
use longhaul_core::Json;

/// Appends the whole response with a handler's `result`. Adds `resultType`, the server's name and the hints in `cache`, each unless
/// the handler has set it.
pub fn write(out: &mut String, id: RequestId<'_>, result: &Json, cache: Option<CacheHints>, server_info: &ServerInfo) {
    let named = [Edit::Default(SERVER_INFO, server_info.name())];
    let edits = [
        Edit::Default("resultType", r#""complete""#),
        Edit::Within("_meta", &named),
    ];
    let Some(cache) = cache else {
        return write_spliced(out, id, result, &edits);
    };
    let [result_type, name] = edits;
    let ttl = cache.ttl_ms.to_string();
    let hints = [
        result_type,
        Edit::Default("ttlMs", &ttl),
        Edit::Default("cacheScope", cache.scope.as_json()),
        name,
    ];
    write_spliced(out, id, result, &hints);
}
