//! Results that handlers give as JSON objects: prompts, contents, completions, whatever a method of one's own answers.

use crate::{
    cache::Cache,
    envelope::{RequestId, write_spliced},
    identity::Identity,
    meta::SERVER_INFO,
    splice::Edit,
};
use longhaul_core::Json;

/// Appends the whole response with `result`, the object a handler gave. It gets a `resultType` (L-09), the server's name (L-08) and,
/// where `cache` is given, caching hints (U-30), each unless it has it: a handler knows best.
pub fn write(out: &mut String, id: RequestId<'_>, result: &Json, cache: Option<Cache>, identity: &Identity) {
    let named = [Edit::Default(SERVER_INFO, identity.name())];
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
